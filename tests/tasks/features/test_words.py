"""Nearest words: the definition, words that float32 cannot tell apart, any batch, sums for k-means."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.features import words as module
from tasks.features.words import GROUPS, Words, error_bound, nearest_words, squared_distance, word_sums
from tasks.quantize.kmeans import CodebookSums, train_codebooks
from tasks.rows.base import Array
from tasks.sums import tree_sum
from tests.naive import descriptors as naive
from tests.naive import quantize as naive_quantize
from tests.tasks.features.descriptor_samples import some_descriptors, some_words


def close_words(seed: int, n_words: int, d: int) -> tuple[Array, Array]:
    """Descriptors and words, many of which differ by a unit or two in the last place of a few numbers."""
    rng = np.random.default_rng(seed)
    base = rng.random((max(1, n_words // 12), d)).astype(np.float32)
    words = base[rng.integers(len(base), size=n_words)].view(np.int32)
    words = (words + rng.integers(-2, 3, words.shape) * (rng.random(words.shape) < 0.1)).astype(np.int32)
    values = base[rng.integers(len(base), size=24)] + rng.choice([0, 1e-3, 0.2], (24, 1)) * rng.random((24, d))
    return values.astype(np.float32), words.view(np.float32)


def by_definition(values: Array, words: Array, k: int) -> list[list[int]]:
    return [naive.nearest_words(x, words, k) for x in values]


@given(seed=st.integers(0, 10**6), n_words=st.integers(1, 12), d=st.integers(1, 9), k=st.integers(1, 12))
def test_ties_go_to_the_lowest(seed: int, n_words: int, d: int, k: int) -> None:
    """Whole numbers: all distances are exact, and many are equal."""
    rng = np.random.default_rng(seed)
    values, words = (rng.integers(-2, 3, (n, d)).astype(np.float32) for n in (7, n_words))
    k = min(k, n_words)
    assert nearest_words(values, Words.of(words), k).tolist() == by_definition(values, words, k)


@pytest.mark.parametrize("k", [1, 5, 32])
@pytest.mark.parametrize("n_words", [32, GROUPS - 1, GROUPS, 3 * GROUPS + 5])
def test_words_of_descriptors(n_words: int, k: int) -> None:
    values, words = some_descriptors(n_words, [12]).numbers(), some_words(k, n_words)
    assert nearest_words(values, Words.of(words), k).tolist() == by_definition(values, words, k)


@pytest.mark.parametrize("k", [1, 5])
@pytest.mark.parametrize("seed", range(4))
def test_words_that_float32_cannot_tell_apart(seed: int, k: int) -> None:
    values, words = close_words(seed, 170, 96)
    found = nearest_words(values, Words.of(words), k)
    halves = Words.of(words).halves - values @ words.T
    assert (halves.argmin(axis=1) != found[:, 0]).sum() > 3  # they cannot
    assert found.tolist() == by_definition(values, words, k)


@pytest.mark.parametrize("k", [1, 5])
def test_answers_do_not_depend_on_the_batch(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    values, words = close_words(9, 500, 96)
    vocabulary = Words.of(words)
    found = nearest_words(values, vocabulary, k)
    order = np.random.default_rng(1).permutation(len(values))
    np.testing.assert_array_equal(nearest_words(values[order], vocabulary, k), found[order])
    alone = [nearest_words(values[i : i + 1], vocabulary, k)[0] for i in range(len(values))]
    np.testing.assert_array_equal(alone, found)
    monkeypatch.setattr(module, "SLICE_CELLS", 3 * 500)
    np.testing.assert_array_equal(nearest_words(values, vocabulary, k), found)


SCALES = [*((x, x) for x in (1e-30, 1e-22, 1e-3, 1e8, 1e18, 1e19, 3e37)), (1e30, 1e12), (1e-30, 1e12)]


@pytest.mark.parametrize(("of_values", "of_words"), SCALES)
def test_values_of_any_size(of_values: float, of_words: float) -> None:
    """Squares or products that underflow, or that are more than float32 holds: then all words are compared."""
    rng = np.random.default_rng(4)
    values = (rng.standard_normal((9, 24)) * of_values).astype(np.float32)
    words = (rng.standard_normal((200, 24)) * of_words).astype(np.float32)
    for k in (1, 3):
        assert nearest_words(values, Words.of(words), k).tolist() == by_definition(values, words, k)


@pytest.mark.parametrize("k", [1, 3])
def test_descriptors_far_from_small_words(k: int) -> None:
    """The roundings of the distances themselves count here: many are equal in float64."""
    rng = np.random.default_rng(6)
    values = rng.random((20, 16)).astype(np.float32)
    words = (3e-16 * rng.standard_normal((90, 16))).astype(np.float32)
    distances = np.array([[squared_distance(x, word) for word in words] for x in values])
    expected = np.argsort(distances, axis=1, kind="stable")[:, :k]
    assert (np.ptp(distances, axis=1) > 0).any()
    np.testing.assert_array_equal(nearest_words(values, Words.of(words), k), expected)


@pytest.mark.parametrize("seed", range(3))
def test_the_bound_holds(seed: int) -> None:
    """No half distance from float32 is further from the exact one; of some it is not a hundred times too large."""
    rng = np.random.default_rng(seed)
    values = some_descriptors(seed, [60]).numbers() * np.float32(10.0 ** rng.integers(-6, 6))
    words = some_words(seed, 70) * np.float32(10.0 ** rng.integers(-6, 6))
    known = Words.of(words)
    computed = known.halves - values @ words.T
    exact = np.array([[math.fsum(w * (w / 2 - v) for v, w in zip(x, y, strict=True)) for y in words.astype(float)]
                      for x in values.astype(float)])  # fmt: skip
    bounds = np.array([error_bound(float(np.linalg.norm(x.astype(float))), known.largest, 128) for x in values])
    errors = np.abs(computed - exact).max(axis=1)
    assert (errors <= bounds).all()
    assert (errors > 0).any()


def test_no_descriptors() -> None:
    words = Words.of(some_words(0, 5))
    assert nearest_words(np.empty((0, 128), np.float32), words, 2).shape == (0, 2)
    assert word_sums(np.empty((0, 128), np.float32), words).n_rows == 0


# ---- sums for k-means ----------------------------------------------------------------------------------------------


@given(seed=st.integers(0, 10**6), n=st.integers(0, 9), n_words=st.integers(1, 5), d=st.integers(1, 6))
def test_sums_by_definition_and_over_parts(seed: int, n: int, n_words: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    values, words = (rng.integers(-3, 4, (count, d)).astype(np.float32) for count in (n, n_words))
    found = word_sums(values, Words.of(words))
    nearest = np.array(by_definition(values, words, 1), np.int64).reshape(n, 1)
    expected = naive_quantize.codebook_sums(values, nearest, words[None])
    halves = word_sums(values[: n // 2], Words.of(words)) + word_sums(values[n // 2 :], Words.of(words))
    for sums in (found, halves):
        for part, whole in zip((sums.sums, sums.counts, sums.errors), expected, strict=True):
            np.testing.assert_array_equal(part, whole)


@dataclass
class Sample:
    """Descriptors in parts, as blocks would hold them."""

    values: Array

    def initial_sample(self) -> Array:
        return self.values[:200]

    def sums(self, codebooks: Array) -> CodebookSums:
        words = Words.of(codebooks[0])
        total: CodebookSums = tree_sum([word_sums(part, words) for part in np.array_split(self.values, 5)])
        return total


def test_a_vocabulary_is_trained() -> None:
    """More words than a byte can number; the error falls, and words are means of their descriptors."""
    values = some_descriptors(5, [900], kinds=320).numbers()
    trained = train_codebooks(Sample(values), n_subquantizers=1, n_centroids=300, iterations=6, seed=2)
    assert trained.codebooks.shape == (1, 300, 128)
    assert trained.errors[-1] < 0.8 * trained.errors[0]
    words = Words.of(trained.codebooks[0])
    away = values.astype(float) - words.words[nearest_words(values, words, 1)[:, 0]]
    assert trained.errors[-1] == pytest.approx((away**2).sum() / 900, rel=1e-9)
