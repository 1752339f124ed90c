"""A quadratic model of the risk over a basis, from a sample of rows: the metric of a proximal Newton step.

The Hessian of R_n over scores Z C is the mean over rows of z z' (x) (diag p - p p') (Boehning 1992, equation 3.3).
Byrd, Chin, Neveitt & Nocedal 2011 ("On the use of stochastic Hessian information") take it over a sample. Here a class
has few rows of a sample that are near its borders, so the sample's is mixed with what it would be if p and z were
independent, mean(z z') (x) mean(diag p - p p'): of full rank, and exact at W = 0.

Coordinates: rows are centred, and the bias is one more, unpenalised row of the core over a constant feature as long as
the longest direction of the rows; centring changes only what the bias is, and uncouples it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tasks.rows.base import Array
from tasks.trace.point import Direction, Point
from tasks.trace.risk import LocalRisk, RiskSums, project
from tasks.trace.softmax import softmax_probabilities, turn_by_curvature

BLEND = 0.5  # share of the sample's own Hessian where the sample is not all rows
FLOOR = 1e-3  # of the mean curvature is added in every direction of the classes: p near 0 and 1 curves in none
POWER_STEPS, MARGIN = 6, 1.15  # power iterations for the largest curvature, from where the last ended; and in excess


@dataclass(frozen=True, eq=False)
class Coordinates:
    """How a core and a bias are one matrix here: core, and below it the bias of centred rows over `length`.

    mean    (rank,) mean of the rows' projections; length: of the constant feature; None for a model without bias
    """

    rank: int
    mean: Array | None = None
    length: float = 1.0

    def gradient(self, sums: RiskSums, core: Array, ridge: float) -> Array:
        """Of R_n + ridge / 2 |core|^2, in these coordinates: (rank, or rank + 1, n_classes)."""
        smooth = sums.gradient + ridge * core
        if self.mean is None:
            return smooth
        return np.vstack([smooth - np.outer(self.mean, sums.bias), self.length * sums.bias])

    def stacked(self, core: Array) -> Array:
        """The core with a bias of 0: only changes of the bias matter to a model."""
        return core if self.mean is None else np.vstack([core, np.zeros((1, core.shape[1]))])

    def direction(self, change: Array) -> Direction:
        """A change in these coordinates as one of core and bias."""
        core = change[: self.rank]
        return Direction(core, None if self.mean is None else self.length * change[self.rank] - self.mean @ core)


class Curvature:
    """The model's Hessian at a point, as a product with matrices in the coordinates.

    strength  the whole is multiplied by it; it grows where the model promised too much
    """

    def __init__(self, sample: LocalRisk, point: Point, mean: Array | None, blend: float, ridge: float) -> None:
        self.sample, self.ridge, self.blend = sample, ridge, blend
        plain = project(sample.rows, point.basis, sample.dtype)
        rank, n = plain.shape[1], max(1, plain.shape[0])
        self.coordinates = Coordinates(rank)
        self.plain = self.features = plain
        if mean is not None:
            centred = plain - mean.astype(plain.dtype)
            longest = float(np.sqrt(_largest(centred.T @ centred / n))) or 1.0
            self.coordinates = Coordinates(rank, mean, longest)
            self.features = np.hstack([centred, np.full((plain.shape[0], 1), longest, plain.dtype)])
        self.spread = np.asarray(self.features.T @ self.features / n, np.float64)
        self.strength, self.top = 1.0, np.zeros((0, 0))
        self.at(point)

    def at(self, point: Point) -> None:
        """Move the model to another point on the same basis."""
        scores = self.plain @ point.core.astype(self.plain.dtype)
        if point.bias is not None:
            scores += point.bias.astype(scores.dtype)
        softmax_probabilities(scores)
        self.probabilities = scores
        n, k = max(1, scores.shape[0]), scores.shape[1]
        mixed = np.diag(scores.mean(axis=0, dtype=np.float64)) - np.asarray(scores.T @ scores, np.float64) / n
        self.classes = mixed + FLOOR * np.trace(mixed) / k * np.eye(k)

    def __call__(self, change: Array) -> Array:
        """Hessian times change (rank or rank + 1, n_classes) float64."""
        kept = 1.0 - self.blend
        product: Array = kept * (self.spread @ change @ self.classes) if kept else FLOOR**2 * (self.spread @ change)
        if self.blend:
            turned = self.features @ change.astype(self.features.dtype)
            turn_by_curvature(turned, self.probabilities)
            product += self.blend / max(1, len(turned)) * (self.features.T @ turned)
        product *= self.strength
        product[: self.coordinates.rank] += self.ridge * change[: self.coordinates.rank]
        return product

    def largest(self) -> float:
        """An upper estimate of the largest eigenvalue: power iteration, from a fixed start."""
        shape = (self.features.shape[1], self.classes.shape[0])
        steps = POWER_STEPS
        if self.top.shape != shape:
            self.top = np.cos(np.arange(shape[0] * shape[1], dtype=np.float64)).reshape(shape)
            steps *= 3
        value = 0.0
        for _ in range(steps):
            image = self(self.top)
            value = float(np.linalg.norm(image) / max(np.linalg.norm(self.top), 1e-300))
            if value == 0.0:
                break
            self.top = image / np.linalg.norm(image)
        return MARGIN * value


def _largest(matrix: Array) -> float:
    """Largest eigenvalue of a positive semidefinite matrix; 0 of an empty one."""
    return float(np.linalg.eigvalsh(np.asarray(matrix, np.float64))[-1]) if matrix.size else 0.0
