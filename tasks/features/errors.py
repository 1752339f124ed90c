"""What rows can have that an encoding cannot take, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

from tasks.errors import InputError

HINT = "kernels of histograms take values of 0 or more: correct the source, or learn from other rows"


class NegativeFeature(InputError):
    """A value below 0 where a kernel of histograms takes none."""

    place: tuple[int, int, float, str] | None = None  # row, column, value, what it was given to

    @classmethod
    def at(cls, row: int, column: int, value: float, kind: str) -> Self:
        """With its place, so that `numbered` can say it in other numbers."""
        error = cls(f"{value:g} is below 0: {kind} has no meaning for it", f"row {row}, column {column}", HINT)
        error.place = (row, column, value, kind)
        return error


@contextmanager
def numbered(numbers: Callable[[], Any]) -> Iterator[None]:
    """Within, rows are counted from 0; a NegativeFeature leaves with the number that its row has in the source.

    numbers  gives (n_rows,) integers; only asked when something is wrong
    """
    try:
        yield
    except NegativeFeature as error:
        if error.place is None:
            raise
        row, column, value, kind = error.place
        raise NegativeFeature.at(int(numbers()[row]), column, value, kind) from None
