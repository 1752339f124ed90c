"""Whether the arrays of a hierarchy that was read from a file describe one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tasks.models.errors import ModelFormat
from tasks.svm.bank_checks import check_lists

if TYPE_CHECKING:
    from tasks.relaxed.hierarchy import Hierarchy

ONE_LEAF = "svm-ovr"  # the kind that has no split


def check_hierarchy(model: Hierarchy) -> None:
    """Raises ModelFormat unless every walk ends in a leaf, label sets follow from the colors, and classifiers fit."""
    n = model.n_nodes
    if n < 1 or model.positive.size != n or model.first_classifier.size != n or model.offsets.size != n + 1:
        raise ModelFormat("a hierarchy needs children, a classifier and a set of classes of every node")
    check_lists(model.classes, model.offsets, model.n_classes, "classes of the nodes")
    if model.colors.size != model.classes.size or (np.abs(model.colors) > 1).any() or (model.sizes < 1).any():
        raise ModelFormat("every node needs classes, and every class of it a color of -1, 0 or 1")
    if model.kind == ONE_LEAF and n != 1:
        raise ModelFormat(f"a model of kind {ONE_LEAF} is one leaf, and this one has {n:,} nodes")
    _check_children(model)
    for node in range(n):
        _check_classes(model, node)
    _check_classifiers(model)


def _check_children(model: Hierarchy) -> None:
    splits, nodes = model.is_split, np.arange(model.n_nodes)
    for child in (model.negative, model.positive):
        # children come later, so no walk returns to a node
        fits = np.where(splits, (child > nodes) & (child < model.n_nodes), child == -1)
        if not fits.all():
            raise ModelFormat(f"node {int(np.argmin(fits))} has no proper children: two later nodes, or -1 and -1")
    reached = np.zeros(model.n_nodes, bool)
    reached[0] = True
    reached[model.negative[splits]] = reached[model.positive[splits]] = True
    if not reached.all():
        raise ModelFormat(f"node {int(np.argmin(reached))} is the child of none")


def _check_classes(model: Hierarchy, node: int) -> None:
    classes, colors = model.label_set(node), model.colors_of(node)
    if not model.is_split[node]:
        if colors.any():
            raise ModelFormat(f"node {node} is a leaf, and its classes have colors")
        return
    if not ((colors > 0).any() and (colors < 0).any()):
        raise ModelFormat(f"node {node} has no class on one of its sides")
    for child, kept in ((model.negative[node], colors <= 0), (model.positive[node], colors >= 0)):
        if not np.array_equal(model.label_set(child), classes[kept]):
            raise ModelFormat(f"the set of classes of node {child} is not what the colors of node {node} leave it")


def _check_classifiers(model: Hierarchy) -> None:
    counts = model.classifiers_of_node
    ends = np.cumsum(counts, dtype=np.int64)
    first = np.where(counts > 0, ends - counts, -1)
    if not (np.isfinite(model.doubt) and model.doubt >= 0):
        raise ModelFormat(f"doubt is {model.doubt!r}, and must be 0 or more")
    judges = model.sizes[0] if model.doubt else 0
    if not np.array_equal(model.first_classifier, first) or ends[-1] + judges != model.bank.n_classifiers:
        told = f"the {model.bank.n_classifiers:,} classifiers do not follow one another in the nodes' order"
        raise ModelFormat(f"{told}, with {judges:,} judges after them" if judges else told)
