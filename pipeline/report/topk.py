"""Accuracy against how many classes may be named (Harchaoui et al. 2012, Figure 2)."""

from __future__ import annotations

from pipeline.report.csvs import csv_text
from pipeline.report.figures import Series, Whole, line_plot
from pipeline.report.plot import Plot, drawn_models, left_out_text
from pipeline.report.relaxed_members import models_of_all_classes
from pipeline.report.summary import RunSummary
from pipeline.report.table import printable


def top_k_plot(run: RunSummary) -> Plot | None:
    """Share of the test rows whose class is among the first k, for k from 1 on; None where k is never more than 1."""
    whole = models_of_all_classes(run)
    shares = {name: run.details[name]["top_k"] for name in whole if run.details.get(name, {}).get("top_k")}
    if max(map(len, shares.values()), default=0) < 2:
        return None
    chosen = drawn_models(run, shares)
    series = [
        Series(printable(name), range(1, len(shares[name]) + 1), [100 * share for share in shares[name]])
        for name in chosen
    ]
    rows = [(name, k, share) for name, found in shares.items() for k, share in enumerate(found, 1)]
    caption = "Test rows whose class is among the first k that are named." + left_out_text(len(chosen), len(shares))
    svg = line_plot(series, {}, Whole("k"), "accuracy, %")
    return Plot("top-k", "Accuracy against top-k", caption, svg, csv_text(["model", "k", "accuracy"], rows))
