"""A hierarchy from its learnt nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol

import numpy as np

from tasks.relaxed.hierarchy import NONE, Hierarchy
from tasks.relaxed.hierarchy_checks import check_hierarchy
from tasks.rows import Rows
from tasks.rows.base import Array
from tasks.svm.bank import bank_of
from tasks.svm.classifier import Classifier
from tasks.svm.kernels import Kernel


class Classifiers(Protocol):
    """Some classifiers, which may be read one after another."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Classifier]: ...


@dataclass(frozen=True, eq=False)
class Node:
    """A split, or a leaf.

    classes             (L,) int32, ascending
    classifiers         one of a split, none of a leaf of one class, else one a class, in their order
    colors              (L,) int8 of a split, None of a leaf
    negative, positive  names of the children of a split
    """

    classes: Array
    classifiers: Classifiers = ()
    colors: Array | None = None
    negative: str | None = None
    positive: str | None = None

    @property
    def children(self) -> tuple[str, ...]:
        """Negative first; none of a leaf."""
        return tuple(name for name in (self.negative, self.positive) if name is not None)


def build(
    kind: str,
    nodes: Mapping[str, Node],
    root: str,
    n_features: int,
    n_classes: int,
    facts: Mapping[str, Any],
    kernel: Kernel | None = None,
    rows_of: Callable[[Array], Rows] | None = None,
    doubt: float = 0.0,
    judges: Classifiers = (),
) -> Hierarchy:
    """The hierarchy of the nodes below `root`; a child with two parents is held once.

    kernel, rows_of  as in `bank_of`
    doubt, judges    see `Hierarchy`; a root that is a leaf, or of two classes, leaves no doubt, and takes no judges
    Ids ascend with the longest way from the root, then in the order of the first parents, negative child first.
    Raises ModelFormat when the nodes do not fit together, KeyError for a child that is not among them, ValueError for
    a way that comes back to a node.
    """
    order = _order(nodes, root)
    held = [nodes[name] for name in order]
    number = {name: i for i, name in enumerate(order)}
    counts = np.array([len(node.classifiers) for node in held], np.int64)
    doubt, judges = (doubt, judges) if doubt and nodes[root].children and nodes[root].classes.size > 2 else (0.0, ())
    model = Hierarchy(
        negative=np.array([NONE if node.negative is None else number[node.negative] for node in held], np.int32),
        positive=np.array([NONE if node.positive is None else number[node.positive] for node in held], np.int32),
        first_classifier=np.where(counts > 0, np.cumsum(counts) - counts, NONE).astype(np.int32),
        offsets=np.cumsum([0, *(node.classes.size for node in held)], dtype=np.int64),
        classes=np.concatenate([node.classes for node in held]).astype(np.int32),
        colors=np.concatenate([_colors(node) for node in held]),
        bank=bank_of(chain(_classifiers(held), judges), n_features, kernel, rows_of),
        n_classes=n_classes,
        kind=kind,
        facts=facts,
        doubt=doubt,
    )
    check_hierarchy(model)
    return model


def _colors(node: Node) -> Array:
    return np.zeros(node.classes.size, np.int8) if node.colors is None else np.asarray(node.colors, np.int8)


def _classifiers(nodes: Sequence[Node]) -> Iterator[Classifier]:
    for node in nodes:
        yield from node.classifiers


def _order(nodes: Mapping[str, Node], root: str) -> list[str]:
    """All nodes below the root, level by level of their longest way from it."""
    level = {root: 0}
    for name in reversed(_finished(nodes, root)):  # parents first
        for child in nodes[name].children:
            level[child] = max(level.get(child, 0), level[name] + 1)
    levels: list[list[str]] = [[] for _ in range(max(level.values()) + 1)]
    levels[0], seen = [root], {root}
    for names in levels:  # later ones grow meanwhile
        for name in names:
            for child in nodes[name].children:
                if child not in seen:
                    seen.add(child)
                    levels[level[child]].append(child)
    return [name for names in levels for name in names]


def _finished(nodes: Mapping[str, Node], root: str) -> list[str]:
    """All nodes below the root, each after its children. Raises ValueError for a way that comes back."""
    done: list[str] = []
    open_nodes: dict[str, bool] = {}  # False once finished
    waiting = [root]
    while waiting:
        name = waiting[-1]
        if name not in open_nodes:
            open_nodes[name] = True
            for child in reversed(nodes[name].children):
                if open_nodes.get(child):
                    raise ValueError(f"node {child} is above itself")
                if child not in open_nodes:
                    waiting.append(child)
            continue
        waiting.pop()
        if open_nodes[name]:
            open_nodes[name] = False
            done.append(name)
    return done
