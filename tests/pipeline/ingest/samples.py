"""Twelve rows to spoil in all ways, files made of them, and what a dataset holds in the end."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, settings

from pipeline.dataset import Dataset
from tasks import io

X = np.random.default_rng(0).standard_normal((12, 3)).astype(np.float32)
Y = np.arange(12) % 3

quick = settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])


def save(name: str, array, **options) -> str:
    np.save(name, array, **options)
    return name


def text(name: str, content: str) -> str:
    Path(name).write_text(content, encoding="utf-8")
    return name


def with_values(**places) -> np.ndarray:
    """X with nan=, inf= or minus= (infinity) at (row, column)."""
    matrix = X.copy()
    for value, (row, column) in places.items():
        matrix[row, column] = {"nan": np.nan, "inf": np.inf, "minus": -np.inf}[value]
    return matrix


def at(row: int, value, rest=0):
    """Twelve labels: `value` in one row, and in the others `rest`, or 0 1 2 in turn."""
    return [value if i == row else (i % 3 if rest == 0 else rest) for i in range(12)]


class Trap:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def stored(dataset: Dataset):
    """Everything that a dataset holds: X, y, split, row_id, as it stands in the blocks."""
    blocks = dataset.blocks()
    rows = np.vstack([io.read_rows(block).to_array() for block in blocks])
    return rows, *(io.read_column(dataset.path, name) for name in ("y", "split", "row_id"))


def notes(dataset: Dataset) -> dict[str, str]:
    return {note.code: note.text for note in dataset.notes}
