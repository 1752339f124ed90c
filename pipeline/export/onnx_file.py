"""A model as one ONNX file: rows in, the best classes out, its encoders within.

Input `rows` (n, n_features) float32, n free. Outputs, best first: `classes` (n, top) int64, -1 where fewer are named;
`scores` (n, top) float32, NaN there; `probabilities` likewise, of models that have them. Ties go to the lower class.
Metadata: what `facts_of` says, and top and beam.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipeline.export.encoders import add_encoders, check_encoders
from pipeline.export.errors import ExportUnsupported
from pipeline.export.facts import facts_of
from pipeline.export.flat import FlatKinds, Ranked, add_flat, flat_bytes
from pipeline.export.forest import add_forest, add_tree
from pipeline.export.graph import Graph, check_bytes, onnx_package
from pipeline.export.tree_tables import tree_bytes
from pipeline.placing import made_beside
from tasks.models.folder import SavedModel
from tasks.models.registry import config_word
from tasks.trees.kmeans.forest import Forest
from tasks.trees.tree import GIVEN, LabelTree

EXPORTED = (
    "ovr, msvm, hie-svm, nearest-class-mean, trace-norm, label-tree, bengio-tree, kmeans-tree and forests of it; "
    "tree-svm with probabilities or a beam above 1"
)


def write_onnx(
    saved: SavedModel,
    output: Path,
    top: int,
    beam: int | None = None,
    told: Callable[[int], None] | None = None,
    force: bool = False,
) -> None:
    """Write the file, checked by ONNX's own checker, whole or not at all.

    top    classes per row, at most n_classes; beam: nodes that a tree expands a depth, None: as it was trained
    told   is given the size of the file, bytes, before it is written; force: whether what stands there is replaced
    raises PackageMissing, ExportUnsupported, ExportTooLarge, all before any work; DiskFull, OutputExists
    """
    onnx = onnx_package()
    check_exportable(saved, beam)
    message = onnx_model(saved, top, beam)
    size = message.ByteSize()
    if told is not None:
        told(size)
    with made_beside(output, size, force) as local:
        local.write_bytes(message.SerializeToString(deterministic=True))
        onnx.checker.check_model(str(local), full_check=True)


def check_exportable(saved: SavedModel, beam: int | None) -> None:
    """Raises ExportUnsupported, ExportTooLarge."""
    model = saved.model
    known = isinstance(model, FlatKinds | Forest | LabelTree)
    if isinstance(model, LabelTree) and model.kind == GIVEN and not model.probabilistic:
        known = (model.beam if beam is None else beam) > 1
    if not known:
        what = f"a model of kind {config_word(model.kind)} is not exported to ONNX: these are {EXPORTED}"
        raise ExportUnsupported(what, "--to onnx", "use --to npz, which takes every model")
    check_encoders(saved.encoders)
    check_bytes(constant_bytes(saved))


def constant_bytes(saved: SavedModel) -> int:
    """Of a file's numbers, about, from sizes alone: weights, of trees all that are 0, too, tables and encoders.

    Of a model that `check_exportable` lets pass.
    """
    model = saved.model
    encoders = sum(values.nbytes for encoder in saved.encoders for values in encoder.tensors().values())
    if isinstance(model, Forest):
        return encoders + sum(tree_bytes(tree) for tree in model.trees)
    return encoders + (tree_bytes(model) if isinstance(model, LabelTree) else flat_bytes(_flat(model)))


def onnx_model(saved: SavedModel, top: int, beam: int | None) -> Any:
    """The model as a protobuf message; see `write_onnx`."""
    graph = Graph()
    inputs = [graph.value("rows", "f4", ("n", saved.n_features))]
    ranked = _ranked(graph, add_encoders(graph, "rows", saved.encoders), saved.model, top, beam)
    named = {"classes": (ranked.classes, "i8"), "scores": (ranked.scores, "f4")}
    if ranked.probabilities is not None:
        named["probabilities"] = (ranked.probabilities, "f4")
    for name, (value, _) in named.items():
        graph.nodes.append(graph.onnx.helper.make_node("Identity", [value], [name]))
    outputs = [graph.value(name, dtype, ("n", top)) for name, (_, dtype) in named.items()]
    facts = facts_of(saved) | {"top": str(top)}
    if isinstance(saved.model, LabelTree | Forest):
        facts["beam"] = str(saved.model.beam if beam is None else beam)
    return graph.finished(inputs, outputs, facts)


def _ranked(graph: Graph, rows: str, model: Any, top: int, beam: int | None) -> Ranked:
    if isinstance(model, Forest):
        return add_forest(graph, rows, model, top, model.beam if beam is None else beam)
    if isinstance(model, LabelTree):
        return add_tree(graph, rows, model, top, model.beam if beam is None else beam)
    return add_flat(graph, rows, model, top)


def _flat(model: Any) -> FlatKinds:
    assert isinstance(model, FlatKinds)
    return model
