"""The beam search down a tree as nodes of an ONNX graph; see `tasks.trees.prediction.search`.

The scores of all nodes are one product; then, in each turn of a loop, every row expands its most probable open node, as
ours does, so that both name the classes of the same leaves. Probabilities are float64, exponentials of them float32.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipeline.export.flat import Ranked
from pipeline.export.graph import Graph, columns_of
from pipeline.export.tree_tables import TreeTables, adds_up, holders_by_class, reaches, tables_of
from pipeline.export.walk import node_products
from tasks.exponential import LOWEST
from tasks.rows.base import Array
from tasks.trees.prediction.links import SIGMOID, TRUST
from tasks.trees.prediction.naming import LEAST_NORM
from tasks.trees.prediction.search import places_of
from tasks.trees.tree import LabelTree

CLOSED = -1.0  # instead of a probability: of a node that is not open, a class that is not named


@dataclass(frozen=True)
class _Names:
    """Constants of a search, and the scores of all nodes, by their names in the graph."""

    products: str
    columns: str
    numbers: str
    scales: str
    shares: str
    depths: str
    limits: str


@dataclass(frozen=True)
class _State:
    """Of all rows after a turn: at (n,) int64; mass, best, norm (n, 1), open (n, n_inner + 1) float64; counts int64."""

    at: str
    mass: str
    best: str
    norm: str
    open: str
    counts: str

    def names(self) -> list[str]:
        return [self.at, self.mass, self.best, self.norm, self.open, self.counts]


def add_search(graph: Graph, rows: str, tree: LabelTree, top: int, beam: int) -> Ranked:
    """The classes of highest path probability. rows (n, n_features) float32; the tree has an inner node."""
    tables = tables_of(tree)
    n_inner = np.bincount(tables.depths)
    places = places_of(n_inner, beam)
    names = _constants(graph, rows, tree, tables, np.diff(places))
    final, masses, nodes = _loop(graph, rows, tree, tables, names, int(places[-1]))
    totals = _totals(graph, tree, tables, masses, nodes)
    best, classes = graph.top(totals, top)
    nothing, none = graph.op("Less", best, graph.const(0.0, "f8")), graph.const(np.nan, "f4")
    classes = graph.op("Where", nothing, graph.const(-1, "i8"), classes)
    scores = graph.op("Where", nothing, none, graph.cast(best, "f4"))
    if not tree.probabilistic:
        return Ranked(classes, scores)
    return Ranked(classes, scores, graph.op("Where", nothing, none, _probabilities(graph, tree, best, final.norm)))


def _constants(graph: Graph, rows: str, tree: LabelTree, tables: TreeTables, limits: Array) -> _Names:
    shares = np.where(tables.leaves < tables.n_leaves, tables.leaf_sizes[tables.leaves], np.inf)
    return _Names(
        products=node_products(graph, rows, tree),
        columns=graph.const(tables.columns, "i8"),
        numbers=graph.const(tables.numbers, "i8"),
        scales=graph.const(tables.scales, "f4"),
        shares=graph.const(shares, "f8"),
        depths=graph.const(np.append(tables.depths, 0), "i8"),
        limits=graph.const(columns_of(limits), "i8"),
    )


def _loop(
    graph: Graph, rows: str, tree: LabelTree, tables: TreeTables, names: _Names, most: int
) -> tuple[_State, str, str]:
    """(the final states, probabilities of the children of expanded nodes (n_turns, n, widest), these (n_turns, n))."""
    width, n_depths = tables.n_inner + 1, int(tables.depths.max()) + 1
    counts = graph.op("Add", graph.filled(rows, n_depths, 0, "i8"), graph.const([[1] + [0] * (n_depths - 1)], "i8"))
    one, zero = graph.filled(rows, 1, 1.0, "f8"), graph.filled(rows, 1, 0.0, "f8")
    at, closed = graph.squeezed(graph.filled(rows, 1, 0, "i8")), graph.filled(rows, width, CLOSED, "f8")
    shapes: list[tuple[str, tuple[object, ...]]] = [("i8", ("n",)), *[("f8", ("n", 1))] * 3]
    shapes += [("f8", ("n", width)), ("i8", ("n", n_depths))]
    body = Graph(graph)
    turn = [body.value(body.name("turn"), "i8", ()), body.value(body.name("on"), "b", ())]
    before = _State(*(body.name("state") for _ in shapes))
    after, out, going = _expanded(body, tree, tables, names, before)
    kept = body.op("Identity", before.at)
    inputs = [*turn, *(body.value(name, *shape) for name, shape in zip(before.names(), shapes, strict=True))]
    outputs = [body.value(going, "b", ())]
    outputs += [body.value(name, *shape) for name, shape in zip(after.names(), shapes, strict=True)]
    outputs += [body.value(out, "f8", ("n", tables.widest)), body.value(kept, "i8", ("n",))]
    *final, masses, nodes = graph.loop(most, body, inputs, outputs, [at, one, zero, one, closed, counts])
    return _State(*final), masses, nodes


def _expanded(
    body: Graph, tree: LabelTree, tables: TreeTables, names: _Names, state: _State
) -> tuple[_State, str, str]:
    """One turn: (states after it, probabilities of the children (n, widest) float64, whether any row goes on)."""
    zero, closed = body.const(0.0, "f8"), body.const(CLOSED, "f8")
    scores = body.pick(names.products, body.gather(names.columns, state.at))
    out = _children(body, tree, state, scores, body.gather(names.scales, state.at))
    shares = body.op("Div", out, body.gather(names.shares, state.at))
    best = body.op("Max", state.best, body.most(shares))
    children = body.gather(names.numbers, state.at)
    inner = body.op("Less", children, body.const(tables.n_inner, "i8"))
    opens = body.op("And", inner, body.op("Greater", out, best))
    opened = body.put(state.open, children, body.op("Where", opens, out, closed))
    full = body.gather(body.op("GreaterOrEqual", state.counts, names.limits), names.depths, axis=1)
    free = body.op("Where", full, closed, opened)
    chosen = body.op("ArgMax", free, axis=1, keepdims=1)
    mass = body.pick(free, chosen)
    goes = body.op("Greater", mass, best)
    left = body.put(opened, chosen, body.op("Where", goes, closed, mass))
    depth = body.gather(names.depths, chosen)
    counts = body.put(state.counts, depth, body.cast(goes, "i8"), "add")
    mass = body.op("Where", goes, mass, zero)
    at = body.squeezed(body.op("Where", goes, chosen, body.const(tables.n_inner, "i8")))
    norm = _frontier(body, tree, tables, state, out, mass)
    any_goes = body.op("Concat", body.cast(goes, "i8"), body.const([[0]], "i8"), axis=0)  # of 0 rows, too, a maximum
    going = body.cast(body.op("ReduceMax", any_goes, keepdims=0), "b")
    return _State(at, mass, best, norm, left, counts), out, going


def _children(body: Graph, tree: LabelTree, state: _State, scores: str, scales: str) -> str:
    """The probabilities of children, (n, widest) float64, of their scores alike, float32; scales (n, 1) float32.

    See `tasks.trees.prediction.links`.
    """
    zero, one = body.const(0.0, "f8"), body.const(1.0, "f8")
    if tree.link == SIGMOID:
        wide = body.op("Mul", body.cast(scores, "f8"), body.cast(scales, "f8"))
        power = body.op("Exp", body.op("Neg", body.op("Abs", wide)))
        upper = body.op("Where", body.op("GreaterOrEqual", wide, zero), one, power)
        return body.op("Div", body.op("Mul", state.mass, upper), body.op("Add", one, power))
    scores = body.op("Mul", scores, scales)
    highest, factor = body.most(scores), state.mass
    if reaches(tree):  # below the root also "none of these", of score 0, and a power of the path's probability
        is_root = body.unsqueezed(body.op("Equal", state.at, body.const(0, "i8")), 1)
        highest = body.op("Where", is_root, highest, body.op("Max", highest, body.const(0.0, "f4")))
        factor = body.op("Where", is_root, factor, body.op("Pow", factor, body.const(TRUST, "f8")))
    lowered = body.op("Max", body.op("Sub", scores, highest), body.const(LOWEST, "f4"))
    powers = body.cast(body.op("Exp", lowered), "f8")
    total = body.total(powers)
    if reaches(tree):
        none = body.op("Exp", body.op("Neg", body.cast(highest, "f8")))
        total = body.op("Add", total, body.op("Where", is_root, zero, none))
    return body.op("Mul", body.op("Div", factor, total), powers)


def _frontier(body: Graph, tree: LabelTree, tables: TreeTables, state: _State, out: str, mass: str) -> str:
    """What probabilities are divided by, so far: the sum of powers over nodes that were met and not expanded.

    out (n, widest): of the children met in this turn; mass (n, 1): of the node that is expanded next, 0 for none
    """
    if not tree.probabilistic or adds_up(tree):
        return body.op("Identity", state.norm)
    held = np.where(tables.leaves < tables.n_leaves, tables.leaf_sizes[tables.leaves], 1.0)
    counted = np.where(tables.nodes >= 0, held, 0.0)
    sharpness = body.const(tree.sharpness, "f8")
    each = body.op("Div", out, body.gather(body.const(held, "f8"), state.at))
    met = body.op("Mul", body.op("Pow", each, sharpness), body.gather(body.const(counted, "f8"), state.at))
    is_root = body.unsqueezed(body.op("Equal", state.at, body.const(0, "i8")), 1)
    before = body.op("Where", is_root, body.const(0.0, "f8"), state.norm)
    return body.op("Sub", body.op("Add", before, body.total(met)), body.op("Pow", mass, sharpness))


def _totals(graph: Graph, tree: LabelTree, tables: TreeTables, masses: str, nodes: str) -> str:
    """(n, n_classes) float64: the probability of each class, several leaves of one added up; CLOSED if none was met."""
    leaves = graph.gather(graph.const(tables.leaves, "i8"), nodes)
    leaves, masses = (
        graph.joined(graph.op("Transpose", name, perm=[1, 0, 2]), tables.widest) for name in (leaves, masses)
    )
    closed = graph.const(CLOSED, "f8")
    is_none = graph.op("Equal", leaves, graph.const(tables.n_leaves, "i8"))
    empty = graph.filled(masses, tables.n_leaves + 1, CLOSED, "f8")
    met = graph.put(empty, leaves, graph.op("Where", is_none, closed, masses))
    shares = graph.op("Div", met, graph.const(columns_of(tables.leaf_sizes), "f8"))
    holders = holders_by_class(tree, tables)
    parts = [graph.gather(shares, graph.const(column, "i8"), axis=1) for column in holders.T]
    if len(parts) == 1:
        return parts[0]
    zero, total, highest = graph.const(0.0, "f8"), parts[0], parts[0]
    total = graph.op("Max", total, zero)
    for part in parts[1:]:
        total = graph.op("Add", total, graph.op("Max", part, zero))
        highest = graph.op("Max", highest, part)
    return graph.op("Where", graph.op("Less", highest, zero), closed, total)


def _probabilities(graph: Graph, tree: LabelTree, best: str, norm: str) -> str:
    """(n, top) float32 of path values (n, top) float64, CLOSED where there is none."""
    if adds_up(tree):
        return graph.cast(best, "f4")
    powers = graph.op("Pow", graph.op("Max", best, graph.const(0.0, "f8")), graph.const(tree.sharpness, "f8"))
    return graph.cast(graph.op("Div", powers, graph.op("Max", norm, graph.const(LEAST_NORM, "f8"))), "f4")
