"""Encoders as nodes of an ONNX graph: rows (n, n_features) float32 in, rows float32 out.

Codes of `pq` come out as what they stand for: the rows that a model of codes is a function of.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pipeline.export.errors import ExportUnsupported
from pipeline.export.graph import Graph, columns_of
from tasks.features.normalize import L1, L2, POWER
from tasks.features.normalize_encoder import NormalizeEncoder
from tasks.features.pca_encoder import PcaEncoder
from tasks.models.encoder import Encoder, PqEncoder
from tasks.quantize.assign import origins


def add_encoders(graph: Graph, rows: str, encoders: tuple[Encoder, ...]) -> str:
    """Rows through a chain of encoders, first to last. See `check_encoders`."""
    for encoder in encoders:
        rows = WRITERS[encoder.kind](graph, rows, encoder)
    return rows


def check_encoders(encoders: tuple[Encoder, ...]) -> None:
    """Raises ExportUnsupported for an encoder that is not among WRITERS."""
    for encoder in encoders:
        if encoder.kind not in WRITERS:
            what = f"an encoder of kind {encoder.kind} is not exported to ONNX: {', '.join(sorted(WRITERS))} are"
            raise ExportUnsupported(what, "--to onnx", "use --to npz; or train on rows that need no such encoder")


def _normalize(graph: Graph, rows: str, encoder: NormalizeEncoder) -> str:
    """In float64, stored as float32; what would be divided by 0 becomes 0."""
    wide, norm = graph.cast(rows, "f8"), encoder.params.norm
    zero, one = graph.const(0.0, "f8"), graph.const(1.0, "f8")
    if norm == POWER:
        size = graph.op("Abs", wide)
        half = encoder.params.exponent == 0.5
        power = graph.op("Sqrt", size) if half else graph.op("Pow", size, graph.const(encoder.params.exponent, "f8"))
        return graph.cast(graph.op("Mul", power, graph.op("Sign", wide)), "f4")
    if norm in (L1, L2):
        squared = norm == L2
        sums = graph.total(graph.op("Mul", wide, wide) if squared else graph.op("Abs", wide))
        norms = graph.op("Sqrt", sums) if squared else sums
        scaled = graph.op("Div", wide, graph.op("Where", graph.op("Greater", norms, zero), norms, one))
        return graph.cast(scaled, "f4")
    if encoder.centred:
        wide = graph.op("Sub", wide, graph.const(columns_of(encoder.mean), "f8"))
    varies = encoder.deviation > 0
    scaled = graph.op("Div", wide, graph.const(columns_of(np.where(varies, encoder.deviation, 1.0)), "f8"))
    return graph.cast(graph.op("Where", graph.const(columns_of(varies), "b"), scaled, zero), "f4")


def _pca(graph: Graph, rows: str, encoder: PcaEncoder) -> str:
    centred = graph.op("Sub", rows, graph.const(columns_of(encoder.mean), "f4"))
    return graph.op("MatMul", centred, graph.const(encoder.components, "f4"))


def _pq(graph: Graph, rows: str, encoder: PqEncoder) -> str:
    some, none = Graph(graph), Graph(graph)
    return graph.where_rows(rows, some, [_nearest(some, rows, encoder)], none, [none.op("Identity", rows)])[0]


def _nearest(graph: Graph, rows: str, encoder: PqEncoder) -> str:
    """The nearest centroid of each sub-vector, by distances as `tasks.quantize.assign` measures them."""
    n_subquantizers, n_centroids, width = encoder.codebooks.shape
    origin = origins(encoder.codebooks)
    centred = encoder.codebooks - origin[:, None]
    factors = (-2 * centred).astype(np.float32).transpose(0, 2, 1)  # (n_subquantizers, width, n_centroids)
    norms = np.einsum("qct,qct->qc", centred, centred).astype(np.float32)[:, None, :]
    away = graph.op("Sub", graph.shaped(rows, n_subquantizers, width), graph.const(origin, "f4"))
    turned = graph.op("Transpose", away, perm=[1, 0, 2])
    products = graph.op("MatMul", turned, graph.const(factors, "f4"))
    distances = graph.op("Add", products, graph.const(norms, "f4"))
    codes = graph.op("ArgMin", distances, axis=2, keepdims=0)  # (n_subquantizers, n), ties to the lowest
    starts = np.arange(n_subquantizers, dtype=np.int64)[:, None] * n_centroids
    places = graph.op("Add", codes, graph.const(starts, "i8"))
    found = graph.gather(graph.const(encoder.codebooks.reshape(-1, width), "f4"), places)
    return graph.shaped(graph.op("Transpose", found, perm=[1, 0, 2]), n_subquantizers * width)


WRITERS: dict[str, Callable[[Graph, str, Any], str]] = {"normalize": _normalize, "pca": _pca, "pq": _pq}
