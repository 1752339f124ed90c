"""The numbers behind the figures as CSV, so that others can draw them again."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

FORMULA = ("=", "+", "-", "@", "\t", "\r", "'")  # the mark itself, too: names stay apart, and taking one off undoes it


def csv_text(heading: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """CSV with \\n line ends; numbers in full, text so that no spreadsheet takes it for a formula."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(heading)
    writer.writerows([[cell(value) for value in row] for row in rows])
    return out.getvalue()


def cell(value: object) -> object:
    if value is None:
        return ""
    if isinstance(value, str) and value.startswith(FORMULA):
        return "'" + value
    return value
