"""The singular spectra of weights, one line per model (Harchaoui et al. 2012, Figure 1)."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.report.csvs import csv_text
from pipeline.report.figures import Scale, Series, Whole, line_plot
from pipeline.report.numbers import short
from pipeline.report.plot import Plot, drawn_models, left_out_text
from pipeline.report.summary import RunSummary
from pipeline.report.table import printable

NOTHING = 1e-6  # of the largest value: below are the rounding errors of single precision


def spectrum_plot(run: RunSummary) -> Plot | None:
    """Singular values against their index on a logarithmic axis; values of zero have no place on it."""
    given = {name: run.details.get(name, {}).get("spectrum") or () for name in run.models}
    falling = {name: sorted(values, reverse=True) for name, values in given.items()}
    spectra = {name: values for name, values in falling.items() if above_zero(values)}
    if not spectra:
        return None
    chosen = drawn_models(run, spectra)
    series = [_line(name, spectra[name]) for name in chosen]
    rows = [(name, i, value) for name, values in spectra.items() for i, value in enumerate(values, 1)]
    caption = (
        "Singular values of the weights, the largest first; in brackets how many of them are above zero. Values of "
        "less than a millionth of the largest are zero to the precision of the weights, and are not drawn."
    )
    caption += left_out_text(len(chosen), len(spectra))
    svg = line_plot(series, {}, Whole("index"), Scale("singular value", short))
    return Plot("spectrum", "Singular spectrum", caption, svg, csv_text(["model", "index", "singular_value"], rows))


def above_zero(values: Sequence[float]) -> list[float]:
    """Those of the falling values that are not rounding errors."""
    return [value for value in values if value > NOTHING * values[0]]


def _line(name: str, values: Sequence[float]) -> Series:
    drawn = above_zero(values)
    return Series(f"{printable(name)} ({len(drawn):,} of {len(values):,})", range(1, len(drawn) + 1), drawn)
