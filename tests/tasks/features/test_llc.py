"""Locality-constrained codes: their equations, their optimum, pooling cell by cell, and the definition as a whole."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.errors import ParamError
from tasks.features.llc import LlcParams, cell_of, llc_codes
from tasks.features.llc_encoder import LlcEncoder
from tasks.features.words import Words, nearest_words
from tasks.rows.base import Array
from tests.naive import descriptors as naive
from tests.tasks.features.descriptor_samples import by_image, some_descriptors, some_words

LENGTHS = [3, 0, 25, 1, 40]


def coded(values: Array, words: Array, k: int, beta: float = 1e-4) -> tuple[Array, Array]:
    nearest = nearest_words(values, Words.of(words), k)
    return nearest, llc_codes(values, words, nearest, beta)


def least(system: Array) -> tuple[Array, float]:
    """The minimum of w' S w over weights that sum to one, by its conditions of first order: (w, w' S w)."""
    k = len(system)
    bordered = np.block([[2 * system, np.ones((k, 1))], [np.ones((1, k)), np.zeros((1, 1))]])
    weights = np.linalg.solve(bordered, np.append(np.zeros(k), 1.0))[:k]
    return weights, float(weights @ system @ weights)


@given(
    seed=st.integers(0, 10**6),
    k=st.integers(1, 32),
    d=st.sampled_from([1, 2, 3, 17, 128]),
    spread=st.sampled_from([1e-6, 1e-2, 1.0, 1e6]),
    beta=st.sampled_from([1e-6, 1e-4, 1e-1, 10.0]),
)
@settings(max_examples=40)
def test_codes_satisfy_their_equations(seed: int, k: int, d: int, spread: float, beta: float) -> None:
    """Sum 1; the gradient of w' S w is the same in all weights; so no weights with sum 1 have less."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((3, d)).astype(np.float32)
    words = (values[rng.integers(3, size=k + 5)] + spread * rng.standard_normal((k + 5, d))).astype(np.float32)
    nearest, codes = coded(values, words, k, beta)
    np.testing.assert_allclose(codes.sum(axis=1), 1, rtol=0, atol=1e-12)
    for x, chosen, weights in zip(values, nearest, codes, strict=True):
        assert chosen.tolist() == naive.nearest_words(x, words, k)
        system = naive.llc_system(x, words[chosen], beta)
        gradient = system @ weights
        level = float(weights @ gradient)  # w' S w; all entries of S w are that
        reach = np.abs(system) @ np.abs(weights)
        assert (np.abs(gradient - level) <= 1e-8 * level + 1e-13 * reach).all()
        assert level <= least(system)[1] * (1 + 1e-8)


@pytest.mark.parametrize("seed", range(4))
def test_codes_of_descriptors_are_optimal(seed: int) -> None:
    """As the paper has them: five words, beta 1e-4; against the definition, and neighbours on the plane of sum one."""
    values, words = some_descriptors(seed, [30]).numbers(), some_words(seed + 50, 60)
    nearest, codes = coded(values, words, 5)
    rng = np.random.default_rng(seed)
    for x, chosen, weights in zip(values, nearest, codes, strict=True):
        system = naive.llc_system(x, words[chosen], 1e-4)
        np.testing.assert_allclose(weights, naive.llc_code(x, words[chosen], 1e-4), rtol=0, atol=1e-9)
        best, level = least(system)
        np.testing.assert_allclose(weights, best, rtol=0, atol=1e-8)
        assert abs(weights @ system @ weights / level - 1) <= 1e-8
        gradient = system @ weights
        assert np.abs(gradient / gradient.mean() - 1).max() <= 1e-8
        step = rng.standard_normal(5)
        moved = weights + 1e-3 * (step - step.mean())
        assert moved @ system @ moved > level


def test_words_that_equal_the_descriptor_share_alike() -> None:
    words = np.repeat(some_words(1, 2), 3, axis=0)
    nearest, codes = coded(words[:1], words, 3)
    assert nearest.tolist() == [[0, 1, 2]]
    assert codes.tolist() == [[1 / 3] * 3]
    _, four = coded(words[:1], words, 4)  # the fourth word is another one, and is not needed
    np.testing.assert_allclose(four, [[1 / 3] * 3 + [0]], rtol=0, atol=1e-4)


