"""Trees grown over the pool: the same bits serially, on workers, after interruptions; wide nodes by blocks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline import node_oracle
from pipeline.connection.cluster import connected
from pipeline.connection.profile import Profile
from pipeline.node_oracle import Field, grow_tree
from pipeline.pool import DaskPool, SerialPool
from tasks.digest import combine, digest_arrays
from tasks.io import (
    Block,
    blocks_of,
    create_codes,
    create_csr,
    create_dense,
    create_group,
    write_codes,
    write_column,
    write_csr,
    write_dense,
)
from tasks.rows import Dense
from tasks.trees import label_tree
from tasks.trees.local import Labelled, grow_rows
from tasks.trees.params import LabelTreeParams
from tasks.trees.place import Ground
from tasks.trees.tree import LabelTree
from tasks.worker import WorkerSettings
from tests.bodies import csr_of
from tests.stores import store_columns
from tests.tasks.test_label_tree import clouds

N_CLASSES, WIDTH, BLOCK_ROWS = 12, 8, 64
N_TRAIN, N_VALIDATION, N_TEST = 300, 84, 60
SMALL = LabelTreeParams(branching=3, depth=3, ambiguity=0.5, rounds=2, alternations=2, partitions=2, least_rows=1)
WIDE_ROOT = replace(SMALL, whole_root_bytes=0)
ALL_WIDE = replace(WIDE_ROOT, whole_node_bytes=0)


def everything() -> Labelled:
    """Training, then validation, then test rows, as ingest orders them."""
    parts = [clouds(seed, N_CLASSES, n // N_CLASSES, WIDTH) for seed, n in enumerate((N_TRAIN, N_VALIDATION, N_TEST))]
    values = np.concatenate([part.rows.to_array() for part in parts])
    return Labelled(Dense(values), np.concatenate([part.labels for part in parts]))


def write_dataset(folder: Path, body: str = "dense") -> Ground:
    """A dataset in the body asked for; PQ codes have one subquantizer per column, so they are exact to a grid."""
    rows, dataset = everything(), str(folder / "data.zarr")
    n, values = rows.rows.n_rows, rows.rows.to_array()
    create_group(dataset, {})
    split = np.repeat([0, 1, 2], [N_TRAIN, N_VALIDATION, N_TEST]).astype(np.uint8)
    store_columns(dataset, BLOCK_ROWS, y=rows.labels, split=split)
    store = f"{dataset}/X"
    grid = np.linspace(-4, 4, 256, dtype=np.float32)
    if body == "dense":
        made = create_dense(store, n, WIDTH, BLOCK_ROWS)
    elif body == "csr":
        made = create_csr(store, n, WIDTH, BLOCK_ROWS)
    else:
        made = create_codes(store, n, WIDTH, BLOCK_ROWS, np.repeat(grid[None, :, None], WIDTH, axis=0))
    for block in made:
        write_block(block, body, values[block.start : block.stop], grid)
    return Ground(dataset, store, store, str(folder / "nodes"), SMALL.settled(N_CLASSES), 5, "tree", WIDTH, N_CLASSES)


def write_block(block: Block, body: str, values: np.ndarray, grid: np.ndarray) -> None:
    if body == "dense":
        write_dense(block, values)
    elif body == "csr":
        rows = csr_of(np.where(np.abs(values) > 0.1, values, 0))
        write_csr(block, rows.data, rows.indices, rows.indptr)
    else:
        write_codes(block, np.abs(values[:, :, None] - grid).argmin(axis=2).astype(np.uint8))


def field_of(ground: Ground) -> Field:
    blocks = blocks_of(ground.rows)
    judged = [block for block in blocks if block.start < N_TRAIN + N_VALIDATION]
    return Field([block for block in blocks if block.start < N_TRAIN], judged)


def serial(folder: Path) -> SerialPool:
    return SerialPool(folder / "scratch", WorkerSettings())


def grow(ground: Ground, pool: Any, params: LabelTreeParams = SMALL) -> LabelTree:
    ground = replace(ground, params=params.settled(N_CLASSES))
    return grow_tree(ground, field_of(ground), N_TRAIN, pool)


def digest(tree: LabelTree) -> str:
    return combine([digest_arrays(*tree.tensors().values()), json.dumps(tree.header(), sort_keys=True)])


def accuracy(tree: LabelTree) -> float:
    test = everything().take(np.arange(N_TRAIN + N_VALIDATION, N_TRAIN + N_VALIDATION + N_TEST))
    return float((tree.rank(test.rows, 1).classes[:, 0] == test.labels).mean())


def test_whole_nodes_give_the_tree_that_grows_in_memory(tmp_path: Path) -> None:
    ground, rows = write_dataset(tmp_path), everything()
    train, validation = rows.take(np.arange(N_TRAIN)), rows.take(np.arange(N_TRAIN, N_TRAIN + N_VALIDATION))
    expected = grow_rows(train, validation, N_CLASSES, SMALL, seed=5)
    assert digest(grow(ground, serial(tmp_path))) == digest(expected)
    assert expected.n_nodes > N_CLASSES


@pytest.mark.parametrize("body", ["dense", "csr", "pq"])
@pytest.mark.parametrize("params", [SMALL, WIDE_ROOT, ALL_WIDE], ids=["whole", "wide-root", "all-wide"])
def test_trees_work_on_every_body(tmp_path: Path, body: str, params: LabelTreeParams) -> None:
    tree = grow(write_dataset(tmp_path, body), serial(tmp_path), params)
    assert accuracy(tree) > 0.8
    assert tree.facts["operations"] == sum(record["operations"] for record in tree.facts["nodes"])
    assert all(record["ambiguity"] <= 0.5 for record in tree.facts["nodes"] if "lp_value" in record)


def test_wide_and_whole_nodes_see_the_same_rows(tmp_path: Path) -> None:
    """One partition over one block's worth of rows is what a whole node does, so only the order of rows differs."""
    trees = [
        grow(write_dataset(tmp_path / name), serial(tmp_path), replace(params, rounds=1, alternations=1, step=1e-6))
        for name, params in (("whole", SMALL), ("wide", ALL_WIDE))
    ]
    records = [tree.facts["nodes"][0] for tree in trees]
    assert [record["judged_rows"] for record in records] == [N_VALIDATION] * 2
    assert records[0]["operations"] == records[1]["operations"] == 2 * 3 * N_TRAIN


