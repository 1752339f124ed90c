"""Encoders carried by a model: they turn raw rows into what the model is tested on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from tasks.models.errors import ModelFormat
from tasks.models.slices import check_width, slices
from tasks.quantize.pq import encode
from tasks.rows import PqCodes
from tasks.rows.base import Array, Rows


class Encoder(Protocol):
    """Rows made from rows; saved with a model as `encoders` of model.json and tensors `encoder.<place>.<name>`."""

    @property
    def kind(self) -> str: ...

    @property
    def n_features(self) -> int:
        """Columns of the rows that it encodes."""
        ...

    def encode(self, rows: Rows) -> Rows: ...

    def header(self) -> dict[str, Any]: ...

    def tensors(self) -> dict[str, Array]: ...

    @classmethod
    def load(cls, header: dict[str, Any], tensors: dict[str, Array]) -> Self: ...


def encode_all(rows: Rows, encoders: Iterable[Encoder]) -> Rows:
    """Rows through a chain of encoders, first to last. Raises ColumnMismatch."""
    for encoder in encoders:
        rows = encoder.encode(rows)
    return rows


@dataclass(frozen=True, eq=False)
class PqEncoder:
    """Product quantisation: the nearest centroid of each sub-vector.

    codebooks  (n_subquantizers, n_centroids, width) float32
    """

    codebooks: Array
    kind: ClassVar[str] = "pq"

    @property
    def n_features(self) -> int:
        return int(self.codebooks.shape[0] * self.codebooks.shape[2])

    def encode(self, rows: Rows) -> Rows:
        """Codes of rows; of rows that are codes, those of what they stand for: these very codes, of the same codebooks.

        Raises ColumnMismatch.
        """
        n_subquantizers, _, width = self.codebooks.shape
        if isinstance(rows, PqCodes) and np.array_equal(rows.codebooks, self.codebooks):
            return rows
        check_width(rows, n_subquantizers * width, "pq encoder of the")
        codes = np.empty((rows.n_rows, n_subquantizers), np.uint8)
        for start, stop, part in slices(rows, 1):
            codes[start:stop] = encode(part.to_array(), self.codebooks)
        return PqCodes(codes, self.codebooks)

    def header(self) -> dict[str, Any]:
        n_subquantizers, n_centroids, width = (int(n) for n in self.codebooks.shape)
        definition = (
            "code q of a row = nearest centroid (Euclidean, ties lowest) of columns q * width .. (q + 1) * width - 1"
        )
        return {
            "kind": self.kind,
            "subquantizers": n_subquantizers,
            "centroids": n_centroids,
            "width": width,
            "definition": definition,
        }

    def tensors(self) -> dict[str, Array]:
        return {"codebooks": self.codebooks}

    @classmethod
    def load(cls, header: dict[str, Any], tensors: dict[str, Array]) -> Self:
        books = tensors.get("codebooks")
        shape = tuple(header.get(key) for key in ("subquantizers", "centroids", "width"))
        if books is None or books.shape != shape or not 1 <= books.shape[1] <= 256:
            raise ModelFormat("the pq encoder's codebooks do not have the shape its header names")
        return cls(books)
