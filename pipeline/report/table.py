"""The table of the terminal: colours on a terminal, plain aligned text everywhere else."""

from __future__ import annotations

import os
import re
import sys
import textwrap
from collections.abc import Sequence
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pipeline.outputs import text_table
from pipeline.report.first import last_lines
from pipeline.report.legend import legend, marked_models
from pipeline.report.numbers import COLUMNS, Column, columns_of
from pipeline.report.summary import RunSummary

NOTE_WIDTH = 100
MARK = "*"  # before a model that none other beats
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """Text without control and direction characters: a name cannot move the cursor or turn a line around."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def shown_columns(run: RunSummary) -> tuple[Column, ...]:
    """The columns of the terminal that this run has anything for."""
    return columns_of(run.models.values(), COLUMNS)


def cells(run: RunSummary, columns: Sequence[Column]) -> list[list[str]]:
    """Heading and one line per model: name (marked when none other beats it) and the shared columns."""
    marked = marked_models(run)
    lines = [["", "model", *(column.heading for column in columns)]]
    for name, metrics in run.models.items():
        mark = MARK if name in marked else ""
        lines.append([mark, printable(name), *(column.cell(metrics) for column in columns)])
    return lines


def widths_of(lines: Sequence[Sequence[str]]) -> list[int]:
    return [max(cell_len(line[i]) for line in lines) for i in range(len(lines[0]))]


def parts_that_fit(run: RunSummary, width: int | None, gap: int, edge: int) -> list[Sequence[Column]]:
    """The columns in groups, each of which fits beside the names into `width` cells (None: one group).

    gap, edge  cells between two columns, and around all of them
    """
    columns = shown_columns(run)
    widths = widths_of(cells(run, columns))
    names, rest = edge + widths[0] + gap + widths[1], widths[2:]
    parts: list[list[Column]] = [[]]
    used = names
    for column, wide in zip(columns, rest, strict=True):
        if width is not None and parts[-1] and used + gap + wide > width:
            parts.append([])
            used = names
        parts[-1].append(column)
        used += gap + wide
    return [tuple(part) for part in parts]


def plain_table(run: RunSummary, width: int | None = None) -> str:
    """Aligned text: names to the left, numbers to the right, no control codes; broken up to fit `width` if given."""
    parts = [_plain_part(run, columns) for columns in parts_that_fit(run, width, 2, 0)]
    notes = [line for note in footnotes(run) for line in (textwrap.wrap(note, width) if width else [note])]
    return "\n\n".join(parts) + "\n" + "".join(f"{note}\n" for note in notes)


def _plain_part(run: RunSummary, columns: Sequence[Column]) -> str:
    lines = cells(run, columns)
    widths = widths_of(lines)

    def pad(text: str, i: int) -> str:
        room = " " * (widths[i] - cell_len(text))
        return text + room if i < 2 else room + text

    rows = [" ".join([pad(line[0], 0), "  ".join(pad(text, i) for i, text in enumerate(line) if i)]) for line in lines]
    rows.insert(1, "-" * max(cell_len(row) for row in rows))
    return "\n".join(row.rstrip() for row in rows)


def footnotes(run: RunSummary) -> list[str]:
    """Below the table: the mark, and the models that are not in it."""
    text = legend(run)
    mark = f"{MARK} " if marked_models(run) else ""
    missing = [f"not trained (left out): {', '.join(map(printable, run.left_out))}"] if run.left_out else []
    return [*([mark + text] if text else []), *missing]


def rich_table(run: RunSummary, columns: Sequence[Column]) -> Table:
    heading, *lines = cells(run, columns)
    table = Table()
    for i, text in enumerate(heading):
        table.add_column(escape(text), justify="left" if i < 2 else "right", no_wrap=i != 1)
    for line in lines:
        table.add_row(*(escape(text) for text in line), style="bold" if line[0] else None)
    return table


def writable(text: str, encoding: str | None) -> str:
    """Text of which an output with a narrow encoding (ASCII in a bare container) can write every character."""
    return text.encode(encoding or "utf-8", "replace").decode(encoding or "utf-8")


def print_table(run: RunSummary, file: TextIO | None = None) -> None:
    """Print the table to `file` (standard output): rich on a terminal unless NO_COLOR is set, else plain text.

    What does not fit into a terminal is broken up into tables one below the other; files and pipes get whole lines.
    What is doubtful of the models goes to the standard error, before it; which model to take is the last line.
    """
    out = file or sys.stdout
    out.flush()
    for text in run.findings:
        sys.stderr.write(writable(f"warning: {printable(text)}\n", sys.stderr.encoding))
    sys.stderr.flush()
    if run.models:
        _print_models(run, out)
    for place, table in enumerate(run.tables):
        lines = [list(table.heading), *([printable(cell) for cell in row] for row in table.rows)]
        text = text_table(lines) if table.rows else ""
        out.write(writable(("\n" if place or run.models else "") + text, out.encoding))
        out.write(writable("".join(f"{line}\n" for line in textwrap.wrap(table.note, NOTE_WIDTH)), out.encoding))
    for line in last_lines(run):
        out.write(writable(f"{printable(line)}\n", out.encoding))
    out.flush()


def _print_models(run: RunSummary, out: TextIO) -> None:
    if not out.isatty():
        out.write(writable(plain_table(run), out.encoding))
        return
    console = Console(file=out)
    if plain_terminal():
        out.write(writable(plain_table(run, console.width), out.encoding))
        return
    console.print(escape(printable(run.name)), style="italic", highlight=False)
    for columns in parts_that_fit(run, console.width, 3, 4):
        console.print(rich_table(run, columns))
    for note in footnotes(run):
        console.print(escape(note), style="dim", highlight=False)


def plain_terminal() -> bool:
    """Whether the user or the terminal wants no control codes."""
    return bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM", "") in ("dumb", "unknown")
