"""Descriptors as encoders of images take them: checked, and a slice at a time."""

from __future__ import annotations

from collections.abc import Iterator

from tasks.models.errors import ColumnMismatch
from tasks.models.slices import check_width
from tasks.rows import Descriptors, Images
from tasks.rows.base import Array, Rows

DESCRIPTORS_AT_ONCE = 4096  # as float32, with what they are made from about 7 MB


def as_descriptors(rows: Rows, n_features: int, kind: str) -> Descriptors:
    """The same rows. Raises ColumnMismatch unless they are descriptors of that many numbers."""
    if isinstance(rows, Images):
        what = f"the {kind} encoder of the model takes descriptors of images, these are images that have none yet"
        raise ColumnMismatch(what, f"rows of body {rows.body}", "put a sift encoding before it")
    if not isinstance(rows, Descriptors):
        what = f"the model takes images, these are rows of {rows.n_features} columns"
        raise ColumnMismatch(what, f"rows of body {rows.body}", "give a folder of images")
    check_width(rows, n_features, f"{kind} encoder of the")
    return rows


def numbers_of(rows: Descriptors, first: int = 0, last: int | None = None) -> Iterator[tuple[slice, Array]]:
    """(where, numbers (n, d) float32) of the descriptors first..last-1, a slice at a time."""
    end = rows.n_descriptors if last is None else last
    for start in range(first, end, DESCRIPTORS_AT_ONCE):
        where = slice(start, min(start + DESCRIPTORS_AT_ONCE, end))
        yield where, rows.numbers(where.start, where.stop)
