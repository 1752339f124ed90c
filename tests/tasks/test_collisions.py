"""Shared buckets and lost features of whole taxonomies, against counting one feature at a time."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.hashing.collisions import (
    FEATURES_AT_ONCE,
    Collisions,
    lost_bound,
    lost_expected,
    shared_expected,
    tree_collisions,
)
from tasks.hashing.explain import Paths, explain_hash, explain_rows, path_of, sampled_collisions, supports
from tasks.hashing.heshing import HashedScorer
from tasks.rows import Csr, Dense, PqCodes
from tasks.taxonomy import Taxonomy
from tests.bodies import csr_of
from tests.naive import hashing as naive

PARENT = [-1, 0, 0, 0, 1, 1, 2, 6, 6]  # classes at levels 1, 2 and 3; a chain 2-6
LEAVES = [3, 4, 5, 7, 8]


def taxonomy() -> Taxonomy:
    return Taxonomy(np.array(PARENT, np.int32), tuple("abcdefghi"), np.array(LEAVES, np.int32))


def nodes_on_path(parent: list[int], leaf: int) -> list[int]:
    return naive.path(parent, leaf, 0)


@given(
    features=st.lists(st.integers(0, 2**31 - 1), max_size=40, unique=True),
    n_buckets=st.integers(1, 60),
    seeds=st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=4),
)
def test_shared_buckets_by_definition(features: list[int], n_buckets: int, seeds: list[int]) -> None:
    counted = Collisions(np.array(features, np.int64), n_buckets)
    for seed in seeds:
        buckets = [naive.bucket_and_sign(j, seed, n_buckets)[0] for j in features]
        expected = [buckets.count(bucket) > 1 for bucket in buckets]
        found, shared = counted.under(seed)
        assert shared.tolist() == expected
        assert found == sum(expected)
        assert not counted.counts.any()  # ready for the next seed
    assert int(counted.mask(np.array(seeds)).sum()) == naive.lost_features(seeds, features, n_buckets)
    some = counted.of(np.array(features[::2], np.int64))
    assert int(some.mask(np.array(seeds)).sum()) == naive.lost_features(seeds, features[::2], n_buckets)


def test_more_features_than_are_hashed_at_once() -> None:
    n = 2 * FEATURES_AT_ONCE + 100
    counted = Collisions(np.arange(n), 4 * n)
    found, shared = counted.under(3)
    words = [naive.bucket_and_sign(j, 3, 4 * n)[0] for j in range(n)]
    alone = {word for word, times in zip(*np.unique(words, return_counts=True), strict=True) if times == 1}
    assert shared.tolist() == [word not in alone for word in words]
    assert 0 < found < n


@given(
    draw=st.integers(0, 10**6),
    above=st.lists(st.integers(0, 10**6), min_size=1, max_size=9),
    n_buckets=st.integers(1, 30),
)
def test_trees_by_definition(draw: int, above: list[int], n_buckets: int) -> None:
    """Any tree: every node hangs below a random earlier one; all childless nodes are classes."""
    parent = [-1] + [number % (node + 1) for node, number in enumerate(above)]
    leaves = [node for node in range(len(parent)) if node not in parent]
    seeds = np.random.default_rng(draw).permutation(100)[: len(parent)].astype(np.uint32)
    d = draw % 20
    found = tree_collisions(seeds, np.array(parent), np.array(leaves), d, n_buckets)
    features = list(range(d))
    for node, seed in enumerate(seeds.tolist()):
        assert found.shared[node] == naive.lost_features([seed], features, n_buckets)
    for c, leaf in enumerate(leaves):
        path = [int(seeds[node]) for node in nodes_on_path(parent, leaf)]
        assert found.lost[c] == naive.lost_features(path, features, n_buckets)
        assert found.lost_unrooted[c] == naive.lost_features(path[1:], features, n_buckets)


def test_flat_models_have_no_root() -> None:
    scorer = HashedScorer.flat(np.array([5, 9], np.uint32), 8, 12)
    found = tree_collisions(scorer.node_seeds, scorer.parent, scorer.leaf_of_class, 12, 8)
    expected = [naive.lost_features([seed], list(range(12)), 8) for seed in (5, 9)]
    assert found.lost.tolist() == found.lost_unrooted.tolist() == expected
    told = explain_hash(scorer)
    assert told["lost"] == told["lost_without_root"]
    assert [(level["nodes"], level["nodes_in_row"]) for level in told["levels"]] == [(2, 2)]
    assert told["levels"][0]["load"] == 2 * 12 / 8


def test_what_is_told_of_a_taxonomy() -> None:
    d, m = 30, 16
    scorer = HashedScorer.hierarchical(taxonomy(), m, d)
    told = explain_hash(scorer)
    seeds = scorer.node_seeds.tolist()
    assert [level["nodes"] for level in told["levels"]] == [1, 3, 3, 2]
    assert [level["nodes_in_row"] for level in told["levels"]] == [0, 3, 4, 5]  # leaves stand below themselves, too
    assert [level["load"] for level in told["levels"]] == [None, 3 * d / m, 4 * d / m, 5 * d / m]
    for level, nodes in zip(told["levels"], ([0], [1, 2, 3], [4, 5, 6], [7, 8]), strict=True):
        shares = [naive.lost_features([seeds[node]], list(range(d)), m) / d for node in nodes]
        assert level["shared"] == pytest.approx(np.mean(shares))
        assert level["shared_expected"] == pytest.approx(1 - (1 - 1 / m) ** (d - 1))
    paths = [[seeds[node] for node in nodes_on_path(PARENT, leaf)] for leaf in LEAVES]
    for key, skipped, tau in (("lost", 0, 2), ("lost_without_root", 1, 1)):
        lost = [naive.lost_features(path[skipped:], list(range(d)), m) for path in paths]
        found = told[key]
        assert (found["least"], found["mean"], found["most"]) == (min(lost), pytest.approx(np.mean(lost)), max(lost))
        assert found["shortest_path"] == tau
        assert found["bound"] == pytest.approx(d * ((d - 1) / m) ** tau)
        assert found["bound_says_something"] is False
        expected = np.mean([lost_expected(d, m, len(path) - skipped) for path in paths])
        assert found["expected"] == pytest.approx(expected)
    assert [(entry["path"], entry["classes"]) for entry in told["paths"]] == [(2, 1), (3, 2), (4, 2)]
    assert sum(entry["lost"] for entry in told["paths"]) == told["lost"]["mean"] * 5
    assert told["paths"][1]["expected"] == pytest.approx(2 * lost_expected(d, m, 3))
    assert told["paths"][1]["expected_without_root"] == pytest.approx(2 * lost_expected(d, m, 2))
    assert json.loads(json.dumps(told, allow_nan=False)) == told


def test_rows_count_their_support_alone() -> None:
    d, m = 40, 8
    scorer = HashedScorer.hierarchical(taxonomy(), m, d)
    rng = np.random.default_rng(1)
    values = rng.standard_normal((6, d)) * (rng.random((6, d)) < 0.3)
    values[2] = 0
    classes = np.array([0, 1, 2, 3, 4, 0])
    seeds, lost, unrooted, expected = scorer.node_seeds.tolist(), [], [], []
    for row, c in zip(values, classes, strict=True):
        path = [seeds[node] for node in nodes_on_path(PARENT, LEAVES[c])]
        support = np.flatnonzero(row).tolist()
        lost.append(naive.lost_features(path, support, m))
        unrooted.append(naive.lost_features(path[1:], support, m))
        expected.append(lost_expected(len(support), m, len(path)))
    for rows in (csr_of(values), Dense(values)):
        parts = [(rows.part(0, 4), classes[:4]), (rows.part(4, 6), classes[4:])]
        told = explain_rows(scorer, parts)
        assert told["rows"] == 6
        assert told["support"] == pytest.approx(np.count_nonzero(values) / 6)
        assert told["lost"] == pytest.approx(np.mean(lost))
        assert told["lost_without_root"] == pytest.approx(np.mean(unrooted))
        assert told["expected"] == pytest.approx(np.mean(expected))
    assert explain_rows(scorer, [])["rows"] == 0


def test_supports_leave_out_stored_zeros_and_decode_codes() -> None:
    rows = Csr(np.array([0.0, 2.0]), np.array([1, 3], np.int32), np.array([0, 2, 2], np.int64), 5)
    assert [support.tolist() for support in supports(rows)] == [[3], []]
    codes = PqCodes(np.array([[0, 1]], np.uint8), np.array([[[1.0], [0.0]]] * 2, np.float32))
    assert [support.tolist() for support in supports(codes)] == [[0]]


def test_paths_of_a_scorer() -> None:
    scorer = HashedScorer.hierarchical(taxonomy(), 8, 4)
    assert [path_of(scorer, c) for c in range(5)] == [nodes_on_path(PARENT, leaf) for leaf in LEAVES]
    paths = Paths.of(scorer)
    assert paths.levels.tolist() == [2, 3, 3, 4, 4]
    assert paths.unrooted.tolist() == [1, 2, 2, 3, 3]


def test_measured_sharing_agrees_with_the_expectation() -> None:
    d, m = 3000, 4096
    counted = Collisions(np.arange(d), m)
    share = np.mean([counted.under(seed)[0] / d for seed in range(30)])
    assert share == pytest.approx(shared_expected(d, m), rel=0.02)
    assert shared_expected(1, m) == 0
    assert shared_expected(2, 1) == 1


def test_a_bound_beyond_all_numbers_is_infinite() -> None:
    assert lost_bound(10**6, 1, 100) == np.inf
    parent = np.arange(-1, 199, dtype=np.int32)
    chain = Taxonomy(parent, tuple(map(str, range(200))), np.array([199], np.int32))
    told = explain_hash(HashedScorer.hierarchical(chain, 1, 100))
    assert told["lost"]["bound"] is None
    assert told["lost"]["mean"] == told["lost"]["expected"] == 100


@pytest.mark.parametrize("kind", ["per-level", "shared", "flat"])
def test_a_sample_of_few_nodes_is_all_of_them(kind: str) -> None:
    """Fewer nodes than are sampled: the means are those of the definition, over paths without the root."""
    nodes, d, m = taxonomy(), 60, 40
    seeds = nodes.node_seeds
    make = {"per-level": HashedScorer.hierarchical, "shared": HashedScorer.shared}
    scorer = HashedScorer.flat(seeds[nodes.leaf_of_class], m, d) if kind == "flat" else make[kind](nodes, m, d)
    found = sampled_collisions(scorer)
    paths = [[leaf] if kind == "flat" else nodes_on_path(PARENT, leaf)[1:] for leaf in LEAVES]
    scored = sorted({node for path in paths for node in path})

    def shares(node: int) -> list[bool]:
        buckets = [naive.bucket_and_sign(j, int(seeds[node]), m)[0] for j in range(d)]
        return [buckets.count(bucket) > 1 for bucket in buckets]

    assert found["collided"] == pytest.approx(np.mean([sum(shares(node)) / d for node in scored]))
    lost = [sum(all(one) for one in zip(*(shares(node) for node in path), strict=True)) for path in paths]
    assert found["lost_features"] == pytest.approx(np.mean(lost))
    share = 1 - (1 - 1 / m) ** (d - 1)
    assert found["expected_collided"] == pytest.approx(share)
    assert found["expected_lost_features"] == pytest.approx(np.mean([d * share ** len(path) for path in paths]))
