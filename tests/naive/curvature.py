"""The Hessian of the multinomial risk, written out: one small matrix a row."""

from __future__ import annotations

import numpy as np

from tests.naive.trace import Matrix, probabilities


def hessian_product(Z: Matrix, C: Matrix, b: Matrix, D: Matrix, db: Matrix) -> tuple[Matrix, Matrix]:
    """(in the core, in the bias): the Hessian of R_n at (C, b) times (D, db)."""
    in_core, in_bias = np.zeros_like(D), np.zeros_like(db)
    for z, p in zip(Z, probabilities(Z, C, b), strict=True):
        turned = (np.diag(p) - np.outer(p, p)) @ (D.T @ z + db)
        in_core += np.outer(z, turned) / len(Z)
        in_bias += turned / len(Z)
    return in_core, in_bias
