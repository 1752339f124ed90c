"""The shape of a Bengio tree: classes parted by spectral clustering, depth after depth, into disjoint sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from tasks.later import later
from tasks.rows.base import Array
from tasks.seeds import stream
from tasks.trees.bengio.spectral import spectral_groups
from tasks.trees.params import LabelTreeParams
from tasks.trees.taxonomy_tree import TaxonomyTree
from tasks.trees.tree import NONE

sparse = later("scipy.sparse")

Part = Callable[[int, Array], Array]  # (depth, node of each class (K,), NONE = not parted) -> part of each class (K,)


@dataclass(frozen=True, slots=True)
class Parting:
    """One node whose classes are to be parted."""

    node: int

    @property
    def label(self) -> str:
        return f"{self.node:05d}"


def part_node(item: Parting, affinity: Mapping[str, Array], node_of: Array, n_parts: int, seed: int) -> Array:
    """The part (n,) int32 of each class of a node, ascending classes; every part has one.

    affinity  {"data", "indices", "indptr"} of the classes' affinity, (K, K) in compressed sparse rows
    node_of   (K,) int32: the node of each class; n_parts at most the classes of the node
    """
    arrays = tuple(np.asarray(affinity[name]) for name in ("data", "indices", "indptr"))
    whole = sparse.csr_array(arrays, shape=(node_of.size, node_of.size))
    classes = np.flatnonzero(node_of == item.node)
    own = whole[classes][:, classes].tocsr()
    return spectral_groups(own, n_parts, stream(seed, "bengio-tree", item.node)).astype(np.int32)


def skeleton(n_classes: int, params: LabelTreeParams, part: Part) -> TaxonomyTree:
    """T_{Q,H} over disjoint sets: learned nodes have Q children, the others one per class (see `kind_of`).

    params  settled; part is asked once a depth with learned nodes
    """
    sets, parent = [np.arange(n_classes)], [NONE]
    first_child, n_children, leaf_of_class = [], [], np.zeros(n_classes, np.int32)
    start, depth = 0, 0
    while start < len(sets):
        stop = len(sets)
        kinds = [params.kind_of(sets[node].size, depth) for node in range(start, stop)]
        node_of = np.full(n_classes, NONE, np.int32)
        for node, kind in enumerate(kinds, start):
            if kind == "learned":
                node_of[sets[node]] = node
        parts = part(depth, node_of) if (node_of >= 0).any() else node_of
        for node, kind in enumerate(kinds, start):
            if kind == "leaf":
                leaf_of_class[sets[node]] = node
            below = _children(sets[node], kind == "leaf", parts[sets[node]] if kind == "learned" else None)
            first_child.append(len(sets) if below else NONE)
            n_children.append(len(below))
            sets += below
            parent += [node] * len(below)
        start, depth = stop, depth + 1
    return TaxonomyTree(
        np.array(parent, np.int32), np.array(first_child, np.int32), np.array(n_children, np.int32), leaf_of_class
    )


def _children(classes: Array, leaf: bool, parts: Array | None) -> list[Array]:
    """Class sets of a node's children: one per part, or one per class."""
    if leaf:
        return []
    if parts is None:
        return [classes[i : i + 1] for i in range(classes.size)]
    return [classes[parts == q] for q in range(int(parts.max()) + 1)]
