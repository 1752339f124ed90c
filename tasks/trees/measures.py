"""What a finished label tree is like: loss and ambiguity by depth, sizes, overlap, classes given up, root's partition.

Loss and ambiguity are those of Deng et al. 2011, (1) and (2), as their Table 2 has them: loss is over the rows whose
class is still in the node's label set, so that a tree whose leaves are equally deep is right with probability
prod(1 - loss_d); ambiguity is over all rows at inner nodes of a depth.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tasks.metrics.hierarchy import LocalMeasures
from tasks.rows.base import Array
from tasks.trees.tree import LabelTree


def by_depth(local: LocalMeasures) -> list[dict[str, Any]]:
    """One record a depth with inner nodes that a row met, plain values.

    rows, survivors, lost  rows at inner nodes of the depth; of them those whose class the node holds; of those the ones
                           that went to a child without it
    loss, ambiguity        lost / survivors; mean of |child's classes| / |node's classes| over all rows
    survivors_ambiguity    the same over survivors alone
    kept                   prod(1 - loss) down to here
    """
    losses, kept = local.loss(), 1.0
    every, surviving = local.mean_ambiguity(), local.mean_ambiguity(survivors=True)
    found: list[dict[str, Any]] = []
    for depth in np.flatnonzero(local.counts[0]):
        rows, survivors, lost = (int(n) for n in local.counts[:, depth])
        kept *= 1 - float(losses[depth])
        measures = {
            "loss": float(losses[depth]),
            "ambiguity": float(every[depth]),
            "survivors_ambiguity": float(surviving[depth]),
            "kept": kept,
        }
        found.append({"depth": int(depth), "rows": rows, "survivors": survivors, "lost": lost, **measures})
    return found


def partition(tree: LabelTree, node: int = 0) -> tuple[Array, Array]:
    """(classes, children) of an inner node: (K,) int32 ascending, and (Q, K) bool, which child holds which class."""
    classes = tree.label_set(node)
    first, count = int(tree.first_child[node]), int(tree.n_children[node])
    children = [np.isin(classes, tree.label_set(child), assume_unique=True) for child in range(first, first + count)]
    return classes, np.array(children, bool).reshape(count, classes.size)


def overlap(children: Array) -> float:
    """Mean number of children that hold a class, over the classes that some child holds; 0 when none does.

    children  (Q, K) bool; 1 means that the parts share no class
    """
    held = children.any(axis=0)
    return float(children.sum() / held.sum()) if held.any() else 0.0


def given_up(classes: Array, children: Array) -> Array:
    """The classes (K,) of a node that no child of its partition (Q, K) holds, ascending."""
    return np.asarray(classes[~children.any(axis=0)])


def unreachable(tree: LabelTree) -> Array:
    """Classes that no leaf holds, ascending: no row is ever answered with them."""
    leaves = np.flatnonzero(tree.n_children == 0)
    held = np.zeros(tree.n_classes, bool)
    for leaf in map(int, leaves):
        held[tree.label_set(leaf)] = True
    return np.flatnonzero(~held)


def sizes_by_depth(tree: LabelTree) -> list[dict[str, Any]]:
    """One record a depth, plain values.

    nodes, leaves, empty                    nodes; of them leaves; of these the ones without a class
    min_classes, mean_classes, max_classes  of the label sets
    overlap, given_up                       of the splits at the depth together: mean number of children that hold a
                                            class of those not given up, and classes given up, over nodes; None without
                                            splits
    """
    sizes = np.diff(tree.offsets)
    depths = tree.depth_of
    found: list[dict[str, Any]] = []
    for depth in range(int(depths.max()) + 1):
        here = depths == depth
        held, record = sizes[here], {"depth": depth, "nodes": int(here.sum())}
        record["leaves"] = int((here & (tree.n_children == 0)).sum())
        record["empty"] = int((held == 0).sum())
        record |= {"min_classes": int(held.min()), "max_classes": int(held.max())}
        found.append({**record, "mean_classes": float(held.mean()), **_splits(tree, np.flatnonzero(here))})
    return found


def _splits(tree: LabelTree, nodes: Array) -> dict[str, Any]:
    """Overlap and classes given up of the inner nodes among `nodes`."""
    inner = [int(node) for node in nodes if tree.n_children[node]]
    if not inner:
        return {"overlap": None, "given_up": None}
    places, held, lost = 0, 0, 0
    for node in inner:
        first = int(tree.first_child[node])
        start, stop = tree.offsets[first], tree.offsets[first + tree.n_children[node]]
        kept = np.unique(tree.classes[start:stop]).size  # label sets of siblings follow one another
        places, held = places + int(stop - start), held + int(kept)
        lost += tree.label_set(node).size - int(kept)
    return {"overlap": places / held if held else 0.0, "given_up": lost}
