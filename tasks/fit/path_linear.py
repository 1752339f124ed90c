"""Scores along a taxonomy's paths with a weight vector per node: hierarchical SVM (Zhao & Xing 2012, equation (24)).

score(x, r) = (1 / sqrt T) * sum over the nodes u of r's path of sqrt(c_u) <w_u, x>

A leaf above the last level stands at c_u levels (SPECS 1.3), every other node at one. The c_u copies of a leaf have
the same optimal vector, since the loss sees their sum alone; sqrt(c_u) w_u is that sum, with the penalty |w_u|^2 of all
copies together. The root is left out: its share is the same for all classes, so its optimal vector is 0 (SPECS 1.5).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from tasks.fit.scorer import Parameters
from tasks.hashing.heshing import NodeArrays
from tasks.hashing.kernels import path_sums, residuals_below
from tasks.rows.base import Array, Rows

AT_ONCE = 1024  # rows of node scores, or rows of weights, at a time


@dataclass(frozen=True, eq=False)
class PathScorer:
    """Scores linear in {"weights": (n_features, n_nodes - 1)}: node u has column u - 1, the root none.

    parent         (n_nodes,) int32, breadth-first, -1 for the root (node 0)
    level          (n_nodes,) int32, 0 at the root
    leaf_of_class  (n_classes,) int32, none of them the root
    """

    parent: Array
    level: Array
    leaf_of_class: Array
    n_features: int

    @classmethod
    def of(cls, taxonomy: NodeArrays, n_features: int) -> Self:
        """Over the nodes of a taxonomy."""
        return cls(taxonomy.parent, taxonomy.level, taxonomy.leaf_of_class, n_features)

    def __getstate__(self) -> dict[str, object]:
        return {name: self.__dict__[name] for name in self.__dataclass_fields__}

    @property
    def n_outputs(self) -> int:
        return int(self.leaf_of_class.size)

    @property
    def n_levels(self) -> int:
        """Levels of the deepest leaf (T)."""
        return int(np.max(self.level)) + 1

    @property
    def scale(self) -> float:
        return float(1 / np.sqrt(self.n_levels))

    @property
    def n_scored(self) -> int:
        """Nodes with a weight vector: all but the root."""
        return int(self.parent.size) - 1

    @cached_property
    def copies(self) -> Array:
        """(n_nodes,) int64: levels at which a node stands (c_u)."""
        counts = np.ones(self.parent.size, np.int64)
        counts[self.leaf_of_class] = self.n_levels - self.level[self.leaf_of_class]
        return counts

    @property
    def squared_scale(self) -> float:
        """Share of a class's features that its siblings lack (see `HashedScorer.squared_scale`)."""
        return float(self.copies[self.leaf_of_class].mean()) / self.n_levels

    @cached_property
    def _paths(self) -> tuple[Array, Array, Array, Array]:
        """parent, inner, leaf_of_class and above, as the kernels take them: nodes are their own slots."""
        parent, leaves = self.parent.astype(np.int64), self.leaf_of_class.astype(np.int64)
        inner = np.setdiff1d(np.arange(parent.size), leaves)
        return parent, inner, leaves, parent[leaves]

    def initial(self, dtype: type) -> Parameters:
        """Vectors of zeros."""
        return {"weights": np.zeros((self.n_features, self.n_scored), dtype)}

    def scores(self, parameters: Parameters, rows: Rows) -> Array:
        """(n_rows, n_classes) in the dtype of the weights."""
        out = np.empty((rows.n_rows, self.n_outputs), parameters["weights"].dtype)
        for start in range(0, rows.n_rows, AT_ONCE):
            stop = min(start + AT_ONCE, rows.n_rows)
            part = rows if stop - start == rows.n_rows else rows.part(start, stop)
            self._add_up(part.scores(parameters["weights"]), out[start:stop])
        return out

    def prototypes(self, parameters: Parameters) -> Array:
        """(n_features, n_classes): one vector per class, the sum of its path, that gives the same scores."""
        weights = parameters["weights"]
        out = np.empty((self.n_features, self.n_outputs), weights.dtype)
        for start in range(0, self.n_features, AT_ONCE):
            self._add_up(weights[start : start + AT_ONCE], out[start : start + AT_ONCE])
        return out

    def _add_up(self, of_nodes: Array, out: Array) -> None:
        """out (n, n_classes) = sums along the paths of numbers (n, n_nodes - 1) of the nodes."""
        sums = np.zeros((len(of_nodes), self.parent.size), of_nodes.dtype)
        np.multiply(of_nodes, self._stretch(of_nodes.dtype), out=sums[:, 1:])
        path_sums(sums, *self._paths, of_nodes.dtype.type(self.scale), out)

    def _stretch(self, dtype: Any) -> Array:
        """(n_nodes - 1,): sqrt(c_u) of the nodes below the root."""
        stretch: Array = np.sqrt(self.copies[1:]).astype(dtype)
        return stretch

    def subtract(self, parameters: Parameters, rows: Rows, residuals: Array, step: float) -> None:
        """weights -= step * gradient of sum(residuals * scores), in place."""
        weights = parameters["weights"]
        parent, _, leaves, _ = self._paths
        for start in range(0, rows.n_rows, AT_ONCE):
            stop = min(start + AT_ONCE, rows.n_rows)
            part = rows if stop - start == rows.n_rows else rows.part(start, stop)
            given = residuals[start:stop].astype(weights.dtype, copy=False)
            below = residuals_below(given, parent, leaves, weights.dtype.type(self.scale))
            part.subtract_gradient(below[:, 1:] * self._stretch(weights.dtype), step, weights)

    def operations_per_row(self) -> float:
        """One dot product per scored node."""
        return float(self.n_scored)
