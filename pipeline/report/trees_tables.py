"""Label trees in numbers: Tables 1 and 2 of Deng et al. 2011, what OP3 came to at the nodes, how even trees are."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.report.csvs import csv_text
from pipeline.report.metrics import Metrics, known
from pipeline.report.numbers import MISSING, count, microseconds, percent, seconds, size, times
from pipeline.report.summary import RunSummary, SmallTable

TREE_KINDS = ("label-tree", "bengio-tree", "kmeans-tree", "tree-svm")
Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TreeTable:
    """A table of the page, and its CSV with all digits; the first `words` columns are text."""

    name: str
    table: SmallTable
    csv: str
    words: int = 1


def tree_tables(run: RunSummary) -> list[TreeTable]:
    """Those that have any line."""
    found = (costs_table(run), depths_table(run), sizes_table(run), bounds_table(run))
    return [one for one in found if one.table.rows]


def tree_models(run: RunSummary) -> list[str]:
    """The models that are trees, in the config's order."""
    return [name for name in run.models if kind_of(run, name) in TREE_KINDS]


def kind_of(run: RunSummary, name: str) -> str:
    """The config's word for a model: "label-tree" of "label-tree on pq"."""
    return run.kinds.get(name, "").split(" ")[0]


def tree_details(run: RunSummary, once: bool = False) -> dict[str, Record]:
    """Per model that is one tree, what was found out about it; see `pipeline.stages.tree_details`.

    once  of trees that differ in their beam alone, which are one tree, the first stands for all
    """
    others = {name for line in run.beams for name in line[1:]} if once else set()
    found = {name: run.details.get(name, {}).get("tree") for name in run.models if name not in others}
    return {name: one for name, one in found.items() if one}


def share(value: float) -> str:
    """Per cent, with three digits where it is small; of what is below 0 less than these is zero."""
    if value > 0:
        return percent(value, 2 if value < 0.0995 else 1)
    text = f"{100 * value:.2f} %" if value > -0.0995 else percent(value)
    return text.removeprefix("-") if float(text.removesuffix(" %")) == 0 else text


# ---- Table 1 -------------------------------------------------------------------------------------------------------

COSTS: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("top1", "accuracy", percent),
    ("train_ops_per_row", "training ops", count),
    ("ovr_ops_per_row", "one-vs-rest before", count),
    ("test_ops_per_row", "test ops", count),
    ("speedup", "speed-up", times),
    ("ambiguity_depth_0", "root ambiguity", share),
    ("model_bytes", "parameters", size),
    ("train_seconds", "training", seconds),
    ("predict_us_per_row", "predict/row", microseconds),
)


def costs_table(run: RunSummary) -> TreeTable:
    """Accuracy, training cost and test speed-up of every tree, one-vs-rest first."""
    trees = tree_models(run)
    flat = [name for name in run.models if kind_of(run, name) == "ovr"] if trees else []
    names = [*flat, *trees]
    used = [one for one in COSTS if any(known(run.models[name], one[0]) is not None for name in names)]
    rows = [
        (name, kind_of(run, name), shape_of(run.models[name]) or MISSING, *_costs(run.models[name], used))
        for name in names
    ]
    note = (
        "Training ops: vector operations (dot products, and additions to a weight vector) per training row, really "
        f"done; one-vs-rest's are 2 K = {2 * run.n_classes:,} a pass. Test ops: dot products per test row; speed-up: "
        f"K = {run.n_classes:,} over them. T(Q, H): Q children a node, at the last split one for each class, leaves at "
        "depth H."
    )
    if any((known(run.models[name], "trees") or 1) > 1 for name in trees):
        note += " Of a forest this table alone: its trees are not shown one by one."
    if any(key == "ovr_ops_per_row" for key, _, _ in used):
        note += " One-vs-rest before: what the classifiers cost that a bengio-tree takes its classes' confusion from."
    heading = ("model", "kind", "shape", *(heading for _, heading, _ in used))
    lines = [
        (
            name,
            run.kinds.get(name, ""),
            shape_of(run.models[name]),
            *(known(run.models[name], key) for key, _, _ in COSTS),
        )
        for name in names
    ]
    text = csv_text(["model", "kind", "shape", *(key for key, _, _ in COSTS)], lines)
    return TreeTable("trees-costs", SmallTable("Accuracy and cost", heading, rows, note), text, 3)


def shape_of(metrics: Metrics) -> str:
    """T(Q, H), and the beam where it is wider than the paper's walk; "" of what is no T(Q, H)."""
    branching, depth, beam = (known(metrics, key) for key in ("branching", "depth", "beam"))
    if branching is None or depth is None:
        return ""
    trees = known(metrics, "trees") or 1
    several = f"{trees:.0f} x " if trees > 1 else ""
    return f"{several}T({branching:.0f}, {depth:.0f})" + (f", beam {beam:.0f}" if beam and beam > 1 else "")


def _costs(metrics: Metrics, columns: Sequence[tuple[str, str, Callable[[float], str]]]) -> Iterator[str]:
    for key, _, write in columns:
        value = known(metrics, key)
        yield MISSING if value is None else write(value)


# ---- Table 2 -------------------------------------------------------------------------------------------------------

DEPTHS = ("depth", "rows", "survivors", "lost", "loss", "ambiguity", "survivors_ambiguity", "kept")
JUDGED = ("loss", "ambiguity")
SHOWN = ("loss", "ambiguity", "of survivors", "not lost yet", "loss, judged", "ambiguity, judged")


