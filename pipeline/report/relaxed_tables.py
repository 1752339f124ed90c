"""Relaxed hierarchies and their rivals in numbers: what each costs and reaches, what its nodes are."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from pipeline.report.csvs import csv_text
from pipeline.report.metrics import known
from pipeline.report.numbers import MISSING, count, percent, plain, seconds
from pipeline.report.relaxed_growth import growth_table
from pipeline.report.relaxed_lines import Method, flat_level, least_complexity, least_lead, methods_of, most_accuracy
from pipeline.report.relaxed_members import (
    FLAT,
    LINEAR,
    Member,
    full_size,
    kernels_of,
    one_vs_rest_of,
    setting_text,
    supposed,
    supposed_text,
    whole_setting_text,
)
from pipeline.report.summary import RunSummary, SmallTable
from pipeline.report.trees_tables import TreeTable

OWN = "relaxed-hierarchy"
ALLOWED = (0.0, 1.0, 3.0)  # points of accuracy below one-vs-rest's
BUDGETS = (0.6, 0.25)  # relative complexities


def relaxed_tables(run: RunSummary, members: Sequence[Member]) -> list[TreeTable]:
    """Those that have any line."""
    found = (costs_table(members), reach_table(run, members), leaves_table(members), growth_table(members))
    return [one for one in found if one.table.rows]


# ---- accuracy and complexity ---------------------------------------------------------------------------------------

COST_KEYS = (
    "mean_per_class_top1",
    "test_ops_per_row",
    "relative_complexity",
    "classifiers_per_row",
    "relative_classifiers",
    "train_seconds",
)


def costs_table(members: Sequence[Member]) -> TreeTable:
    """What Figures 2 to 4 are drawn from; models of samples of classes are in the CSV alone."""
    shown = full_size(members)
    kernels = any(one.kernel != LINEAR for one in members)
    rows = [_cost_line(one, _flat_accuracy(members, one), kernels) for one in shown]
    lines = [
        (one.name, one.family, whole_setting_text(one), one.kernel, one.rows, one.n_classes, *_cost_values(one))
        for one in members
    ]
    note = _cost_note(members, shown)
    wrong = ("classifiers", "relative classifiers") if kernels else ()
    heading = ("model", "method", "accuracy", "to one-vs-rest", "complexity", "relative", *wrong, "training")
    text = csv_text(["model", "family", "setting", "kernel", "rows", "n_classes", *COST_KEYS], lines)
    return TreeTable("relaxed-costs", SmallTable("Accuracy and complexity", heading, rows, note), text, 2)


VALUES = "kernel values per row, each support vector of the classifiers evaluated counting once"
SPECTRAL = (
    "Spectral trees part the classes by what one-vs-rest confuses on training rows held out: where it confuses hardly "
    "anything, their splits are little better than chance, and they are expected to be weak."
)


def _cost_note(members: Sequence[Member], shown: Sequence[Member]) -> str:
    linear, kernels = (any((one.kernel == LINEAR) is side for one in shown) for side in (True, False))
    counts = ["classifiers evaluated per row"] * linear + [("of kernels " if linear else "") + VALUES] * kernels
    parts = [
        "Accuracy: mean over classes of the share of their rows that are right; to one-vs-rest: points more than the "
        f"best one-vs-rest of the same rows, kernel and classes. Complexity: {', '.join(counts)}; relative: over "
        "one-vs-rest's" + (", which evaluates one classifier a class." if linear and not kernels else ".")
    ]
    parts += [f"Without such a one-vs-rest in this run: {names}."] if (names := _alone(members, shown)) else []
    parts += [supposed_text([one for one in supposed(members) if one in shown])]
    parts += ["Relative classifiers: no measure of cost where there is a kernel."] if kernels else []
    parts += [SPECTRAL] if any(one.family == "spectral-tree" for one in shown) else []
    if len(shown) < len(members):
        parts.append(f"Models of samples of the classes, {len(members) - len(shown):,}, are in the CSV.")
    return " ".join(filter(None, parts))


def _alone(members: Sequence[Member], shown: Sequence[Member]) -> str:
    return some_names([one.name for one in shown if _flat_accuracy(members, one) is None])


def _flat_accuracy(members: Sequence[Member], rival: Member) -> float | None:
    """Of the best one-vs-rest of the rival's kernel, rows and classes."""
    found = [one.accuracy for one in one_vs_rest_of(members, rival) if one.accuracy is not None]
    return max(found, default=None)


def _cost_values(one: Member) -> Iterator[float | None]:
    for key in COST_KEYS:
        yield {"relative_complexity": one.relative, "relative_classifiers": one.relative_classifiers}.get(
            key, known(one.metrics, key)
        )


def _cost_line(one: Member, flat: float | None, kernels: bool) -> tuple[str, ...]:
    accuracy, complexity, relative, classifiers, share, took = _cost_values(one)
    return (
        one.name,
        method_text(one),
        _cell(accuracy, percent),
        MISSING if accuracy is None or flat is None else points(100 * (accuracy - flat)),
        _cell(complexity, count),
        _cell(relative, ratio),
        *((_cell(classifiers, count), _cell(share, ratio)) if kernels else ()),
        _cell(took, seconds),
    )


def method_text(one: Member) -> str:
    """relaxed-hierarchy on pq, rho 0.7, rbf"""
    return ", ".join(filter(None, [one.what, setting_text(one), one.kernel if one.kernel != LINEAR else ""]))


