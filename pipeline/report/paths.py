"""The regularisation path: accuracy and rank of every pair of lambdas that was solved."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.report.csvs import csv_text
from pipeline.report.figures import Axis, Scale, Series, Whole, line_plot
from pipeline.report.grids import Grid, heat_map
from pipeline.report.numbers import count, in_percent, short
from pipeline.report.plot import Plot, drawn_models, left_out_text
from pipeline.report.summary import RunSummary
from pipeline.report.table import printable

Pair = Mapping[str, Any]  # numbers of one solved pair of lambdas
LAMBDAS = ("lambda1", "lambda2")
SOLVED = ("objective", "gap", "relative_gap", "c1", "c2", "rank", "atoms", "iterations", "evaluations")
KEYS = (*SOLVED, "top1", "top1_error", "log_loss", "log_loss_error", "seconds")


@dataclass(frozen=True, slots=True)
class Measure:
    """What is drawn of a path: the key, its title, the axis of lines, what is drawn of a number, its text in a cell."""

    key: str
    title: str
    axis: Axis
    drawn: Callable[[float], float]
    written: Callable[[float], str]


MEASURES = (
    Measure(
        "top1", "Accuracy", "validation accuracy, %", lambda share: 100 * share, lambda value: in_percent(value / 100)
    ),
    Measure("rank", "Rank", Whole("rank of the weights"), float, count),
)


def path_plots(run: RunSummary) -> Iterator[Plot]:
    """A heat map of every model and measure where both lambdas vary, lines where one does; nothing of a single pair."""
    paths = {name: pairs for name in run.models if (pairs := _pairs(run.details.get(name, {}).get("path", ())))}
    maps = [name for name, pairs in paths.items() if len(_varying(pairs)) == 2]
    drawn = drawn_models(run, maps)
    more = left_out_text(len(drawn), len(maps))
    for place, name in enumerate(drawn, 1):
        for measure in MEASURES:
            if any(_value(pair, measure) is not None for pair in paths[name]):
                yield _map_plot(name, paths[name], measure, place, more)
    for key in LAMBDAS:
        lines = {name: pairs for name, pairs in paths.items() if _varying(pairs) == [key]}
        for measure in MEASURES:
            plot = _line_plot(run, lines, key, measure)
            if plot is not None:
                yield plot


def _pairs(path: Sequence[Pair]) -> list[Pair]:
    return [pair for pair in path if all(_number(pair, key) is not None for key in LAMBDAS)]


def _number(pair: Pair, key: str) -> float | None:
    value = pair.get(key)
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _written(pair: Pair, key: str) -> Any:
    return None if _number(pair, key) is None else pair[key]


def _value(pair: Pair, measure: Measure) -> float | None:
    value = _number(pair, measure.key)
    return None if value is None else measure.drawn(value)


def _at(pair: Pair, key: str) -> float:
    """A lambda, equal to those that differ from it by rounding."""
    return float(f"{pair[key]:.9g}")


def _varying(pairs: Sequence[Pair]) -> list[str]:
    return [key for key in LAMBDAS if len({_at(pair, key) for pair in pairs}) > 1]


def _map_plot(name: str, pairs: Sequence[Pair], measure: Measure, place: int, more: str) -> Plot:
    ticks = {key: sorted({_at(pair, key) for pair in pairs}) for key in LAMBDAS}
    cells = {_cell(pair, ticks): pair for pair in pairs}
    values = {cell: value for cell, pair in cells.items() if (value := _value(pair, measure)) is not None}
    shown = {cell: measure.written(value) for cell, value in values.items()}
    columns, rows = ([short(value) for value in ticks[key]] for key in LAMBDAS)
    chosen = [cell for cell, pair in cells.items() if pair.get("chosen")]
    unit = "Accuracy on the validation rows in per cent" if measure.key == "top1" else measure.title + " of the weights"
    caption = f"{unit} for each pair of weights of the trace norm (lambda1) and the squared Frobenius norm (lambda2)."
    caption += " The framed pair was chosen." * bool(chosen) + more
    svg = heat_map(Grid(columns, rows, *LAMBDAS, values, shown, chosen))
    title = f"{measure.title} over the path of {printable(name)}"
    return Plot(f"path-{measure.title.lower()}-{place}", title, caption, svg, _csv({name: pairs}))


def _cell(pair: Pair, ticks: Mapping[str, Sequence[float]]) -> tuple[int, int]:
    return ticks["lambda1"].index(_at(pair, "lambda1")), ticks["lambda2"].index(_at(pair, "lambda2"))


def _line_plot(run: RunSummary, lines: Mapping[str, Sequence[Pair]], key: str, measure: Measure) -> Plot | None:
    found = {name: _line(name, pairs, key, measure) for name, pairs in lines.items()}
    found = {name: one for name, one in found.items() if one.x}
    if not found:
        return None
    drawn = drawn_models(run, found)
    series = [found[name] for name in drawn]
    axis: Axis = Scale(key, short) if min(x for one in series for x in one.x) > 0 else key
    what = "squared Frobenius norm" if key == "lambda2" else "trace norm"
    caption = f"Over the weight of the {what}, {key}."
    caption += " The star is the pair that was chosen." if any(one.starred for one in series) else ""
    caption += left_out_text(len(drawn), len(found))
    svg = line_plot(series, {}, axis, measure.axis)
    title = f"{measure.title} along the path"
    return Plot(f"path-{measure.title.lower()}-{key}", title, caption, svg, _csv(lines))


def _line(name: str, pairs: Sequence[Pair], key: str, measure: Measure) -> Series:
    by_lambda = {_at(pair, key): pair for pair in pairs if _value(pair, measure) is not None}
    x = sorted(by_lambda)
    y = [value for at in x if (value := _value(by_lambda[at], measure)) is not None]
    starred = [place for place, at in enumerate(x) if by_lambda[at].get("chosen")]
    return Series(printable(name), x, y, (), starred)


def _csv(paths: Mapping[str, Sequence[Pair]]) -> str:
    """All numbers of all pairs, in the order in which they were solved."""
    rows = [
        (name, *(_written(pair, key) for key in (*LAMBDAS, *KEYS)), int(bool(pair.get("chosen"))))
        for name, pairs in paths.items()
        for pair in pairs
    ]
    return csv_text(["model", *LAMBDAS, *KEYS, "chosen"], rows)
