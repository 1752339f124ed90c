"""Forests as nodes of an ONNX graph: the means of what their trees name; see `tasks.trees.kmeans.forest`."""

from __future__ import annotations

import numpy as np

from pipeline.export.flat import Ranked
from pipeline.export.graph import Graph
from pipeline.export.search import add_search
from pipeline.export.walk import add_leaf, add_walk
from tasks.trees.kmeans.forest import NAMED, Forest
from tasks.trees.tree import LabelTree


def add_tree(graph: Graph, rows: str, tree: LabelTree, top: int, beam: int) -> Ranked:
    """As `LabelTree.rank` does."""
    if tree.n_children[0] == 0:
        return add_leaf(graph, rows, tree, top)
    if beam == 1 and not tree.probabilistic:
        return add_walk(graph, rows, tree, top)
    return add_search(graph, rows, tree, top, beam)


def add_forest(graph: Graph, rows: str, forest: Forest, top: int, beam: int) -> Ranked:
    """The classes of highest mean probability; a class that a tree does not name has none of it there."""
    n_classes, width = forest.n_classes, min(forest.n_classes, max(top, NAMED))
    zero = graph.const(0.0, "f8")
    totals, seen = (graph.filled(rows, n_classes + 1, 0.0, "f8") for _ in range(2))
    for tree in forest.trees:
        found = add_tree(graph, rows, tree, width, beam)
        assert found.probabilities is not None
        none = graph.op("Less", found.classes, graph.const(0, "i8"))
        place = graph.op("Where", none, graph.const(n_classes, "i8"), found.classes)
        mass = graph.op("Where", none, zero, graph.cast(found.probabilities, "f8"))
        totals = graph.put(totals, place, mass, "add")
        seen = graph.put(seen, place, graph.cast(graph.op("Not", none), "f8"), "max")
    ranked = graph.op("Where", graph.op("Greater", seen, zero), totals, graph.const(-1.0, "f8"))
    best, classes = graph.top(graph.columns(ranked, 0, n_classes), top)
    nothing = graph.op("Less", best, zero)
    mean = graph.cast(graph.op("Div", best, graph.const(float(len(forest.trees)), "f8")), "f4")
    means = graph.op("Where", nothing, graph.const(np.nan, "f4"), mean)
    return Ranked(graph.op("Where", nothing, graph.const(-1, "i8"), classes), means, means)
