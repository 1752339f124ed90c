"""Which classes go to which child: OP3 and OP3' of Deng et al. 2011, section 4.3, in closed form.

counts n_qk (Q, K): rows of class k that the node's classifiers send to child q; c_q = sum_k n_qk, m = sum of all.
OP3   (accuracy given)    min sum c_q P_qk / (m K)   subject to   sum n_qk P_qk / m >= 1 - loss
OP3'  (efficiency given)  min loss = 1 - sum n_qk P_qk / m   subject to   sum c_q P_qk / (m K) <= ambiguity
Relaxed to 0 <= P <= 1 both are fractional knapsacks: take entries by n_qk / c_q descending until the constraint is met
or the budget is spent. At most the last entry is fractional; it is rounded up (OP3) or down (OP3').
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tasks.rows.base import Array

TOLERANCE = 1e-9  # relative to the constraint's right-hand side: sums of counts are exact, (1 - loss) m is not


@dataclass(frozen=True, eq=False)
class Partition:
    """A rounded partition and how good it is.

    children      (Q, K) bool: P_qk, child q holds class k
    lp_value      optimum of the relaxed problem: ambiguity (OP3) or loss (OP3'), a lower bound of the integer optimum
    value         the same objective after rounding
    bound         what rounding can cost at most: lp_value + 1/K (Theorem 4.2) or lp_value + max_k psi_k (Theorem 4.3)
    loss          share of the counted rows sent to a child without their class (1)
    ambiguity     mean over the counted rows of |child's classes| / K (2)
    """

    children: Array
    lp_value: float
    value: float
    bound: float
    loss: float
    ambiguity: float

    @property
    def given_up(self) -> Array:
        """Columns that no child holds, ascending."""
        return np.flatnonzero(~self.children.any(axis=0))


def loss_of(counts: Array, children: Array) -> float:
    """Share of the counted rows that a partition loses (1); 0 when nothing was counted."""
    total = counts.sum()
    return float(1 - counts[children].sum() / total) if total > 0 else 0.0


def ambiguity_of(counts: Array, children: Array) -> float:
    """Mean over the counted rows of |child's classes| / K (2); 0 when nothing was counted."""
    total = counts.sum()
    return float(counts.sum(axis=1) @ children.sum(axis=1) / (total * counts.shape[1])) if total > 0 else 0.0


def accuracy_constrained(counts: Array, loss: float) -> Partition:
    """OP3: least ambiguity with at most `loss` of the rows lost; ties to the lower child, then class.

    counts (Q, K) non-negative; loss in [0, 1].
    """
    m, n_classes = counts.sum(), counts.shape[1]
    order, gains, costs = _by_gain_per_cost(counts)
    wanted = (1 - loss) * m
    gained = np.cumsum(gains)
    taken = int(np.searchsorted(gained, wanted - TOLERANCE * m)) + 1 if wanted > TOLERANCE * m else 0
    taken = min(taken, order.size)
    children = _chosen(counts.shape, order[:taken])
    relaxed = costs[:taken].sum()
    if taken:
        unneeded = max(gained[taken - 1] - wanted, 0.0) / gains[taken - 1]
        relaxed -= unneeded * costs[taken - 1]
    lp_value = float(relaxed / (m * n_classes)) if m > 0 else 0.0
    ambiguity = ambiguity_of(counts, children)
    return Partition(children, lp_value, ambiguity, lp_value + 1 / n_classes, loss_of(counts, children), ambiguity)


def efficiency_constrained(counts: Array, ambiguity: float) -> Partition:
    """OP3': least loss with a mean ambiguity of at most `ambiguity`; ties to the lower child, then class.

    counts (Q, K) non-negative; ambiguity in [0, 1].
    """
    m, n_classes = counts.sum(), counts.shape[1]
    order, gains, costs = _by_gain_per_cost(counts)
    budget = ambiguity * m * n_classes
    spent = np.cumsum(costs)
    taken = int(np.searchsorted(spent, budget * (1 + TOLERANCE), side="right"))
    children = _chosen(counts.shape, order[:taken])
    relaxed = gains[:taken].sum()
    if taken < order.size:
        left = budget - (spent[taken - 1] if taken else 0.0)
        relaxed += max(left, 0.0) / costs[taken] * gains[taken]
    lp_value = float(1 - relaxed / m) if m > 0 else 0.0
    loss = loss_of(counts, children)
    largest_class = float(counts.sum(axis=0).max() / m) if m > 0 else 0.0
    return Partition(children, lp_value, loss, lp_value + largest_class, loss, ambiguity_of(counts, children))


def spend_rest(counts: Array, children: Array, ambiguity: float, runners: Array) -> Array:
    """What OP3' leaves of the ambiguity, spent on the entries that rows nearly chose: (Q, K) bool, a superset.

    runners (Q, K) non-negative: evidence for entries that nothing counted speaks for. Only when every counted entry is
    taken (otherwise the budget is spent): entries join by runners / c_q descending until one does not fit, ties to the
    lower child, then class. The loss on the counted rows stays what it is, and so does the optimum of OP3'.
    """
    if (counts > 0)[~children].any():
        return children
    reached = counts.sum(axis=1, dtype=np.float64)
    ratio = np.where(children, 0.0, runners / np.maximum(reached, 1.0)[:, None]).ravel()
    ratio[np.repeat(reached == 0, counts.shape[1])] = 0.0  # a child nobody reaches stays empty
    order = np.flatnonzero(ratio)[np.argsort(-ratio[ratio > 0], kind="stable")]
    costs = np.repeat(reached, counts.shape[1])[order]
    left = ambiguity * counts.sum() * counts.shape[1] - reached @ children.sum(axis=1)
    taken = int(np.searchsorted(np.cumsum(costs), left * (1 + TOLERANCE), side="right"))
    return children | _chosen(counts.shape, order[:taken])


def _by_gain_per_cost(counts: Array) -> tuple[Array, Array, Array]:
    """Entries with n_qk > 0 by n_qk / c_q descending: (flat index, n_qk, c_q as float64), ties by flat index."""
    gains = counts.ravel().astype(np.float64)
    costs = np.repeat(counts.sum(axis=1).astype(np.float64), counts.shape[1])
    filled = np.flatnonzero(gains > 0)
    order = filled[np.argsort(-gains[filled] / costs[filled], kind="stable")]
    return order, gains[order], costs[order]


def _chosen(shape: tuple[int, ...], index: Array) -> Array:
    children = np.zeros(shape, bool)
    children.flat[index] = True
    return children
