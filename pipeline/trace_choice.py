"""Which pair of a path is kept, by what the validation rows say.

The best one or, of all that cannot be told from it, the one of least rank: the rule of one standard error (Hastie,
Tibshirani, Friedman, "The Elements of Statistical Learning", section 7.10). Pairs are measured on the same rows, so
what counts is the error of the difference, far smaller than that of a mean: with l_r(i) the loss of row r by pair i
(0 or 1 for "top1"), b the best pair and d_r = l_r(i) - l_r(b), pair i is as good when

    mean(i) - mean(b) <= t s(i),   s(i)^2 = sum over m rows of (d_r - mean d)^2 / ((m - 1) n)

with both means over all n validation rows, s from the m of them that are sampled, and t standard errors allowed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tasks.rows.base import Array
from tasks.trace.validation import LOSS, WRONG

SAMPLED_ROWS = 1 << 14  # validation rows that are looked at one by one, at most: the error is known to a per cent
MEASURES = {"top1": WRONG, "log-loss": LOSS}
PairRecord = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PairChoice:
    """measure: "top1" or "log-loss"; errors: by how many standard errors a pair of less rank may be worse."""

    measure: str = "log-loss"
    errors: float = 0.0

    def best(self, records: Sequence[PairRecord]) -> int:
        """Most validation rows right, or least log-loss, ties by the other; without such rows the last."""
        scored = [(record["top1"], -record["log_loss"], -i) for i, record in enumerate(records) if record["rows"]]
        if self.measure == "log-loss":
            scored = [(loss, top1, place) for top1, loss, place in scored]
        return -max(scored)[2] if scored else len(records) - 1

    def chosen(self, records: Sequence[PairRecord], samples: Sequence[Array]) -> int:
        """The best pair, or that of least rank among those as good, ties by log-loss; samples: see `errors_of`."""
        best = self.best(records)
        if not self.errors or not records[best]["rows"]:
            return best
        worse = [self._loss(record) - self._loss(records[best]) for record in records]
        allowed = [self.errors * error for error in self.errors_of(records, samples)]
        as_good = [i for i in range(len(records)) if worse[i] <= allowed[i]]
        return min(as_good, key=lambda i: (records[i]["rank"], records[i]["log_loss"], i))

    def errors_of(self, records: Sequence[PairRecord], samples: Sequence[Array]) -> list[float]:
        """Standard error of each pair's measure less the best one's; 0 of the best pair itself.

        samples  of each pair, the same validation rows: (m, 2) float32, columns WRONG and LOSS
        """
        columns = [sample[:, MEASURES[self.measure]].astype(np.float64) for sample in samples]
        best = columns[self.best(records)]
        return [_error(column - best, record["rows"]) for column, record in zip(columns, records, strict=True)]

    def _loss(self, record: PairRecord) -> float:
        return float(record["log_loss"] if self.measure == "log-loss" else 1 - record["top1"])


def _error(difference: Array, n_rows: int) -> float:
    """Of a mean over n_rows, from the differences of a sample of them; 0 where these are too few to tell."""
    if difference.size < 2:
        return 0.0
    apart = difference - difference.mean()
    return math.sqrt(float(apart @ apart) / (difference.size - 1) / n_rows)


def with_errors(records: Sequence[PairRecord], samples: Sequence[Array]) -> list[dict[str, Any]]:
    """The records with the standard errors of both measures, where there are validation rows enough to tell."""
    if not records or records[0]["rows"] < 2:
        return [dict(record) for record in records]
    wrong, loss = (PairChoice(measure).errors_of(records, samples) for measure in ("top1", "log-loss"))
    pairs = zip(records, wrong, loss, strict=True)
    return [{**record, "top1_error": one, "log_loss_error": two} for record, one, two in pairs]


def stride_of(n_rows: int) -> int:
    """Every how many validation rows one is sampled."""
    return max(1, -(-n_rows // SAMPLED_ROWS))
