"""What travels: partitions of blocks, targets, a partition's pass over a store, the sample of the step trial."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.fit.blocks import Partition, choose_step, make_partitions, rows_about, sample, sgd_partition
from tasks.fit.fit import fit
from tasks.fit.local_pass import Chunk, local_passes
from tasks.fit.targets import TRAIN, VALIDATION, SplitTargets
from tasks.io import Block, create_group
from tasks.rows import Dense
from tasks.sums import tree_sum
from tests.stores import store_columns, store_dense
from tests.tasks.fit_problems import accuracy, problem_of, separable, trial

BLOCK_ROWS = 64


@pytest.fixture
def stored(tmp_path):
    """(dataset path, blocks, values, labels, split) of 300 rows in 5 blocks; the last 60 rows are not for training."""
    values, labels = separable(0)
    split = np.zeros(300, np.uint8)
    split[240:270], split[270:] = VALIDATION, 2
    dataset = str(tmp_path / "data.zarr")
    create_group(dataset, {})
    blocks = store_dense(f"{dataset}/X", values, BLOCK_ROWS)
    store_columns(dataset, BLOCK_ROWS, y=labels, split=split)
    return dataset, blocks, values, labels, split


def blocks_of_sizes(sizes):
    ends = np.cumsum(sizes)
    return [Block("s", i, int(end - size), int(end)) for i, (size, end) in enumerate(zip(sizes, ends, strict=True))]


@given(sizes=st.lists(st.integers(1, 50), min_size=1, max_size=30), n=st.integers(1, 12))
def test_partitions_are_consecutive_and_balanced(sizes, n):
    blocks = blocks_of_sizes(sizes)
    parts = make_partitions(blocks, n)
    assert [block for part in parts for block in part.blocks] == blocks
    assert len(parts) == min(n, len(blocks))
    assert [part.index for part in parts] == list(range(len(parts)))
    assert all(part.blocks for part in parts)
    if len(set(sizes)) == 1:
        counts = [len(part.blocks) for part in parts]
        assert max(counts) - min(counts) <= 1


def test_partitions_balance_rows_not_blocks():
    parts = make_partitions(blocks_of_sizes([10, 10, 10, 10, 40]), 2)
    assert [sum(block.n_rows for block in part.blocks) for part in parts] == [40, 40]


def test_no_blocks_no_partitions():
    assert make_partitions([], 4) == []


def test_targets_are_the_rows_of_a_split(stored):
    dataset, blocks, _, labels, split = stored
    for wanted in (TRAIN, VALIDATION):
        targets = SplitTargets(dataset, wanted)
        found = [(block.start + index, given) for block in blocks for index, given in [targets.of(block)]]
        index = np.concatenate([rows for rows, _ in found])
        np.testing.assert_array_equal(index, np.flatnonzero(split == wanted))
        np.testing.assert_array_equal(np.concatenate([given for _, given in found]), labels[index])
        assert index.dtype == np.int64


def test_a_partition_learns_as_the_same_rows_in_memory(stored):
    dataset, blocks, values, labels, split = stored
    problem = replace(problem_of(5, 3), targets=SplitTargets(dataset, TRAIN)).with_trial(trial(passes=2))
    problem = pickle.loads(pickle.dumps(problem))
    zero = problem.scorer.initial(np.float32)
    for part in make_partitions(blocks, 2):
        chunks = []
        for block in part.blocks:
            rows = slice(block.start, block.stop)
            index = np.flatnonzero(split[rows] == TRAIN)
            chunks.append(Chunk(Dense(values[rows]), index, labels[rows][index]))
        expected = local_passes(chunks, zero, problem, 1, part.index)
        found = sgd_partition(part, zero, problem, 1)
        np.testing.assert_array_equal(found.parameters["weights"], expected.parameters["weights"])
        assert (found.weight, found.rows) == (expected.weight, expected.rows)


def test_the_sample_is_the_first_rows_that_take_part(stored):
    dataset, blocks, values, labels, _ = stored
    problem = problem_of(5, 3, trial_rows=100)
    problem = replace(problem, targets=SplitTargets(dataset, TRAIN))
    chunks = sample(blocks, problem)
    assert [chunk.index.size for chunk in chunks] == [64, 36]
    np.testing.assert_array_equal(np.concatenate([chunk.rows.to_array() for chunk in chunks]), values[:100])
    np.testing.assert_array_equal(np.concatenate([chunk.labels for chunk in chunks]), labels[:100])
    assert rows_about(blocks, problem) == 240


def test_fit_over_blocks(stored):
    dataset, blocks, values, labels, split = stored
    problem = problem_of(5, 3, rounds=4, least_rows=5000, partitions=2)
    problem = replace(problem, targets=SplitTargets(dataset, TRAIN))

    class Serial:
        def trial(self, problem):
            return choose_step(blocks, problem)

        def round(self, problem, parameters, round_index):
            parts = make_partitions(blocks, problem.params.partitions)
            return tree_sum([sgd_partition(part, parameters, problem, round_index) for part in parts])

    result = fit(problem, Serial())
    held_out = split != TRAIN
    assert accuracy(problem, result.parameters, Dense(values[held_out]), labels[held_out]) > 0.95
    assert result.history[0]["rows"] == 240 * result.trial.passes


def test_a_problem_without_targets_has_no_blocks():
    with pytest.raises(ValueError, match="in memory"):
        sgd_partition(Partition(0, (Block("s", 0, 0, 4),)), {}, problem_of(5, 3).with_trial(trial()), 0)
