"""Images as rows: the bytes of their files, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np

from tasks.rows.base import Array
from tasks.rows.unscored import UnscoredRows, places_of


class Images(UnscoredRows):
    """Image files, as they are on disk: nothing is lost, and they are decoded where they are described.

    data (n_bytes,) uint8; offsets (n_rows + 1,) int64: image i is data[offsets[i]:offsets[i + 1]]
    """

    body: ClassVar[str] = "images"

    def __init__(self, data: Array, offsets: Array) -> None:
        self.data, self.offsets = data, offsets
        self.shape = (offsets.size - 1, 0)

    @classmethod
    def of_files(cls, files: Sequence[bytes]) -> Self:
        """Of the contents of some files."""
        offsets = np.cumsum([0, *(len(file) for file in files)]).astype(np.int64)
        return cls(np.frombuffer(b"".join(files), np.uint8), offsets)

    @property
    def nbytes(self) -> int:
        return int(self.data.nbytes + self.offsets.nbytes)

    def file(self, i: int) -> Array:
        """The bytes (n,) uint8 of image i."""
        found: Array = self.data[self.offsets[i] : self.offsets[i + 1]]
        return found

    def take(self, index: Array) -> Images:
        places, offsets = places_of(self.offsets, index)
        return Images(self.data[places], offsets)

    def part(self, start: int, stop: int) -> Images:
        first, last = self.offsets[start], self.offsets[stop]
        return Images(self.data[first:last], self.offsets[start : stop + 1] - first)
