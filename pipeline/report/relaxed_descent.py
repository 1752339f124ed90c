"""How the objective of a node's problem falls, half step by half step (Gao & Koller 2011, (1))."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise, zip_longest
from typing import Any

from pipeline.report.csvs import csv_text
from pipeline.report.figures import Series, Whole, line_plot
from pipeline.report.plot import MOST_LINES, Plot
from pipeline.report.relaxed_levels import depth_of, shown_members
from pipeline.report.relaxed_members import Member
from pipeline.report.table import printable

Record = Mapping[str, Any]
ROUNDING = 1e-9  # of the largest value: a rise below it is none


def descent_plot(members: Sequence[Member]) -> Plot | None:
    """Per hierarchy that is shown and depth, what is still to come of the fall: mean over the nodes there."""
    records = {one.name: one.hierarchy["records"] for one in shown_members(members)}
    shown = {name: _falling(nodes) for name, nodes in records.items()}
    if not any(shown.values()):
        return None
    series: list[Series] = []
    for name, nodes in shown.items():
        for depth in sorted(set(map(depth_of, nodes))):
            here = [remaining(one["objective"]) for one in nodes if depth_of(one) == depth]
            label = f"{name}, depth {depth}" if len(shown) > 1 else f"depth {depth}"
            series.append(_mean_line(f"{label} ({len(here):,} node{'s' * (len(here) > 1)})", here))
    rises = [rise for nodes in shown.values() for one in nodes for rise in rises_of(one["objective"])]
    caption = (
        "What is still to come of the fall of the node's objective: 100 % with the first classifier, 0 % at the end; "
        "mean over the nodes of a depth, of the model chosen in each. " + _told(rises, _by_coloring(shown))
    )
    svg = line_plot(series[:MOST_LINES], {}, Whole("half step"), "still to come, %")
    return Plot("relaxed-objective", "Objective per half step", caption, svg, _csv(records))


def _falling(records: Sequence[Record]) -> list[Record]:
    return [one for one in records if len(one.get("objective") or ()) > 1]


def remaining(objective: Sequence[float]) -> list[float]:
    """Share of the whole fall that comes after each half step; of what does not fall, nothing."""
    whole = objective[0] - objective[-1]
    return [(value - objective[-1]) / whole if whole > 0 else 0.0 for value in objective]


def rises_of(objective: Sequence[float]) -> list[float]:
    """By how much half steps have risen, over the largest absolute value; what is rounding is left out."""
    scale = max(map(abs, objective)) or 1.0
    found = [(after - before) / scale for before, after in pairwise(objective)]
    return [rise for rise in found if rise > ROUNDING]


def _by_coloring(shown: Mapping[str, Sequence[Record]]) -> float | None:
    """Share of the falls of all nodes that came with new colors; None where these half steps are not known."""
    falls: dict[bool, list[float]] = {True: [], False: []}
    for records in shown.values():
        for one in records:
            objective, steps = one["objective"], one.get("steps") or ()
            if len(steps) != len(objective):
                return None
            for before, after, step in zip(objective, objective[1:], steps[1:], strict=False):
                falls[step == "coloring"].append(before - after)
    colored, fitted = math.fsum(falls[True]), math.fsum(falls[False])
    return colored / (colored + fitted) if colored + fitted > 0 else None


def _told(rises: Sequence[float], by_coloring: float | None) -> str:
    number = "1 half step rises" if len(rises) == 1 else f"{len(rises):,} half steps rise"
    text = f"{number}, by {max(rises):.2g} of the objective at most." if rises else "No half step rises."
    if by_coloring is not None:
        text += f" {100 * by_coloring:.0f} % of all falls came with new colors, the rest with new classifiers."
    return text


def _mean_line(label: str, shares: Sequence[Sequence[float]]) -> Series:
    """Nodes that are through stay where they are."""
    longest = max(map(len, shares))
    means = [100 * math.fsum(one[min(i, len(one) - 1)] for one in shares) / len(shares) for i in range(longest)]
    return Series(printable(label), range(longest), means)


def _csv(shown: Mapping[str, Sequence[Record]]) -> str:
    lines: list[tuple[object, ...]] = []
    for name, records in shown.items():
        for place, one in enumerate(records):
            objective, steps = one.get("objective") or (), one.get("steps") or ()
            lines += [
                (name, place, one["depth"], i, step, value)
                for i, (step, value) in enumerate(zip_longest(steps, objective, fillvalue=""))
            ]
    return csv_text(["model", "node", "depth", "half_step", "step", "objective"], lines)
