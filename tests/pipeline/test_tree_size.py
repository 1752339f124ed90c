"""What plan says of a label tree bounds the trees that come of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pipeline.stages.tree_size import LabelTreeSize
from tasks.rows import Dense, Rows
from tasks.trees.local import Labelled, grow_rows
from tasks.trees.params import LabelTreeParams
from tasks.trees.tree import LabelTree
from tasks.trees.weights import SparseWeights
from tests.bodies import csr_of

N_CLASSES, WIDTH, NONZEROS, EACH = 24, 600, 8, 10
SMALL = LabelTreeParams(rounds=2, least_rows=1, alternations=2)


def texts(seed: int, body: str) -> Labelled:
    """Rows of NONZEROS features: half of them of the class, half of them common ones, rare or frequent."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(N_CLASSES, dtype=np.int32), EACH)
    own = 10 * labels[:, None] + rng.integers(0, 10, (labels.size, NONZEROS // 2))
    common = 10 * N_CLASSES + (rng.pareto(1.0, (labels.size, NONZEROS // 2)) * 10).astype(np.int64) % 360
    values = np.zeros((labels.size, WIDTH), np.float32)
    for columns in (own, common):
        values[np.arange(labels.size)[:, None], columns] = 1.0
    return Labelled(rows_of(values, body), labels)


def rows_of(values: np.ndarray, body: str) -> Rows:
    return Dense(values) if body == "dense" else csr_of(values)


def size_of(params: LabelTreeParams, body: str) -> LabelTreeSize:
    return LabelTreeSize(
        params.settled(N_CLASSES), WIDTH, N_CLASSES, N_CLASSES * EACH, NONZEROS if body == "csr" else 0
    )


def weight_bytes(tree: LabelTree) -> int:
    return sum(values.nbytes for name, values in tree.tensors().items() if name not in ("classes", "offsets"))


@pytest.mark.parametrize("body", ["dense", "csr"])
@pytest.mark.parametrize("params", [SMALL, replace(SMALL, depth=3), replace(SMALL, depth=1)], ids=["2", "3", "1"])
def test_trees_are_no_larger_than_planned(body: str, params: LabelTreeParams) -> None:
    tree = grow_rows(texts(0, body), texts(1, body), N_CLASSES, params, seed=0)
    size = size_of(params, body)
    inner = [tree.node_weights(node) for node in np.flatnonzero(tree.n_children)]
    held = [4 * (one.columns.size if isinstance(one, SparseWeights) else WIDTH) * one.shape[1] for one in inner]
    assert max(held) <= size.widest_node_bytes()
    assert max(one.shape[1] for one in inner) <= size.widest_children()
    assert weight_bytes(tree) <= size.model_bytes() + 30 * tree.n_nodes


def test_wide_sparse_rows_plan_for_much_less_than_dense_ones() -> None:
    params = LabelTreeParams().settled(7000)
    sparse, dense = (LabelTreeSize(params, 100_000, 7000, 50_000, nonzeros) for nonzeros in (20, 0))
    assert 10 * sparse.model_bytes() < dense.model_bytes()
    assert 2 * sparse.widest_node_bytes() < dense.widest_node_bytes()
    assert sparse.features(1.0) <= 100_000 == dense.features(0.01)
    assert sparse.features(0.01) < 10_000


def test_only_nodes_trained_by_blocks_are_added_over_the_pool() -> None:
    params, row_bytes = replace(SMALL, whole_root_bytes=10_000, whole_node_bytes=20_000), 10.0
    size = size_of(params, "csr")
    assert size.blocks_bytes(row_bytes) == 0
    assert size.blocks_bytes(5 * row_bytes) == 4 * (WIDTH + 1) * 5  # the root alone: 24 ** 0.5 rounded up
    assert size.blocks_bytes(10 * row_bytes) == 4 * (WIDTH + 1) * size.widest_children()
