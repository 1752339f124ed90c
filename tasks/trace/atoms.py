"""Weights as a sum of rank-one atoms: W = sum over j of theta_j u_j v_j', |u_j| = |v_j| = 1, theta >= 0."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tasks.rows.base import Array
from tasks.trace.objective import factors_of, point_of
from tasks.trace.point import Basis, Direction, Point
from tasks.trace.risk import Risk
from tasks.trace.singular import Pairs
from tasks.trace.solution import Factors, Penalty

CROWDED = 2.0  # a basis with more columns than this times the atoms, plus SPARE, is made anew when atoms are merged
SPARE = 16
STRETCHED = 1e3  # as is one on which an atom is a difference of columns this much longer than itself


@dataclass(frozen=True, eq=False)
class Atoms:
    """u_j = U a_j on a basis U, so that atoms can be exchanged for others of the same span without a new projection.

    mix    A (basis.rank, n_atoms): the u_j on the basis
    v      (n_classes, n_atoms)
    theta  (n_atoms,) >= 0
    bias   (n_classes,) or None
    """

    basis: Basis
    mix: Array
    v: Array
    theta: Array
    bias: Array | None

    @property
    def size(self) -> int:
        return int(self.theta.size)

    @property
    def u(self) -> Array:
        """(n_features, n_atoms) float64."""
        u: Array = np.asarray(self.basis.columns, np.float64) @ self.mix
        return u

    @property
    def point(self) -> Point:
        """The same weights for the risk."""
        return Point(self.basis, (self.mix * self.theta) @ self.v.T, self.bias)

    @property
    def weights(self) -> Array:
        """W (n_features, n_classes) float64."""
        weights: Array = (self.u * self.theta) @ self.v.T
        return weights

    def quadratic(self) -> Array:
        """(n_atoms, n_atoms) Q with |W|_F^2 = theta' Q theta: inner products of the atoms."""
        u = self.u
        inner: Array = (u.T @ u) * (self.v.T @ self.v)
        return inner

    def with_values(self, theta: Array, bias: Array | None) -> Atoms:
        """The same atoms, other weights."""
        return replace(self, theta=theta, bias=bias)

    def kept(self, chosen: Array) -> Atoms:
        """The atoms at the True entries, and the columns of the basis that these need."""
        mix = self.mix[:, chosen]
        needed = np.flatnonzero(np.any(mix != 0, axis=1))
        basis = self.basis if needed.size == self.basis.rank else self.basis.only([int(i) for i in needed])
        return Atoms(basis, mix[needed], self.v[:, chosen], self.theta[chosen], self.bias)

    def joined(self, risk: Risk, u: Array, v: Array) -> Atoms:
        """With more atoms u_j v_j' (columns) behind, of weight zero; they join the basis as one group."""
        basis = self.basis.with_group(risk.group(u))
        count = u.shape[1]
        mix = np.zeros((basis.rank, self.size + count))
        mix[: self.basis.rank, : self.size] = self.mix
        mix[self.basis.rank :, self.size :] = np.eye(count)
        return Atoms(basis, mix, np.hstack([self.v, v]), np.append(self.theta, np.zeros(count)), self.bias)

    def direction(self, change: Array) -> Direction:
        """Of a search that changes theta by multiples of `change` (n_atoms,)."""
        return Direction((self.mix * change) @ self.v.T)


def no_atoms(risk: Risk, bias: Array | None) -> Atoms:
    """W = 0."""
    return Atoms(Basis(risk.n_features), np.zeros((0, 0)), np.zeros((risk.n_classes, 0)), np.zeros(0), bias)


def atoms_of_factors(risk: Risk, factors: Factors, bias: Array | None) -> Atoms:
    """The singular vectors as atoms, on a basis of their own."""
    point = point_of(risk, factors, bias)
    return Atoms(point.basis, np.eye(factors.rank), factors.v, factors.theta, bias)


def merged(risk: Risk, atoms: Atoms) -> Atoms:
    """The same weights as their singular value decomposition: no more atoms than before, sum of theta = |W|_*.

    On the same basis, unless that has grown much larger than the atoms, or has become so oblique that floats suffer.
    """
    factors = factors_of(atoms.point)
    if not factors.rank:
        return no_atoms(risk, atoms.bias)
    mix = np.linalg.lstsq(np.asarray(atoms.basis.columns, np.float64), factors.u, rcond=None)[0]
    crowded = atoms.basis.rank > CROWDED * factors.rank + SPARE
    if crowded or np.abs(mix).max() > STRETCHED:
        return atoms_of_factors(risk, factors, atoms.bias)
    return Atoms(atoms.basis, mix, factors.v, factors.theta, atoms.bias)


def penalty_over(atoms: Atoms, penalty: Penalty) -> float:
    """lambda1 sum(theta) + lambda2 |W|_F^2: the penalty in I(theta), at least that in J."""
    total = penalty.lambda1 * float(atoms.theta.sum())
    if penalty.lambda2:
        total += penalty.lambda2 * float(atoms.theta @ atoms.quadratic() @ atoms.theta)
    return total


def slopes(pairs: Atoms | Pairs, smooth: Array, penalty: Penalty) -> Array:
    """(n_pairs,) u_j . G v_j + lambda1: the derivatives of I in theta, G (n_features, n_classes) of the smooth part."""
    return np.asarray(np.einsum("dj,dj->j", pairs.u, smooth @ pairs.v) + penalty.lambda1)
