"""The table of the terminal: colours on a terminal, plain aligned text everywhere else."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Sequence
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pipeline.fields import fit, plain_terminal
from pipeline.last_resort import say_line
from pipeline.outputs import LEAST_NAME, cut_to
from pipeline.report.first import last_lines
from pipeline.report.legend import legend, marked_models
from pipeline.report.numbers import COLUMNS, Column, columns_of
from pipeline.report.summary import RunSummary, SmallTable

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


def named_cells(run: RunSummary) -> list[list[str]]:
    """The same with the mark before the name, all names one below the other."""
    lines = cells(run, shown_columns(run))
    wide = max(cell_len(line[0]) for line in lines)
    return [[f"{mark:<{wide}} {name}", *rest] for mark, name, *rest in lines]


def widths_of(lines: Sequence[Sequence[str]]) -> list[int]:
    return [max(cell_len(line[i]) for line in lines) for i in range(len(lines[0]))]


def parts_that_fit(lines: Sequence[Sequence[str]], width: int | None, gap: int, edge: int) -> list[list[list[str]]]:
    """A table in parts of columns, each of which fits beside the first column into `width` cells (None: one part).

    gap, edge  cells between two columns, and around all of them
    """
    first, *rest = widths_of(lines)
    parts: list[list[int]] = [[0]]
    used = edge + first
    for i, wide in enumerate(rest, 1):
        if width is not None and len(parts[-1]) > 1 and used + gap + wide > width:
            parts.append([0])
            used = edge + first
        parts[-1].append(i)
        used += gap + wide
    return [[[line[i] for i in part] for line in lines] for part in parts]


def cut_lines(lines: Sequence[Sequence[str]], width: int | None, gap: int, edge: int) -> list[list[str]]:
    """Cells of which two fit beside each other into `width` cells: longer ones are cut in the middle."""
    if width is None:
        return [list(line) for line in lines]
    first = min(widths_of(lines)[0], max(LEAST_NAME, (width - gap - edge) // 2))
    rest = max(LEAST_NAME, width - gap - edge - first)
    return [[cut_to(line[0], first), *(cut_to(cell, rest) for cell in line[1:])] for line in lines]


def plain_table(run: RunSummary, width: int | None = None) -> str:
    """Aligned text: names to the left, numbers to the right, no control codes; broken up to fit `width` if given."""
    notes = [line for note in footnotes(run) for line in (_wrapped(note, width) if width else [note])]
    return plain_lines(named_cells(run), width) + "".join(f"{note}\n" for note in notes)


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_on_hyphens=False)


def plain_lines(lines: Sequence[Sequence[str]], width: int | None = None) -> str:
    """Heading, rule and rows; of a table that is broken up, parts one below the other."""
    return "\n".join(_plain_part(part) for part in parts_that_fit(lines, width, 2, 0))


def _plain_part(lines: Sequence[Sequence[str]]) -> str:
    widths = widths_of(lines)

    def pad(text: str, i: int) -> str:
        room = " " * (widths[i] - cell_len(text))
        return room + text if i else text + room

    rows = ["  ".join(pad(text, i) for i, text in enumerate(line)) for line in lines]
    rows.insert(1, "-" * max(cell_len(row) for row in rows))
    return "".join(f"{row.rstrip()}\n" for row in rows)


def footnotes(run: RunSummary) -> list[str]:
    """Below the table: the mark, and the models that are not in it."""
    text = legend(run)
    mark = f"{MARK} " if marked_models(run) else ""
    missing = [f"not trained (left out): {', '.join(map(printable, run.left_out))}"] if run.left_out else []
    return [*([mark + text] if text else []), *missing]


def rich_table(lines: Sequence[Sequence[str]], marked: Sequence[bool] = ()) -> Table:
    """marked: rows that stand out."""
    heading, *rows = lines
    table = Table()
    for i, text in enumerate(heading):
        table.add_column(escape(text), justify="right" if i else "left", no_wrap=i > 0)
    for place, line in enumerate(rows):
        table.add_row(*(escape(text) for text in line), style="bold" if any(marked[place : place + 1]) else None)
    return table


def writable(text: str, encoding: str | None) -> str:
    """Text of which an output with a narrow encoding (ASCII in a bare container) can write every character."""
    return text.encode(encoding or "utf-8", "replace").decode(encoding or "utf-8")


def print_table(run: RunSummary, file: TextIO | None = None) -> None:
    """Print the table to `file` (standard output): rich on a terminal unless NO_COLOR is set, else plain text.

    What does not fit into a terminal is broken up into tables one below the other; files and pipes get whole lines,
    and no name that is cut.
    What is doubtful of the models goes to the standard error, before it; which model to take is the last line.
    """
    out = file or sys.stdout
    out.flush()
    for text in run.findings:
        say_line(f"warning: {text}")
    sys.stderr.flush()
    console = Console(file=out) if out.isatty() else None
    width = console.width if console else None
    if run.models:
        _print_models(run, out, console)
    for place, table in enumerate(run.tables):
        out.write("\n" if place or run.models else "")
        if table.rows:
            _print_small(table, out, console)
        notes = _wrapped(table.note, min(NOTE_WIDTH, width or NOTE_WIDTH))
        out.write(writable("".join(f"{line}\n" for line in notes), out.encoding))
    for line in last_lines(run):
        out.write(writable(f"{fit(printable(line), width=width or 0)}\n", out.encoding))
    out.flush()


def _print_models(run: RunSummary, out: TextIO, console: Console | None) -> None:
    if console is None or plain_terminal():
        out.write(writable(plain_table(run, console.width if console else None), out.encoding))
        return
    console.print(escape(printable(run.name)), style="italic", highlight=False)
    lines, marked = named_cells(run), marked_models(run)
    for part in parts_that_fit(lines, console.width, 3, 4):
        console.print(rich_table(part, [name in marked for name in run.models]))
    for note in footnotes(run):
        console.print(escape(note), style="dim", highlight=False)


def print_small(table: SmallTable) -> None:
    """Print a table to standard output as `print_table` prints those below that of the models."""
    _print_small(table, sys.stdout, Console(file=sys.stdout) if sys.stdout.isatty() else None)
    sys.stdout.flush()


def _print_small(table: SmallTable, out: TextIO, console: Console | None) -> None:
    """As that of the models: in lines or boxes, in parts that fit."""
    lines = [list(table.heading), *([printable(cell) for cell in row] for row in table.rows)]
    if console is None or plain_terminal():
        width = console.width if console else None
        out.write(writable(plain_lines(cut_lines(lines, width, 2, 0), width), out.encoding))
        return
    for part in parts_that_fit(cut_lines(lines, console.width, 3, 4), console.width, 3, 4):
        console.print(rich_table(part))
