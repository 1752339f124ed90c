"""What a hashed model's hashing costs: collisions by level, features lost by class, and the same on real rows.

Two counts of lost features stand side by side: over the whole path, as in Definition 2, and without the root, which
takes no part in scores (SPECS 1.5), so that it cannot keep a feature apart. In a flat model they are the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tasks.hashing.collisions import (
    Collisions,
    TreeCollisions,
    lost_bound,
    lost_expected,
    shared_expected,
    tree_collisions,
)
from tasks.hashing.heshing import HashedScorer
from tasks.rows import Csr, Rows
from tasks.rows.base import Array

SAMPLED = 32  # nodes, and classes, that `sampled_collisions` looks at


@dataclass(frozen=True, eq=False)
class Paths:
    """Of each class: how many different nodes its path has, with the root and without it."""

    levels: Array
    unrooted: Array

    @classmethod
    def of(cls, scorer: HashedScorer) -> Paths:
        levels = scorer.depth[scorer.leaf_of_class].astype(np.int64) + 1
        return cls(levels, levels if scorer.n_levels == 1 else levels - 1)


def explain_hash(scorer: HashedScorer) -> dict[str, Any]:
    """Plain JSON values: n_buckets, one entry per level, lost features over the classes, one entry per path length."""
    found = tree_collisions(scorer.node_seeds, scorer.parent, scorer.leaf_of_class, scorer.n_features, scorer.n_buckets)
    paths = Paths.of(scorer)
    return {
        "n_buckets": scorer.n_buckets,
        "n_tables": scorer.n_tables,
        "n_features": scorer.n_features,
        "n_classes": scorer.n_outputs,
        "n_nodes": int(scorer.level.size),
        "levels": [_level(scorer, found, level) for level in range(int(scorer.depth.max()) + 1)],
        "lost": _lost(scorer, found.lost, paths.levels),
        "lost_without_root": _lost(scorer, found.lost_unrooted, paths.unrooted),
        "paths": [_length(scorer, found, paths, int(n)) for n in np.unique(paths.levels)],
    }


def _level(scorer: HashedScorer, found: TreeCollisions, level: int) -> dict[str, Any]:
    """Sharing under one node's hash, measured and expected; and the pairs that meet in a bucket of the level's row.

    All nodes of a level use one row of the table, and leaves above it use it, too; or all nodes share the only row.
    `load` is the number of pairs (node, feature) per bucket. The root has no row.
    """
    d, m = scorer.n_features, scorer.n_buckets
    own = scorer.depth == level
    leaves = scorer.depth[scorer.leaf_of_class]
    nodes = int(own.sum()) + int(np.count_nonzero(leaves < level))
    if scorer.n_tables == 1:
        nodes = int(scorer.operations_per_row())
    scored = level >= scorer.n_levels - scorer.n_tables
    return {
        "level": level,
        "nodes": int(own.sum()),
        "nodes_in_row": nodes if scored else 0,
        "shared": float(found.shared[own].mean()) / max(1, d) if own.any() else None,
        "shared_expected": shared_expected(d, m),
        "load": nodes * d / m if scored else None,
    }


def _lost(scorer: HashedScorer, lost: Array, levels: Array) -> dict[str, Any]:
    """Least, mean and most over the classes, beside what theory says."""
    d, m = scorer.n_features, scorer.n_buckets
    tau = int(levels.min())
    expected = float(np.mean([lost_expected(d, m, int(n)) for n in levels]))
    bound = lost_bound(d, m, tau)
    return {
        "least": int(lost.min()),
        "mean": float(lost.mean()),
        "most": int(lost.max()),
        "expected": expected,
        "shortest_path": tau,
        "bound": bound if math.isfinite(bound) else None,
        "bound_says_something": bound < d,
    }


def _length(scorer: HashedScorer, found: TreeCollisions, paths: Paths, levels: int) -> dict[str, Any]:
    """Classes whose path has so many nodes: lost features summed over them, measured and expected."""
    d, m = scorer.n_features, scorer.n_buckets
    chosen = paths.levels == levels
    classes, unrooted = int(chosen.sum()), int(paths.unrooted[chosen][0])
    return {
        "path": levels,
        "classes": classes,
        "lost": int(found.lost[chosen].sum()),
        "expected": classes * lost_expected(d, m, levels),
        "lost_without_root": int(found.lost_unrooted[chosen].sum()),
        "expected_without_root": classes * lost_expected(d, m, unrooted),
    }


def explain_rows(scorer: HashedScorer, parts: Iterable[tuple[Rows, Array]]) -> dict[str, Any]:
    """The same for rows with their classes: features outside a row's support do not exist (SPECS 1.7).

    parts  (rows as the model is given them, classes (n_rows,) integers)
    """
    counted = Collisions(np.empty(0, np.int64), scorer.n_buckets)
    rows: list[tuple[int, int, int, float, float]] = []
    for part, classes in parts:
        for support, c in zip(supports(part), classes.tolist(), strict=True):
            rows.append(_row(scorer, counted.of(support), c))
    means = np.array(rows, np.float64).mean(axis=0) if rows else np.zeros(5)
    size, lost, unrooted, expected, expected_unrooted = means.tolist()
    return {
        "rows": len(rows),
        "support": size,
        "lost": lost,
        "expected": expected,
        "lost_without_root": unrooted,
        "expected_without_root": expected_unrooted,
    }


def _row(scorer: HashedScorer, counted: Collisions, c: int) -> tuple[int, int, int, float, float]:
    """Support, lost features with the root and without it, and what is expected of both."""
    path = path_of(scorer, c)
    size, m = counted.mixed.size, scorer.n_buckets
    below = path[1:] if scorer.n_levels > 1 else path
    unrooted = counted.mask(scorer.node_seeds[below])
    whole = unrooted & counted.mask(scorer.node_seeds[path[:1]])
    expected = lost_expected(size, m, len(path)), lost_expected(size, m, len(below))
    return size, int(whole.sum()), int(unrooted.sum()), *expected


def path_of(scorer: HashedScorer, c: int) -> Sequence[int]:
    """The different nodes from the root (if there is one) to the leaf of class c."""
    nodes = [int(scorer.leaf_of_class[c])]
    while (above := int(scorer.parent[nodes[0]])) >= 0:
        nodes.insert(0, above)
    return nodes


def supports(rows: Rows) -> Iterable[Array]:
    """The features that are not zero, (n,) ascending, of each row."""
    plain = rows.decoded()
    for i in range(plain.n_rows):
        row = plain.part(i, i + 1)
        if isinstance(row, Csr):
            yield np.unique(row.indices[row.data != 0])
        else:
            yield np.flatnonzero(row.to_array()[0])


def sampled_collisions(scorer: HashedScorer) -> dict[str, float]:
    """Mean share of features that share their bucket under a node's hash, and mean lost features of a class.

    Of at most SAMPLED nodes and classes, evenly spaced, the root left out, each beside what ideal hashing expects.
    """
    d, m = scorer.n_features, scorer.n_buckets
    counted = Collisions(np.arange(d), m)
    scored = np.flatnonzero((scorer.parent >= 0) | (scorer.depth.max() == 0))
    shared = [counted.under(int(seed))[0] for seed in scorer.node_seeds[_spread(scored)]]
    classes = _spread(np.arange(scorer.n_outputs))
    paths = [path_of(scorer, int(c)) for c in classes]
    unrooted = [path[1:] if len(path) > 1 else path for path in paths]
    lost = [int(np.count_nonzero(counted.mask(scorer.node_seeds[path]))) for path in unrooted]
    return {
        "collided": float(np.mean(shared)) / max(1, d),
        "expected_collided": shared_expected(d, m),
        "lost_features": float(np.mean(lost)),
        "expected_lost_features": float(np.mean([lost_expected(d, m, len(path)) for path in unrooted])),
    }


def _spread(items: Array) -> Array:
    """At most SAMPLED of the items, evenly spaced."""
    places = np.unique(np.linspace(0, len(items) - 1, min(SAMPLED, len(items))).astype(np.int64))
    spread: Array = items[places]
    return spread
