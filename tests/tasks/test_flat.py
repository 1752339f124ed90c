"""Phi(x, u), Psi(x, y) and collision counts against their definitions and the reference cases."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.errors import ParamError
from tasks.hashing.collisions import lost_bound, lost_expected, lost_features
from tasks.hashing.flat import hash_rows
from tasks.hashing.psi import psi
from tasks.rows import Csr, Dense
from tests.naive import hashing as naive
from tests.shared import shared_path
from tests.tasks.test_rows import csr_of, sparse_values


def paths_of(parent: dict[str, int | None], leaves: list[int]) -> list[list[int]]:
    """Paths root..leaf of a tree given by node ids; all leaves of the reference tree are equally deep."""
    paths = []
    for leaf in leaves:
        nodes = [leaf]
        while (above := parent[str(nodes[0])]) is not None:
            nodes.insert(0, above)
        paths.append(nodes)
    return paths


def test_reference_phi() -> None:
    case = json.loads(shared_path("cases/hsh-06.json").read_text())
    x, m = np.array([case["inputs"]["x"]]), case["inputs"]["m"]
    found = [hash_rows(Dense(x), u, m).to_array(np.float64)[0] for u in case["inputs"]["nodes"]]
    np.testing.assert_allclose(found, case["expected"]["phi"], rtol=0, atol=case["tolerance"])


def test_reference_psi_and_flathash() -> None:
    case = json.loads(shared_path("cases/hsh-07.json").read_text())
    inputs, expected = case["inputs"], case["expected"]
    paths = paths_of(inputs["parent"], expected["leaves"])
    assert paths == expected["paths"]
    x = np.array([inputs["x"]])
    hierarchical = [psi(x, np.array(path), inputs["m"])[0].ravel() for path in paths]
    np.testing.assert_allclose(hierarchical, expected["psi"], rtol=0, atol=case["tolerance"])
    flat = [psi(x, np.array([leaf]), inputs["m"])[0].ravel() for leaf in expected["leaves"]]
    np.testing.assert_allclose(flat, expected["flathash"], rtol=0, atol=case["tolerance"])


@given(seed=st.integers(0, 2**32 - 1), n_buckets=st.integers(1, 40), draw=st.integers(0, 10**6))
def test_dense_and_sparse_rows_hash_as_defined(seed: int, n_buckets: int, draw: int) -> None:
    values = sparse_values(draw, n_rows=draw % 4, n_features=1 + draw % 17)
    expected = np.array([naive.phi(row, seed, n_buckets) for row in values]).reshape(-1, n_buckets)
    dense, sparse = hash_rows(Dense(values), seed, n_buckets), hash_rows(csr_of(values), seed, n_buckets)
    np.testing.assert_allclose(dense.to_array(np.float64), expected, atol=1e-12)
    np.testing.assert_allclose(sparse.to_array(np.float64), expected, atol=1e-12)
    assert isinstance(sparse, Csr)
    for start, stop in zip(sparse.indptr[:-1], sparse.indptr[1:], strict=True):
        assert (np.diff(sparse.indices[start:stop]) > 0).all()  # ascending, no bucket twice


def test_buckets_out_of_range_are_refused() -> None:
    for n_buckets in (0, -1, 2**31):
        with pytest.raises(ParamError, match="n_buckets"):
            hash_rows(Dense(np.ones((1, 2), np.float32)), 1, n_buckets)


def test_inner_products_are_unbiased_with_the_stated_variance() -> None:
    """SPECS 1.4: mean <x, x'> and variance (|x|^2 |x'|^2 + <x, x'>^2 - 2 sum x_j^2 x'_j^2) / m over the seeds."""
    rng = np.random.default_rng(3)
    x, other = rng.standard_normal((2, 12))
    m, n_seeds = 8, 1500
    hashed = [hash_rows(Dense(np.stack([x, other])), u, m).to_array(np.float64) for u in range(n_seeds)]
    products = np.array([a @ b for a, b in hashed])
    variance = ((x @ x) * (other @ other) + (x @ other) ** 2 - 2 * (x**2 @ other**2)) / m
    assert abs(products.mean() - x @ other) < 4 * np.sqrt(variance / n_seeds)
    assert abs(products.var() / variance - 1) < 0.2


def test_reference_bound_and_expectation() -> None:
    case = json.loads(shared_path("cases/hsh-15.json").read_text())
    for row, bound, expected in zip(
        case["inputs"]["rows"], case["expected"]["bound"], case["expected"]["ideal_expectation"], strict=True
    ):
        assert lost_bound(*row) == pytest.approx(bound, rel=case["tolerance"])
        assert lost_expected(*row) == pytest.approx(expected, rel=case["tolerance"])


@given(seeds=st.lists(st.integers(0, 99), min_size=1, max_size=3), m=st.integers(1, 30), d=st.integers(0, 20))
def test_lost_features_by_definition(seeds: list[int], m: int, d: int) -> None:
    assert lost_features(np.array(seeds), d, m) == naive.lost_features(seeds, list(range(d)), m)
    support = list(range(0, d, 3))
    found = lost_features(np.array(seeds), d, m, support=np.array(support, np.int64))
    assert found == naive.lost_features(seeds, support, m)


def test_lost_features_agree_with_the_expectation() -> None:
    d, m = 400, 512
    lost = np.mean([lost_features(np.array([2 * u, 2 * u + 1]), d, m) for u in range(60)])
    assert lost == pytest.approx(lost_expected(d, m, 2), rel=0.1)
    assert lost_expected(d, m, 2) <= lost_bound(d, m, 2)
    assert lost_expected(1, m, 2) == 0
    assert lost_expected(d, 1, 2) == d
