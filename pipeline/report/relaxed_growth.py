"""Complexity against the number of classes, and the power of it that it grows with (Gao & Koller 2011, Figure 5)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.report.csvs import csv_text
from pipeline.report.figures import Scale, Series, line_plot
from pipeline.report.numbers import MISSING, count, percent, plain, short
from pipeline.report.plot import MOST_LINES, Plot
from pipeline.report.relaxed_curves import slug
from pipeline.report.relaxed_members import FLAT, LINEAR, Member, apart, kernels_of, setting_text
from pipeline.report.summary import SmallTable
from pipeline.report.table import printable
from pipeline.report.trees_tables import TreeTable

RELATIVE = "of one-vs-rest"


@dataclass(frozen=True, slots=True)
class Size:
    """Means over the models that have learnt so many classes; None where no model has the number."""

    n_classes: int
    draws: int
    complexity: float
    relative: float | None
    accuracy: float | None


@dataclass(frozen=True, slots=True)
class Growth:
    """A method with one setting on classes of several numbers, ascending."""

    what: str  # family and rows
    setting: str
    family: str
    kernel: str
    sizes: Sequence[Size]
    points: Sequence[tuple[int, float]]  # classes and complexity of every model

    @property
    def label(self) -> str:
        return ", ".join(filter(None, [self.what, self.setting]))

    @property
    def exponent(self) -> float:
        """e of complexity = c K^e: least squares of the logarithms over all models."""
        return slope([(math.log(n), math.log(value)) for n, value in self.points])


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Of the straight line with the least sum of squares; the x of at least two points differ."""
    x_mean = math.fsum(x for x, _ in points) / len(points)
    y_mean = math.fsum(y for _, y in points) / len(points)
    across = math.fsum((x - x_mean) * (y - y_mean) for x, y in points)
    return across / math.fsum((x - x_mean) ** 2 for x, _ in points)


def growths_of(members: Sequence[Member]) -> list[Growth]:
    """Methods and settings that have learnt at least two numbers of classes."""
    groups: dict[tuple[str, str, str, str], list[Member]] = {}
    for member in members:
        if member.complexity is not None and member.complexity > 0:
            groups.setdefault((member.kernel, member.family, member.what, setting_text(member)), []).append(member)
    found = [
        Growth(what, setting, family, kernel, _sizes(part), _points(part))
        for (kernel, family, what, setting), group in groups.items()
        for part in apart(group, lambda one: (one.n_classes, one.draw))
    ]
    return [one for one in found if len(one.sizes) > 1]


def _points(members: Sequence[Member]) -> list[tuple[int, float]]:
    return [(one.n_classes, one.complexity) for one in members if one.complexity is not None]


def _sizes(members: Sequence[Member]) -> list[Size]:
    by_size = {n: [one for one in members if one.n_classes == n] for n in sorted({one.n_classes for one in members})}
    return [
        Size(
            n,
            len(group),
            _mean([one.complexity for one in group]) or 0.0,
            _mean([one.relative for one in group]),
            _mean([one.accuracy for one in group]),
        )
        for n, group in by_size.items()
    ]


