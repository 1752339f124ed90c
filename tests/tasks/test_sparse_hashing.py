"""Hashed scores of sparse rows, level by level, against every node's dot product on its own."""

from __future__ import annotations

import numpy as np
import pytest

from tasks.fit.blocks import sample
from tasks.fit.sgd import SgdParams
from tasks.fit.step_trial import LEAST_ROWS, MOST_LOOKUPS, affordable_rows
from tasks.hashing import layout as layout_module
from tasks.hashing import sparse
from tasks.hashing.heshing import HashedScorer
from tasks.hashing.layout import NodeLayout
from tasks.rows import Csr, Dense
from tasks.rows.base import Array
from tests.bodies import csr_of, sparse_values
from tests.naive import hashing as naive
from tests.tasks.fit_problems import problem_of
from tests.tasks.test_heshing import TREES, Nodes

SEEDS = range(4)


def random_nodes(seed: int, n_nodes: int = 30) -> Nodes:
    """A tree of unequal depth, numbered breadth-first."""
    rng = np.random.default_rng(seed)
    parent, level = [-1], [0]
    for node in range(1, n_nodes):
        above = int(rng.integers(max(0, node - 8), node))
        while level[above] + 1 < level[-1]:  # levels may not fall again
            above += 1
        parent.append(above)
        level.append(level[above] + 1)
    return Nodes.of(parent)


def laid_out(nodes: Nodes, m: int = 16) -> tuple[HashedScorer, NodeLayout]:
    scorer = HashedScorer.hierarchical(nodes, m, 9)
    return scorer, scorer._layout


def plain(layout: NodeLayout) -> list[tuple[int, int, int]]:
    """Slots as (seed, first, last)."""
    return list(zip(layout.seeds.tolist(), layout.first.tolist(), layout.last.tolist(), strict=True))


def turned(rows: Csr) -> tuple[Array, Array, Array, Array]:
    found: tuple[Array, Array, Array, Array] = sparse.by_column(rows.data, rows.indices, rows.indptr)
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_slots_walk_the_table_row_by_row(seed: int) -> None:
    nodes = random_nodes(seed)
    scorer, layout = laid_out(nodes)
    short = layout.first < layout.last
    assert short.any()
    assert (np.diff(layout.first) >= 0).all()
    for r, (begin, middle, end) in enumerate(layout.segments):
        np.testing.assert_array_equal(np.flatnonzero(layout.first == r), np.arange(begin, end))
        np.testing.assert_array_equal(np.flatnonzero(short[begin:end]), np.arange(middle - begin, end - begin))
    assert layout.n_scored == layout.n_slots - 1
    assert (layout.parent < np.arange(layout.n_slots)).all()
    np.testing.assert_array_equal(layout.seeds[layout.leaf_of_class], nodes.node_seeds[nodes.leaf_of_class])
    above = nodes.node_seeds[nodes.parent[nodes.leaf_of_class]]
    np.testing.assert_array_equal(layout.seeds[layout.above], above)
    assert sorted([*layout.inner, *layout.leaf_of_class]) == list(range(layout.n_slots))
    assert layout.last[layout.leaf_of_class].tolist() == [scorer.n_tables - 1] * scorer.n_outputs


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_turned_are_the_entries_by_column(seed: int) -> None:
    values = sparse_values(seed, n_rows=7, n_features=11)
    columns, starts, rows, entries = turned(csr_of(values))
    found = [
        (int(j), list(zip(rows[a:b].tolist(), entries[a:b].tolist(), strict=True)))
        for j, a, b in zip(columns, starts[:-1], starts[1:], strict=True)
    ]
    assert found == naive.entries_by_column(values)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("m", [5, 16])
