"""Sums over the classes of sparse rows, and clusters of their directions."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from tasks.rows import Csr, Dense
from tasks.rows.base import Array
from tasks.seeds import stream
from tasks.sums import tree_sum
from tasks.trees import spherical
from tasks.trees.balance import WIDEST
from tasks.trees.spherical import (
    ENTRY_BYTES,
    SUMS_BYTES,
    SparseClassSums,
    class_sums_of,
    clusters,
    kept_columns,
    spherical_groups,
    summed,
)
from tests.bodies import csr_of, sparse_values
from tests.naive import kmeans_tree as naive


@pytest.mark.parametrize("seed", range(3))
def test_class_sums_add_up_to_directions(seed: int) -> None:
    values = sparse_values(seed, 60, 9)
    labels = np.random.default_rng(seed).integers(-1, 6, 60).astype(np.int32)
    rows = csr_of(values.astype(np.float32))
    cuts = [0, 25, 25, 60]
    parts = [class_sums_of(rows.part(a, b), labels[a:b], 6, 0) for a, b in pairwise(cuts)]
    total = tree_sum(parts)
    assert isinstance(total, SparseClassSums)
    np.testing.assert_allclose(total.means().to_array(), naive.directions(values, labels.tolist(), 6), atol=1e-6)
    dense = class_sums_of(Dense(values), labels, 6, 0).means()
    directions = dense / np.maximum(np.linalg.norm(dense, axis=1, keepdims=True), 1e-300)
    np.testing.assert_allclose(directions, total.means().to_array(), atol=1e-6)


def planted(n_groups: int, per_group: int, noise: int) -> tuple[Csr, Array]:
    rng = np.random.default_rng(noise)
    groups = rng.permutation(np.repeat(np.arange(n_groups), per_group))
    values = np.zeros((groups.size, 10 * n_groups))
    for point, group in zip(values, groups, strict=True):
        point[10 * group + rng.integers(0, 10, 8)] = 1.0
    return csr_of((values / np.linalg.norm(values, axis=1, keepdims=True)).astype(np.float32)), groups


@pytest.mark.parametrize("seed", range(3))
def test_clusters_are_even_and_find_what_was_planted(seed: int) -> None:
    points, groups = planted(2, 9, seed)
    found = spherical_groups(points, 2, stream(seed, "test"))
    assert sorted(np.bincount(found).tolist()) == [9, 9]
    assert len({(int(a), int(b)) for a, b in zip(groups, found, strict=True)}) == 2
    uneven = spherical_groups(points, 4, stream(seed, "test"))
    assert sorted(np.bincount(uneven).tolist()) == [4, 4, 5, 5]


def test_very_many_columns_share_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spherical, "CENTRE_CELLS", 2 * 15)
    points, groups = planted(2, 9, 5)
    found = spherical_groups(points, 2, stream(1, "test"))
    agreement = max(float((found == groups).mean()), float((found != groups).mean()))
    assert sorted(np.bincount(found).tolist()) == [9, 9]
    assert agreement > 0.8


def test_points_without_anything_are_spread() -> None:
    found = spherical_groups(csr_of(np.zeros((7, 3), np.float32)), 3, stream(0, "test"))
    assert sorted(np.bincount(found).tolist()) == [2, 2, 3]


@pytest.mark.parametrize("n_features", [9, 1000, (1 << 31) - 1])
def test_sums_of_groups_of_rows(n_features: int) -> None:
    """Rows in any order, empty groups, rows in none; features of any number."""
    rng = np.random.default_rng(n_features)
    features = np.sort(rng.choice(min(n_features, 5000), 9, replace=False)) + n_features - min(n_features, 5000)
    values = sparse_values(3, 12, 9)
    narrow = csr_of(values)
    rows = Csr(narrow.data, features[narrow.indices].astype(np.int32), narrow.indptr, n_features)
    order, starts = np.array([4, 0, 7, 11, 2, 2]), np.array([0, 3, 3, 6])
    found = summed(rows, order, starts)
    expected = np.array([values[[4, 0, 7]].sum(axis=0), np.zeros(9), values[[11, 2, 2]].sum(axis=0)])
    assert found.n_features == n_features
    assert all((np.diff(found.indices[a:b]) > 0).all() for a, b in pairwise(found.indptr))
    dense = np.zeros((3, 9))
    owner = np.repeat(np.arange(3), np.diff(found.indptr))
    dense[owner, np.searchsorted(features, found.indices)] = found.data
    np.testing.assert_allclose(dense, expected, atol=1e-12)


def test_sums_that_would_be_too_large_share_columns() -> None:
    few, many = 1000, SUMS_BYTES // ENTRY_BYTES
    assert kept_columns(1 << 20, 50, few) == 1 << 20
    assert kept_columns(100, 50, 10**12) == 100
    assert kept_columns(1 << 20, 50, many + 1) * 50 <= many
    assert kept_columns(1 << 20, 10**6, many + 1) == WIDEST
    assert kept_columns(WIDEST - 1, 10**6, 10**12) == WIDEST - 1


def test_fewer_columns_keep_angles() -> None:
    """In expectation, with deviations of about 1 / sqrt(width)."""
    values = np.random.default_rng(0).standard_normal((40, 3000)) * (np.random.default_rng(1).random((40, 3000)) < 0.05)
    labels = np.repeat(np.arange(8), 5).astype(np.int32)
    whole, folded = (class_sums_of(csr_of(values), labels, 8, 5, width).means() for width in (None, 500))
    assert isinstance(whole, Csr)
    assert isinstance(folded, Csr)
    assert folded.n_features == 500
    angles = [one.to_array() @ one.to_array().T for one in (whole, folded)]
    assert np.abs(angles[0] - angles[1]).max() < 6 / np.sqrt(500)
    parts = [class_sums_of(csr_of(values[a:b]), labels[a:b], 8, 5, 500) for a, b in ((0, 13), (13, 40))]
    np.testing.assert_allclose(tree_sum(parts).means().to_array(), folded.to_array(), atol=1e-6)


def test_clusters_are_of_the_kind_of_their_points() -> None:
    points, _ = planted(3, 4, 0)
    sparse = clusters(points, 3, stream(1, "test"))
    dense = clusters(points.to_array().astype(np.float64), 3, stream(1, "test"))
    assert (sparse == spherical_groups(points, 3, stream(1, "test"))).all()
    assert sorted(np.bincount(dense).tolist()) == [4, 4, 4]