def _mean(values: Sequence[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return math.fsum(found) / len(found) if found else None


# ---- figures -------------------------------------------------------------------------------------------------------


def growth_plots(members: Sequence[Member]) -> list[Plot]:
    """Per kernel, complexity itself, relative to one-vs-rest, and the accuracy."""
    growths = growths_of(members)
    found: list[Plot | None] = []
    for kernel in kernels_of(members):
        here = [one for one in growths if one.kernel == kernel]
        if any(one.family != FLAT for one in here):
            found += [_complexity_plot(kernel, here), _relative_plot(kernel, here), _accuracy_plot(kernel, here)]
    return [plot for plot in found if plot is not None]


def _complexity_plot(kernel: str, growths: Sequence[Growth]) -> Plot:
    drawn = growths[:MOST_LINES]
    series = [
        Series(
            printable(f"K^{one.exponent:.2f} {_shortest(one, growths)}"),
            [size.n_classes for size in one.sizes],
            [size.complexity for size in one.sizes],
        )
        for one in drawn
    ]
    if not any(one.family == FLAT for one in growths) and (flat := _flat_series(growths)) is not None:
        series.append(flat)
    what = "classifiers per row" if kernel == LINEAR else "kernel values per row"
    caption = (
        "Means over the samples of classes. K^e: the power of K that fits best, by least squares of the logarithms "
        f"over all models; below 1 it is sublinear.{_settings(drawn)}"
    )
    svg = line_plot(series, {}, Scale("classes (K)", count), Scale(what, count))
    title = "Complexity against classes" + f", {kernel}" * (kernel != LINEAR)
    return Plot(f"relaxed-growth-{slug(kernel)}", title, caption, svg, _csv(growths))


def _shortest(growth: Growth, growths: Sequence[Growth]) -> str:
    """What tells its line from the others."""
    return growth.what if sum(one.what == growth.what for one in growths) == 1 else growth.label


def _settings(growths: Sequence[Growth]) -> str:
    alone = [one.label for one in growths if one.setting and _shortest(one, growths) != one.label]
    return f" Settings: {'; '.join(alone)}." if alone else ""


def _flat_series(growths: Sequence[Growth]) -> Series | None:
    """One-vs-rest as complexity over relative complexity says it is."""
    found = {size.n_classes: size.complexity / size.relative for one in growths for size in one.sizes if size.relative}
    if len(found) < 2:
        return None
    power = slope([(math.log(n), math.log(value)) for n, value in found.items()])
    ordered = sorted(found)
    return Series(f"K^{power:.2f} one-vs-rest", ordered, [found[n] for n in ordered])


def _relative_plot(kernel: str, growths: Sequence[Growth]) -> Plot | None:
    series = [
        Series(
            printable(_shortest(one, growths)),
            [size.n_classes for size in told],
            [size.relative or 0.0 for size in told],
        )
        for one in growths[:MOST_LINES]
        if one.family != FLAT and len(told := [size for size in one.sizes if size.relative is not None]) > 1
    ]
    if not series:
        return None
    caption = "Means over the samples of classes. A line that falls: the more classes, the more is saved."
    svg = line_plot(series, {"one-vs-rest": 1.0}, Scale("classes (K)", count), "complexity relative to one-vs-rest")
    title = "Relative complexity against classes" + f", {kernel}" * (kernel != LINEAR)
    return Plot(f"relaxed-relative-growth-{slug(kernel)}", title, caption, svg, _csv(growths))


def _accuracy_plot(kernel: str, growths: Sequence[Growth]) -> Plot | None:
    """One-vs-rest among the lines, where it has learnt the same classes."""
    series = [
        Series(
            printable(_shortest(one, growths)),
            [size.n_classes for size in told],
            [100 * (size.accuracy or 0.0) for size in told],
        )
        for one in growths[:MOST_LINES]
        if len(told := [size for size in one.sizes if size.accuracy is not None]) > 1
    ]
    if not series:
        return None
    caption = "Means over classes and over the samples of classes: what the complexities above are worth."
    svg = line_plot(series, {}, Scale("classes (K)", count), "accuracy per class, %")
    title = "Accuracy against classes" + f", {kernel}" * (kernel != LINEAR)
    return Plot(f"relaxed-accuracy-growth-{slug(kernel)}", title, caption, svg, _csv(growths))


HEADING = ("method", "kernel", "n_classes", "draws", "complexity", "relative_complexity", "mean_per_class_top1")


def _csv(growths: Sequence[Growth]) -> str:
    rows = [
        (one.label, one.kernel, size.n_classes, size.draws, size.complexity, size.relative, size.accuracy, one.exponent)
        for one in growths
        for size in one.sizes
    ]
    return csv_text([*HEADING, "exponent"], rows)


def growth_table(members: Sequence[Member]) -> TreeTable:
    """The same in numbers, with the accuracy at each number of classes."""
    growths = growths_of(members)
    if all(one.family == FLAT for one in growths):
        growths = []
    rows = [
        (
            one.label if place == 0 else "",
            one.kernel if place == 0 else "",
            f"{size.n_classes:,}",
            f"{size.draws:,}",
            count(size.complexity),
            MISSING if size.relative is None else plain(size.relative),
            MISSING if size.accuracy is None else percent(size.accuracy),
            short(one.exponent) if place == 0 else "",
        )
        for one in growths
        for place, size in enumerate(one.sizes)
    ]
    note = (
        "Means over the samples of classes. Complexity: classifiers per row, of kernels kernel values per row. "
        "Exponent: e of complexity = c K^e, by least squares of the logarithms over all models."
    )
    heading = ("method", "kernel", "classes", "samples", "complexity", RELATIVE, "accuracy", "exponent")
    return TreeTable("relaxed-growth", SmallTable("Complexity against classes", heading, rows, note), _csv(growths), 2)