def judged_elsewhere(ground: Ground) -> Ground:
    """The same with a second rows store for its validation rows: those of the first with their columns in reverse."""
    rows, store = everything().rows.to_array(), f"{ground.dataset}/other"
    for block in create_dense(store, len(rows), WIDTH, BLOCK_ROWS):
        write_dense(block, rows[block.start : block.stop, ::-1])
    return replace(ground, judges=store)


def kept_at_the_root(tree: LabelTree) -> float:
    """Share of the mirrored test rows that go to a child which holds their class."""
    test = everything().take(np.arange(N_TRAIN + N_VALIDATION, N_TRAIN + N_VALIDATION + N_TEST))
    child = tree.rank(Dense(np.ascontiguousarray(test.rows.to_array()[:, ::-1])), 1).path[:, 1]
    return float(np.mean([label in tree.label_set(node) for node, label in zip(child, test.labels, strict=True)]))


@pytest.mark.parametrize("params", [SMALL, WIDE_ROOT, ALL_WIDE], ids=["whole", "wide-root", "all-wide"])
def test_validation_rows_are_those_that_the_tree_is_tested_on(tmp_path: Path, params: LabelTreeParams) -> None:
    own, other = (
        grow(change(write_dataset(tmp_path / name)), serial(tmp_path), params)
        for name, change in (("own", lambda ground: ground), ("other", judged_elsewhere))
    )
    assert kept_at_the_root(other) > 0.9 > kept_at_the_root(own) + 0.2
    if params is SMALL:
        rows = everything()
        train, judges = rows.take(np.arange(N_TRAIN)), rows.take(np.arange(N_TRAIN, N_TRAIN + N_VALIDATION))
        mirrored = Labelled(Dense(np.ascontiguousarray(judges.rows.to_array()[:, ::-1])), judges.labels)
        assert digest(other) == digest(grow_rows(train, mirrored, N_CLASSES, SMALL, seed=5))


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with connected(Profile("local:2", memory_per_worker="1 GiB", dashboard="127.0.0.1:0")) as found:
        yield found


ROUTED = replace(SMALL, training_rows="routed", runners_up=False, initialisation="random", whole_root_bytes=0)


@pytest.mark.parametrize("body", ["dense", "csr"])
@pytest.mark.parametrize("params", [SMALL, ALL_WIDE, ROUTED], ids=["whole", "all-wide", "paper"])
def test_the_same_bits_serially_and_on_workers(tmp_path: Path, client: Any, params: LabelTreeParams, body: str) -> None:
    on_workers = grow(
        write_dataset(tmp_path / "dask", body), DaskPool(client, tmp_path / "scratch-d", WorkerSettings()), params
    )
    assert digest(on_workers) == digest(grow(write_dataset(tmp_path / "serial", body), serial(tmp_path), params))
    assert (on_workers.columns is not None) == (body == "csr")


class Interrupted(Exception):
    """Stands for a kill."""


