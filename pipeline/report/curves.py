"""Figures of what changes: errors against the swept key of a config, precision against recall of retrievals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from pipeline.report.csvs import csv_text
from pipeline.report.figures import Axis, Scale, Series, Whole, line_plot
from pipeline.report.metrics import known
from pipeline.report.numbers import count
from pipeline.report.plot import Plot
from pipeline.report.summary import RunSummary
from pipeline.report.sweeps import Line
from pipeline.report.table import printable

Measure = tuple[str, str, str, Callable[[float], float]]  # metric, title, unit, from the metric to what is drawn
MEASURES: tuple[Measure, ...] = (
    ("top1", "Flat error", "rows with a wrong class, %", lambda top1: 100 * (1 - top1)),
    ("hier_err", "Hierarchical error", "mean height of the common ancestor", float),
    ("collided", "Collisions", "features that share their bucket, %", lambda share: 100 * share),
    ("lost_features", "Lost features", "features of a class that share it under every hash", float),
)
EXPECTED = "expected_"  # before the name of a metric: what theory says of it
WIDE = 20.0  # the largest value of a key over the smallest, from which on its axis is logarithmic


def sweep_plots(run: RunSummary) -> Iterator[Plot]:
    """One figure per swept key and measure, with all lines over that key; other models as levels."""
    keys = dict.fromkeys(line.key for line in run.lines)
    swept = {name for line in run.lines for names in line.names.values() for name in names}
    for key in keys:
        lines = [line for line in run.lines if line.key == key]
        for measure in MEASURES:
            plot = _sweep_plot(run, key, lines, measure, set(run.models) - swept)
            if plot is not None:
                yield plot


def _sweep_plot(run: RunSummary, key: str, lines: Sequence[Line], measure: Measure, others: set[str]) -> Plot | None:
    metric, title, unit, drawn = measure
    rows: list[tuple[object, ...]] = []
    series: list[Series] = []
    for name in (metric, EXPECTED + metric):
        for line in lines:
            points = {x: _mean(run, names, name, drawn) for x, names in line.names.items()}
            found = {x: point for x, point in points.items() if point is not None}
            if not found:
                continue
            label = line.label if name == metric else f"{line.label}, expected"
            x, y, spread = list(found), [p[0] for p in found.values()], [p[1] for p in found.values()]
            series.append(Series(printable(label), x, y, spread if any(spread) else ()))
            rows += [(label, at, mean, sd, n) for at, (mean, sd, n) in found.items()]
    if not series:
        return None
    levels = {name: point[0] for name in run.models if name in others and (point := _mean(run, [name], metric, drawn))}
    rows += [(name, "", level, 0.0, 1) for name, level in levels.items()]
    values = [x for one in series for x in one.x]
    wide = min(values) > 0 and max(values) / min(values) >= WIDE
    caption = f"Models that differ in {key} alone" + (", means over seeds with their standard deviation" * _many(lines))
    axis: Axis = Scale(key, count) if wide else Whole(key) if all(x == int(x) for x in values) else key
    svg = line_plot(series, {printable(n): v for n, v in levels.items()}, axis, unit)
    text = csv_text(["models", key, metric, "standard_deviation", "n"], rows)
    return Plot(f"{title.lower().replace(' ', '-')}-{key}", f"{title} against {key}", f"{caption}.", svg, text)


def _many(lines: Sequence[Line]) -> bool:
    return any(len(names) > 1 for line in lines for names in line.names.values())


def _mean(
    run: RunSummary, names: Sequence[str], metric: str, drawn: Callable[[float], float]
) -> tuple[float, float, int] | None:
    """Mean, standard deviation (of a sample) and number of what models of one setting have; None when none has any."""
    values = [drawn(value) for name in names if (value := known(run.models[name], metric)) is not None]
    if not values:
        return None
    mean = math.fsum(values) / len(values)
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)) if len(values) > 1 else 0
    return mean, float(spread), len(values)


def retrieval_plot(run: RunSummary) -> Plot | None:
    """Precision against recall, one line for each setting, its seeds averaged at every threshold."""
    rows: list[tuple[object, ...]] = []
    series: list[Series] = []
    for group in run.repeats:
        curves = [run.retrievals[name] for name in group.names if name in run.retrievals]
        if not curves:
            continue
        mean = mean_curve(curves)
        series.append(Series(printable(group.label), mean["recall"], [100 * p for p in mean["precision"]]))
        points = zip(mean["threshold"], mean["precision"], mean["recall"], strict=True)
        rows += [(group.label, int(t), precision, recall, len(curves)) for t, precision, recall in points]
    if not series:
        return None
    caption = (
        "Every distance up to which training rows are retrieved gives one point, all equal distances at once. "
        "Upper right is better."
    )
    text = csv_text(["codes", "threshold", "precision", "recall", "n"], rows)
    svg = line_plot(series, {}, "recall", "precision, %")
    return Plot("precision-recall", "Precision and recall of retrieval", caption, svg, text)


def mean_curve(curves: Sequence[Mapping[str, Sequence[float]]]) -> dict[str, list[float]]:
    """Precision and recall at the thresholds that all curves have, averaged; thresholds that retrieve nothing go."""
    shared = set.intersection(*({int(t) for t in curve["threshold"]} for curve in curves))
    mean: dict[str, list[float]] = {"threshold": [], "precision": [], "recall": []}
    places = [{int(t): i for i, t in enumerate(curve["threshold"])} for curve in curves]
    for threshold in sorted(shared):
        found = [(curve, place[threshold]) for curve, place in zip(curves, places, strict=True)]
        if not all(curve["retrieved"][i] for curve, i in found):
            continue
        mean["threshold"].append(threshold)
        for key in ("precision", "recall"):
            mean[key].append(math.fsum(curve[key][i] for curve, i in found) / len(found))
    return mean
