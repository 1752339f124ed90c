"""How a solver came down: objective and duality gap of every iteration."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipeline.report.csvs import csv_text
from pipeline.report.figures import Axis, Scale, Series, Whole, line_plot
from pipeline.report.numbers import short
from pipeline.report.plot import Plot, drawn_models, left_out_text
from pipeline.report.summary import RunSummary
from pipeline.report.table import printable

Iteration = Mapping[str, Any]
KEYS = ("pair", "iteration", "objective", "gap", "rank", "atoms", "step")
MOST_POINTS = 400  # of a line; more cannot be told apart


def descent_plots(run: RunSummary) -> Iterator[Plot]:
    """Objective, and duality gap on a logarithmic axis, over the iterations of all pairs of lambdas in turn."""
    histories = {name: run.details[name]["history"] for name in run.models if run.details.get(name, {}).get("history")}
    drawn = drawn_models(run, histories)
    rows = [(name, *(one.get(key) for key in KEYS)) for name, history in histories.items() for one in history]
    text = csv_text(["model", *KEYS], rows)
    for key, title, axis in (
        ("objective", "Objective by iteration", "objective"),
        ("gap", "Duality gap by iteration", Scale("duality gap", short)),
    ):
        series = [one for name in drawn if (one := _line(run, name, key)).x]
        if not series:
            continue
        caption = _caption(key, histories, series) + left_out_text(len(drawn), len(histories))
        place: Axis = axis  # of a tuple of both kinds
        yield Plot(f"{key}-iterations", title, caption, line_plot(series, {}, Whole("iteration"), place), text)


def _caption(key: str, histories: Mapping[str, Sequence[Iteration]], series: Sequence[Series]) -> str:
    text = "Lower is better: no weights have an objective below it by more than the gap." * (key == "gap")
    text += " With a bias it is an estimate on the way, and proved at the end: see Certificates." * (key == "gap")
    text += "What training makes small: loss, trace norm and squared Frobenius norm." * (key == "objective")
    if any(len({one.get("pair") for one in history}) > 1 for history in histories.values()):
        text += " Iterations of all pairs of lambdas, in the order solved, each starting from the one before."
    text += " The star ends the pair that was chosen." if any(one.starred for one in series) else ""
    return text


def _line(run: RunSummary, name: str, key: str) -> Series:
    history: Sequence[Iteration] = run.details[name]["history"]
    last = {one.get("pair"): place for place, one in enumerate(history)}  # of each pair
    chosen = {pair for pair, one in enumerate(run.details[name].get("path", ()), 1) if one.get("chosen")}
    stride = max(1, math.ceil(len(history) / MOST_POINTS))
    kept = sorted({*range(0, len(history), stride), *last.values()})
    kept = [place for place in kept if _drawable(history[place].get(key), key)]
    ends = {place for pair, place in last.items() if pair in chosen and len(last) > 1}
    starred = [i for i, place in enumerate(kept) if place in ends]
    return Series(printable(name), [place + 1 for place in kept], [history[place][key] for place in kept], (), starred)


def _drawable(value: object, key: str) -> bool:
    number = isinstance(value, int | float) and math.isfinite(value)
    return number and (key != "gap" or float(value) > 0)  # type: ignore[arg-type]
