"""Numbers that a run tells again and again, kept in a bounded number of points."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

MOST_POINTS = 400  # of one series; of a longer one every second, fourth, eighth ... row is kept, and the newest


@dataclass
class Series:
    """Rows of numbers in order of time, by name of column; a value may be None.

    seen  rows told so far, kept or not
    """

    columns: tuple[str, ...]
    rows: list[tuple[float | None, ...]] = field(default_factory=list)
    seen: int = 0
    stride: int = 1

    def add(self, **values: float | None) -> None:
        """One more row."""
        if self.rows and (self.seen - 1) % self.stride:
            self.rows.pop()  # it was kept because it was the newest
        self.rows.append(tuple(values.get(name) for name in self.columns))
        self.seen += 1
        if len(self.rows) > MOST_POINTS:
            newest = [] if len(self.rows) % 2 else self.rows[-1:]
            self.rows, self.stride = [*self.rows[::2], *newest], 2 * self.stride

    def clear(self) -> None:
        """What was told is void: a fit has begun anew."""
        self.rows, self.seen, self.stride = [], 0, 1

    def column(self, name: str) -> list[float | None]:
        place = self.columns.index(name)
        return [row[place] for row in self.rows]

    def last(self, name: str) -> float | None:
        """The newest value of a column, None when there is none."""
        return self.rows[-1][self.columns.index(name)] if self.rows else None

    def as_json(self) -> dict[str, Any]:
        return {"columns": list(self.columns), "rows": [list(row) for row in self.rows], "seen": self.seen}
