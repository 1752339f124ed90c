"""The comparison as people and programs read it: tables, the page of a report, CSV, JSON."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from pipeline.comparing.comparison import Comparison, named
from pipeline.report.csvs import csv_text
from pipeline.report.numbers import MISSING, percent, short
from pipeline.report.page import write_report
from pipeline.report.summary import RunSummary, SmallTable
from pipeline.report.table import cells, shown_columns
from tasks.places import at, write_whole

MOST_CLASSES = 20  # of those on which the models differ most
MANY = 4  # runs from which on a title counts them
MOST_DIFFERENCES = 200  # lines of what differs that are shown; the CSV has all


def figures_of(page: Path) -> Path:
    """The folder of the page's CSV."""
    return page.with_name(f"{page.stem}-figures")


def write_page(page: Path, found: Comparison, typed: Sequence[str]) -> None:
    """The page and its CSV, each whole or not at all, the page last. typed: the command, as it is shown."""
    folder = figures_of(at(page))
    runs = [run.name for run in found.runs]
    texts = {
        "differences": csv_text(["what", *runs], found.differences),
        "row-by-row": csv_text(PAIR_FIELDS, [[one.as_json()[key] for key in PAIR_FIELDS] for one in found.pairs]),
        "classes-compared": csv_text(
            ["id", "name", "rows", *found.best],
            [[line.id, line.name, line.rows, *(right / line.rows for right in line.right)] for line in found.classes],
        ),
    }
    for name, text in texts.items():
        write_whole(folder / f"{name}.csv", text.encode())
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
    tables = [*apart, pair_table(found), class_table(found), difference_table(found)]
    return replace(
        found.summary,
        name=f"Comparison of {title(found)}",
        warnings=found.warnings,
        tables=[table for table in tables if table.rows],
    )


def title(found: Comparison) -> str:
    names = [run.name for run in found.runs]
    return " and ".join(names) if len(names) < MANY else f"{len(names)} runs"


def model_table(run: RunSummary) -> SmallTable:
    """The models of runs that do not compare with those of the main table."""
    (_, *heading), *lines = cells(run, shown_columns(run))
    rows = [(f"{mark} {name}".strip(), *rest) for mark, name, *rest in lines]
    take = run.advice.brief if run.advice is not None else ""
    note = f"Tested on other rows than the models above: compare within this table alone. {take}".strip()
    return SmallTable(f"Models of {run.name}", heading, rows, note)


def pair_table(found: Comparison) -> SmallTable:
    """The best models of the runs, two by two."""
    rows = [
        (
            f"{one.first}, {one.second}",
            f"{one.rows:,}",
            f"{one.both:,}",
            f"{one.only_first:,}",
            f"{one.only_second:,}",
            f"{100 * one.difference:+.1f}",
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
    return SmallTable("Where they differ most", ("class", "test rows", *found.best), rows, note)


def difference_table(found: Comparison) -> SmallTable:
    """What differs between the runs."""
    rows = found.differences[:MOST_DIFFERENCES]
    more = len(found.differences) - len(rows)
    note = f"{more:,} more stand in the CSV beside the page." if more else ""
    note = " ".join(filter(None, ["A dash: the run has no such thing, or does not tell.", note]))
    return SmallTable("What differs between the runs", ("", *(run.name for run in found.runs)), rows, note)


def as_json(found: Comparison) -> dict[str, Any]:
    """Plain values."""
    return {
        "runs": [
            {"name": run.name, "folder": str(run.folder.path), "overrides": list(run.overrides), **dict(run.facts)}
            for run in found.runs
        ],
        "comparable": not found.others,
        "warnings": list(found.warnings),
        "notes": list(found.notes),
        "models": {name: dict(metrics) for name, metrics in found.models.items()},
        "advice": asdict(found.summary.advice) if found.summary.advice is not None else None,
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
