"""The width of an extended Gaussian kernel: the mean distance of the training rows (Zhang et al. 2007, section 2.2)."""

from __future__ import annotations

import numpy as np

from tasks.errors import InputError
from tasks.rows import Rows
from tasks.svm.kernel_pairs import KernelKind, pair_sums

ROWS_AT_ONCE = 1024


class NoKernelWidth(InputError):
    """The rows have no distances to take a width from: fewer than two of them, or all equal."""


def mean_distance(kind: KernelKind, rows: Rows) -> float:
    """Mean over all pairs i < j of what the kernel of width A divides by A: A of exp(-D / A).

    kind  "rbf": squared Euclidean; "chi2": 1/2 sum of (x - y)^2 / (x + y). Of the other kinds, which need none: 1.0
    Raises NoKernelWidth when there are fewer than two rows, or none differs from another.
    """
    if kind not in ("rbf", "chi2"):
        return 1.0
    if rows.n_rows < 2:
        what = f"the width of {kind} is a mean distance, and there are {rows.n_rows} rows"
        raise NoKernelWidth(what, "kernel width", "give at least two rows, or set the width")
    total = sum(_upper(kind, rows, start) for start in range(0, rows.n_rows, ROWS_AT_ONCE))
    pairs = rows.n_rows * (rows.n_rows - 1) // 2
    mean = total / pairs * (0.5 if kind == "chi2" else 1.0)
    if not 0 < mean < np.inf:
        what = f"the mean distance of {rows.n_rows} rows is {mean}"
        raise NoKernelWidth(what, "kernel width", "look whether all rows are equal; or set the width")
    return float(mean)


def _upper(kind: KernelKind, rows: Rows, start: int) -> float:
    """Sum over pairs i < j of which i is one of the ROWS_AT_ONCE rows from `start`."""
    stop, total = min(start + ROWS_AT_ONCE, rows.n_rows), 0.0
    for mine, theirs, sums in pair_sums(kind, rows.part(start, stop), rows.part(start, rows.n_rows)):
        later = np.arange(theirs.start, theirs.stop) > np.arange(mine.start, mine.stop)[:, None]
        total += float(np.sum(sums, where=later))
    return total
