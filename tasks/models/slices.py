"""Rows in slices, so that scores are never held for more rows than a bound that depends on the model alone."""

from __future__ import annotations

from collections.abc import Iterator

from tasks.models.errors import ColumnMismatch
from tasks.rows.base import Rows

SLICE_ROWS = 1024  # rows scored at once at most
SLICE_CELLS = 1 << 24  # scores held at once at most (64 MB of float32)


def slice_rows(n_outputs: int) -> int:
    """Rows per slice for a model of n_outputs scores a row; fixed by the model, so results never depend on machines."""
    return max(1, min(SLICE_ROWS, SLICE_CELLS // max(1, n_outputs)))


def slices(rows: Rows, n_outputs: int) -> Iterator[tuple[int, int, Rows]]:
    """(start, stop, rows[start:stop]) over all rows."""
    size = slice_rows(n_outputs)
    for start in range(0, rows.n_rows, size):
        stop = min(start + size, rows.n_rows)
        part = rows if stop - start == rows.n_rows else rows.part(start, stop)
        yield start, stop, part


def check_width(rows: Rows, n_features: int, kind: str) -> None:
    """Raises ColumnMismatch unless the rows are as wide as the model."""
    if rows.n_features != n_features:
        raise ColumnMismatch(
            f"the rows have {rows.n_features} columns, the {kind} model was trained on {n_features}",
            where=f"rows of body {rows.body}",
            hint="give the model the features it was trained on (same encoding, same columns)",
        )
