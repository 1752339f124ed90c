"""Deng et al.: the root's partition and the paths of rows (Figures 1 and 2); and the list of all their figures."""

from __future__ import annotations

import math
from typing import Any

from pipeline.reproduce.deng import (
    DATA,
    DEPTHS,
    DIFFERS,
    KINDS,
    MISSING_TIMES,
    PAPER,
    TABLE_1,
    TABLE_2,
    by_depth,
    depths_of,
    judge_root,
    name_of,
    shape_of,
    show_table_1,
    show_table_2,
)
from pipeline.reproduce.figure import (
    OURS,
    UNKNOWN,
    Cell,
    Claim,
    Number,
    PaperFigure,
    Part,
    Shown,
    Table,
    Verdict,
    number,
    share,
    unknown,
)
from pipeline.reproduce.found import Found, RunFound
from pipeline.reproduce.judging import NOT_MEASURED, every

# ---- Figures 1 and 2 -----------------------------------------------------------------------------------------------


def overlap(run: RunFound, kind: str, depth: int) -> float:
    """Children of the root that hold a class, mean over the classes; NaN where it is not known."""
    name = name_of(kind, depth)
    return next(
        (float(line["overlap"]) for line in run.csv("trees-sizes") if line["model"] == name and line["depth"] == "0"),
        math.nan,
    )


def show_figure_1(found: Found) -> Shown:
    run = found.runs["main"]
    rows: list[list[Cell]] = []
    for depth in depths_of(run):
        for kind, (_, told) in KINDS.items():
            sizes = [
                line
                for line in run.csv("trees-sizes")
                if line["model"] == name_of(kind, depth) and line["depth"] == "1"
            ]
            held = [number(float(line[key]), 0) for line in sizes for key in ("min_classes", "max_classes")]
            ambiguity = by_depth(run, name_of(kind, depth), "ambiguity")[:1]
            rows.append(
                [
                    shape_of(run, depth),
                    told,
                    *(held or [MISSING_TIMES] * 2),
                    number(overlap(run, kind, depth), 2),
                    share(ambiguity[0] if ambiguity else None),
                ]
            )
    heading = ["tree", "method", "fewest classes of a child", "most", "children that hold a class", "root ambiguity"]
    note = "The matrices themselves, columns in the order of the taxonomy, are in the run's own page under Trees."
    return Shown([Table("Partition of the root", heading, rows, note, 2)])


def judge_overlap(found: Found) -> Verdict:
    run = found.runs["main"]
    if not run.csv("trees-sizes"):
        return NOT_MEASURED
    parts = []
    for depth in depths_of(run):
        own, other = overlap(run, "label", depth), overlap(run, "bengio", depth)
        parts.append(
            (own > other, f"{shape_of(run, depth)}: a class is in {own:.2f} children, in Bengio's in {other:.2f}")
        )
    return every(parts)


FIGURE_1 = (
    Claim(
        "our partition is noisier, a result of overlapping partitions",
        "section 5",
        "a class is in more children of the root than in Bengio's",
        judge_overlap,
    ),
    Claim("both partitions have the same average ambiguity", "section 5", "within one point", judge_root),
    Claim(
        "there is visible alignment of the WordNet ordering",
        "section 5",
        "",
        unknown("it is judged by the eye, on the matrices of the run's own page"),
    ),
)


def show_figure_2(found: Found) -> Shown:
    run = found.runs["main"]
    deepest = name_of("label", max(depths_of(run), default=DEPTHS[0]))
    lines = [line for line in run.csv("trees-paths") if line["model"] == deepest]
    rows: list[list[Cell]] = [
        [
            line["row"],
            line["why"],
            f"depth {line['depth']}",
            Number(float(line["classes"]), line["classes"]),
            HELD[line["holds"]],
        ]
        for line in lines
    ]
    heading = ["test row", "why it is shown", "depth", "classes at its node", "its class among them"]
    note = "Names of the classes at each node are in the run's own page, under Ways of test rows down the trees."
    return Shown([Table(f"Ways down {deepest}", heading, rows, note, 3)])


HELD = {"1": "yes", "0": "no", "": "-"}


def judge_shrinks(found: Found) -> Verdict:
    run = found.runs["main"]
    deepest = name_of("label", max(depths_of(run), default=DEPTHS[0]))
    ways: dict[str, list[int]] = {}
    for line in run.csv("trees-paths"):
        if line["model"] == deepest:
            ways.setdefault(line["row"], []).append(int(line["classes"]))
    if not ways:
        return Verdict(UNKNOWN, "the run's page shows no ways")
    return every(
        [(sizes[-1] < sizes[0], f"row {row}: {' to '.join(map(str, sizes))} classes") for row, sizes in ways.items()]
    )


FIGURE_2 = (
    Claim("the set of classes shrinks down the path", OURS, "fewer at the end than at the root", judge_shrinks),
    Claim("the classes along a path are alike in meaning", "section 5", "", unknown("names are judged by the reader")),
)

TREES = (Part("main", "label-trees"),)
NOTHING_NEEDED = ("any",)


def _figure(
    name: str, place: str, shows: str, show: Any, claims: tuple[Claim, ...], needs: tuple[str, ...]
) -> PaperFigure:
    takes = "minutes" if name.endswith("table-1") else "minutes; the run is that of deng-table-1"
    return PaperFigure(f"deng-{name}", PAPER, place, shows, needs, takes, show, claims, TREES, DATA, DIFFERS, 16)


FIGURES = (
    _figure(
        "table-1",
        "Table 1, section 5",
        "accuracy, training cost and test speed-up of label trees and Bengio's",
        show_table_1,
        TABLE_1,
        NOTHING_NEEDED,
    ),
    _figure(
        "table-2",
        "Table 2, section 5",
        "loss and ambiguity of these trees by depth",
        show_table_2,
        TABLE_2,
        NOTHING_NEEDED,
    ),
    _figure(
        "figure-1",
        "Figure 1, section 5",
        "which classes go to which child of the root",
        show_figure_1,
        FIGURE_1,
        ("taxonomy",),
    ),
    _figure(
        "figure-2",
        "Figure 2, section 5",
        "paths of test rows down a label tree",
        show_figure_2,
        FIGURE_2,
        NOTHING_NEEDED,
    ),
)
