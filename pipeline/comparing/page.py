"""The comparison as people and programs read it: tables, the page of a report, CSV, JSON."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from pipeline.comparing.comparison import Comparison, listed, named
from pipeline.ingest.place import scratch_beside
from pipeline.outputs import move_folder_in, move_in
from pipeline.report.advice import Advice, Choice, accuracy_text
from pipeline.report.csvs import csv_text
from pipeline.report.first import test_rows_of
from pipeline.report.metrics import known
from pipeline.report.numbers import MISSING, in_percent, percent, short
from pipeline.report.page import write_report
from pipeline.report.summary import RunSummary, SmallTable
from pipeline.report.table import named_cells
from tasks.places import at, remove_at, write_whole

CLASSES = "Where they differ most"
OTHER_ROWS = "Tested on other rows than the models above: compare within this table alone."
NO_ACCURACY = "Not tested: there is no accuracy to compare."
MOST_CLASSES = 20  # of those on which the models differ most
MANY = 4  # runs from which on a title counts them
MOST_DIFFERENCES = 200  # lines of what differs that are shown; the CSV has all


DIFFERENCES = "differences"  # the CSV that is written first


def figures_of(page: Path) -> Path:
    """The folder of the page's CSV."""
    return page.with_name(f"{page.stem}-figures")


def write_page(page: Path, found: Comparison, typed: Sequence[str], force: bool) -> None:
    """The page and the folder of its CSV, made beside and moved when both are whole, the page last; a page that is
    replaced goes first, so none stands beside numbers of others.

    typed   the command, as it is shown; force: whether a page and a folder that are there are replaced
    raises  DiskFull; OutputExists while another process makes the same page and, should one be faster, at the end
    """
    place = at(page)
    with scratch_beside(place) as scratch:
        made = scratch / place.name
        _write(made, found, typed)
        if force:
            remove_at(place)
        move_folder_in(figures_of(made), figures_of(place), f"{DIFFERENCES}.csv", force)
        move_in(made, place, force)


def _write(page: Path, found: Comparison, typed: Sequence[str]) -> None:
    runs = [run.name for run in found.runs]
    texts = {
        DIFFERENCES: csv_text(["what", *runs], found.differences),
        "row-by-row": csv_text(PAIR_FIELDS, [[one.as_json()[key] for key in PAIR_FIELDS] for one in found.pairs]),
        "classes-compared": csv_text(
            ["id", "name", "rows", *found.best],
            [[line.id, line.name, line.rows, *(right / line.rows for right in line.right)] for line in found.classes],
        ),
    }
    for name, text in texts.items():
        write_whole(figures_of(page) / f"{name}.csv", text.encode())
    facts = {
        run.name: f"dataset {run.data or 'of unknown digest'}, {run.facts.get('test_rows', MISSING)} test rows, "
        f"seed {run.facts.get('seed', MISSING)}"
        for run in found.runs
    }
    command = shlex.join(["labelgrove", "compare", *typed])
    write_report(page, replace(shown(found), dataset=facts, notes=found.notes, commands=[command]))


PAIR_FIELDS = ("first", "second", "both", "only_first", "only_second", "neither", "difference", "p_value")


def shown(found: Comparison) -> RunSummary:
    """The models with the tables below them."""
    apart = [model_table(other) for other in found.others]
    apart += [] if found.untested is None else [model_table(found.untested, NO_ACCURACY)]
    tables = [*apart, pair_table(found), class_table(found), difference_table(found)]
    return replace(
        found.summary,
        name=f"Comparison of {title(found)}",
        foremost=found.warnings,
        choices=choices(found) if found.others else (),
        tables=[table for table in tables if table.rows or table.title == CLASSES],
    )


def choices(found: Comparison) -> list[Choice]:
    """What to take of each group of runs that compare."""
    return [
        _choice(", ".join(names), summary)
        for names, summary in zip(found.groups, (found.summary, *found.others), strict=True)
    ]


