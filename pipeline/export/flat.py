"""Flat models as nodes of an ONNX graph: the scores of all classes, the best of them, and their probabilities."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipeline.export.graph import Graph, columns_of
from tasks.models.class_ranges import RangedModel
from tasks.models.factored import FactoredModel
from tasks.models.flat import is_probabilistic
from tasks.models.linear import LinearModel

FlatKinds = LinearModel | RangedModel | FactoredModel


@dataclass(frozen=True)
class Ranked:
    """Names of outputs: classes (n, top) int64, scores (n, top) float32; probabilities likewise, if there are any."""

    classes: str
    scores: str
    probabilities: str | None = None


def flat_bytes(model: FlatKinds) -> int:
    """Of the constants."""
    return sum(values.nbytes for values in model.tensors().values())


def add_flat(graph: Graph, rows: str, model: FlatKinds, top: int) -> Ranked:
    """The `top` best classes, ties to the lower class. rows (n, n_features) float32"""
    scores = _scores(graph, rows, model)
    if model.bias is not None:
        scores = graph.op("Add", scores, graph.const(columns_of(model.bias), "f4"))
    best, classes = graph.top(scores, top)
    if not is_probabilistic(model):
        return Ranked(classes, best)
    return Ranked(classes, best, graph.pick(graph.op("Softmax", scores, axis=1), classes))


def _scores(graph: Graph, rows: str, model: FlatKinds) -> str:
    if isinstance(model, FactoredModel):
        if not model.rank_of_weights:
            return graph.filled(rows, model.n_classes, 0.0, "f4")
        thin = graph.op("MatMul", rows, graph.const(model.u, "f4"))
        scaled = graph.op("Mul", thin, graph.const(columns_of(model.theta), "f4"))
        return graph.op("MatMul", scaled, graph.const(np.ascontiguousarray(model.v.T), "f4"))
    parts = [model.weights] if isinstance(model, LinearModel) else model.parts
    products = [graph.op("MatMul", rows, graph.const(part, "f4")) for part in parts]
    return products[0] if len(products) == 1 else graph.op("Concat", *products, axis=1)
