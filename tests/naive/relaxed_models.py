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
    if len(node.classes) == 1:
        return Answer([int(node.classes[0])], [0.0 if math.isinf(surest) else surest], asked, names)
    classes, scores = best_first(list(node.classes), [f(one) for one in node.classifiers])
    return Answer(classes, scores, [*asked, *node.classifiers], names)


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
