"""The encoder of principal components that a model carries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from tasks.features.pca import Components
from tasks.models.errors import ModelFormat
from tasks.models.slices import check_width
from tasks.rows import Csr, Dense, OneHot
from tasks.rows.base import Array, Rows

SLICE_BYTES = 2**25  # centred float32 rows held at a time
FEATURES_AT_ONCE = 4096  # rows of the components widened to float64 at a time
DEFINITION = "(row - mean) @ components, float32"


@dataclass(frozen=True, eq=False)
class PcaEncoder:
    """Centred rows times the components.

    mean        (n_features,) float32
    components  (n_features, n_components) float32; of whitened components scaled
    whiten      whether they are
    """

    mean: Array
    components: Array
    whiten: bool = False
    kind: ClassVar[str] = "pca"

    @classmethod
    def of(cls, found: Components, whiten: bool) -> Self:
        return cls(found.mean.astype(np.float32), found.projection(whiten), whiten)

    @property
    def n_features(self) -> int:
        """Of the rows that it encodes."""
        return int(self.components.shape[0])

    def encode(self, rows: Rows) -> Rows:
        """Dense float32 (n_rows, n_components) of rows in any body; sparse rows stay sparse. Raises ColumnMismatch."""
        n_features, n_components = self.components.shape
        check_width(rows, n_features, "pca encoder of the")
        if isinstance(rows, Csr | OneHot):
            encoded = rows.scores(self.components)
            encoded -= self._offset()
            return Dense(encoded)
        out = np.empty((rows.n_rows, n_components), np.float32)
        size = max(1, SLICE_BYTES // (4 * max(1, n_features)))
        for start in range(0, rows.n_rows, size):
            stop = min(start + size, rows.n_rows)
            np.matmul(rows.part(start, stop).to_array() - self.mean, self.components, out=out[start:stop])
        return Dense(out)

    def _offset(self) -> Array:
        """What the mean is encoded to before it is subtracted, (n_components,) float32, added up in float64."""
        offset = np.zeros(self.components.shape[1])
        for start in range(0, self.mean.size, FEATURES_AT_ONCE):
            where = slice(start, start + FEATURES_AT_ONCE)
            offset += self.mean[where].astype(np.float64) @ self.components[where].astype(np.float64)
        return offset.astype(np.float32)

    def header(self) -> dict[str, Any]:
        n_features, n_components = (int(n) for n in self.components.shape)
        return {
            "kind": self.kind,
            "n_features": n_features,
            "components": n_components,
            "whiten": bool(self.whiten),
            "definition": DEFINITION,
        }

    def tensors(self) -> dict[str, Array]:
        return {"mean": self.mean, "components": self.components}

    @classmethod
    def load(cls, header: dict[str, Any], tensors: dict[str, Array]) -> Self:
        """Raises ModelFormat."""
        mean, components = tensors.get("mean"), tensors.get("components")
        shape = (header.get("n_features"), header.get("components"))
        fits = mean is not None and components is not None and (*mean.shape, shape[1]) == shape == components.shape
        if not fits or mean is None or components is None or {mean.dtype, components.dtype} != {np.dtype(np.float32)}:
            raise ModelFormat("the pca encoder's mean and components do not have the shape its header names")
        return cls(mean, components, header.get("whiten") is True)
