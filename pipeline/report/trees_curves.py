"""Accuracy against test speed-up over all trees, those that differ in their beam alone joined by a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pipeline.report.colours import INK, MAIN, OTHER
from pipeline.report.csvs import csv_text
from pipeline.report.figures import Scale, canvas, drawing, error_bar, svg_of
from pipeline.report.first import error_of
from pipeline.report.labels import Point, name_points
from pipeline.report.metrics import known
from pipeline.report.numbers import times
from pipeline.report.plot import Plot
from pipeline.report.relaxed_members import apart_from_others
from pipeline.report.summary import RunSummary
from pipeline.report.table import printable
from pipeline.report.trees_tables import kind_of, shape_of, tree_models

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LOOKS = {  # marker and colour of each kind: told apart without colour, too
    "ovr": ("*", INK),
    "label-tree": ("o", MAIN),
    "bengio-tree": ("^", OTHER),
    "kmeans-tree": ("s", MAIN),
    "tree-svm": ("v", OTHER),
}
Spot = tuple[float, float]  # speed-up, accuracy in per cent


def speedup_plot(run: RunSummary) -> Plot | None:
    """Every tree, and one-vs-rest where it is among the models; None for less than two trees, which are points of the
    figure of accuracy against test cost anyway."""
    other = apart_from_others(run)  # whose speed-ups are of kernel values, or of fewer classes
    names = [name for name in run.models if kind_of(run, name) == "ovr" and name not in other] + tree_models(run)
    spots = {name: spot for name in names if (spot := _spot(run, name)) is not None}
    if sum(name in spots for name in tree_models(run)) < 2:
        return None
    lines = [found for line in run.beams if len(found := [name for name in line if name in spots]) > 1]
    errors = {name: error_of(run.models[name]) for name in spots}
    rows = [
        (
            name,
            kind_of(run, name),
            shape_of(run.models[name]),
            known(run.models[name], "beam"),
            x,
            y / 100,
            errors[name],
        )
        for name, (x, y) in spots.items()
    ]
    caption = "Upper right is better. Speed-up: dot products of one-vs-rest over the tree's own, per test row."
    caption += " Bars: one standard error of the accuracy, up and down." * any(errors.values())
    caption += " Lines join one tree with several beams." if lines else ""
    text = csv_text(["model", "kind", "shape", "beam", "speedup", "top1", "standard_error"], rows)
    points = {name: Point(printable(name), *spot, error=100 * (errors[name] or 0.0)) for name, spot in spots.items()}
    svg = _svg({name: kind_of(run, name) for name in spots}, points, lines)
    return Plot("trees-speedup", "Accuracy against speed-up", caption, svg, text)


def _spot(run: RunSummary, name: str) -> Spot | None:
    speedup, top1 = known(run.models[name], "speedup"), known(run.models[name], "top1")
    return None if speedup is None or top1 is None or speedup <= 0 else (speedup, 100 * top1)


def _svg(kinds: Mapping[str, str], points: Mapping[str, Point], lines: Sequence[Sequence[str]]) -> str:
    with drawing():
        figure, axes = canvas(4.4)
        axes.grid(True, axis="both", alpha=0.5)
        for line in lines:
            ordered = sorted((points[name].x, points[name].y) for name in line)
            colour = LOOKS[kinds[line[0]]][1]
            axes.plot([x for x, _ in ordered], [y for _, y in ordered], "-", color=colour, linewidth=1, zorder=2)
        for kind in LOOKS:
            _mark(axes, kind, [point for name, point in points.items() if kinds[name] == kind])
        Scale("speed-up over one-vs-rest", times).apply(axes)
        axes.margins(0.18, 0.18)
        axes.set_ylabel("accuracy, %")
        axes.legend(fontsize=8, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=3)
        figure.tight_layout()
        name_points(axes, list(points.values()))
        return svg_of(figure)


def _mark(axes: Axes, kind: str, points: Sequence[Point]) -> None:
    if points:
        marker, colour = LOOKS[kind]
        size = 11 if marker == "*" else 7
        x, y = [point.x for point in points], [point.y for point in points]
        axes.plot(x, y, marker, color=colour, markersize=size, label=kind)
    for point in points:
        error_bar(axes, point, LOOKS[kind][1])
