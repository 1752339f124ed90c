"""Rows of a node in slices: many at a time where they are codes, whose tables are filled anew for every slice."""

from __future__ import annotations

from collections.abc import Iterator

from tasks.models import slices as plain
from tasks.rows.base import Rows
from tasks.rows.pq import PqCodes

AT_ONCE, CELLS = 16_384, 1 << 21  # rows of codes scored at once, and their scores (8 MB), at most


def slices(rows: Rows, n_outputs: int) -> Iterator[tuple[int, int, Rows]]:
    """(start, stop, rows[start:stop]) over all rows, see `tasks.models.slices`; the scores of a row are the same."""
    if not isinstance(rows, PqCodes):
        yield from plain.slices(rows, n_outputs)
        return
    size = max(plain.slice_rows(n_outputs), min(AT_ONCE, CELLS // max(1, n_outputs)))
    for start in range(0, rows.n_rows, size):
        stop = min(start + size, rows.n_rows)
        yield start, stop, rows.part(start, stop)
