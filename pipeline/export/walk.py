"""The walk down a tree as nodes of an ONNX graph; see `tasks.trees.prediction.walk`.

The scores of all nodes are one product: for batches of rows, that takes a runtime less time than to gather the weights
of the nodes that each row comes to. A row at a leaf stays at its last split, so all rows take as many turns as the tree
is deep.
"""

from __future__ import annotations

import numpy as np

from pipeline.export.flat import Ranked
from pipeline.export.graph import Graph, columns_of
from pipeline.export.tree_tables import TreeTables, first_labels, tables_of, whole_weights
from tasks.trees.tree import LabelTree

FAR = np.iinfo(np.int64).max  # the place of a class that is not named


def node_products(graph: Graph, rows: str, tree: LabelTree) -> str:
    """Scores (n, n_nodes) float32 of all nodes but the root, and -inf."""
    weights, bias = whole_weights(tree)
    return graph.op("Add", graph.op("MatMul", rows, graph.const(weights, "f4")), graph.const(columns_of(bias), "f4"))


def add_leaf(graph: Graph, rows: str, tree: LabelTree, top: int) -> Ranked:
    """The ranking of a tree that is one leaf: see `tasks.trees.prediction.ranking.rank_leaf`."""
    held = tree.label_set(0)
    classes, scores = np.full((1, top), -1), np.full((1, top), np.nan)
    classes[0, : held.size], scores[0, : held.size] = held[:top], 1 / held.size if tree.probabilistic else 0.0
    shape = graph.op("Concat", graph.op("Shape", rows, start=0, end=1), graph.const([top], "i8"), axis=0)
    found = [
        graph.op("Expand", graph.const(classes, "i8"), shape),
        graph.op("Expand", graph.const(scores, "f4"), shape),
    ]
    return Ranked(found[0], found[1], found[1] if tree.probabilistic else None)


def add_walk(graph: Graph, rows: str, tree: LabelTree, top: int) -> Ranked:
    """Classes at the last split of each row, by the scores of the children that hold them."""
    tables = tables_of(tree)
    products = node_products(graph, rows, tree)
    columns, numbers = graph.const(tables.columns, "i8"), graph.const(tables.numbers, "i8")
    at = graph.squeezed(graph.filled(rows, 1, 0, "i8"))
    for _ in range(int(tables.depths.max())):
        scores = graph.pick(products, graph.gather(columns, at))
        best = graph.op("ArgMax", scores, axis=1, keepdims=1)
        child = graph.squeezed(graph.pick(graph.gather(numbers, at), best))
        is_leaf = graph.op("Equal", child, graph.const(tables.n_inner, "i8"))
        at = graph.op("Where", is_leaf, at, child)
    return _named(graph, tree, tables, at, graph.pick(products, graph.gather(columns, at)), top)


def _named(graph: Graph, tree: LabelTree, tables: TreeTables, at: str, scores: str, top: int) -> Ranked:
    """The classes of the children of `at` (n,), by descending scores (n, widest): each where it comes first."""
    table = first_labels(tree, tables, top)
    most, n_classes = int(table.shape[2]), tree.n_classes
    ordered, order = graph.top(scores, tables.widest)
    turns = graph.put(
        order,
        order,
        graph.op("Expand", graph.const(columns_of(np.arange(tables.widest)), "i8"), graph.op("Shape", order)),
    )
    firsts = graph.op("Mul", turns, graph.const(most, "i8"))
    place = graph.op("Add", graph.unsqueezed(firsts, 2), graph.const(np.arange(most), "i8"))
    labels, place = (
        graph.shaped(one, tables.widest * most) for one in (graph.gather(graph.const(table, "i8"), at), place)
    )
    places = graph.put(graph.filled(at, n_classes + 1, FAR, "i8"), labels, place, "min")
    places = _with_none(graph, tree, tables, at, order, places)
    found, classes = graph.top(places, top, largest=False)
    none = graph.op("Equal", found, graph.const(FAR, "i8"))
    turn = graph.op("Div", graph.op("Where", none, graph.const(0, "i8"), found), graph.const(most, "i8"))
    lost = graph.op("Or", none, graph.op("Equal", classes, graph.const(n_classes, "i8")))
    classes = graph.op("Where", lost, graph.const(-1, "i8"), classes)
    turn = graph.op("Max", turn, graph.const(0, "i8"))
    return Ranked(classes, graph.op("Where", lost, graph.const(np.nan, "f4"), graph.pick(ordered, turn)))


def _with_none(graph: Graph, tree: LabelTree, tables: TreeTables, at: str, order: str, places: str) -> str:
    """Column n_classes, where padding has put something: before all others of a row whose best child is empty."""
    sizes = np.append(np.diff(tree.offsets), 1)
    empty = sizes[tables.nodes] == 0
    if not empty.any():
        answer = graph.filled(at, 1, FAR, "i8")
    else:
        first = graph.columns(order, 0, 1)
        said = graph.pick(graph.gather(graph.const(empty, "b"), at), first)
        answer = graph.op("Where", said, graph.const(-1, "i8"), graph.const(FAR, "i8"))
    return graph.op("Concat", graph.columns(places, 0, tree.n_classes), answer, axis=1)