@pytest.mark.parametrize("seed", SEEDS)
def test_scores_equal_the_definition_with_any_rows_summed(seed: int, m: int, dtype: type) -> None:
    scorer, layout = laid_out(random_nodes(seed), m)
    values = sparse_values(seed, n_rows=5, n_features=9).astype(dtype)
    table = np.random.default_rng(seed).standard_normal((scorer.n_tables, m)).astype(dtype)
    expected = np.array([naive.node_scores(row, plain(layout), table) for row in values])
    found = []
    for tails_from in range(scorer.n_tables + 1):
        out = np.zeros((5, layout.n_slots), dtype)
        sparse.sparse_node_scores(turned(csr_of(values)), layout.seeds, layout.segments, table, tails_from, out)
        found.append(out)
    np.testing.assert_allclose(found[0], expected, atol=1e-12 if dtype is np.float64 else 2e-5)
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


@pytest.mark.parametrize("seed", SEEDS)
def test_gradient_equals_the_definition_with_any_rows_summed(seed: int) -> None:
    scorer, layout = laid_out(random_nodes(seed))
    rng, values = np.random.default_rng(seed), sparse_values(seed, n_rows=5, n_features=9)
    table, residuals = rng.standard_normal((scorer.n_tables, 16)), rng.standard_normal((5, layout.n_slots))
    expected = naive.taken_from_table(values, residuals, plain(layout), table)
    for tails_from in range(scorer.n_tables + 1):
        left = table.copy()
        sparse.sparse_subtract(turned(csr_of(values)), layout.seeds, layout.segments, residuals, tails_from, left)
        np.testing.assert_allclose(left, expected, atol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("share", [0.0, 0.2, 1.0])
def test_gradient_of_the_slots_that_are_touched(seed: int, share: float) -> None:
    nodes = random_nodes(seed, 60)
    scorer, layout = laid_out(nodes)
    rng, values = np.random.default_rng(seed), sparse_values(seed, n_rows=5, n_features=9)
    given = np.round(rng.standard_normal((5, scorer.n_outputs)), 1) * (rng.random((5, scorer.n_outputs)) < share)
    parent, leaves = layout.parent.tolist(), layout.leaf_of_class.tolist()
    residuals = 0.5 * np.array([naive.residuals_of_nodes(row, parent, leaves) for row in given])
    touched = sparse.touched_slots(given, layout.parent, layout.leaf_of_class, 0.5)
    starts, slots, found = touched
    written = np.zeros_like(residuals)
    for i in range(5):
        here = slots[starts[i] : starts[i + 1]]
        assert len(set(here.tolist())) == here.size
        written[i, here] = found[starts[i] : starts[i + 1]]
    np.testing.assert_allclose(written, residuals, atol=1e-12)
    assert found.all()

    table, rows = rng.standard_normal((scorer.n_tables, 16)), csr_of(values)
    expected = naive.taken_from_table(values, residuals, plain(layout), table)
    body = (rows.data, rows.indices, rows.indptr)
    sparse.sparse_subtract_touched(body, touched, layout.seeds, layout.first, layout.last, table)
    np.testing.assert_allclose(table, expected, atol=1e-12)


@pytest.mark.parametrize("tree", ["even", "flat", "uneven"])
def test_few_and_many_residuals_go_two_ways_to_the_same_table(tree: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scorer, rng = HashedScorer.hierarchical(TREES[tree], 8, 9), np.random.default_rng(5)
    rows = csr_of(sparse_values(5, n_rows=6, n_features=9))
    residuals = rng.standard_normal((6, scorer.n_outputs))
    tables = []
    for few in (0, 10**6):
        monkeypatch.setattr("tasks.hashing.heshing.FEW", few)  # 0: every batch touches few nodes
        parameters = {"table": np.ones((scorer.n_tables, 8))}
        scorer.subtract(parameters, rows, residuals, 0.3)
        tables.append(parameters["table"])
    np.testing.assert_allclose(tables[0], tables[1], atol=1e-12)
    assert (tables[0] != 1).any()


def test_tiles_of_nodes_join() -> None:
    """More nodes at one level than a tile of so many rows has, twice over."""
    n_rows, n_classes = 128, 150
    assert sparse.tile_nodes(n_rows) * 2 < n_classes
    scorer, layout = laid_out(Nodes.of([-1] + [0] * n_classes))
    values = sparse_values(1, n_rows, 3)
    table = np.random.default_rng(1).standard_normal((1, 16))
    out = np.zeros((n_rows, layout.n_slots))
    sparse.sparse_node_scores(turned(csr_of(values)), layout.seeds, layout.segments, table, scorer.n_tables, out)
    hashed = np.array([[naive.phi(unit, seed, 16) @ table[0] for unit in np.eye(3)] for seed in layout.seeds[1:]])
    np.testing.assert_allclose(out[:, 1:], values @ hashed.T, atol=1e-12)


@pytest.mark.parametrize("n_rows", [1, 16, 100, 1024, 10**6])
def test_a_tile_stays_small(n_rows: int) -> None:
    size = sparse.tile_nodes(n_rows)
    assert sparse.FEWEST_NODES <= size <= sparse.MOST_NODES
    assert size * n_rows <= max(sparse.TILE_CELLS, sparse.FEWEST_NODES * n_rows)


@pytest.mark.parametrize("looked_up", [0, 1, 3, 10, 100])
@pytest.mark.parametrize("seed", SEEDS)
def test_rows_are_summed_where_that_saves_enough(seed: int, looked_up: int) -> None:
    scorer, layout = laid_out(random_nodes(seed))
    for m in (1, 10, 60, 1000):
        numbers = m / layout_module.ADDED_PER_LOOKUP
        expected = naive.first_row_summed(
            layout.first.tolist(), layout.last.tolist(), scorer.n_tables, looked_up, numbers
        )
        assert layout.tails_from(looked_up, m) == expected


# ---- the sample on which a step is chosen ------------------------------------------------------------------------


def test_a_sample_is_as_large_as_its_lookups_allow() -> None:
    """Sparse rows cost their non-zeros at every node; a batch of dense rows shares its look-ups."""
    wide = HashedScorer.flat(np.arange(100_000, dtype=np.uint32), 64, 50_000)
    params = SgdParams(batch=10)
    problem = problem_of(50_000, 2)
    hashed = type(problem)(wide, problem.loss, params, 7, "hashed")
    rows = Csr(np.ones(40, np.float32), np.arange(40, dtype=np.int32), np.array([0, 20, 40]), 50_000)
    assert wide.lookups_per_row(rows, 10) == 100_000 * 20
    assert affordable_rows(rows, hashed) == LEAST_ROWS
    few = Csr(np.ones(2, np.float32), np.zeros(2, np.int32), np.array([0, 1, 2]), 50_000)
    assert affordable_rows(few, hashed) == MOST_LOOKUPS // 100_000
    dense = Dense(np.ones((1, 50_000), np.float32))
    assert wide.lookups_per_row(dense, 10) == 100_000 * 5_000
    assert affordable_rows(rows, problem) == problem.params.trial_rows


def test_a_sample_takes_no_more_rows_than_it_affords(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.fit.step_trial.LEAST_ROWS", 3)
    monkeypatch.setattr("tasks.fit.step_trial.MOST_LOOKUPS", 1)
    rows = csr_of(np.ones((5, 4)))
    chunks = {"a": type("Chunk", (), {"rows": rows, "index": np.arange(5), "labels": np.zeros(5, np.int32)})()}
    monkeypatch.setattr("tasks.fit.blocks.load", lambda block, _: chunks[block])
    problem = problem_of(4, 2)
    linear = sample(["a"], problem)
    hashed = sample(["a"], type(problem)(laid_out(TREES["even"])[0], problem.loss, problem.params, 7, "hashed"))
    assert [chunk.rows.n_rows for chunk in linear] == [5]
    assert [chunk.rows.n_rows for chunk in hashed] == [3]
