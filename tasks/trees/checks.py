"""Whether the arrays of a tree that was read from a file describe a tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tasks.later import numba
from tasks.models.errors import ModelFormat
from tasks.rows.base import Array
from tasks.trees.prediction.links import LINKS

if TYPE_CHECKING:
    from tasks.trees.tree import LabelTree


def check_tree(tree: LabelTree) -> None:
    """Raises ModelFormat unless the arrays describe a tree in breadth-first order."""
    if tree.link not in LINKS or type(tree.beam) is not int or tree.beam < 1:
        raise ModelFormat(f"beam {tree.beam!r} and link {tree.link!r}: expected 1 or more, and {' or '.join(LINKS)}")
    if not (isinstance(tree.sharpness, float) and 0 < tree.sharpness < np.inf):
        raise ModelFormat(f"sharpness {tree.sharpness!r}: expected a number above 0")
    if not (_nodes_fit(tree) and _classes_fit(tree) and _weights_fit(tree) and _scales_fit(tree)):
        raise ModelFormat("the arrays of the label tree do not fit together")


def _scales_fit(tree: LabelTree) -> bool:
    return tree.scales is None or (
        tree.scales.shape == (tree.n_nodes,)
        and tree.scales.dtype == np.float32
        and bool(((tree.scales > 0) & (tree.scales < np.inf)).all())
    )


def _weights_fit(tree: LabelTree) -> bool:
    if tree.columns is None or tree.column_offsets is None:
        return tree.weights.shape == (tree.bias.size * tree.n_features,)
    if tree.column_offsets.shape != (tree.n_nodes + 1,) or not _offsets_fit(tree.column_offsets, tree.columns):
        return False
    if tree.entry_offsets is None or tree.entries is None:
        counts = np.diff(tree.column_offsets)
        fits = tree.weights.shape == (int((counts * tree.n_children).sum()),)
        return fits and bool(columns_fit(tree.columns, tree.column_offsets, tree.n_features))
    fits = tree.entry_offsets.shape == (tree.columns.size + 1,) and tree.weights.shape == tree.entries.shape
    if not fits or tree.entries.dtype.kind != "u" or not _offsets_fit(tree.entry_offsets, tree.entries):
        return False
    offsets = tree.column_offsets, tree.entry_offsets
    return bool(entries_fit(tree.columns, *offsets, tree.entries, tree.n_children, tree.n_features))


def _offsets_fit(offsets: Array, values: Array) -> bool:
    fits = values.ndim == 1 and offsets[0] == 0 and offsets[-1] == values.size and (np.diff(offsets) >= 0).all()
    return bool(fits)


def _nodes_fit(tree: LabelTree) -> bool:
    n = tree.n_nodes
    if any(array.dtype.kind != "i" for array in (tree.first_child, tree.n_children, tree.offsets, tree.classes)):
        return False
    if tree.n_children.shape != (n,) or tree.bias.shape != (n - 1,) or tree.n_children.sum() != n - 1:
        return False
    inner = np.flatnonzero(tree.n_children)
    first = 1 + np.concatenate([[0], np.cumsum(tree.n_children[inner])])[:-1]  # children follow one another
    return bool((tree.first_child[inner] == first).all() and (first > inner).all() and (tree.n_children >= 0).all())


def _classes_fit(tree: LabelTree) -> bool:
    if tree.offsets.shape != (tree.n_nodes + 1,) or tree.offsets[0] != 0 or (np.diff(tree.offsets) < 0).any():
        return False
    known = (tree.classes >= 0) & (tree.classes < tree.n_classes)
    return tree.classes.shape == (tree.offsets[-1],) and bool(known.all())


@numba.njit(cache=True, nogil=True)
def entries_fit(
    columns: Array, column_offsets: Array, entry_offsets: Array, entries: Array, n_children: Array, n_features: int
) -> bool:
    """Whether at every node columns ascend in [0, n_features) and entries are below its number of children.

    The arrays are those of a `LabelTree`; the offsets must have been checked.
    """
    for node in range(n_children.size):
        last = -1
        for c in range(column_offsets[node], column_offsets[node + 1]):
            if columns[c] <= last or columns[c] >= n_features:
                return False
            last = columns[c]
            for e in range(entry_offsets[c], entry_offsets[c + 1]):
                if entries[e] >= n_children[node]:
                    return False
    return True


@numba.njit(cache=True, nogil=True)
def columns_fit(columns: Array, column_offsets: Array, n_features: int) -> bool:
    """Whether at every node columns ascend in [0, n_features); arrays of a `LabelTree`, the offsets checked."""
    for node in range(column_offsets.size - 1):
        last = -1
        for c in range(column_offsets[node], column_offsets[node + 1]):
            if columns[c] <= last or columns[c] >= n_features:
                return False
            last = columns[c]
    return True