class StoppingPool(SerialPool):
    """Stops before the task with a given number."""

    def __init__(self, folder: Path, stop: int) -> None:
        super().__init__(folder / "scratch", WorkerSettings())
        self.left = stop

    def _call(self, *args: Any) -> Any:
        self.left -= 1
        if self.left < 0:
            raise Interrupted
        return super()._call(*args)


@pytest.mark.parametrize("body", ["dense", "csr"])
@pytest.mark.parametrize("params", [SMALL, ALL_WIDE], ids=["whole", "all-wide"])
def test_an_interrupted_tree_continues_to_the_same_bits(tmp_path: Path, params: LabelTreeParams, body: str) -> None:
    expected = digest(grow(write_dataset(tmp_path / "a", body), serial(tmp_path / "a"), params))
    ground = write_dataset(tmp_path / "b", body)
    stops = 0
    for stop in range(3, 4000, 17):
        try:
            tree = grow(ground, StoppingPool(tmp_path / "b", stop), params)
            break
        except Interrupted:
            stops += 1
    assert digest(tree) == expected
    assert stops > 0
    assert not list(Path(ground.folder).glob("*/progress-*"))


def trained(ground: Ground, params: LabelTreeParams, monkeypatch: pytest.MonkeyPatch) -> tuple[LabelTree, int]:
    """The tree, and how many nodes were really trained for it."""
    count = 0

    def counting(*args: Any) -> Any:
        nonlocal count
        count += 1
        return train_node(*args)

    train_node = label_tree.grow_node
    monkeypatch.setattr("tasks.trees.blocks.grow_node", counting)
    monkeypatch.setattr("pipeline.node_oracle.grow_node", counting)
    tree = grow(ground, serial(Path(ground.folder)), params)
    monkeypatch.undo()
    return tree, count


@pytest.mark.parametrize("params", [SMALL, ALL_WIDE], ids=["whole", "all-wide"])
def test_finished_nodes_are_kept_and_damaged_ones_trained_again(
    tmp_path: Path, params: LabelTreeParams, monkeypatch: pytest.MonkeyPatch
) -> None:
    ground = write_dataset(tmp_path)
    tree, count = trained(ground, params, monkeypatch)
    assert count == len(tree.facts["nodes"])
    assert trained(ground, params, monkeypatch)[1] == 0
    folder = Path(ground.folder)
    damaged = folder / "0.1" / "weights.npy"
    content = bytearray(damaged.read_bytes())
    content[-1] ^= 1
    damaged.write_bytes(content)
    next(folder.glob("0/routes-*.npy")).write_bytes(b"short")
    (folder / "0.0" / "DONE.json").write_text("{")
    again, count = trained(ground, params, monkeypatch)
    assert count == 3
    assert digest(again) == digest(tree)
    other = trained(replace(ground, seed=6), params, monkeypatch)
    assert other[1] == len(other[0].facts["nodes"])  # another seed trusts nothing


def test_a_dataset_without_validation_rows_is_judged_by_its_training_rows(tmp_path: Path) -> None:
    ground = write_dataset(tmp_path)
    split = np.repeat([0, 2], [N_TRAIN, N_VALIDATION + N_TEST]).astype(np.uint8)
    for start in range(0, split.size, BLOCK_ROWS):
        write_column(ground.dataset, "split", start, split[start : start + BLOCK_ROWS])
    for name, params in (("whole", SMALL), ("wide", ALL_WIDE)):
        tree = grow(replace(ground, folder=str(tmp_path / name)), serial(tmp_path), params)
        assert tree.facts["nodes"][0]["judged_rows"] == N_TRAIN
        assert accuracy(tree) > 0.8


def test_a_fit_on_codes_goes_on_with_the_answers_it_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped in the middle of the root's second fit: what the rows have answered is not asked again."""
    honest, asked = node_oracle.node_risk, [0]
    expected = digest(grow(write_dataset(tmp_path / "whole", "pq"), serial(tmp_path), ALL_WIDE))

    def counted(*given: Any) -> Any:
        asked[0] += 1
        if asked[0] == stop:
            raise KeyboardInterrupt
        return honest(*given)

    monkeypatch.setattr(node_oracle, "node_risk", counted)
    stop, ground = 60, write_dataset(tmp_path / "stopped", "pq")
    with pytest.raises(KeyboardInterrupt):
        grow(ground, serial(tmp_path), ALL_WIDE)
    stop, asked[0] = -1, 0
    assert digest(grow(ground, serial(tmp_path), ALL_WIDE)) == expected
    again, asked[0] = asked[0], 0
    grow(write_dataset(tmp_path / "counted", "pq"), serial(tmp_path), ALL_WIDE)
    assert again < asked[0] - 30
