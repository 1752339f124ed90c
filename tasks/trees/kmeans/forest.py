"""Several trees of the same classes whose probabilities are averaged: what one tree divides badly, others do not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from tasks.later import numba
from tasks.models.base import Probabilities, Ranking
from tasks.models.errors import ModelFormat
from tasks.models.flat import PROBABILISTIC
from tasks.rows.base import Array, Rows
from tasks.trees.tree import BEAM, LabelTree

FOREST = "kmeans-forest"
TREES = "trees"  # the field of model.json: how many
NAMED = 32  # classes that each tree names at least: what is lower there hardly moves a mean


@numba.njit(cache=True, nogil=True)
def add_named(classes: Array, masses: Array, totals: Array, touched: Array, n: int) -> int:
    """Add the masses (width,) of the classes (width,) a tree names for a row; -1 is none.

    totals  (n_classes,) float64, negative where a class was not named yet; touched (n_classes,) int32: the n named
    """
    for k in range(classes.size):
        c = classes[k]
        if c < 0:
            continue
        if totals[c] < 0:
            totals[c], touched[n] = 0.0, c
            n += 1
        totals[c] += masses[k]
    return n


@numba.njit(cache=True, nogil=True)
def mean_masses(classes: Array, masses: Array, n_classes: int, labels: Array, means: Array) -> None:
    """The classes of highest mean mass over trees; a tree that does not name a class gives it 0; ties to the lower.

    classes (n_trees, n_rows, width) int32, masses float32 alike; labels (n_rows, top) int32 and means (n_rows, top)
    float32: filled, -1 and NaN where fewer classes are named
    """
    n_trees, top = classes.shape[0], labels.shape[1]
    totals, touched = np.full(n_classes, -1.0), np.empty(n_classes, np.int32)
    for i in range(labels.shape[0]):
        n = 0
        for t in range(n_trees):
            n = add_named(classes[t, i], masses[t, i], totals, touched, n)
        for place in range(top):
            best = -1
            for k in range(n):
                c = touched[k]
                if totals[c] >= 0 and (
                    best < 0 or totals[c] > totals[best] or (totals[c] == totals[best] and c < best)
                ):
                    best = c
            labels[i, place] = best
            means[i, place] = totals[best] / n_trees if best >= 0 else np.nan
            if best >= 0:
                totals[best] = -1.0
        for k in range(n):
            totals[touched[k]] = -1.0


@dataclass(frozen=True, eq=False)
class Forest:
    """Probabilistic trees of the same classes and features; see `LabelTree`."""

    trees: tuple[LabelTree, ...]
    kind: str = FOREST

    @property
    def probabilistic(self) -> bool:
        """Its scores are means of probabilities."""
        return True

    @property
    def n_features(self) -> int:
        return self.trees[0].n_features

    @property
    def n_classes(self) -> int:
        return self.trees[0].n_classes

    @property
    def beam(self) -> int:
        """Nodes that every tree expands a depth at most."""
        return self.trees[0].beam

    @property
    def searchable(self) -> bool:
        return True

    def searched(self, beam: int) -> Self:
        """The same trees with another beam of their own."""
        return replace(self, trees=tuple(tree.searched(beam) for tree in self.trees))

    def rank(self, rows: Rows, top: int, labels: Array | None = None, beam: int | None = None) -> Ranking:
        """The classes of highest mean probability; evaluations add up, the path is that through the first tree.

        Arguments as in `LabelTree.rank`. Raises ColumnMismatch.
        """
        width = min(self.n_classes, max(top, NAMED))
        known = np.full(rows.n_rows, -1, np.int32) if labels is None else labels
        found = [tree.rank(rows, width, known, beam) for tree in self.trees]
        parts = [one.probabilities for one in found if one.probabilities is not None]
        classes, means = np.empty((rows.n_rows, top), np.int32), np.empty((rows.n_rows, top), np.float32)
        stacked = np.stack([one.classes for one in found]), np.stack([part.named for part in parts])
        mean_masses(*stacked, self.n_classes, classes, means)
        probabilities = None
        if labels is not None:
            own = np.log(np.mean([np.exp(part.label_log.astype(np.float64)) for part in parts], axis=0))
            probabilities = Probabilities(means.copy(), own.astype(np.float32))
        evaluations = np.stack([one.evaluations for one in found]).sum(axis=0, dtype=np.int32)
        return Ranking(classes, means, evaluations, found[0].path, probabilities)

    def header(self) -> dict[str, Any]:
        """Plain values for model.json: how many trees, and what each says of itself."""
        headers = [{key: value for key, value in tree.header().items() if key != BEAM} for tree in self.trees]
        facts: dict[str, Any] = {"kind": self.kind, TREES: len(self.trees), PROBABILISTIC: True, "members": headers}
        return facts | ({BEAM: self.beam} if self.beam != 1 else {})

    def tensors(self) -> dict[str, Array]:
        """Those of all trees, named t0.first_child and so on."""
        return {f"t{t}.{name}": values for t, tree in enumerate(self.trees) for name, values in tree.tensors().items()}

    @classmethod
    def load(cls, header: dict[str, Any], tensors: dict[str, Array]) -> Self:
        """The trees that `header` and `tensors` describe. Raises ModelFormat when they do not fit together."""
        members = header["members"]
        if not members or header[TREES] != len(members):
            raise ModelFormat(f"{TREES} is {header[TREES]!r}, but {len(members)} trees are described")
        shared = {name: header[name] for name in ("n_features", "n_classes", BEAM) if name in header}
        trees = []
        for t, member in enumerate(members):
            own = {name.removeprefix(f"t{t}."): tensors[name] for name in tensors if name.startswith(f"t{t}.")}
            trees.append(LabelTree.load({**member, **shared}, own))
        if not all(tree.probabilistic for tree in trees):
            raise ModelFormat("a forest is of trees that give probabilities")
        return cls(tuple(trees), str(header["kind"]))
