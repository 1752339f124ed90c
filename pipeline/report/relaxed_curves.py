"""Accuracy against relative complexity, one line per method (Gao & Koller 2011, Figures 2 to 4)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pipeline.report.colours import INK, MAIN, OTHER
from pipeline.report.csvs import csv_text
from pipeline.report.figures import Scale, canvas, drawing, svg_of
from pipeline.report.labels import Point, name_points, short_name
from pipeline.report.numbers import short
from pipeline.report.plot import Plot
from pipeline.report.relaxed_lines import Method, flat_level, methods_of
from pipeline.report.relaxed_members import (
    FLAT,
    LINEAR,
    SWEPT,
    Member,
    full_size,
    kernels_of,
    supposed,
    supposed_text,
)
from pipeline.report.summary import RunSummary
from pipeline.report.table import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LOOKS: Mapping[str, tuple[str, str, str]] = {  # marker, dashes and colour of a family: told apart without colour, too
    "relaxed-hierarchy": ("o", "-", MAIN),
    "spectral-tree": ("^", "--", OTHER),
    "marszalek": ("s", "-.", OTHER),
    FLAT: ("*", "", INK),
    "ovo": ("D", "", INK),
    "dag-svm": ("v", "", INK),
}
FILLS = ("full", "none", "left", "right")  # of the markers of a family's first line, second line, ...
UNITS = "classifiers evaluated per row, over that of one-vs-rest, which evaluates one a class"
KERNEL_UNITS = (
    "kernel values per row, each support vector of the classifiers evaluated counting once, over that of one-vs-rest"
)
DOTTED = " The dotted line is the accuracy of the best one-vs-rest."


def complexity_plots(run: RunSummary, members: Sequence[Member], wrong_metric: bool) -> list[Plot]:
    """One figure per kernel; of kernels another that counts classifiers, when asked."""
    kernels = kernels_of(members)
    found: list[Plot | None] = []
    for kernel in kernels:
        here = full_size([member for member in members if member.kernel == kernel])
        found.append(_right_plot(run, kernel, here, len(kernels) > 1))
        if wrong_metric and kernel != LINEAR:
            found.append(_wrong_plot(run, kernel, here))
    return [plot for plot in found if plot is not None]


def _right_plot(run: RunSummary, kernel: str, members: Sequence[Member], several: bool) -> Plot | None:
    methods = methods_of(run, members)
    caption = "Upper left is better. Complexity: " + (UNITS if kernel == LINEAR else KERNEL_UNITS)
    caption += f". Accuracy: mean over classes.{_level_text(methods)}{_settings_text(methods)}"
    caption += "".join(f" {text}" for text in [supposed_text(supposed(members))] if text)
    title = "Accuracy against complexity" + f", {kernel}" * (several or kernel != LINEAR)
    name = f"relaxed-accuracy-{slug(kernel)}"
    return _plot(name, title, caption, methods, members, "complexity relative to one-vs-rest")


def _wrong_plot(run: RunSummary, kernel: str, members: Sequence[Member]) -> Plot | None:
    methods = methods_of(run, members, lambda member: member.relative_classifiers)
    caption = (
        "The wrong measure: every classifier counts the same, however many support vectors it has and whether or not "
        f"their kernel values are known already. Compare with the figure before.{_level_text(methods)}"
        f"{_settings_text(methods)}"
    )
    name, title = f"relaxed-classifiers-{slug(kernel)}", f"Accuracy against classifiers, {kernel}"
    return _plot(name, title, caption, methods, members, "classifiers relative to one-vs-rest")


def _plot(
    name: str, title: str, caption: str, methods: Sequence[Method], members: Sequence[Member], x_label: str
) -> Plot | None:
    if all(method.family == FLAT for method in methods):
        return None
    kernel, size = members[0].kernel, members[0].n_classes
    rows = [
        (method.label, method.family, kernel, size, spot.name, spot.x, spot.y / 100, " ".join(spot.models))
        for method in methods
        for spot in method.spots
    ]
    heading = ["method", "family", "kernel", "n_classes", "setting", x_label.replace(" ", "_").replace("-", "_")]
    text = csv_text([*heading, "mean_per_class_top1", "models"], rows)
    return Plot(name, title, caption, _svg(methods, x_label), text)


def _settings_text(methods: Sequence[Method]) -> str:
    shown = dict.fromkeys(SWEPT[method.family] for method in methods if method.family in SWEPT)
    return f" Numbers beside points: {', '.join(shown)}." if shown else ""


def slug(text: str) -> str:
    """For a file's name."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "other"


def _svg(methods: Sequence[Method], x_label: str) -> str:
    with drawing():
        figure, axes = canvas(4.6)
        axes.grid(True, axis="both", alpha=0.5)
        for method, fill in _filled(methods):
            _draw(axes, method, fill)
        level = _level(methods)
        if level is not None:
            axes.axhline(level, color=INK, linewidth=0.8, linestyle=":", zorder=1)
        Scale(x_label, short).apply(axes)
        axes.margins(0.1, 0.12)
        axes.set_ylabel("accuracy per class, %")
        axes.legend(fontsize=8, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2)
        figure.tight_layout()
        points = [Point(spot.name, spot.x, spot.y) for method in methods for spot in method.spots]
        name_points(axes, points, () if level is None else (level,))
        return svg_of(figure)


def _filled(methods: Sequence[Method]) -> Iterator[tuple[Method, str]]:
    """With the fill of its markers: lines of one family differ in it."""
    families = [method.family for method in methods]
    for place, method in enumerate(methods):
        yield method, FILLS[families[:place].count(method.family) % len(FILLS)]


def _draw(axes: Axes, method: Method, fill: str) -> None:
    marker, dashes, colour = LOOKS[method.family]
    x, y = [spot.x for spot in method.spots], [spot.y for spot in method.spots]
    axes.plot(
        x,
        y,
        marker=marker,
        linestyle=dashes or "none",
        color=colour,
        fillstyle=fill,
        markersize=11 if marker == "*" else 7,
        linewidth=1.2,
        label=short_name(printable(method.label), 40),
        zorder=3,
    )


def _level(methods: Sequence[Method]) -> float | None:
    """One-vs-rest's accuracy, which is a line across: who stays above it loses nothing. None where some of the methods
    are of other rows or classes."""
    bases = {method.basis for method in methods}
    return flat_level(methods, bases.pop()) if len(bases) == 1 else None


def _level_text(methods: Sequence[Method]) -> str:
    return "" if _level(methods) is None else DOTTED
