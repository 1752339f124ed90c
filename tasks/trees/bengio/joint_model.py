"""The tree that jointly trained weights come to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tasks.fit.scorer import Parameters
from tasks.rows.base import Array
from tasks.trees.bengio.joint import JointScorer
from tasks.trees.taxonomy_tree import TaxonomyTree
from tasks.trees.tree import BENGIO, LabelTree, Path, Split, assemble
from tasks.trees.weights import ActiveWeights


def joint_model(
    tree: TaxonomyTree, scorer: JointScorer, parameters: Parameters, facts: Mapping[str, Any], beam: int = 1
) -> LabelTree:
    """A LabelTree of kind "bengio-tree": nodes keep their ids.

    parameters  of the scorer, for rows from which nothing was taken away
    """
    offsets, classes = tree.label_sets()
    held = [classes[offsets[node] : offsets[node + 1]].astype(np.int32) for node in range(tree.n_nodes)]
    bias = parameters.get("bias", np.zeros(tree.n_columns, np.float32))
    splits: dict[Path, Split] = {}
    paths = node_paths(tree)
    for node, columns in scorer.inner():
        below = range(columns.start + 1, columns.stop + 1)
        children = np.array([np.isin(held[node], held[child]) for child in below])
        matrix = np.ascontiguousarray(scorer.matrix(parameters["weights"], node), np.float32)
        features = scorer.features(node)
        weights = matrix if features is None else ActiveWeights(features, matrix, (scorer.n_features, len(below)))
        splits[paths[node]] = Split(held[node], children, weights, np.asarray(bias[columns], np.float32))
    return assemble(splits, scorer.n_features, tree.n_classes, facts, held[0], kind=BENGIO, beam=beam)


def node_paths(tree: TaxonomyTree) -> list[Path]:
    """Of each node, by id, which child at each split from the root."""
    paths: list[Path] = [()]
    for node in range(1, tree.n_nodes):
        above = int(tree.parent[node])
        paths.append((*paths[above], node - int(tree.first_child[above])))
    return paths


def children_met(tree: TaxonomyTree) -> Array:
    """(n_classes,) int64: children of the splits on each class's path, the dot products of one training row."""
    return np.array([sum(int(tree.n_children[tree.parent[node]]) for node in path) for path in tree.paths()], np.int64)
