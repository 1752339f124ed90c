"""Spectral clustering of classes: planted parts are found, no part is empty, strays are shared out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from tasks.rows.base import Array
from tasks.seeds import stream
from tasks.trees.bengio.spectral import SMOOTHING, by_lowest, embedding, kmeans, spectral_groups
from tests.strategies import seeds


def graph(matrix: Array) -> csr_array[Any]:
    """Symmetric, without a diagonal."""
    upper = np.triu(matrix, 1)
    return csr_array(upper + upper.T)


def planted(seed: int, sizes: list[int], inside: float, outside: float) -> tuple[csr_array[Any], Array]:
    """(affinity, part of each class): edges are likelier within a part; classes are shuffled."""
    rng = np.random.default_rng(seed)
    parts = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    likely = np.where(parts[:, None] == parts[None, :], inside, outside)
    return graph((rng.random(likely.shape) < likely) * rng.uniform(0.5, 1.5, likely.shape)), parts


def rng_of(seed: int) -> np.random.Generator:
    return stream(seed, "test")


@pytest.mark.parametrize("seed", range(10))
def test_planted_parts_are_found(seed: int) -> None:
    affinity, parts = planted(seed, [12, 20, 28, 16], inside=0.6, outside=0.02)
    np.testing.assert_array_equal(spectral_groups(affinity, 4, rng_of(seed)), by_lowest(parts))


@pytest.mark.parametrize("seed", range(3))
def test_components_are_parts(seed: int) -> None:
    """No edge between the parts at all."""
    affinity, parts = planted(seed, [8, 8, 8], inside=1.0, outside=0.0)
    np.testing.assert_array_equal(spectral_groups(affinity, 3, rng_of(seed)), by_lowest(parts))


@pytest.mark.parametrize("seed", range(3))
def test_many_small_components_do_not_make_all_others_one_part(seed: int) -> None:
    """Ten pairs beside two large parts: plain normalised cuts would give each pair a part of its own."""
    large, parts = planted(seed, [40, 40], inside=0.5, outside=0.03)
    matrix = np.zeros((100, 100))
    matrix[:80, :80] = large.toarray()
    for i in range(80, 100, 2):
        matrix[i, i + 1] = matrix[i + 1, i] = 1.0
    groups = spectral_groups(csr_array(matrix), 4, rng_of(seed))
    assert np.unique(groups[:80][parts == 0]).size * np.unique(groups[:80][parts == 1]).size <= 4
    assert np.bincount(groups).max() <= 50


@pytest.mark.parametrize("seed", range(3))
def test_the_embedding_spans_the_leading_eigenvectors(seed: int) -> None:
    """Of the smoothed, normalised affinity, written out."""
    affinity, _ = planted(seed, [20, 20, 20], inside=0.5, outside=0.05)
    smoothed = affinity.toarray() + SMOOTHING * affinity.sum() / 60 / 60
    scale = 1 / np.sqrt(smoothed.sum(axis=1))
    exact = np.linalg.eigh(smoothed * scale[:, None] * scale[None, :])[1][:, -3:]
    exact /= np.linalg.norm(exact, axis=1, keepdims=True)
    points = embedding(affinity, 3, rng_of(seed))
    np.testing.assert_allclose(points @ points.T, exact @ exact.T, atol=1e-4)


def test_more_components_than_parts_are_shared_out() -> None:
    """Forty cliques of five, some a little tighter than others: no part takes all that is left."""
    matrix = np.kron(np.eye(40), np.ones((5, 5))) * np.linspace(1, 3, 200)[:, None]
    groups = spectral_groups(graph(matrix), 8, rng_of(0))
    held = np.bincount(groups)
    assert held.min() >= 5
    assert held.max() <= 60
    assert all(np.unique(groups[i : i + 5]).size == 1 for i in range(0, 200, 5))


@settings(max_examples=60, deadline=None)
@given(seed=seeds, n=st.integers(2, 24), n_groups=st.integers(2, 6), density=st.sampled_from([0.0, 0.05, 0.3, 1.0]))
def test_every_part_has_a_class_whatever_the_graph(seed: int, n: int, n_groups: int, density: float) -> None:
    n_groups = min(n_groups, n)
    rng = np.random.default_rng(seed)
    affinity = graph((rng.random((n, n)) < density) * rng.random((n, n)))
    groups = spectral_groups(affinity, n_groups, rng_of(seed))
    assert sorted(set(groups.tolist())) == list(range(n_groups))
    np.testing.assert_array_equal(groups, by_lowest(groups))
    np.testing.assert_array_equal(groups, spectral_groups(affinity, n_groups, rng_of(seed)))


def test_classes_without_affinity_fill_the_smallest_parts() -> None:
    matrix = np.zeros((12, 12))
    matrix[:6, :6] = matrix[6:8, 6:8] = 1.0
    groups = spectral_groups(graph(matrix), 2, rng_of(0))
    assert groups.tolist() == [0] * 6 + [1] * 6
    assert np.bincount(spectral_groups(csr_array((9, 9)), 3, rng_of(0))).tolist() == [3, 3, 3]


@settings(max_examples=40, deadline=None)
@given(seed=seeds, n=st.integers(1, 30), n_groups=st.integers(1, 8), distinct=st.integers(1, 5))
def test_kmeans_fills_all_groups(seed: int, n: int, n_groups: int, distinct: int) -> None:
    """Also of points that are nearly all the same."""
    n_groups = min(n, n_groups)
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((distinct, 2))[rng.integers(0, distinct, n)]
    groups = kmeans(points, n_groups, rng_of(seed))
    assert sorted(set(groups.tolist())) == list(range(n_groups))


@pytest.mark.parametrize("seed", range(4))
def test_kmeans_ends_where_no_point_is_nearer_to_another_centre(seed: int) -> None:
    points = np.random.default_rng(seed).standard_normal((60, 2))
    groups = kmeans(points, 4, rng_of(seed))
    centres = np.array([points[groups == g].mean(axis=0) for g in range(4)])
    nearest = ((points[:, None, :] - centres[None]) ** 2).sum(axis=2).argmin(axis=1)
    np.testing.assert_array_equal(nearest, groups)
