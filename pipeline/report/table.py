"""The table of the terminal: colours on a terminal, plain aligned text everywhere else."""

from __future__ import annotations

import os
import re
import sys
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pipeline.report.numbers import COLUMNS
from pipeline.report.summary import RunSummary, non_dominated

MARK = "*"  # before a model that none other beats
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """Text without control and direction characters: a name cannot move the cursor or turn a line around."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def cells(run: RunSummary) -> list[list[str]]:
    """Heading and one line per model: name (marked when none other beats it) and the shared columns."""
    marked = non_dominated(run.models)
    lines = [["", "model", *(column.heading for column in COLUMNS)]]
    for name, metrics in run.models.items():
        mark = MARK if name in marked else ""
        lines.append([mark, printable(name), *(column.cell(metrics) for column in COLUMNS)])
    return lines


def plain_table(run: RunSummary) -> str:
    """Aligned text: names to the left, numbers to the right, no control codes."""
    lines = cells(run)
    widths = [max(cell_len(line[i]) for line in lines) for i in range(len(lines[0]))]

    def pad(text: str, i: int) -> str:
        room = " " * (widths[i] - cell_len(text))
        return text + room if i < 2 else room + text

    rows = [" ".join([pad(line[0], 0), "  ".join(pad(text, i) for i, text in enumerate(line) if i)]) for line in lines]
    rows.insert(1, "-" * max(cell_len(row) for row in rows))
    return "\n".join([*(row.rstrip() for row in rows), *_footnote(run)]) + "\n"


def _footnote(run: RunSummary) -> list[str]:
    if not run.models:
        return []
    return [f"{MARK} no other model is both more accurate and cheaper; one-vs-rest evaluates {run.n_classes:,} classes"]


def rich_table(run: RunSummary) -> Table:
    heading, *lines = cells(run)
    table = Table(title=escape(printable(run.name)), caption=escape("\n".join(_footnote(run))))
    for i, text in enumerate(heading):
        table.add_column(escape(text), justify="left" if i < 2 else "right", no_wrap=i != 1)
    for line in lines:
        table.add_row(*(escape(text) for text in line), style="bold" if line[0] else None)
    return table


def writable(text: str, encoding: str | None) -> str:
    """Text of which an output with a narrow encoding (ASCII in a bare container) can write every character."""
    return text.encode(encoding or "utf-8", "replace").decode(encoding or "utf-8")


def print_table(run: RunSummary, file: TextIO | None = None) -> None:
    """Print the table to `file` (standard output): rich on a terminal unless NO_COLOR is set, else plain text."""
    out = file or sys.stdout
    if out.isatty() and not os.environ.get("NO_COLOR"):
        Console(file=out).print(rich_table(run))
    else:
        out.write(writable(plain_table(run), out.encoding))