def _choice(of: str, summary: RunSummary) -> Choice:
    advice = summary.advice or Advice()
    if advice.lines:
        return Choice(of, advice.brief, tuple(line for line in advice.lines[1:] if line not in advice.brief))
    scored = [(name, top1) for name, metrics in summary.models.items() if (top1 := known(metrics, "top1")) is not None]
    if len(scored) == 1:
        return Choice(of, f"only {scored[0][0]} was tested, {accuracy_text(scored[0][1], test_rows_of(summary))}.")
    return Choice(of, "no two models compare, so none is to be preferred.")


def title(found: Comparison) -> str:
    names = [run.name for run in found.runs]
    return listed(names) if len(names) < MANY else f"{len(names)} runs"


def model_table(run: RunSummary, why: str = "") -> SmallTable:
    """The models of runs that do not compare with those of the main table. why: where it is not that rows differ."""
    heading, *rows = named_cells(run)
    return SmallTable(f"Models of {run.name}", heading, rows, why or OTHER_ROWS)


def pair_table(found: Comparison) -> SmallTable:
    """The best models of the runs, two by two."""
    rows = [
        (
            f"{one.first}, {one.second}",
            f"{one.rows:,}",
            f"{one.both:,}",
            f"{one.only_first:,}",
            f"{one.only_second:,}",
            ("-" if one.difference < 0 else "+") + in_percent(abs(one.difference)),
            short(one.p_value),
        )
        for one in found.pairs
    ]
    heading = ("best models", "test rows", "both right", "only first", "only second", "points", "p")
    note = (
        "Points: accuracy of the first less that of the second. p: of McNemar's exact test, how probable so uneven a "
        "split of the rows that only one has right would be, were both equally good."
    )
    return SmallTable("Row by row", heading, rows, note)


def class_table(found: Comparison) -> SmallTable:
    """The classes on which the best models differ most."""
    chosen = [line for line in found.classes if line.spread][:MOST_CLASSES]
    rows = [(named(line), f"{line.rows:,}", *(percent(right / line.rows) for right in line.right)) for line in chosen]
    note = "Accuracy of the best model of each run, by class; the CSV beside the page has all classes."
    return SmallTable(CLASSES, ("class", "test rows", *found.best), rows, note if rows else _no_classes(found))


def _no_classes(found: Comparison) -> str:
    """Why no class is told."""
    if found.classes:
        return f"Of every class {', '.join(found.best)} have as many rows right."
    if len(found.best) == 1 and len(found.groups[0]) == 1:
        return "Classes are compared where runs have the same test rows: no two of these runs do."
    return "Classes are compared by the predictions of the best model of each run: those of two runs are needed."


def difference_table(found: Comparison) -> SmallTable:
    """What differs between the runs."""
    rows = found.differences[:MOST_DIFFERENCES]
    more = len(found.differences) - len(rows)
    note = f"{more:,} more stand in the CSV beside the page." if more else ""
    note = " ".join(filter(None, ["A dash: the run has no such thing, or does not tell.", note]))
    return SmallTable("What differs between the runs", ("", *(run.name for run in found.runs)), rows, note)


def _advice(summary: RunSummary) -> dict[str, Any] | None:
    return None if summary.advice is None else asdict(summary.advice)


def as_json(found: Comparison) -> dict[str, Any]:
    """Plain values."""
    return {
        "runs": [
            {"name": run.name, "folder": str(run.folder.path), "overrides": list(run.overrides), **dict(run.facts)}
            for run in found.runs
        ],
        "comparable": not found.others and found.untested is None,
        "warnings": list(found.warnings),
        "notes": list(found.notes),
        "models": {name: dict(metrics) for name, metrics in found.models.items()},
        "advice": None if found.others else _advice(found.summary),
        "advice_by_rows": [
            {"runs": list(names), "advice": _advice(summary)}
            for names, summary in zip(found.groups, (found.summary, *found.others), strict=True)
        ],
        "row_by_row": [one.as_json() for one in found.pairs],
        "differences": [{"what": line[0], "values": list(line[1:])} for line in found.differences],
        "classes": [
            {
                "id": line.id,
                "name": line.name,
                "rows": line.rows,
                "right": dict(zip(found.best, line.right, strict=True)),
            }
            for line in found.classes
        ],
    }
