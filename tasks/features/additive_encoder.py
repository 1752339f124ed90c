"""The feature map of an additive kernel as an encoder that a model carries."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from tasks.errors import ParamError
from tasks.features.additive_map import CHI2, INTERSECTION, MapParams, check_columns, map_values
from tasks.features.errors import NegativeFeature
from tasks.models.errors import ModelFormat
from tasks.models.slices import check_width
from tasks.rows import Csr, Dense
from tasks.rows.base import Array, Rows

SLICE_BYTES = 2**25  # float32 rows decoded or widened at a time
OF_KERNEL = {CHI2: "2 x y / (x + y)", INTERSECTION: "min(x, y)"}
DEFINITION = (
    "column c of the rows, x >= 0, becomes columns (2 samples + 1) c ...: sqrt(x) times amplitudes[0], then for j = 1 "
    "... samples amplitudes[j] cos(j L log x) and amplitudes[j] sin(j L log x), L = 2 pi / period, in float64, stored "
    "as float32; inner products of rows come close to the sum over columns of "
)


@dataclass(frozen=True, eq=False)
class AdditiveEncoder:
    """2n + 1 columns for each; the amplitudes (n + 1,) float64 are kept, so that no machine computes others."""

    params: MapParams
    n_features: int
    amplitudes: Array

    @classmethod
    def of(cls, params: MapParams, n_features: int) -> Self:
        """Raises ParamError when mapped rows would have too many columns."""
        check_columns(params, n_features)
        return cls(replace(params, period=params.known_period), n_features, params.amplitudes)

    @property
    def kind(self) -> str:
        return self.params.kernel

    def encode(self, rows: Rows) -> Dense | Csr:
        """Sparse rows of sparse ones, dense rows of all others, which are decoded in slices; values as float32.

        Raises ColumnMismatch, and NegativeFeature with the place among these rows.
        """
        check_width(rows, self.n_features, f"{self.kind} encoder of the")
        plain = rows.decoded() if rows.body == "onehot" else rows
        return self._sparse(plain) if isinstance(plain, Csr) else self._dense(plain)

    def _dense(self, rows: Rows) -> Dense:
        width, n_features = self.params.width, self.n_features
        out = np.empty((rows.n_rows, width * n_features), np.float32)
        size = max(1, SLICE_BYTES // (4 * max(1, n_features)))
        for start in range(0, rows.n_rows, size):
            stop = min(start + size, rows.n_rows)
            values = rows.part(start, stop).to_array().reshape(-1)
            place = map_values(values, self.amplitudes, self.params.step, out[start:stop].reshape(-1, width))
            if place >= 0:
                raise NegativeFeature.at(
                    start + place // n_features, place % n_features, float(values[place]), self.kind
                )
        return Dense(out)

    def _sparse(self, rows: Csr) -> Csr:
        width = self.params.width
        values = rows.data.astype(np.float32, copy=False)
        out = np.empty((values.size, width), np.float32)
        place = map_values(values, self.amplitudes, self.params.step, out)
        if place >= 0:
            row = int(np.searchsorted(rows.indptr, place, side="right")) - 1
            raise NegativeFeature.at(row, int(rows.indices[place]), float(values[place]), self.kind)
        first = rows.indices.astype(np.int32, copy=False) * np.int32(width)
        indices = np.add.outer(first, np.arange(width, dtype=np.int32)).reshape(-1)
        return Csr(out.reshape(-1), indices, rows.indptr * width, width * self.n_features)

    def header(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "n_features": self.n_features,
            "samples": self.params.samples,
            "period": self.params.known_period,
            "definition": DEFINITION + OF_KERNEL[self.kind],
        }

    def tensors(self) -> dict[str, Array]:
        return {"amplitudes": self.amplitudes}

    @classmethod
    def load(cls, header: dict[str, Any], tensors: dict[str, Array]) -> Self:
        """Raises ModelFormat on settings out of range and on amplitudes that do not fit them."""
        try:
            params = MapParams(header["kind"], int(header["samples"]), float(header["period"]))
            n_features, amplitudes = int(header["n_features"]), tensors["amplitudes"]
            check_columns(params, n_features)
        except (KeyError, TypeError, ValueError, ParamError) as error:
            raise ModelFormat(f"the settings of a chi2-map or hi-map encoder cannot be used ({error})") from error
        if amplitudes.shape != (params.samples + 1,) or amplitudes.dtype != np.float64:
            raise ModelFormat(f"the {params.kernel} encoder's amplitudes are not those of {params.samples} samples")
        return cls(params, n_features, amplitudes)
