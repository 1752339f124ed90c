"""Kernels of support vector machines: linear, Gaussian, histogram intersection, and the extended Gaussian of chi2.

Zhang, Marszalek, Lazebnik & Schmid, Local features and kernels for classification of texture and object categories,
IJCV 2007: exp(-D / A), D the chi-squared distance 1/2 sum of (x - y)^2 / (x + y), A its mean over the training rows.
"""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from typing import Any, get_args

import numpy as np

from tasks.errors import ParamError
from tasks.features.errors import NegativeFeature
from tasks.models.errors import ModelFormat
from tasks.rows import Csr, Rows
from tasks.rows.base import Array
from tasks.svm.kernel_pairs import KernelKind, pair_sums
from tasks.svm.kernel_width import NoKernelWidth, mean_distance

__all__ = ["Kernel", "KernelKind", "NegativeFeature", "NoKernelWidth", "mean_distance"]

KINDS: tuple[KernelKind, ...] = get_args(KernelKind)
OF_DISTANCES = ("rbf", "chi2")
OF_HISTOGRAMS = ("histogram-intersection", "chi2")
ROWS_AT_ONCE = 1024  # rows checked at a time


@dataclass(frozen=True)
class Kernel:
    """k(x, y) of two rows: the same bits as k(y, x), whatever other rows stand in the block.

    kind   linear: x . y; rbf: exp(-|x - y|^2 / width); histogram-intersection: sum of min(x, y);
           chi2: exp(-D / width), D = 1/2 sum of (x - y)^2 / (x + y), 0 / 0 = 0
    width  > 0 of rbf and chi2; 1 of the others
    Raises ParamError for anything else.
    """

    kind: KernelKind
    width: float = 1.0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ParamError("kernel", self.kind, " | ".join(KINDS), "no other kernel is known")
        if not (isinstance(self.width, (int, float)) and 0 < self.width <= sys.float_info.max):
            raise ParamError("kernel width", self.width, "a finite number above 0", "distances are divided by it")
        if self.kind not in OF_DISTANCES and self.width != 1.0:
            raise ParamError("kernel width", self.width, "1", f"the {self.kind} kernel has no width")

    def block(self, rows: Rows, others: Rows) -> Array:
        """(n, m) float32: k(row i, other j). Rows of any body, the same width (ColumnMismatch).

        Not checked here: values below 0, see `check`.
        """
        out = np.empty((rows.n_rows, others.n_rows), np.float32)
        for mine, theirs, sums in pair_sums(self.kind, rows, others):
            out[mine, theirs] = self._of_sums(sums)
        return out

    def _of_sums(self, sums: Array) -> Array:
        """Kernel values in place of the sums. NumPy gives a number the same exponential wherever it stands."""
        if self.kind in OF_DISTANCES:
            with np.errstate(over="ignore"):  # a distance of very many widths
                sums /= -2.0 * self.width if self.kind == "chi2" else -self.width
            np.exp(sums, out=sums)
        return sums

    def diagonal(self, rows: Rows) -> Array:
        """(n,) float64: k(x, x), of rbf and chi2 exactly 1; of the others without the rounding of a block's float32."""
        if self.kind in OF_DISTANCES:
            return np.ones(rows.n_rows)
        if self.kind == "linear":
            return rows.squared_norms()
        return rows.scores(np.ones((rows.n_features, 1)))[:, 0]

    def check(self, rows: Rows, where: str) -> None:
        """Raises NegativeFeature for the first value, row by row, that a kernel of histograms cannot take."""
        if self.kind not in OF_HISTOGRAMS:
            return
        for start in range(0, rows.n_rows, ROWS_AT_ONCE):
            found = first_bad(rows.part(start, min(start + ROWS_AT_ONCE, rows.n_rows)).decoded())
            if found is not None:
                row, column, value = found
                error = NegativeFeature.at(start + row, column, value, f"the {self.kind} kernel")
                error.where = f"{where}, {error.where}" if where else error.where
                raise error

    def header(self) -> dict[str, Any]:
        """Plain JSON values, from which `load` makes the kernel."""
        return asdict(self)

    @classmethod
    def load(cls, header: dict[str, Any]) -> Kernel:
        """Raises ModelFormat for what no kernel has written."""
        try:
            return cls(**header)
        except (TypeError, ParamError) as error:
            raise ModelFormat(f"no kernel: {header!r} ({error})", "kernel", "the file is damaged or newer") from error


def first_bad(rows: Rows) -> tuple[int, int, float] | None:
    """(row, column, value) of the first value of decoded rows that is not >= 0; None where there is none."""
    values = rows.data if isinstance(rows, Csr) else rows.to_array(np.float64)
    bad = np.flatnonzero(~(values >= 0))
    if not bad.size:
        return None
    if isinstance(rows, Csr):
        row = int(np.searchsorted(rows.indptr, bad[0], side="right")) - 1
        return row, int(rows.indices[bad[0]]), float(values[bad[0]])
    row, column = divmod(int(bad[0]), rows.n_features)
    return row, column, float(values[row, column])
