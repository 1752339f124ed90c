"""Steps with hashed scores on plain weights that are kept for many steps, against the table itself in float64."""

from __future__ import annotations

import numpy as np
import pytest

from tasks.fit.hashed_steps import fits_hashed
from tasks.fit.scaled import ScaledParameters
from tasks.fit.sgd import descend
from tasks.hashing.heshing import ROWS_AT_ONCE, HashedScorer
from tasks.hashing.layout import MOST_PLACES, mirror_bytes
from tasks.hashing.mirror import FEATURES, depth_first
from tasks.later import compiles
from tasks.losses.crammer_singer import CrammerSinger
from tasks.losses.hinge import OneVsRestHinge
from tasks.losses.multinomial import Multinomial
from tasks.rows import Csr, Dense, PqCodes, Rows
from tasks.taxonomy import Taxonomy
from tests.bodies import csr_of
from tests.naive import hashing as naive

compiled = pytest.mark.skipif(not compiles(), reason="interpreted runs know no vector instructions")

LOSSES = {"crammer-singer": CrammerSinger(), "multinomial": Multinomial(), "hinge": OneVsRestHinge(squared=False)}
EVEN = [-1, 0, 0, 1, 1, 1, 2, 2]
UNEVEN = [-1, 0, 0, 0, 1, 1, 3, 3, 6, 6, 7]  # leaves at levels 1, 2 and 3, a single child


def taxonomy_of(parent: list[int]) -> Taxonomy:
    leaves = [u for u in range(len(parent)) if u not in parent]
    return Taxonomy(np.array(parent, np.int32), ("",) * len(parent), np.array(leaves, np.int32))


def broad(n_groups: int, n_leaves: int) -> list[int]:
    """A tree of two levels."""
    return [-1] + [0] * n_groups + [1 + c % n_groups for c in sorted(range(n_leaves), key=lambda c: c % n_groups)]


def scorer_of(kind: str, n_features: int, load: float) -> HashedScorer:
    """With so many places for every number of the table."""
    if kind == "flat":
        seeds = np.random.default_rng(0).integers(0, 2**32, 19).astype(np.uint32)
        return HashedScorer.flat(seeds, int(19 * n_features / load) + 1, n_features)
    if kind == "per level":
        return HashedScorer.hierarchical(taxonomy_of(EVEN), int(7 * n_features / load) + 1, n_features)
    tree = broad(5, 33) if kind == "broad" else UNEVEN
    return HashedScorer.shared(taxonomy_of(tree), int((len(tree) - 1) * n_features / load) + 1, n_features)


def rows_of(body: str, n_features: int, rng: np.random.Generator) -> Rows:
    values = rng.normal(size=(60, n_features))
    if body == "pq":
        codes = rng.integers(0, 5, (60, n_features)).astype(np.uint8)
        return PqCodes(codes, rng.normal(size=(n_features, 5, 1)).astype(np.float32))
    return Dense(values.astype({"dense": np.float32, "half": np.float16}[body]))