def depths_table(run: RunSummary) -> TreeTable:
    """Loss and ambiguity by depth, of test rows; of the rows that judged while the tree grew, too."""
    rows: list[tuple[str, ...]] = []
    lines: list[tuple[object, ...]] = []
    for name, tree in tree_details(run).items():
        judged = {one["depth"]: one for one in tree.get("judged") or ()}
        for place, one in enumerate(tree.get("by_depth") or ()):
            seen = judged.get(one["depth"], {})
            measures = (*(one.get(key) for key in DEPTHS[4:]), *(seen.get(key) for key in JUDGED))
            shown = (name if place == 0 else "", str(one["depth"]), _whole(one.get("rows")))
            rows.append((*shown, *(MISSING if value is None else share(value) for value in measures)))
            lines.append((name, *(one.get(key) for key in DEPTHS), *(seen.get(key) for key in JUDGED)))
    note = (
        "Loss: of the rows whose class is still in the node's label set, those sent to a child without it. "
        "Ambiguity: mean share of a node's classes that goes on to the child, over all rows, and over those survivors "
        "alone. With a wider beam, both are of the way to the answer. Not lost yet: product of (1 - loss) down to "
        "here, at the last depth the accuracy if all leaves are equally deep and hold one class. Judged: on the rows "
        "that chose the partitions, validation rows if there are any: optimistic, the more the fewer these are. "
        "Of a kmeans-tree, whose partitions no rows have chosen, of the walk with beam 1."
    )
    heading = ("model", "depth", "test rows", *SHOWN)
    csv = csv_text(["model", *DEPTHS, *(f"judged_{key}" for key in JUDGED)], lines)
    return TreeTable("trees-depths", SmallTable("Loss and ambiguity by depth", heading, rows, note), csv)


def _whole(value: Any) -> str:
    return MISSING if value is None else f"{value:,}"


# ---- how even a tree is --------------------------------------------------------------------------------------------

SIZES = ("depth", "nodes", "leaves", "empty", "min_classes", "mean_classes", "max_classes", "overlap", "given_up")


def sizes_table(run: RunSummary) -> TreeTable:
    """Nodes and the sizes of their label sets by depth, overlap, classes given up."""
    rows: list[tuple[str, ...]] = []
    lines: list[tuple[object, ...]] = []
    never: list[str] = []
    for name, tree in tree_details(run, once=True).items():
        for place, one in enumerate(tree.get("sizes") or ()):
            overlap, lost = one.get("overlap"), one.get("given_up")
            classes = (f"{one['min_classes']:,}", f"{one['mean_classes']:,.1f}", f"{one['max_classes']:,}")
            splits = (MISSING if overlap is None else f"{overlap:.2f}", _whole(lost))
            shown = (str(one["depth"]), f"{one['nodes']:,}", f"{one['leaves']:,}", f"{one['empty']:,}")
            rows.append((name if place == 0 else "", *shown, *classes, *splits))
            lines.append((name, *(one.get(key) for key in SIZES)))
        if tree.get("unreachable"):
            never.append(f"{name} {len(tree['unreachable']):,}")
    counts = ("nodes", "leaves", "empty leaves", "fewest classes", "mean", "most")
    heading = ("model", "depth", *counts, "overlap", "given up")
    note = (
        "Overlap: mean number of children that hold a class, 1 when they share none. Given up: classes of a node that "
        "none of its children holds, counted over nodes."
    )
    note += f" Classes that no leaf holds, so that they are never answered: {', '.join(never)}." if never else ""
    note += " Trees that differ in their beam alone are one tree, named as the first of them." if run.beams else ""
    text = csv_text(["model", *SIZES], lines)
    return TreeTable("trees-sizes", SmallTable("Balance", heading, rows, note), text)


# ---- OP3 at the nodes ----------------------------------------------------------------------------------------------

NODES = ("node", "classes", "children", "judged_rows", "loss", "ambiguity", "lp_value", "value", "bound")


def bounds_table(run: RunSummary) -> TreeTable:
    """Optimum of the relaxed problem, what rounding came to, and its bound: by depth; every node in the CSV."""
    rows: list[tuple[str, ...]] = []
    lines: list[tuple[object, ...]] = []
    for name, tree in tree_details(run, once=True).items():
        records = [one for one in tree.get("nodes") or () if "lp_value" in one]
        aim = "ambiguity" if tree.get("loss_cap") is not None else "loss"
        depths = sorted({depth_of(one) for one in records})
        for place, depth in enumerate(depths):
            here = [one for one in records if depth_of(one) == depth]
            shown = (name if place == 0 else "", aim, str(depth), f"{len(here):,}")
            rows.append((*shown, *_means(here)))
        lines += [(name, *(one.get(key) for key in NODES), len(one.get("given_up", ()))) for one in records]
    heading = ("model", "made small", "depth", "nodes", "relaxed", "rounded", "bound", "most lost", "most allowed")
    note = (
        "OP3 chooses which classes a child holds. Relaxed: the optimum with fractional memberships, which no partition "
        "beats; rounded: what the partition has on the rows that chose it; bound: what rounding can come to at most "
        "(Theorems 4.2 and 4.3). "
        "Means over the nodes of a depth; most lost, most allowed: the largest distance of the rounded value, and of "
        "the bound, from the relaxed one."
    )
    text = csv_text(["model", *NODES, "given_up"], lines)
    return TreeTable("trees-nodes", SmallTable("Partitions and their bounds", heading, rows, note), text, 2)


def depth_of(record: Record) -> int:
    """Of a node's record: 0 of "0", 2 of "0.3.7"."""
    return str(record["node"]).count(".")


def _means(records: Sequence[Record]) -> Iterator[str]:
    for key in ("lp_value", "value", "bound"):
        yield share(math.fsum(one[key] for one in records) / len(records))
    for key in ("value", "bound"):
        yield share(max(one[key] - one["lp_value"] for one in records))
