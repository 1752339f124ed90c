"""Labels that come some at a time: integers, or names by their place in a list of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pipeline.ingest.errors import LabelDtype, LabelOutOfRange
from pipeline.ingest.labels import HINT, Labels, normal
from tasks.rows.base import Array


class LabelParts:
    """Labels of one file as they are read, without a Python object for each."""

    def __init__(self, source: str) -> None:
        self.source = source
        self._integers: list[Array] = []
        self._codes: list[Array] = []
        self._places: dict[str, int] = {}
        self.rows = 0

    def integers(self, values: Array) -> None:
        """Integers of any type; bool and fractions are refused."""
        if values.dtype.kind not in "iu":
            raise LabelDtype(f"labels of type {values.dtype}", self.source, "convert them to integers, or names")
        if values.size and int(values.max()) > np.iinfo(np.int64).max:
            row = self.rows + int(values.argmax())
            raise LabelOutOfRange(f"label {values.max()} names no class", f"{self.source}, row {row}", HINT)
        self._integers.append(values.astype(np.int64))
        self.rows += values.size

    def names(self, codes: Array, names: Sequence[str]) -> None:
        """Rows whose names are names[code], for codes (n,) of integers from 0 (checked by the caller)."""
        used = np.unique(codes, return_index=True)
        seen = np.zeros(len(names), np.int64)
        for code in used[0][np.argsort(used[1])].tolist():  # in order of appearance
            seen[code] = self._places.setdefault(normal(names[code]), len(self._places))
        self._codes.append(seen[codes])
        self.rows += codes.size

    def words(self, words: Sequence[str]) -> None:
        """One name a row."""
        places = {word: place for place, word in enumerate(dict.fromkeys(words))}
        self.names(np.fromiter((places[word] for word in words), np.int64, len(words)), list(places))

    def refuse_null(self, row: int) -> None:
        """Raise LabelOutOfRange for row `row` of those to come."""
        where = f"{self.source}, row {self.rows + row}"
        raise LabelOutOfRange("the label is null", where, "every row has a label; leave the row out")

    def labels(self) -> Labels:
        if self._codes and self._integers:
            raise LabelDtype("some labels are integers, others names", self.source, HINT)
        if self._codes:
            return Labels(self.source, np.concatenate(self._codes), list(self._places))
        return Labels(self.source, np.concatenate([np.empty(0, np.int64), *self._integers]))
