"""Confusion of classes: counts that add, and the affinity they give, against the definitions."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from tasks.rows.base import Array
from tasks.trees.bengio.confusion import Confusion, Counts, affinity_of, confusion_of
from tests.naive import bengio as naive

N_CLASSES = 7


def answers_of(seed: int, n_rows: int, right: float = 0.6) -> tuple[Array, Array, Array]:
    """(answers (n_rows, 2), labels, validation) of rows of all classes but the last; class 0 has no validation rows."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, N_CLASSES - 1, n_rows).astype(np.int32)
    order = np.array([rng.permutation(N_CLASSES) for _ in range(n_rows)]).reshape(n_rows, N_CLASSES)
    best = np.where(rng.random(n_rows) < right, labels, order[:, 0])
    second = np.where(order[:, 1] == best, order[:, 2], order[:, 1])
    return np.stack([best, second], axis=1).astype(np.int32), labels, labels > 0


def plain(answers: Array, labels: Array, validation: Array) -> list[naive.Answer]:
    rows = zip(labels.tolist(), answers.tolist(), validation.tolist(), strict=True)
    return [(label, best, second, told) for label, (best, second), told in rows]


@pytest.mark.parametrize("right", [0.0, 0.6, 0.95, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_affinity_is_that_of_the_definition(seed: int, right: float) -> None:
    answers, labels, validation = answers_of(seed, 60, right)
    found = affinity_of(confusion_of(answers, labels, validation, N_CLASSES), N_CLASSES)
    np.testing.assert_allclose(
        found.toarray(), naive.affinity(plain(answers, labels, validation), N_CLASSES), atol=1e-12
    )


@pytest.mark.parametrize("seed", range(4))
def test_blocks_add_up_to_the_whole_in_any_grouping(seed: int) -> None:
    answers, labels, validation = answers_of(seed, 50)
    whole = confusion_of(answers, labels, validation, N_CLASSES)
    cuts = [0, *sorted(np.random.default_rng(seed).integers(0, 50, 3).tolist()), 50]
    parts = [confusion_of(answers[a:b], labels[a:b], validation[a:b], N_CLASSES) for a, b in pairwise(cuts)]
    forwards = parts[0] + parts[1] + parts[2] + parts[3]
    backwards = parts[3] + (parts[2] + (parts[1] + parts[0]))
    for total in (forwards, backwards):
        for name in ("answers", "others"):
            own, expected = getattr(total, name), getattr(whole, name)
            np.testing.assert_array_equal(own.pairs, expected.pairs)
            np.testing.assert_array_equal(own.counts, expected.counts)


def test_what_a_row_is_taken_for() -> None:
    """Class 1 is always right, and nearly 2; class 0 has training rows alone, right too, and nearly 2."""
    answers = np.array([[1, 2], [1, 2], [2, 3], [3, 2], [0, 2]], np.int32)
    labels, validation = np.array([1, 1, 2, 2, 0], np.int32), np.array([True, True, True, True, False])
    confusion = confusion_of(answers, labels, validation, 4)
    assert confusion.answers.matrix(4).toarray()[0].sum() == 0
    found = affinity_of(confusion, 4).toarray()
    mean = 0.5 / 2  # rate 1/2 from class 2 for class 3: two classes are confused
    expected = np.zeros((4, 4))
    expected[0, 2] = expected[1, 2] = mean / 2  # from the rows' best other answers
    expected[2, 3] = 0.5 / 2
    np.testing.assert_allclose(found, expected + expected.T)


def test_counts_of_nothing() -> None:
    nothing = Confusion.nothing()
    assert (nothing + nothing).answers.pairs.size == 0
    assert affinity_of(nothing, 3).nnz == 0


def test_rows_without_any_answer_are_not_counted() -> None:
    confusion = confusion_of(np.array([[-1, -1]], np.int32), np.array([1], np.int32), np.array([True]), 3)
    assert confusion.answers.counts.sum() == confusion.others.counts.sum() == 0


def test_repeated_pairs_are_counted_each_time() -> None:
    counts = Counts.of(np.array([5, 2, 5, 5]))
    assert counts.pairs.tolist() == [2, 5]
    assert counts.counts.tolist() == [1, 3]
    assert counts.matrix(3).toarray().tolist() == [[0, 0, 1], [0, 0, 3], [0, 0, 0]]
