"""How sure a tree is of its answers as a whole, fitted to validation rows after it has grown.

Values of a k-means tree's leaves are probabilities each by itself and need not add up to 1; divided by their sum they
are too cautious, the more so the more nodes were compared. They are raised to a power first, as temperature scaling
does (Guo et al. 2017): the order of the classes stays.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tasks.rows.base import Array, Rows
from tasks.trees.prediction.naming import TURNS
from tasks.trees.scale import FIRMNESS
from tasks.trees.tree import LabelTree

TRIED = np.exp2(np.arange(-4, 17) / TURNS)  # powers: a half to sixteen
BEAM = 10  # nodes of a depth that the search visits while it is fitted


def sharpened(tree: LabelTree, likelihoods: Array) -> LabelTree:
    """The tree with its most probable power, log2 of it being normal around 0.

    likelihoods  (n_tried,): of all validation rows; 0 without any
    """
    best = int(np.argmax(likelihoods - FIRMNESS * np.log2(TRIED) ** 2))
    return replace(tree, sharpness=float(TRIED[best]))


def likelihoods_of(tree: LabelTree, rows: Rows, labels: Array) -> Array:
    """(n_tried,) float64 of rows with labels (n_rows,) int32."""
    if not rows.n_rows or not tree.n_children[0]:
        return np.zeros(TRIED.size)
    return tree.likelihoods(rows, labels, BEAM, TRIED)
