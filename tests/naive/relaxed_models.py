"""Hierarchies and pairs by their definitions: one row, one node, one classifier at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tasks.svm.classifier import Classifier, KernelClassifier

Margin = Callable[[Classifier], float]


def linear_margin(x: np.ndarray, one: Classifier) -> float:
    """w . x + b, correctly rounded."""
    assert not isinstance(one, KernelClassifier)
    return math.fsum([float(a) * float(b) for a, b in zip(x, one.weights, strict=True)] + [one.bias])


def kernel_margin(x: np.ndarray, one: Classifier, training: np.ndarray, k: Callable[..., float]) -> float:
    """sum of coefficient_i k(x_i, x) + b, correctly rounded."""
    assert isinstance(one, KernelClassifier)
    pairs = zip(one.support, one.coefficients, strict=True)
    return math.fsum([float(c) * k(training[i], x) for i, c in pairs] + [one.bias])


@dataclass
class Answer:
    """Classes best first, their scores, and what was asked on the way."""

    classes: list[int]
    scores: list[float]
    asked: list[Classifier]
    names: list[str]

    def cost(self) -> int:
        """Kernels: different support vectors; linear: classifiers."""
        if any(isinstance(one, KernelClassifier) for one in self.asked):
            return len({int(i) for one in self.asked if isinstance(one, KernelClassifier) for i in one.support})
        return len(self.asked)


def best_first(classes: Sequence[int], scores: Sequence[float]) -> tuple[list[int], list[float]]:
    """Highest first, ties to the lower class."""
    order = sorted(range(len(classes)), key=lambda i: (-scores[i], classes[i]))
    return [int(classes[i]) for i in order], [scores[i] for i in order]


def walk(nodes: Mapping[str, object], root: str, f: Margin) -> Answer:
    """Down the named nodes (see `assemble.Node`) by the margins f of a row."""
    name, asked, names, surest = root, [], [root], math.inf
    node = nodes[name]
    while node.negative is not None:
        (classifier,) = node.classifiers
        asked.append(classifier)
        margin = f(classifier)
        surest = min(surest, abs(margin))
        name = node.positive if margin >= 0 else node.negative
        names.append(name)
        node = nodes[name]
    classes, scores = ending(node, f, surest)
    return Answer(classes, scores, [*asked, *node.classifiers], names)


def walk_in_doubt(nodes: Mapping[str, object], root: str, f: Margin, doubt: float, judges: Mapping) -> Answer:
    """Down both sides of every split of three classes or more with |f| < doubt; where the ends differ, judges (class ->
    machine) compare.

    `names` are those on the way to the first class. Of several ways to a node counts that by which it was first met,
    nodes met in the order of their longest ways, negative children before positive ones.
    """
    met, came, order = {root: math.inf}, {root: None}, longest_first(nodes, root)
    asked, ends = [], {}
    for name in order:
        node = nodes[name]
        if name not in met:
            continue
        if node.negative is None:
            ends[name] = ending(node, f, met[name])
            asked += node.classifiers
            continue
        (classifier,) = node.classifiers
        asked.append(classifier)
        margin = f(classifier)
        for child, side in ((node.negative, margin < 0), (node.positive, margin >= 0)):
            if side or (abs(margin) < doubt and len(node.classes) > 2):
                met.setdefault(child, min(met[name], abs(margin)))
                came.setdefault(child, name)
    candidates = list(dict.fromkeys(classes[0] for classes, _ in ends.values()))
    judged, told = candidates, []
    if len(candidates) > 1:
        judged, told = best_first(candidates, [f(judges[c]) for c in candidates])
        asked += [judges[c] for c in candidates]
    last = next(name for name, (classes, _) in ends.items() if classes[0] == judged[0])
    classes, scores = ends[last]
    if told:
        rest = [(c, s - scores[0] + told[-1]) for c, s in zip(classes, scores, strict=True) if c not in judged]
        classes, scores = judged + [c for c, _ in rest], told + [s for _, s in rest]
    names = [last]
    while came[names[0]] is not None:
        names.insert(0, came[names[0]])
    return Answer(classes, scores, asked, names)


def ending(node: object, f: Margin, least: float) -> tuple[list[int], list[float]]:
    """What a leaf names."""
    if len(node.classes) == 1:
        return [int(node.classes[0])], [0.0 if math.isinf(least) else least]
    return best_first(list(node.classes), [f(one) for one in node.classifiers])


def longest_first(nodes: Mapping[str, object], root: str) -> list[str]:
    """Level by level of their longest ways from the root; within a level as their first parents stand there."""
    level, waiting = {root: 0}, [root]
    while waiting:
        name = waiting.pop()
        for child in nodes[name].children:
            if level.get(child, -1) <= level[name]:
                level[child] = level[name] + 1
                waiting.append(child)
    order = [root]
    for depth in range(1, max(level.values()) + 1):
        above = [child for name in order for child in nodes[name].children if level[child] == depth]
        order += dict.fromkeys(above)
    return order


def paired(n: int, classifiers: Sequence[Classifier]) -> dict[tuple[int, int], Classifier]:
    """By the places of their classes."""
    places = [(i, j) for i in range(n) for j in range(i + 1, n)]
    return dict(zip(places, classifiers, strict=True))


def max_wins(classes: Sequence[int], classifiers: Sequence[Classifier], f: Margin) -> Answer:
    """Every pair votes."""
    votes = dict.fromkeys(classes, 0)
    for (i, j), one in paired(len(classes), classifiers).items():
        votes[classes[i] if f(one) >= 0 else classes[j]] += 1
    ranked, scores = best_first(list(votes), [float(count) for count in votes.values()])
    return Answer(ranked, scores, list(classifiers), [])


def dag(classes: Sequence[int], classifiers: Sequence[Classifier], f: Margin) -> Answer:
    """First against last of the list; the loser is dropped."""
    table, left, dropped, asked = paired(len(classes), classifiers), list(range(len(classes))), [], []
    while len(left) > 1:
        one = table[left[0], left[-1]]
        asked.append(one)
        dropped.append(left.pop(-1 if f(one) >= 0 else 0))
    ranked = [*left, *reversed(dropped)]
    return Answer([classes[i] for i in ranked], [float(s) for s in range(len(classes), 0, -1)], asked, [])
