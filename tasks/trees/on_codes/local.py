"""Rows of a node that are PQ codes and in memory: what `fit_codes` asks of them."""

from __future__ import annotations

import numpy as np

from tasks.fit.fit import FitResult
from tasks.fit.scorer import Parameters
from tasks.rows.base import Array
from tasks.rows.pq import PqCodes
from tasks.trees.on_codes.fit import fit_codes
from tasks.trees.on_codes.moments import CodeCounts, CodeFrame, counts_of
from tasks.trees.on_codes.risk import RiskSum, risk_of
from tasks.trees.params import TreeParams


class LocalPasses:
    """See `Passes`; columns (n_rows,) int32: class columns of the node, -1 for rows of other
    classes, which losses of one class a child know (`rounded_loss_of` a k-means tree)."""

    def __init__(self, rows: PqCodes, columns: Array, children: Array, params: TreeParams, depth: int) -> None:
        self.rows, self.columns, self.children, self.params, self.depth = rows, columns, children, params, depth
        self.codebooks = rows.codebooks
        self._sample: tuple[float, PqCodes, Array] = (1.0, rows, columns)

    def code_counts(self) -> CodeCounts:
        """See `Passes`."""
        return counts_of(self.rows)

    def risk(self, frame: CodeFrame, point: Array, width: float, share: float) -> RiskSum:
        """See `Passes`."""
        if share != self._sample[0]:
            index = evenly(self.rows.n_rows, share)
            whole = index.size == self.rows.n_rows
            rows, columns = (self.rows, self.columns) if whole else (self.rows.take(index), self.columns[index])
            self._sample = share, rows, columns
        _, rows, columns = self._sample
        loss = self.params.rounded_loss_of(self.children, self.depth, width)
        return risk_of(frame.seen(rows), columns, loss, *(part.astype(np.float32) for part in (point[:-1], point[-1])))


def evenly(n: int, share: float) -> Array:
    """A share of 0..n-1, one at least of any, evenly spread: also of rows that lie sorted a fair sample."""
    taken = min(n, max(1, round(share * n)))
    return np.arange(taken, dtype=np.int64) * n // max(1, taken)


def fit_local(
    rows: PqCodes, columns: Array, children: Array, params: TreeParams, depth: int, start: Parameters | None = None
) -> FitResult:
    """`fit_codes` to rows in memory."""
    counts = np.bincount(columns[columns >= 0], minlength=children.shape[1])
    return fit_codes(LocalPasses(rows, columns, children, params, depth), children, counts, params, depth, start)
