"""Distances, neighbours and curves against their definitions; ties, sentinels, odd widths, any order of blocks."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from tasks.hashing.code_rows import CodeHash
from tasks.hashing.wta import CodeParams
from tasks.retrieval import rank as ranking
from tasks.retrieval.curve import CurveSums, count_distances, sum_over_queries
from tasks.retrieval.hamming import RUN, SEGMENT, hamming_distances
from tasks.retrieval.missing import missing, scale_to_present
from tasks.retrieval.nearest import Nearest, room_of
from tasks.rows import Dense
from tests.naive import retrieval as naive

WIDTHS = [1, 2, 63, RUN - 1, RUN, RUN + 1, 2 * RUN + 44]
SENTINELS = {"uint8": 255, "uint16": 65535, "int32": -1}


def some_codes(rng: np.random.Generator, shape: tuple[int, int], dtype: str, n_codes: int = 4) -> np.ndarray:
    """Codes with ties, some rows all of the sentinel, as of rows of zeros."""
    codes = rng.integers(0, n_codes, shape).astype(dtype)
    codes[rng.random(shape[0]) < 0.2] = SENTINELS[dtype]
    return codes


@pytest.mark.parametrize("n_hashes", WIDTHS)
@pytest.mark.parametrize("dtype", sorted(SENTINELS))
@pytest.mark.parametrize("n_queries", [1, 2, 5])
def test_distances_are_counts_of_different_codes(dtype: str, n_hashes: int, n_queries: int) -> None:
    rng = np.random.default_rng([n_hashes, n_queries])
    queries, codes = some_codes(rng, (n_queries, n_hashes), dtype), some_codes(rng, (7, n_hashes), dtype)
    found = hamming_distances(queries, codes)
    assert found.dtype == np.int32
    assert found.tolist() == naive.distances(queries, codes)


@pytest.mark.parametrize("dtype", sorted(SENTINELS))
def test_distances_over_several_segments(dtype: str) -> None:
    """All codes differ, so that the narrow counts are as large as they get."""
    n_hashes = SEGMENT + RUN + 3
    queries, codes = np.zeros((3, n_hashes), dtype), np.ones((2, n_hashes), dtype)
    codes[1, :SEGMENT] = 0
    assert hamming_distances(queries, codes).tolist() == [[n_hashes, RUN + 3]] * 3


def test_rows_of_zeros_are_equal_to_each_other_and_far_from_all_others() -> None:
    nothing, something = np.full((1, 9), 255, np.uint8), np.zeros((1, 9), np.uint8)
    assert hamming_distances(nothing, np.concatenate([nothing, something])).tolist() == [[0, 9]]


def test_views_are_taken_and_codes_of_another_definition_are_not() -> None:
    codes = np.arange(48, dtype=np.uint8).reshape(4, 12)
    assert hamming_distances(codes[::2, ::2], codes[:, ::2]).tolist() == [[0, 6, 6, 6], [6, 6, 0, 6]]
    for other in (codes[:, :5], codes.astype(np.uint16)):
        with pytest.raises(ValueError, match="one definition"):
            hamming_distances(codes, other)


@pytest.mark.parametrize("top", [1, 3, 40, 200])
@pytest.mark.parametrize("seed", range(4))
def test_nearest_rows_whatever_the_order_in_which_they_come(top: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_rows = 3 * room_of(top) // 2 if seed else top // 2 + 1
    distances = rng.integers(0, 6, (5, n_rows)).astype(np.int32)
    rows = np.sort(rng.choice(2**33, n_rows, replace=False))
    nearest = Nearest(5, top)
    for part in np.array_split(rng.permutation(n_rows), 4):
        nearest.add(0, distances[:2, part], rows[part])
        nearest.add(2, distances[2:, part], rows[part])
    best, found = nearest.found()
    expected = [naive.nearest(of_query, rows.tolist(), top) for of_query in distances.tolist()]
    assert [list(zip(d, r, strict=True)) for d, r in zip(found.tolist(), best.tolist(), strict=True)] == expected


def test_nearest_of_no_queries_and_of_no_rows() -> None:
    assert Nearest(0, 3).found()[0].shape == (0, 0)
    assert Nearest(2, 3).found()[0].shape == (2, 0)


def sums_of(distances: np.ndarray, query_labels: np.ndarray, labels: np.ndarray, n_hashes: int) -> CurveSums:
    retrieved, relevant = np.zeros((2, len(distances), n_hashes + 1), np.int64)
    count_distances(distances, query_labels, labels, retrieved, relevant)
    empty = CurveSums.none(n_hashes, 0)
    answerable, average = sum_over_queries(retrieved, relevant, query_labels, empty.counts, empty.means, 0.0)
    queries = int((query_labels >= 0).sum())
    return CurveSums(queries, answerable, average, empty.counts, empty.means, empty.hits)


def assert_close(found: dict[str, list[Any]], expected: dict[str, list[Any]]) -> None:
    assert list(found) == list(expected)
    for name, values in expected.items():
        assert [x is None for x in found[name]] == [x is None for x in values]
        assert found[name] == pytest.approx(values, rel=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_the_curve_and_mean_average_precision(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_hashes, n_queries, n_rows = int(rng.integers(1, 9)), 7, 20
    distances = rng.integers(0, n_hashes + 1, (n_queries, n_rows)).astype(np.int32)
    query_labels = rng.integers(-1, 5, n_queries).astype(np.int32)
    labels = rng.integers(-1, 3, n_rows).astype(np.int32)  # of classes 3 and 4 there is nothing to find
    sums = sums_of(distances, query_labels, labels, n_hashes)
    expected = naive.curve(distances.tolist(), query_labels.tolist(), labels.tolist(), n_hashes)
    assert_close(sums.curve().as_json(), expected)
    averages = [
        naive.average_precision(of_query, (labels == label).tolist())
        for of_query, label in zip(distances.tolist(), query_labels, strict=True)
        if label >= 0
    ]
    known = [x for x in averages if x is not None]
    assert sums.answerable == len(known)
    assert sums.mean_average_precision == pytest.approx(naive.mean(known) or 0.0)


@pytest.mark.parametrize("seed", range(3))
def test_average_precision_is_that_of_an_independent_program(seed: int) -> None:
    rng = np.random.default_rng(seed)
    distances, labels = rng.integers(0, 9, (6, 50)).astype(np.int32), rng.integers(0, 3, 50).astype(np.int32)
    query_labels = rng.integers(0, 3, 6).astype(np.int32)
    theirs = [average_precision_score(labels == y, -of) for of, y in zip(distances, query_labels, strict=True)]
    assert sums_of(distances, query_labels, labels, 8).mean_average_precision == pytest.approx(np.mean(theirs))


def test_equal_distances_are_retrieved_together() -> None:
    """Two of four rows at distance 1 are relevant: no order among them can matter."""
    distances, labels = np.array([[1, 1, 1, 1, 2]], np.int32), np.array([0, 1, 0, 1, 0], np.int32)
    sums = sums_of(distances, np.array([0], np.int32), labels, 3)
    assert sums.mean_average_precision == pytest.approx(2 / 3 * 2 / 4 + 1 / 3 * 3 / 5)
    assert sums.curve().as_json()["precision"] == [None, 0.5, 0.6, 0.6]


def test_curves_of_equally_many_codes_are_thinned_to_the_same_thresholds() -> None:
    first, second = CurveSums.none(5000, 1), CurveSums.none(5000, 1)
    second.counts[:, 17] = 1
    thinned = [sums.curve().thinned() for sums in (first, second)]
    assert len(thinned[0].threshold) == 512
    assert thinned[0].threshold[[0, -1]].tolist() == [0, 5000]
    np.testing.assert_array_equal(thinned[0].threshold, thinned[1].threshold)
    whole = CurveSums.none(300, 1).curve()
    np.testing.assert_array_equal(whole.thinned().threshold, whole.threshold)


def test_queries_that_meet_the_candidates_together_are_bounded() -> None:
    for n_hashes, top in ((64, 10), (100_000, 10), (64, 10**6), (10**8, 0)):
        together = ranking.queries_at_once(n_hashes, top)
        held = together * (16 * (n_hashes + 1) + 8 * room_of(top))
        assert together == 1 or held <= ranking.QUERIES_BYTES


# ---- what neither row has ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", sorted(SENTINELS))
@pytest.mark.parametrize("n_hashes", WIDTHS)
@pytest.mark.parametrize("seed", range(2))
def test_what_neither_row_has_is_left_out(dtype: str, n_hashes: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    queries, codes = some_codes(rng, (5, n_hashes), dtype), some_codes(rng, (7, n_hashes), dtype)
    for rows in (queries, codes):
        rows[rng.random(rows.shape) < 0.6] = SENTINELS[dtype]
        rows[0] = SENTINELS[dtype]
    distances = hamming_distances(queries, codes)
    scale_to_present(missing(queries), missing(codes), distances)
    assert distances.tolist() == naive.present_distances(queries, codes, SENTINELS[dtype])
    assert distances[0, 0] == 0
    assert distances[0, 1:].tolist() == [n_hashes if (row != SENTINELS[dtype]).any() else 0 for row in codes[1:]]


def test_where_nothing_is_missing_nothing_changes() -> None:
    rng = np.random.default_rng(3)
    queries, codes = some_codes(rng, (4, 300), "uint8"), some_codes(rng, (6, 300), "uint8")
    distances = hamming_distances(queries, codes)
    scaled = distances.copy()
    scale_to_present(missing(queries), missing(codes), scaled)
    np.testing.assert_array_equal(scaled, distances)


def test_plain_codes_so_compared_estimate_what_densified_ones_do() -> None:
    """k_good of two sparse rows, exactly by enumeration of all windows, within five standard errors (SPECS 2.3)."""
    first, second, window, hashes = np.zeros(12, np.float32), np.zeros(12, np.float32), 3, 20_000
    first[[0, 2, 5, 6]], second[[0, 2, 5, 9]] = [3, 1, 2, 4], [3, 2, 1, 4]
    good = both = 0
    for sample in itertools.permutations(range(12), window):
        a, b = first[list(sample)], second[list(sample)]
        if a.any() or b.any():
            both += 1
            good += bool(a.any() and b.any() and a.argmax() == b.argmax())
    params = CodeParams("wta", hashes, window, empty="none", seed=1)
    codes, _ = CodeHash.drawn(params, 12).codes(Dense(np.stack([first, second])))
    distances = hamming_distances(codes[:1], codes[1:])
    scale_to_present(missing(codes[:1]), missing(codes[1:]), distances)
    k_good, counted = good / both, int((~((codes[0] == 255) & (codes[1] == 255))).sum())
    error = np.sqrt(k_good * (1 - k_good) / counted)
    assert 1 - distances[0, 0] / hashes == pytest.approx(k_good, abs=5 * error)
