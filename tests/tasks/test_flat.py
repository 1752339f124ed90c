"""Phi(x, u), Psi(x, y) and collision counts against their definitions and the reference cases."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.errors import ParamError
from tasks.hashing import flat
from tasks.hashing.collisions import lost_bound, lost_expected, lost_features
from tasks.hashing.entries import ENTRIES_AT_ONCE, hash_entries
from tasks.hashing.flat import hash_rows, hash_rows_dense
from tasks.hashing.merge import hash_merged, lowest_bit
from tasks.hashing.psi import psi
from tasks.rows import Csr, Dense, PqCodes
from tasks.rows.csr import merged
from tests.bodies import csr_of, sparse_values
from tests.naive import hashing as naive
from tests.shared import shared_path


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


@given(seed=st.integers(0, 2**32 - 1), n_buckets=st.integers(1, 40), draw=st.integers(0, 10**6))
def test_sparse_rows_hash_to_dense_rows_as_defined(seed: int, n_buckets: int, draw: int) -> None:
    values = sparse_values(draw, n_rows=draw % 4, n_features=1 + draw % 17)
    expected = np.array([naive.phi(row, seed, n_buckets) for row in values]).reshape(-1, n_buckets)
    for rows in (csr_of(values), Dense(values)):
        np.testing.assert_allclose(hash_rows_dense(rows, seed, n_buckets).values, expected, atol=1e-12)
    codes = PqCodes(np.array([[0, 1]], np.uint8), np.array([[[1.0, 2.0], [0.0, 3.0]]] * 2, np.float32))
    plain = hash_rows(Dense(codes.to_array()), seed, n_buckets)
    np.testing.assert_array_equal(hash_rows_dense(codes, seed, n_buckets).values, plain.to_array())


@given(
    seed=st.integers(0, 2**32 - 1),
    n_buckets=st.one_of(st.integers(1, 200), st.sampled_from([2**12, 4097, 2**18 + 1, 2**31 - 1])),
    features=st.lists(st.integers(0, 2**31 - 1), max_size=30),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_entries_hash_as_defined(seed: int, n_buckets: int, features: list[int], dtype: type) -> None:
    data = np.arange(1, len(features) + 1).astype(dtype)
    data[::3] = 0
    signed, buckets = hash_entries(data, np.array(features, np.int32), np.uint32(seed), n_buckets)
    assert (signed.dtype, buckets.dtype) == (dtype, np.int32)
    expected = [naive.bucket_and_sign(j, seed, n_buckets) for j in features]
    assert list(zip(buckets.tolist(), signed.tolist(), strict=True)) == [
        (bucket, sign * float(value)) for (bucket, sign), value in zip(expected, data, strict=True)
    ]


@given(
    draw=st.integers(0, 10**6),
    n_buckets=st.sampled_from([1, 2, 63, 64, 65, 4096, 4097, 300_000]),
    lengths=st.lists(st.integers(0, 40), max_size=5),
)
def test_merging_without_sorting_is_merging(draw: int, n_buckets: int, lengths: list[int]) -> None:
    """Whole numbers, so that sums are exact in any order; features may repeat and come in any order."""
    rng = np.random.default_rng(draw)
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    indices = rng.integers(0, 50, indptr[-1]).astype(np.int32)
    data = rng.integers(-3, 4, indptr[-1]).astype(np.float32)
    expected = merged(*hash_entries(data, indices, np.uint32(draw), n_buckets), indptr, n_buckets)
    found = hash_merged(data, indices, indptr, np.uint32(draw), n_buckets)
    for one, other in zip(found, (expected.data, expected.indices, expected.indptr), strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype


def test_more_buckets_than_a_scratch_holds_are_merged_by_sorting(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = csr_of(sparse_values(1, 6, 40))
    expected = hash_rows(rows, 9, 32)
    monkeypatch.setattr(flat, "MOST_SCRATCH", 31)
    found = hash_rows(rows, 9, 32)
    assert isinstance(found, Csr)
    assert isinstance(expected, Csr)
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_allclose(found.data, expected.data, atol=1e-12)


def test_rows_longer_than_what_is_hashed_at_once() -> None:
    n = ENTRIES_AT_ONCE + 3
    rows = Csr(np.ones(n), np.arange(n, dtype=np.int32), np.array([0, n], np.int64), n)
    dense = hash_rows_dense(rows, 5, 16).values
    np.testing.assert_allclose(dense, hash_rows(rows, 5, 16).to_array(np.float64), atol=1e-12)
    assert dense.sum() == sum(naive.bucket_and_sign(j, 5, 16)[1] for j in range(n))


@pytest.mark.parametrize("bit", range(64))
def test_the_lowest_bit_of_a_word(bit: int) -> None:
    for above in (0, 2**63, 2**64 - 1):
        assert lowest_bit(np.uint64(2**bit | (above >> bit << bit))) == bit


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