def test_one_word_has_all_the_weight() -> None:
    _, codes = coded(some_descriptors(0, [6]).numbers(), some_words(2, 9), 1)
    assert codes.tolist() == [[1.0]] * 6


def test_codes_do_not_depend_on_the_batch() -> None:
    values, words = some_descriptors(8, [50]).numbers(), some_words(9, 80)
    _, codes = coded(values, words, 5)
    alone = [coded(values[i : i + 1], words, 5)[1][0] for i in range(50)]
    np.testing.assert_array_equal(codes, alone)


@pytest.mark.parametrize(
    ("share", "side", "cell"), [(0.0, 4, 0), (0.25, 4, 1), (0.999, 4, 3), (1.0, 4, 3), (1.0, 1, 0)]
)
def test_cells(share: float, side: int, cell: int) -> None:
    assert cell_of(np.float32(share), side) == cell == naive.cell_of(np.array([share, share]), side)[0]


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize(("k", "pyramid"), [(1, (1,)), (5, (1, 2, 4)), (7, (3,)), (5, (1, 2))])
def test_rows_are_those_of_the_definition(k: int, pyramid: tuple[int, ...], normalize: bool) -> None:
    rows, words = some_descriptors(k, LENGTHS), some_words(4, 15)
    encoder = LlcEncoder.of(LlcParams(k, 1e-4, pyramid, normalize), words)
    found = encoder.encode(rows)
    expected = [
        naive.pooled_row(numbers, rows.places[slice(*rows.offsets[i : i + 2])], words, k, 1e-4, pyramid, normalize)
        for i, numbers in enumerate(by_image(rows))
    ]
    assert found.shape == (5, 15 * sum(side * side for side in pyramid)) == (5, encoder.n_columns)
    assert (found.data.dtype, found.indices.dtype, found.indptr.dtype) == (np.float32, np.int32, np.int64)
    np.testing.assert_allclose(found.to_array(np.float64), expected, rtol=3e-7, atol=1e-9)
    assert (found.data > 0).all()
    for i in range(5):
        assert (np.diff(found.indices[found.indptr[i] : found.indptr[i + 1]]) > 0).all()
    assert found.indptr[2] == found.indptr[1]  # an image without descriptors
    if normalize:
        np.testing.assert_allclose(found.squared_norms(), [1, 0, 1, 1, 1], atol=1e-6)


def test_rows_do_not_depend_on_the_batch() -> None:
    rows, words = some_descriptors(3, LENGTHS), some_words(4, 40)
    encoder = LlcEncoder.of(LlcParams(), words)
    whole = encoder.encode(rows)
    for i in range(rows.n_rows):
        alone, part = encoder.encode(rows.part(i, i + 1)), whole.part(i, i + 1)
        assert alone.data.tobytes() == part.data.tobytes()
        assert alone.indices.tolist() == part.indices.tolist()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"nearest": 0}, "1 to 32"),
        ({"nearest": 33}, "1 to 32"),
        ({"beta": 0.0}, "1e-10 to 1e10"),
        ({"beta": float("nan")}, "1e-10 to 1e10"),
        ({"pyramid": ()}, "rising"),
        ({"pyramid": (2, 1)}, "rising"),
        ({"pyramid": (0, 1)}, "rising"),
        ({"pyramid": (1, 1)}, "rising"),
        ({"pyramid": (33,)}, "rising"),
    ],
)
def test_parameters_out_of_range(settings: dict[str, object], said: str) -> None:
    with pytest.raises(ParamError, match=said):
        LlcParams(**settings)  # type: ignore[arg-type]


def test_parameters_that_do_not_fit_the_vocabulary() -> None:
    assert LlcParams().columns(10_000) == 210_000
    with pytest.raises(ParamError, match="no more words"):
        LlcParams(nearest=5).columns(4)
    with pytest.raises(ParamError, match="int32"):
        LlcParams(pyramid=(32,)).columns(2**21)
