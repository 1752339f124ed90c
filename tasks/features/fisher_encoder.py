"""Fisher vectors as an encoder that a model carries."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add
from typing import Any, ClassVar, Self

import numpy as np

from tasks.errors import ParamError
from tasks.features.described import as_descriptors, numbers_of
from tasks.features.fisher import FisherParams, derivatives, normalized, projected
from tasks.features.mixture import Mixture, MixtureSums, mixture_sums
from tasks.models.errors import ModelFormat
from tasks.rows import Dense, Descriptors
from tasks.rows.base import Array, Rows

DEFINITION = (
    "descriptors (x - mean) @ directions, or x without them; q = posteriors under the mixture; for each component k "
    "sum q (x - m) / s / (T sqrt(w)), all k, then sum q (((x - m) / s)^2 - 1) / (T sqrt(2 w)), all k, T descriptors; "
    "sign(z) |z|^power; with normalize divided by the Euclidean norm of the row; in float64, stored as float32"
)


@dataclass(frozen=True, eq=False)
class FisherEncoder:
    """Descriptors as derivatives of their likelihood under a mixture.

    mixture     of (projected) descriptors: K components in D columns
    mean        (d,) float32, subtracted before `directions`; (0,) where descriptors are not projected
    directions  (d, D) float32 principal components of descriptors; (0, D) where they are not projected
    """

    params: FisherParams
    mixture: Mixture
    mean: Array
    directions: Array
    kind: ClassVar[str] = "fisher"

    @classmethod
    def plain(cls, params: FisherParams, mixture: Mixture) -> Self:
        """Of descriptors that are not projected."""
        return cls(params, mixture, np.empty(0, np.float32), np.empty((0, mixture.means.shape[1]), np.float32))

    @property
    def n_features(self) -> int:
        """Numbers of a descriptor."""
        return int(self.mean.size or self.mixture.means.shape[1])

    @property
    def n_columns(self) -> int:
        """Of the encoded rows."""
        return int(2 * self.mixture.means.size)

    def encode(self, rows: Rows) -> Dense:
        """(n_rows, 2 K D) float32; zeros for an image without descriptors. Raises ColumnMismatch.

        Images are encoded one by one, so a row has the same bits whatever rows it comes with.
        """
        described = as_descriptors(rows, self.n_features, self.kind)
        out = np.zeros((described.n_rows, self.n_columns), np.float32)
        for i in range(described.n_rows):
            first, last = int(described.offsets[i]), int(described.offsets[i + 1])
            if last > first:
                found = derivatives(self._sums(described, first, last), self.mixture)
                out[i] = normalized(found, self.params)
        return Dense(out)

    def _sums(self, described: Descriptors, first: int, last: int) -> MixtureSums:
        parts = (mixture_sums(self.projected(part), self.mixture) for _, part in numbers_of(described, first, last))
        found: MixtureSums = reduce(add, parts)
        return found

    def projected(self, numbers: Array) -> Array:
        """Descriptors (n, d) float32 as the mixture takes them, (n, D)."""
        return projected(numbers, *self._widened) if self.mean.size else numbers

    @cached_property
    def _widened(self) -> tuple[Array, Array]:
        return self.mean.astype(np.float64), self.directions.astype(np.float64)

    def header(self) -> dict[str, Any]:
        n_components, width = (int(n) for n in self.mixture.means.shape)
        return {
            "kind": self.kind,
            "n_features": self.n_features,
            "gaussians": n_components,
            "components": width,
            "projected": bool(self.mean.size),
            "power": self.params.power,
            "normalize": self.params.normalize,
            "definition": DEFINITION,
        }

    def tensors(self) -> dict[str, Array]:
        mixture = {name: getattr(self.mixture, name) for name in ("weights", "means", "variances")}
        return mixture | ({"mean": self.mean, "directions": self.directions} if self.mean.size else {})

    @classmethod
    def load(cls, header: dict[str, Any], tensors: dict[str, Array]) -> Self:
        """Raises ModelFormat on settings out of range, and on a mixture or projection that does not fit them."""
        try:
            params = FisherParams(float(header["power"]), header["normalize"] is True)
            n_features, shape = int(header["n_features"]), (int(header["gaussians"]), int(header["components"]))
            mixture = Mixture(*(tensors[name] for name in ("weights", "means", "variances")))
            plain = header["projected"] is not True
            parts = () if plain else (tensors["mean"], tensors["directions"])
            encoder = cls.plain(params, mixture) if plain else cls(params, mixture, *parts)
        except (KeyError, TypeError, ValueError, IndexError, ParamError) as error:
            raise ModelFormat(f"the settings of a fisher encoder cannot be used ({error})") from error
        _check_mixture(mixture, shape)
        expected = {"mean": (n_features,), "directions": (n_features, shape[1])}
        found = {name: getattr(encoder, name) for name in expected}
        fits = all(found[name].shape == expected[name] and found[name].dtype == np.float32 for name in expected)
        if not (n_features == shape[1] if plain else fits and all(np.isfinite(v).all() for v in found.values())):
            raise ModelFormat("the fisher encoder's mean and directions do not have the shape its header names")
        return encoder


def _check_mixture(mixture: Mixture, shape: tuple[int, int]) -> None:
    """Raises ModelFormat unless it is one of that many components and columns."""
    parts = (mixture.weights, mixture.means, mixture.variances)
    fits = (parts[0].shape, parts[1].shape, parts[2].shape) == (shape[:1], shape, shape)
    if not fits or not all(part.size and part.dtype == np.float64 and np.isfinite(part).all() for part in parts):
        raise ModelFormat("the fisher encoder's mixture does not have the shape its header names")
    if not (parts[0] > 0).all() or not (parts[2] > 0).all():
        raise ModelFormat("the fisher encoder's mixture has weights or variances that are not above 0")
