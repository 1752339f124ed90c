"""Projections of rows on a basis, kept by the process that made them: a search over the core asks for them many times.

They can be made again from the rows and the basis, to the same bits; so a worker that dies, or has no room for them,
costs another product of its blocks and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import Lock

import numpy as np

from tasks.cache import BUDGET, Budget
from tasks.rows.base import Array
from tasks.trace.point import Basis, Group

Make = Callable[[Group], Array]


class KeptProjections:
    """place -> token of a group -> X U_g of the rows there (n_rows, size). Only one fit's are kept at a time."""

    def __init__(self, budget: Budget) -> None:
        self.budget, self.made = budget, 0
        self._fit: Hashable = None
        self._places: dict[Hashable, dict[str, Array]] = {}
        self._lock = Lock()

    def of(self, fit: Hashable, place: Hashable, basis: Basis, make: Make) -> Array:
        """X U (n_rows, basis.rank) of the rows at a place; groups that the basis does not name are forgotten.

        make  the product for one group, when it is not kept; the basis has a column at least
        """
        with self._lock:
            if fit != self._fit:
                self._forget([array for groups in self._places.values() for array in groups.values()])
                self._fit, self._places = fit, {}
            known = self._places.get(place, {})
            wanted = {group.token for group in basis.groups}
            self._forget([array for token, array in known.items() if token not in wanted])
            kept = {token: array for token, array in known.items() if token in wanted}
            self._places[place] = kept
        parts = []
        for group, columns in zip(basis.groups, basis.kept, strict=True):
            whole = kept.get(group.token)
            if whole is None:
                whole = make(group)
                self._keep(fit, place, group.token, whole)
            parts.append(whole if len(columns) == group.size else whole[:, list(columns)])
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

    def _keep(self, fit: Hashable, place: Hashable, token: str, array: Array) -> None:
        with self._lock:
            self.made += 1
            known = self._places.get(place)
            if fit == self._fit and known is not None and token not in known and self.budget.take(array.nbytes):
                known[token] = array

    def _forget(self, arrays: list[Array]) -> None:
        self.budget.take(-sum(array.nbytes for array in arrays))

    def clear(self) -> None:
        with self._lock:
            self._forget([array for groups in self._places.values() for array in groups.values()])
            self._fit, self._places = None, {}


KEPT = KeptProjections(BUDGET)
