"""Lines for people that fit a terminal: broken at spaces, what goes on indented; files and pipes get whole lines."""

from __future__ import annotations

import os
import shutil
import textwrap
from collections.abc import Iterable

from tasks.errors import one_line

PATHS = ("dataset",)  # fields that hold one
NAME_WIDTH, LEAST = 14, 40  # of the names of fields; no line is broken to less


def fit(line: str, indent: int = 2, width: int | None = None) -> str:
    """A line broken to `width` (None: that of the terminal, if there is one); words are never broken."""
    line = one_line(line)
    width = shutil.get_terminal_size((0, 0)).columns if width is None else width
    if not width or len(line) <= max(width, LEAST):
        return line
    lead = len(line) - len(line.lstrip())
    parts = textwrap.wrap(
        line.lstrip(),
        max(width, LEAST),
        initial_indent=" " * lead,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(parts)


def fields_text(lines: Iterable[tuple[str, str]], width: int | None = None) -> str:
    """A line for each name and value, values one below the other; a path stays whole, also one with spaces."""
    whole = ((one_line(f"{name:<{NAME_WIDTH}}  {value}"), name in PATHS or " " not in value) for name, value in lines)
    return "".join(f"{line if keep else fit(line, NAME_WIDTH + 2, width)}\n" for line, keep in whole)


def plain_terminal() -> bool:
    """Whether the user or the terminal wants no control codes."""
    return bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM", "") in ("dumb", "unknown")
