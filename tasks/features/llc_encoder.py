"""Locality-constrained linear codes, pooled over a spatial pyramid, as an encoder that a model carries."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from tasks.errors import ParamError
from tasks.features.bow import words_of
from tasks.features.described import as_descriptors, numbers_of
from tasks.features.llc import LlcParams, llc_codes, pool_codes, take_pooled
from tasks.features.words import Words, nearest_words
from tasks.models.errors import ModelFormat
from tasks.rows import Csr, Descriptors
from tasks.rows.base import Array, Rows

DEFINITION = (
    "B = the nearest words of a descriptor x, so many as neighbours, C = (B - 1 x') (B - 1 x')', its code w "
    "solves (C + beta trace(C) 1) w = 1 and is divided by its sum; levels g of the pyramid cut the image into g x"
    " g cells, column (cell, word), cells level by level and row by row, = the largest of 0 and the codes in the "
    "cell; with normalize divided by the Euclidean norm of the row; in float64, stored as float32"
)


@dataclass(frozen=True, eq=False)
class LlcEncoder:
    """Descriptors as the largest weights of words in each cell of a pyramid.

    words  (n_words, d) float32: the vocabulary, in the space of `Descriptors.numbers`
    """

    params: LlcParams
    words: Array
    kind: ClassVar[str] = "llc"

    @classmethod
    def of(cls, params: LlcParams, words: Array) -> Self:
        """Raises ParamError when codes need more words than there are, or rows too many columns."""
        params.columns(len(words))
        return cls(params, words)

    @property
    def n_features(self) -> int:
        """Numbers of a descriptor."""
        return int(self.words.shape[1])

    @property
    def n_columns(self) -> int:
        """Of the encoded rows."""
        return self.params.columns(len(self.words))

    @cached_property
    def vocabulary(self) -> Words:
        return Words.of(self.words)

    def encode(self, rows: Rows) -> Csr:
        """Values above 0, float32; none of an image without descriptors. Raises ColumnMismatch.

        Held beside the rows: words and weights of all descriptors, and the pyramid of one image.
        """
        described = as_descriptors(rows, self.n_features, self.kind)
        nearest, codes = self._codes(described)
        pooled = np.zeros((self.params.n_cells, len(self.words)))
        pyramid = np.array(self.params.pyramid, np.int64)
        indices, values, lengths = [np.empty(0, np.int32)], [np.empty(0, np.float32)], [0]
        for start, stop in zip(described.offsets[:-1], described.offsets[1:], strict=True):
            where = slice(start, stop)
            pool_codes(nearest[where], codes[where], described.places[where], pyramid, pooled)
            room = min(nearest[where].size * pyramid.size, pooled.size)
            columns, numbers = np.empty(room, np.int32), np.empty(room)
            n = take_pooled(pooled.reshape(-1), self.params.normalize, columns, numbers)
            narrow = numbers[:n].astype(np.float32)
            stored = narrow > 0  # not what is 0 in float32
            indices.append(columns[:n][stored])
            values.append(narrow[stored])
            lengths.append(int(np.count_nonzero(stored)))
        indptr = np.cumsum(lengths).astype(np.int64)
        return Csr(np.concatenate(values), np.concatenate(indices), indptr, self.n_columns)

    def _codes(self, described: Descriptors) -> tuple[Array, Array]:
        """The nearest words (n, k) int32 of all descriptors, and their weights (n, k) float64."""
        shape = (described.n_descriptors, self.params.nearest)
        nearest, codes = np.empty(shape, np.int32), np.empty(shape)
        for where, numbers in numbers_of(described):
            nearest[where] = nearest_words(numbers, self.vocabulary, self.params.nearest)
            codes[where] = llc_codes(numbers, self.vocabulary.words, nearest[where], self.params.beta)
        return nearest, codes

    def header(self) -> dict[str, Any]:
        n_words, n_features = (int(n) for n in self.words.shape)
        return {
            "kind": self.kind,
            "n_features": n_features,
            "words": n_words,
            "neighbours": self.params.nearest,
            "beta": self.params.beta,
            "pyramid": list(self.params.pyramid),
            "normalize": self.params.normalize,
            "definition": DEFINITION,
        }

    def tensors(self) -> dict[str, Array]:
        return {"words": self.words}

    @classmethod
    def load(cls, header: dict[str, Any], tensors: dict[str, Array]) -> Self:
        """Raises ModelFormat on settings out of range, and on words that do not fit them."""
        try:
            pyramid = tuple(int(side) for side in header["pyramid"])
            params = LlcParams(int(header["neighbours"]), float(header["beta"]), pyramid, header["normalize"] is True)
            return cls.of(params, words_of(cls.kind, header, tensors))
        except (KeyError, TypeError, ValueError, ParamError) as error:
            raise ModelFormat(f"the settings of an llc encoder cannot be used ({error})") from error
