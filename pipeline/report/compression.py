"""What it costs to train, or to test, on codes of the rows (Harchaoui et al. 2012, Figure 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pipeline.report.csvs import csv_text
from pipeline.report.grids import grouped_bars
from pipeline.report.metrics import Metrics, known
from pipeline.report.numbers import MISSING, count, percent, size
from pipeline.report.plot import Plot
from pipeline.report.summary import RunSummary, SmallTable
from pipeline.report.sweeps import Compression
from pipeline.report.table import printable

HEADING = ("model", "trained, tested on", "accuracy", "lost", "got back", "rank", "parameters", "bytes/row")
NOTE = (
    "Full: trained and tested on the rows as they are; PQ: on their codes; semi-PQ: trained on codes, tested on rows. "
    "Lost: points of accuracy below full; got back: how much of what PQ loses semi-PQ does not. "
    "Bytes/row: of what it is trained on."
)


def compression_plot(run: RunSummary) -> Plot | None:
    """Bars of accuracy for each learner, full, PQ and semi-PQ; None when no learner comes in two of these forms."""
    groups: dict[str, dict[str, float]] = {}
    rows: list[tuple[object, ...]] = []
    for group in run.compressions:
        found = _accuracies(group, run.models)
        if len(found) < 2:
            continue
        groups[_free(printable(group.label), groups)] = {form: 100 * top1 for form, top1 in found.items()}
        rows += [(group.label, group.codes, form, group.names[form], top1) for form, top1 in found.items()]
    if not groups:
        return None
    shown = {(group, form): percent(value / 100) for group, bars in groups.items() for form, value in bars.items()}
    caption = (
        "Full: trained and tested on the rows as they are; PQ: on their codes; semi-PQ: trained on codes, tested on "
        "rows. Longer is better."
    )
    text = csv_text(["learner", "codes", "form", "model", "top1"], rows)
    return Plot("compression", "Full, PQ and semi-PQ", caption, grouped_bars(groups, shown, "accuracy, %"), text)


def _free(label: str, taken: Mapping[str, object]) -> str:
    """A label that no other group has: names may be anything, and shorter when printed."""
    return label if label not in taken else _free(label + "'", taken)


def _accuracies(group: Compression, models: Mapping[str, Metrics]) -> dict[str, float]:
    found = {form: known(models.get(name, {}), "top1") for form, name in group.names.items()}
    return {form: top1 for form, top1 in found.items() if top1 is not None}


def compression_table(
    groups: Sequence[Compression], models: Mapping[str, Metrics], row_bytes: Mapping[str, float]
) -> SmallTable:
    """One line per learner and form; a model without codes stands once for each of the encodings.

    row_bytes  name of rows -> bytes of one of them, where known
    """
    rows = [line for group in groups for line in _lines(group, models, row_bytes)]
    return SmallTable("Trained and tested on codes", HEADING, rows, NOTE)


def _lines(group: Compression, models: Mapping[str, Metrics], row_bytes: Mapping[str, float]) -> list[tuple[str, ...]]:
    accuracy = _accuracies(group, models)
    if len(accuracy) < 2:
        return []
    lines: list[tuple[str, ...]] = []
    for form, top1 in accuracy.items():
        name = group.names[form]
        lost = accuracy["full"] - top1 if form != "full" and "full" in accuracy else None
        back = _got_back(accuracy) if form == "semi-PQ" else None
        nbytes = row_bytes.get(group.rows if form == "full" else group.codes)
        metrics = models[name]
        rank, parameters = known(metrics, "rank"), known(metrics, "model_bytes")
        lines.append(
            (
                name,
                form if form == "full" else f"{form}, {group.codes}",
                percent(top1),
                MISSING if lost is None else f"{100 * lost:.1f}",
                MISSING if back is None else percent(back, 0),
                MISSING if rank is None else count(rank),
                MISSING if parameters is None else size(parameters),
                MISSING if nbytes is None else f"{nbytes:,.0f}",
            )
        )
    return lines


def _got_back(accuracy: Mapping[str, float]) -> float | None:
    """Share of PQ's loss that semi-PQ does not have; None when PQ loses nothing, or a form is missing."""
    if not {"full", "PQ", "semi-PQ"} <= accuracy.keys() or accuracy["full"] <= accuracy["PQ"]:
        return None
    return (accuracy["semi-PQ"] - accuracy["PQ"]) / (accuracy["full"] - accuracy["PQ"])
