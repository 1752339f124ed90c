"""Normalisation as an encoder that a model carries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from tasks.errors import ParamError
from tasks.features.column_moments import ColumnMoments
from tasks.features.normalize import (
    L2,
    POWER,
    STANDARD,
    NormalizeParams,
    divide_by_norms,
    raise_to_power,
    standardize,
    standardize_rows,
)
from tasks.models.errors import ModelFormat
from tasks.models.slices import check_width
from tasks.rows import Csr, Dense
from tasks.rows.base import Array, Rows

SLICE_BYTES = 2**25  # float32 rows decoded or widened at a time
DEFINITIONS = {
    "l2": "x / sqrt(sum of the squares of the row), rows of zeros stay zeros",
    "l1": "x / sum of the magnitudes of the row, rows of zeros stay zeros",
    "power": "sign(x) |x|^exponent",
    STANDARD: "(x - mean) / deviation of the column, 0 where deviation is 0",
    "scaled": "x / deviation of the column, 0 where deviation is 0",
}
PRECISION = ", in float64, stored as float32"


@dataclass(frozen=True, eq=False)
class NormalizeEncoder:
    """The parameters and, of "standard", what was fitted to the training rows.

    mean, deviation  (n_features,) float64, or () for the norms that learn nothing
    centred          whether the mean is subtracted; rows that were sparse in training are only scaled, whatever the
                     body of those that come later
    """

    params: NormalizeParams
    n_features: int
    mean: Array
    deviation: Array
    centred: bool = False
    kind: ClassVar[str] = "normalize"

    @classmethod
    def plain(cls, params: NormalizeParams, n_features: int) -> Self:
        """Of a norm that learns nothing."""
        return cls(params, n_features, np.zeros(0), np.zeros(0))

    @classmethod
    def fitted(cls, params: NormalizeParams, found: ColumnMoments, centred: bool) -> Self:
        """Of "standard", from the moments of the training rows."""
        return cls(params, found.means.size, found.means, found.deviations, centred)

    def encode(self, rows: Rows) -> Dense | Csr:
        """Sparse rows of sparse ones, unless they are centred; dense rows of all others, decoded in slices. float32.

        Raises ColumnMismatch.
        """
        check_width(rows, self.n_features, "normalize encoder of the")
        plain = rows.decoded() if rows.body == "onehot" else rows
        if isinstance(plain, Csr) and not self.centred:
            return self._sparse(plain)
        return self._dense(rows)

    def _dense(self, rows: Rows) -> Dense:
        out = np.empty(rows.shape, np.float32)
        size = max(1, SLICE_BYTES // (4 * max(1, self.n_features)))
        for start in range(0, rows.n_rows, size):
            where = slice(start, min(start + size, rows.n_rows))
            values = rows.part(where.start, where.stop).to_array()
            if self.params.norm == STANDARD:
                standardize_rows(values, self._centre, self.deviation, out[where])
            else:
                starts = np.arange(len(values) + 1, dtype=np.int64) * self.n_features
                self._by_row(values.reshape(-1), starts, out[where].reshape(-1))
        return Dense(out)

    def _sparse(self, rows: Csr) -> Csr:
        out = np.empty(rows.data.size, np.float32)
        if self.params.norm == STANDARD:
            standardize(rows.data, rows.indices, self._centre, self.deviation, out)
        else:
            self._by_row(rows.data, np.asarray(rows.indptr, np.int64), out)
        return Csr(out, rows.indices.astype(np.int32, copy=False), rows.indptr, rows.n_features)

    @property
    def _centre(self) -> Array:
        return self.mean if self.centred else np.zeros_like(self.mean)

    def _by_row(self, values: Array, indptr: Array, out: Array) -> None:
        if self.params.norm == POWER:
            raise_to_power(values, self.params.exponent, out)
        else:
            divide_by_norms(values, indptr, self.params.norm == L2, out)

    def header(self) -> dict[str, Any]:
        norm = self.params.norm
        word = "scaled" if norm == STANDARD and not self.centred else norm
        return {
            "kind": self.kind,
            "n_features": self.n_features,
            "norm": norm,
            **({"exponent": self.params.exponent} if norm == POWER else {}),
            **({"centred": self.centred} if norm == STANDARD else {}),
            "definition": DEFINITIONS[word] + PRECISION,
        }

    def tensors(self) -> dict[str, Array]:
        return {"mean": self.mean, "deviation": self.deviation} if self.params.norm == STANDARD else {}

    @classmethod
    def load(cls, header: dict[str, Any], tensors: dict[str, Array]) -> Self:
        """Raises ModelFormat on settings out of range and on fitted values that do not fit them."""
        try:
            params = NormalizeParams(header["norm"], float(header.get("exponent", 0.5)))
            n_features, centred = int(header["n_features"]), header.get("centred", False)
            if params.norm != STANDARD:
                return cls.plain(params, n_features)
            mean, deviation = tensors["mean"], tensors["deviation"]
        except (KeyError, TypeError, ValueError, ParamError) as error:
            raise ModelFormat(f"the settings of a normalize encoder cannot be used ({error})") from error
        fits = mean.shape == deviation.shape == (n_features,) and {mean.dtype, deviation.dtype} == {
            np.dtype(np.float64)
        }
        if not fits or not isinstance(centred, bool) or not (deviation >= 0).all():
            raise ModelFormat("the normalize encoder's mean and deviation are not those of as many features")
        return cls(params, n_features, mean, deviation, centred)