@compiled
@pytest.mark.parametrize("body", ["dense", "half", "pq"])
@pytest.mark.parametrize("kind", ["broad", "uneven", "per level", "flat"])
@pytest.mark.parametrize("load", [1.0, 0.1])
@pytest.mark.parametrize("seed", [0, 1])
def test_matches_the_plain_loop(seed: int, load: float, kind: str, body: str) -> None:
    """Every loss, at a decay at which the scale is multiplied in; float64 tables go the slow way."""
    for number, (name, loss) in enumerate(LOSSES.items()):
        rng = np.random.default_rng([seed, number])
        n_features, batch = [(FEATURES + 13, 16), (1, 7), (17, 1)][(number + seed) % 3]
        scorer, rows = scorer_of(kind, n_features, load), rows_of(body, n_features, rng)
        labels = rng.integers(0, scorer.n_outputs, 60).astype(np.int32)
        order, decay = rng.integers(0, 60, 75), 0.9 * n_features
        steps = np.linspace(0.7, 0.01, -(-order.size // batch)) / n_features
        start, found = rng.normal(size=(scorer.n_tables, scorer.n_buckets)), []
        for dtype in (np.float32, np.float64):
            state = ScaledParameters({"table": start.astype(dtype)})
            assert fits_hashed(scorer, rows, state.values, batch) == (dtype == np.float32)
            total = descend(scorer, loss, state, rows, labels, order, steps, batch, decay, loss.curvature)
            found.append((total, state.settle()))
        assert found[0][0] == pytest.approx(found[1][0], rel=2e-4), name
        assert found[0][1].keys() == {"table"}
        np.testing.assert_allclose(found[0][1]["table"], found[1][1]["table"], rtol=2e-3, atol=1e-4, err_msg=name)


@compiled
@pytest.mark.parametrize("between", ["dense rows", "sparse rows"])
def test_chunks_change_no_bit(between: str) -> None:
    """Plain weights are kept from chunk to chunk or made anew; sparse rows in between are shown the table."""
    rng, scorer = np.random.default_rng(5), scorer_of("broad", 40, 1.0)
    values, labels = rng.normal(size=(60, 40)).astype(np.float32), rng.integers(0, 33, 60).astype(np.int32)
    start, steps, order = rng.normal(size=(1, scorer.n_buckets)).astype(np.float32), np.full(15, 0.02), np.arange(60)
    rows: list[Rows] = [Dense(values), csr_of(values) if between == "sparse rows" else Dense(values), Dense(values)]
    found = []
    for cut in (False, True):
        state = ScaledParameters({"table": start})
        for part, which in enumerate(rows):
            some = slice(20 * part, 20 * part + 20)
            descend(scorer, LOSSES["multinomial"], state, which, labels, order[some], steps[:5], 4, 20.0, 0.5)
            if cut:
                assert (state.restore is None) == isinstance(which, Csr)
                assert state.restored().keys() == {"table"}
        found.append(state.settle())
        assert found[-1].keys() == {"table"}
    np.testing.assert_array_equal(found[0]["table"], found[1]["table"])


@pytest.mark.parametrize("kind", ["broad", "uneven", "per level", "flat"])
@pytest.mark.parametrize("load", [1.0, 0.3])
def test_a_mirror_holds_plain_weights_and_lists_what_is_shared(load: float, kind: str) -> None:
    n_features = 9 if not compiles() else FEATURES + 4
    scorer = scorer_of(kind, n_features, load)
    mirror, m = scorer.mirror, scorer.n_buckets
    order = depth_first(scorer._layout.parent)
    seeds, rows = scorer._layout.seeds[order].tolist(), scorer._layout.first[order].tolist()
    table = np.random.default_rng(1).normal(size=(scorer.n_tables, m)).astype(np.float32)
    panels, kept = mirror.weights(table)
    expected = naive.plain_weights(seeds, rows, table, n_features)
    flat, at = panels.reshape(-1), naive.places_in_panels(mirror.n_nodes, n_features, FEATURES)
    np.testing.assert_array_equal(flat[at], expected)
    assert np.count_nonzero(flat) == np.count_nonzero(expected)

    shared = naive.places_of_shared_buckets(seeds, rows, m, n_features)
    np.testing.assert_array_equal(np.sort(mirror.buckets), sorted(shared))
    np.testing.assert_array_equal(kept, table.reshape(-1)[mirror.buckets])
    n_blocks, listed = -(-n_features // FEATURES), {}
    n_panels = len(mirror.starts) // (16 * n_blocks)
    for run in range(len(mirror.starts) - 1):
        panel, block, node = run // 16 // n_blocks, run // 16 % n_blocks, run % 16
        first = 16 * (block * FEATURES * n_panels + panel * min(FEATURES, n_features - block * FEATURES))
        for k in range(mirror.starts[run], mirror.starts[run + 1]):
            word, where = int(mirror.words[k]), int(mirror.where[k])
            place = (panel * 16 + node, block * FEATURES + where // 16)
            assert where % 16 == node
            assert at[place] == first + where
            bucket = int(mirror.buckets[word & 0x7FFFFFFF])
            listed.setdefault(bucket, set()).add((*place, -1 if word >> 31 else 1))
    assert listed == shared

    flat[:] *= 2
    mirror.put_back(panels, 4 * kept, table)
    after = naive.plain_weights(seeds, rows, table, n_features)
    factor = np.full(table.size, 2)
    factor[mirror.buckets] = 4
    factors = naive.plain_weights(seeds, rows, factor.reshape(table.shape), n_features)
    np.testing.assert_array_equal(after, expected * abs(factors))


def test_nodes_of_a_mirror_come_depth_first() -> None:
    parent = np.array([-1, 0, 0, -1, 1, 2, 1, 4])
    assert depth_first(parent).tolist() == [0, 1, 4, 7, 6, 2, 5, 3]


def test_what_has_no_mirror_goes_through_the_table() -> None:
    """Small tables, leaves at several levels, too many places; of what has a mirror, sparse rows and wide batches."""
    without = [
        HashedScorer.hierarchical(taxonomy_of(UNEVEN), 10_000, 3),
        scorer_of("broad", 40, 1.1),
        HashedScorer.flat(np.arange(16, dtype=np.uint32), 2**30, MOST_PLACES // 16 + 1),
    ]
    assert not any(scorer.has_mirror for scorer in without)
    fine = scorer_of("broad", 40, 1.0)
    assert fine.has_mirror
    held = fine.mirror.weights(np.zeros((1, fine.n_buckets), np.float32))
    assert mirror_bytes(39, 40, fine.n_buckets) >= sum(part.nbytes for part in held)
    sparse = csr_of(np.eye(40, dtype=np.float32))
    assert isinstance(sparse, Csr)
    table, dense = fine.initial(np.float32), Dense(np.eye(40, dtype=np.float32))
    assert not fits_hashed(fine, sparse, table, 16)
    assert not fits_hashed(fine, dense, table, ROWS_AT_ONCE + 1)
    assert fits_hashed(fine, dense, table, ROWS_AT_ONCE) == compiles()
