"""Bags of words as an encoder that a model carries (Csurka et al. 2004; Sivic & Zisserman, ICCV 2003)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from tasks.features.described import as_descriptors, numbers_of
from tasks.features.words import Words, nearest_words
from tasks.models.errors import ModelFormat
from tasks.rows import Csr
from tasks.rows.base import Array, Rows

DEFINITION = (
    "column w of an image = how many of its descriptors have word w as the nearest (Euclidean, in float64, ties lowest)"
)


@dataclass(frozen=True, eq=False)
class BowEncoder:
    """Descriptors as counts of words.

    words  (n_words, d) float32: the vocabulary, in the space of `Descriptors.numbers`
    """

    words: Array
    kind: ClassVar[str] = "bow"

    @property
    def n_features(self) -> int:
        """Numbers of a descriptor."""
        return int(self.words.shape[1])

    @property
    def n_columns(self) -> int:
        """Of the encoded rows."""
        return int(self.words.shape[0])

    @cached_property
    def vocabulary(self) -> Words:
        return Words.of(self.words)

    def encode(self, rows: Rows) -> Csr:
        """Raw counts of each image, float32; none of an image without descriptors. Raises ColumnMismatch."""
        described = as_descriptors(rows, self.n_features, self.kind)
        nearest = np.empty(described.n_descriptors, np.int64)
        for where, numbers in numbers_of(described):
            nearest[where] = nearest_words(numbers, self.vocabulary, 1)[:, 0]
        return word_counts(nearest, described.offsets, self.n_columns)

    def header(self) -> dict[str, Any]:
        n_words, n_features = (int(n) for n in self.words.shape)
        return {"kind": self.kind, "n_features": n_features, "words": n_words, "definition": DEFINITION}

    def tensors(self) -> dict[str, Array]:
        return {"words": self.words}

    @classmethod
    def load(cls, header: dict[str, Any], tensors: dict[str, Array]) -> Self:
        """Raises ModelFormat."""
        return cls(words_of(cls.kind, header, tensors))


def word_counts(nearest: Array, offsets: Array, n_words: int) -> Csr:
    """Counts (n_rows, n_words) float32: nearest (n,) integers in [0, n_words), offsets (n_rows + 1,) int64."""
    n_rows = offsets.size - 1
    owner = np.repeat(np.arange(n_rows, dtype=np.int64), np.diff(offsets))
    places, counts = np.unique(owner * n_words + nearest, return_counts=True)
    starts = np.searchsorted(places, np.arange(n_rows + 1, dtype=np.int64) * n_words)
    return Csr(counts.astype(np.float32), (places % n_words).astype(np.int32), starts.astype(np.int64), n_words)


def words_of(kind: str, header: dict[str, Any], tensors: dict[str, Array]) -> Array:
    """The vocabulary of a saved encoder, (n_words, d) float32. Raises ModelFormat unless it is as the header says."""
    words = tensors.get("words")
    fits = words is not None and words.shape == (header.get("words"), header.get("n_features"))
    if words is None or not fits or words.dtype != np.float32 or not words.size or not np.isfinite(words).all():
        raise ModelFormat(f"the {kind} encoder's words are not float32 numbers of the shape its header names")
    return words
