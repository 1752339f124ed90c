"""Weights as they are searched: a basis of feature vectors, a small core over it, and a bias."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tasks.places import at, open_array
from tasks.rows.base import Array


@dataclass(frozen=True, eq=False)
class Group:
    """Columns that joined a basis at once, and are projected at once: the same product always, so the same bits.

    token   names the columns among all of a fit's; projections are kept under it
    source  the columns (n_features, size), or the .npy file that holds them, which is what travels
    size    columns
    """

    token: str
    source: Array | str
    size: int

    @property
    def columns(self) -> Array:
        """(n_features, size)."""
        if isinstance(self.source, str):
            return open_array(at(self.source))
        return self.source


@dataclass(frozen=True, eq=False)
class Basis:
    """Some columns of some groups, side by side: U (n_features, rank).

    kept  of each group the numbers of the columns that are left, ascending
    """

    n_features: int
    groups: tuple[Group, ...] = ()
    kept: tuple[tuple[int, ...], ...] = ()

    @property
    def rank(self) -> int:
        """Columns; they need not be linearly independent."""
        return sum(len(kept) for kept in self.kept)

    @cached_property
    def columns(self) -> Array:
        """U (n_features, rank) in the dtype of its groups; float32 (n_features, 0) when it is empty."""
        if not self.groups:
            return np.zeros((self.n_features, 0), np.float32)
        return np.concatenate([g.columns[:, list(kept)] for g, kept in zip(self.groups, self.kept, strict=True)], 1)

    def with_group(self, group: Group) -> Basis:
        """All columns of one more group, behind those that are here."""
        return Basis(self.n_features, (*self.groups, group), (*self.kept, tuple(range(group.size))))

    def only(self, places: Sequence[int]) -> Basis:
        """The columns at these places (ascending); a group of which none is left is forgotten."""
        wanted, at = set(places), 0
        groups, kept = [], []
        for group, columns in zip(self.groups, self.kept, strict=True):
            left = tuple(column for i, column in enumerate(columns, at) if i in wanted)
            at += len(columns)
            if left:
                groups.append(group)
                kept.append(left)
        return Basis(self.n_features, tuple(groups), tuple(kept))


@dataclass(frozen=True, eq=False)
class Point:
    """W = U C and b: scores are X U C + b.

    core  C (basis.rank, n_classes) float64
    bias  b (n_classes,) float64; None for a model without
    """

    basis: Basis
    core: Array
    bias: Array | None = None

    @property
    def weights(self) -> Array:
        """W (n_features, n_classes) float64."""
        return np.asarray(self.basis.columns, np.float64) @ self.core

    def moved(self, direction: Direction, step: float) -> Point:
        """The point at `step` times the direction."""
        bias = None if self.bias is None or direction.bias is None else self.bias + step * direction.bias
        return Point(self.basis, self.core + step * direction.core, self.bias if bias is None else bias)


@dataclass(frozen=True, eq=False)
class Direction:
    """A change of a point on its basis: core (rank, n_classes), bias (n_classes,) or None."""

    core: Array
    bias: Array | None = None
