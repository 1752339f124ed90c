"""Least confused pairs: the least ones for certain, ties by an even, seeded choice, dense and sparse alike."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array, csr_array

from tasks.errors import ParamError
from tasks.relaxed import initial
from tasks.relaxed.initial import least_confused_pairs
from tasks.rows.base import Array
from tasks.seeds import stream
from tests.strategies import seeds

samples = st.integers(1, 40)


def confusion_of(seed: int, n_classes: int) -> Array:
    """Counts with most rows right, few confusions, and ties."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 3, (n_classes, n_classes)) * (rng.random((n_classes, n_classes)) < rng.random())
    return counts + np.diag(rng.integers(0, 20, n_classes))


def rates(confusion: Array, counts: Array) -> dict[tuple[int, int], float]:
    """By definition."""

    def share(a: int, b: int) -> float:
        return float(confusion[a, b]) * (1.0 / counts[a] if counts[a] > 0 else 0.0)

    return {(a, b): share(a, b) + share(b, a) for a, b in itertools.combinations(range(len(confusion)), 2)}


def assert_least(pairs: Array, by_pair: dict[tuple[int, int], float], n: int) -> None:
    """The pairs are distinct, ordered, and no other pair is confused less than one of them."""
    assert pairs.dtype == np.int64
    assert pairs.shape == (min(n, len(by_pair)), 2)
    chosen = [(a, b) for a, b in pairs.tolist()]
    assert len(set(chosen)) == len(chosen)
    assert [by_pair[pair] for pair in chosen] == sorted(by_pair.values())[: len(chosen)]
    assert chosen == sorted(chosen, key=lambda pair: (by_pair[pair], pair))


@given(seeds, st.integers(2, 12), samples)
@settings(max_examples=80)
def test_no_other_pair_is_confused_less(seed: int, n_classes: int, n: int) -> None:
    confusion = confusion_of(seed, n_classes)
    pairs = least_confused_pairs(confusion, n, stream(seed, "test"))
    assert_least(pairs, rates(confusion, confusion.sum(axis=1)), n)


@given(seeds, st.integers(2, 12), samples)
@settings(max_examples=40)
def test_sparse_counts_and_small_blocks_give_the_same(seed: int, n_classes: int, n: int) -> None:
    confusion = confusion_of(seed, n_classes)
    expected = least_confused_pairs(confusion, n, stream(seed, "test"))
    for sparse in (csr_array(confusion), coo_array(confusion)):
        np.testing.assert_array_equal(least_confused_pairs(sparse, n, stream(seed, "test")), expected)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(initial, "BLOCK_CELLS", 20)
        np.testing.assert_array_equal(least_confused_pairs(confusion, n, stream(seed, "test")), expected)


@given(seeds, st.integers(2, 9), samples)
@settings(max_examples=40)
def test_counts_of_a_node_stand_for_answers_cut_away(seed: int, n_classes: int, n: int) -> None:
    confusion = confusion_of(seed, 12)
    classes = np.sort(np.random.default_rng(seed).choice(12, n_classes, replace=False))
    part, counts = confusion[np.ix_(classes, classes)], confusion.sum(axis=1)[classes]
    assert_least(least_confused_pairs(part, n, stream(seed, "test"), counts), rates(part, counts), n)


def test_classes_of_many_rows_do_not_weigh_more() -> None:
    confusion = np.array([[900, 90, 10], [0, 9, 1], [0, 0, 10]])  # shares 0 to 1: 0.09, 0 to 2: 0.01, 1 to 2: 0.1
    pairs = least_confused_pairs(confusion, 3, stream(1, "test"))
    np.testing.assert_array_equal(pairs, [[0, 2], [0, 1], [1, 2]])


def test_ties_are_chosen_evenly() -> None:
    """Of 10 pairs one is the least and one the most confused; two of the other eight are taken, each as often."""
    confusion = np.zeros((5, 5), np.int64)
    confusion[np.triu_indices(5, 1)] = 1
    confusion[0, 1], confusion[3, 4] = 0, 2
    drawn: Counter[tuple[Any, ...]] = Counter()
    for seed in range(800):
        pairs = least_confused_pairs(confusion, 3, stream(seed, "test"), np.full(5, 4))
        assert tuple(pairs[0]) == (0, 1)
        drawn.update(tuple(pair) for pair in pairs[1:].tolist())
    assert len(drawn) == 8
    assert (3, 4) not in drawn
    assert all(140 < times < 260 for times in drawn.values())  # 200 expected, deviation 12


def test_the_seed_alone_decides() -> None:
    nothing = np.zeros((30, 30), np.int64)
    first = least_confused_pairs(nothing, 10, stream(5, "pairs", 3))
    np.testing.assert_array_equal(first, least_confused_pairs(nothing, 10, stream(5, "pairs", 3)))
    assert not np.array_equal(first, least_confused_pairs(nothing, 10, stream(6, "pairs", 3)))


def test_fewer_pairs_than_asked_for_are_all_taken() -> None:
    pairs = least_confused_pairs(np.eye(4, dtype=np.int64), 30, stream(0, "test"))
    np.testing.assert_array_equal(pairs, list(itertools.combinations(range(4), 2)))
    assert least_confused_pairs(np.eye(1), 30, stream(0, "test")).shape == (0, 2)


@pytest.mark.parametrize("n", [0, -3])
def test_no_samples_are_refused(n: int) -> None:
    with pytest.raises(ParamError, match="samples"):
        least_confused_pairs(np.eye(3), n, stream(0, "test"))