def _cell(value: float | None, write: Callable[[float], str]) -> str:
    return MISSING if value is None else write(value)


def some_names(names: Sequence[str], most: int = 5) -> str:
    """The first of them, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def ratio(value: float) -> str:
    """Three places behind the point, as long as they say anything."""
    return plain(value) if value < 10 else f"{value:,.1f}"


def points(value: float) -> str:
    """Of per cent, with their sign."""
    return "0.0" if abs(value) < 0.05 else f"{value:+.1f}"


# ---- what a method reaches -----------------------------------------------------------------------------------------


def reach_table(run: RunSummary, members: Sequence[Member]) -> TreeTable:
    """Per method: the complexity that one-vs-rest's accuracy takes, the accuracy at some complexities, who leads."""
    rows: list[tuple[str, ...]] = []
    lines: list[tuple[object, ...]] = []
    alone: list[str] = []
    for kernel in kernels_of(members):
        here = full_size([one for one in members if one.kernel == kernel])
        methods = methods_of(run, here)
        for method in methods:
            if method.family != FLAT:
                flat = flat_level(methods, method.basis)
                alone += [] if flat is not None else [f"{method.label}, {kernel}"]
                values = list(_reach(method, methods, flat))
                rows.append((method.label, kernel, *(_reach_cell(i, value) for i, value in enumerate(values))))
                lines.append((method.label, kernel, *values))
    note = (
        "Of the settings that were tried: the least relative complexity of one that is at least as accurate as "
        "one-vs-rest of the same rows, kernel and classes, or within so many points of it; the best accuracy at most "
        "that complex. Lead: of the first relaxed hierarchy of the same rows, kernel, classes and, if there is one, "
        "doubt over this method, in points of accuracy at the complexity of the method's settings, the least of them; "
        "straight lines join the relaxed hierarchy's settings, and settings cheaper than all of its own are left out."
    )
    note += f" Without such a one-vs-rest in this run: {some_names(alone)}." if alone else ""
    within = ("as one-vs-rest", *(f"within {x:g} point{'s' * (x != 1)}" for x in ALLOWED[1:]))
    heading = ("method", "kernel", "best accuracy", *within, *(f"accuracy at {x:g}" for x in BUDGETS), "lead")
    keys = ["best_accuracy", *(f"complexity_within_{x:g}" for x in ALLOWED), *(f"accuracy_at_{x:g}" for x in BUDGETS)]
    text = csv_text(["method", "kernel", *keys, "lead"], lines)
    return TreeTable("relaxed-reach", SmallTable("What a complexity buys", heading, rows, note), text, 2)


def _reach(method: Method, methods: Sequence[Method], flat: float | None) -> Iterator[float | None]:
    yield max(spot.y for spot in method.spots)
    for allowed in ALLOWED:
        yield None if flat is None else least_complexity(method.spots, flat - allowed)
    for budget in BUDGETS:
        yield most_accuracy(method.spots, budget)
    alike = [one for one in methods if one.family == OWN and one.basis == method.basis]
    own = next((one for one in alike if one.doubt == method.doubt), alike[0] if alike else None)
    yield None if own is None or method.family == OWN else least_lead(own.spots, method.spots)


def _reach_cell(place: int, value: float | None) -> str:
    if value is None:
        return MISSING
    if place == 1 + len(ALLOWED) + len(BUDGETS):
        return points(value)
    return ratio(value) if 1 <= place <= len(ALLOWED) else percent(value / 100)


# ---- nodes and leaves ----------------------------------------------------------------------------------------------

NODE_KEYS = ("nodes", "splits", "single_leaves", "ovr_leaves", "ovr_leaf_classes")


def leaves_table(members: Sequence[Member]) -> TreeTable:
    """How many nodes of which kind, and how many end in one-vs-all leaves."""
    rows: list[tuple[str, ...]] = []
    lines: list[tuple[object, ...]] = []
    shown = full_size(members)
    for one in members:
        if not one.hierarchy.get("nodes") or one.family == FLAT:
            continue
        numbers = [one.hierarchy.get(key) for key in NODE_KEYS]
        shares = (_ovr_share(one), known(one.metrics, "ovr_leaf_share"))
        lines.append((one.name, one.family, whole_setting_text(one), one.kernel, one.n_classes, *numbers, *shares))
        if one in shown:
            counts = [_cell(value, _number) for value in numbers]
            rows.append((one.name, method_text(one), *counts, *(_cell(value, percent) for value in shares)))
    note = (
        "Leaves: of one class, or one-vs-all where a node's classes could not be split further or were not meant to "
        "be; their classes: of all of these together. Share of leaves: one-vs-all among all leaves; share of rows: "
        "of test rows, those that end in one."
    )
    heading = ("model", "method", "nodes", "splits", "leaves of one class", "one-vs-all leaves", "their classes")
    keys = ("n_classes", *NODE_KEYS, "ovr_share_of_leaves", "ovr_leaf_share")
    text = csv_text(["model", "family", "setting", "kernel", *keys], lines)
    table = SmallTable("Nodes and leaves", (*heading, "share of leaves", "share of rows"), rows, note)
    return TreeTable("relaxed-leaves", table, text, 2)


def _ovr_share(one: Member) -> float | None:
    single, several = one.hierarchy.get("single_leaves"), one.hierarchy.get("ovr_leaves")
    if single is None or several is None or single + several == 0:
        return None
    return float(several) / float(single + several)


def _number(value: float) -> str:
    return f"{value:,.0f}" if math.isclose(value, round(value)) else count(value)
