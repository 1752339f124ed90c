"""What is known of every class of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tasks.rows.base import Array


@dataclass(frozen=True, eq=False)
class ClassFacts:
    """What is known of the classes, by number.

    train_rows  (n_classes,) int64; parents  the name of the taxonomy's node above each class, "" where there is none
    hits, rows  per model (n_classes,) int64: test rows that are right, and that count
    siblings    per model (true, predicted, rows) of the pairs of one parent that are confused most
    """

    train_rows: Array
    test_rows: Array
    parents: Sequence[str] = ()
    hits: Mapping[str, Array] = field(default_factory=dict)
    rows: Mapping[str, Array] = field(default_factory=dict)
    siblings: Mapping[str, Sequence[tuple[int, int, int]]] = field(default_factory=dict)

    def parent(self, number: int) -> str:
        return self.parents[number] if 0 <= number < len(self.parents) else ""
