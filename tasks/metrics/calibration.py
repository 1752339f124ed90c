"""How far probabilities can be believed: log-loss and expected calibration error, as sums that add over parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from tasks.later import numba
from tasks.rows.base import Array
from tasks.sums import FieldSums

BINS = 15


@numba.njit(cache=True, nogil=True)
def bin_confidence(confidence: Array, right: Array, rows: Array, hits: Array, total: Array) -> None:
    """Add each row to the bin of its confidence: bin m of M, from 0, holds m / M < confidence <= (m + 1) / M, and 0.

    confidence  (n,) float in [0, 1]; one above 1 by rounding falls into the last bin
    right       (n,) bool
    rows, hits  (n_bins,) int64, added to; total (n_bins,) float64: sums of confidence, added to in the order of rows
    """
    n_bins = rows.size
    for i in range(confidence.size):
        p = np.float64(confidence[i])
        m = int(np.ceil(p * n_bins)) - 1
        m = 0 if m < 0 else n_bins - 1 if m >= n_bins else m
        rows[m] += 1
        hits[m] += right[i]
        total[m] += p


@dataclass(frozen=True, eq=False)
class Calibration(FieldSums):
    """Sums over labelled rows (Guo, Pleiss, Sun & Weinberger, On Calibration of Modern Neural Networks, 2017).

    loss        sum of -log p(label), natural logarithm
    rows, hits  (n_bins,) int64 per bin of the probability of the first class: rows, and those whose label it is
    confidence  (n_bins,) float64: sums of that probability
    """

    loss: float
    rows: Array
    hits: Array
    confidence: Array

    @classmethod
    def of(cls, confidence: Array, right: Array, label_log: Array, n_bins: int = BINS) -> Self:
        """confidence (n,) float32: probability of the first class; right (n,) bool; label_log (n,) float32: log p."""
        rows, hits, total = np.zeros(n_bins, np.int64), np.zeros(n_bins, np.int64), np.zeros(n_bins)
        bin_confidence(confidence, right, rows, hits, total)
        return cls(0.0 - float(label_log.sum(dtype=np.float64)), rows, hits, total)

    def metrics(self) -> dict[str, float]:
        """log_loss = mean of -log p(label); calibration_error: eq. 3 of the paper; empty without rows."""
        n_rows = int(self.rows.sum())
        if not n_rows:
            return {}
        error = float(np.abs(self.hits - self.confidence).sum()) / n_rows
        return {"log_loss": self.loss / n_rows, "calibration_error": error}
