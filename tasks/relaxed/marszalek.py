"""Which classes of a node take a side, by how their rows were cut (Marszalek & Schmid 2008, the relaxed tree).

The rows of a node are cut in two; a class whose rows lie almost all on one side goes there, any other goes to both
children and is not trained on at this node.
"""

from __future__ import annotations

import numpy as np

from tasks.errors import ParamError
from tasks.rows.base import Array

ROUNDING = 1e-9  # a mean this near to the edge is on it: 1 - 0.7 and 3 / 10 differ in their last bit


def relaxed_sides(sides: Array, classes: Array, n_classes: int, alpha: float) -> Array | None:
    """Colors of the classes, (n_classes,) int8: +1 if m >= 1 - alpha, -1 if m < -1 + alpha, else 0, which is both.

    sides    (n,) of -1 and +1, one a row; m is their mean over the rows of a class
    classes  (n,) int in [0, n_classes); a class without rows is 0
    alpha    in (0, 1], how far from pure a class may be; 1 is hard: no class goes both ways, m = 0 goes to +1
    None where a side would get no class: the node cannot be split (a child would keep all its classes).
    Raises ParamError for another alpha.
    """
    if not 0 < alpha <= 1:
        raise ParamError("alpha", alpha, "more than 0, at most 1", "it is the share of a class that may be cut off")
    counts = np.bincount(classes, minlength=n_classes)
    sums = np.bincount(classes, weights=sides, minlength=n_classes)
    means = np.divide(sums, counts, out=np.zeros(n_classes), where=counts > 0)
    plus = (means >= 1 - alpha - ROUNDING) & (counts > 0)
    minus = (means < alpha - 1 - ROUNDING) & (counts > 0)
    if not (plus.any() and minus.any()):
        return None
    return plus.astype(np.int8) - minus.astype(np.int8)
