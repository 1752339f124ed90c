"""Where a tree grows: members found in routes, gathered rows, node folders that are believed only when they hold."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tasks.fit.targets import TRAIN, VALIDATION
from tasks.io import (
    blocks_of,
    create_csr,
    create_group,
    write_csr,
)
from tasks.rows import Csr, Dense, Rows
from tasks.trees.blocks import NodeTask, grow_whole
from tasks.trees.gather import gather
from tasks.trees.node import Grown
from tasks.trees.params import LabelTreeParams
from tasks.trees.place import (
    Ground,
    Members,
    classes_at,
    finished,
    members,
    members_of_block,
    pieces,
    read_grown,
    write_done,
    write_piece,
)
from tasks.trees.tree import Split
from tasks.trees.weights import SparseWeights
from tests.stores import store_columns, store_dense

N_ROWS, BLOCK_ROWS, N_CLASSES = 40, 8, 4
BLOCKS = range(N_ROWS // BLOCK_ROWS)


def labels_and_split() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.integers(-1, N_CLASSES, N_ROWS).astype(np.int32), rng.integers(0, 3, N_ROWS).astype(np.uint8)


def ground_of(folder: Path, body: str = "dense") -> Ground:
    dataset = str(folder / "data.zarr")
    create_group(dataset, {})
    labels, split = labels_and_split()
    store_columns(dataset, BLOCK_ROWS, y=labels, split=split)
    store, values = f"{dataset}/X", np.arange(2 * N_ROWS, dtype=np.float32).reshape(N_ROWS, 2)
    if body == "dense":
        store_dense(store, values, BLOCK_ROWS)
    else:
        indices, indptr = np.tile(np.arange(2, dtype=np.int32), BLOCK_ROWS), 2 * np.arange(BLOCK_ROWS + 1)
        for block in create_csr(store, N_ROWS, 2, BLOCK_ROWS):
            write_csr(block, values[block.start : block.stop].ravel(), indices, indptr)
    params = LabelTreeParams(branching=2, rounds=1, alternations=1).settled(N_CLASSES)
    return Ground(dataset, store, store, str(folder / "nodes"), params, 0, "tree", 2, N_CLASSES)


def write_root(ground: Ground, by_blocks: bool) -> dict[tuple[int, int], list[tuple[int, int, int]]]:
    """Route the rows of the root by hand: class 0 and 1 to child 0, 2 to both in turn, 3 is lost."""
    children = np.array([[1, 1, 1, 0], [0, 0, 1, 0]], bool)
    split = Split(np.arange(4, dtype=np.int32), children, np.zeros((2, 2), np.float32), np.zeros(2, np.float32))
    expected: dict[tuple[int, int], list[tuple[int, int, int]]] = {(q, p): [] for q in (0, 1) for p in (0, 1)}
    digests, kept = {}, {part: members(ground, (), part) for part in (TRAIN, VALIDATION)}
    for name, chosen in [(f"{b:05d}", [b]) for b in BLOCKS] if by_blocks else [("all", list(BLOCKS))]:
        pairs = []
        for part, who in kept.items():
            here = np.isin(who.block, chosen) & (who.label != 3)
            some = Members(who.block[here], who.offset[here], who.label[here])
            child = np.where(some.label == 2, some.offset % 2, 0)
            pairs.append((some, child))
            for row in zip(child, some.block, some.offset, some.label, strict=True):
                q, *where = map(int, row)
                expected[q, part].append((where[0], where[1], where[2]))
        digests[name] = write_piece(ground, (), name, pairs, 2)
    routed = np.array([[len(expected[q, part]) for part in (TRAIN, VALIDATION)] for q in (0, 1)])
    write_done(ground, (), Grown(split, {"operations": 1.0}), digests, routed)
    return expected


@pytest.mark.parametrize("part", [TRAIN, VALIDATION])
def test_members_of_the_root_are_the_labelled_rows_of_a_part(tmp_path: Path, part: int) -> None:
    ground, (labels, split) = ground_of(tmp_path), labels_and_split()
    expected = [
        (i // BLOCK_ROWS, i % BLOCK_ROWS, labels[i]) for i in range(N_ROWS) if split[i] == part and labels[i] >= 0
    ]
    who = members(ground, (), part)
    assert list(zip(who.block, who.offset, who.label, strict=True)) == expected
    offset, label = members_of_block(ground, (), part, blocks_of(ground.rows)[2])
    assert [(2, o, c) for o, c in zip(offset, label, strict=True)] == [row for row in expected if row[0] == 2]
    assert classes_at(ground, ()).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("by_blocks", [False, True])
def test_children_find_their_rows_in_the_routes_of_their_parent(tmp_path: Path, by_blocks: bool) -> None:
    ground = ground_of(tmp_path)
    expected = write_root(ground, by_blocks)
    assert pieces(ground.node_folder(())) == ([f"{b:05d}" for b in BLOCKS] if by_blocks else ["all"])
    assert [classes_at(ground, (q,)).tolist() for q in (0, 1)] == [[0, 1, 2], [2]]
    for (q, part), rows in expected.items():
        who = members(ground, (q,), part)
        assert list(zip(who.block, who.offset, who.label, strict=True)) == rows
        for b in BLOCKS if by_blocks else []:
            offset, label = members_of_block(ground, (q,), part, blocks_of(ground.rows)[b])
            assert [(b, o, c) for o, c in zip(offset, label, strict=True)] == [row for row in rows if row[0] == b]
    summary = finished(ground, ())
    assert summary is not None
    assert summary.children == ((3, len(expected[0, TRAIN])), (1, len(expected[1, TRAIN])))


@pytest.mark.parametrize("body", ["dense", "csr"])
def test_gathered_rows_are_those_asked_for(tmp_path: Path, body: str) -> None:
    blocks = blocks_of(ground_of(tmp_path, body).rows)
    block, offset = np.array([0, 0, 1, 4]), np.array([3, 7, 0, 5])
    rows: Rows = gather(blocks, block, offset)
    assert isinstance(rows, Dense if body == "dense" else Csr)
    values = np.arange(2 * N_ROWS).reshape(N_ROWS, 2)[block * BLOCK_ROWS + offset]
    np.testing.assert_array_equal(rows.to_array(), values)
    assert gather(blocks, block[:0], offset[:0]).shape == (0, 2)


@pytest.mark.parametrize("body", ["dense", "csr"])
def test_a_finished_node_is_read_back(tmp_path: Path, body: str) -> None:
    ground = ground_of(tmp_path, body)
    summary = grow_whole(NodeTask((), 10), ground)
    assert finished(ground, ()) == summary
    grown = read_grown(ground, ())
    assert isinstance(grown.split.weights, SparseWeights if body == "csr" else np.ndarray)
    assert grown.split.weights.shape == (2, 2)
    assert grown.split.children.shape == (2, 4)
    assert [int(held) for held, _ in summary.children] == grown.split.children.sum(axis=1).tolist()
    assert grow_whole(NodeTask((), 10), ground) == summary


def drop(path: Path) -> None:
    path.unlink()


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 4
    path.write_bytes(content)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


@pytest.mark.parametrize("name", ["weights", "bias", "children", "classes", "routes-all", "starts-all"])
@pytest.mark.parametrize("harm", [drop, flip, cut])
def test_a_damaged_node_is_not_finished(tmp_path: Path, name: str, harm: Callable[[Path], None]) -> None:
    ground = ground_of(tmp_path)
    grow_whole(NodeTask((), 10), ground)
    harm(ground.node_folder(()) / f"{name}.npy")
    assert finished(ground, ()) is None


@pytest.mark.parametrize("name", ["weights", "columns", "starts", "entries"])
@pytest.mark.parametrize("harm", [drop, flip, cut])
def test_a_node_with_damaged_sparse_weights_is_not_finished(
    tmp_path: Path, name: str, harm: Callable[[Path], None]
) -> None:
    ground = ground_of(tmp_path, "csr")
    grow_whole(NodeTask((), 10), ground)
    assert finished(ground, ()) is not None
    harm(ground.node_folder(()) / f"{name}.npy")
    assert finished(ground, ()) is None


def test_a_record_that_was_changed_is_not_believed(tmp_path: Path) -> None:
    ground = ground_of(tmp_path)
    grow_whole(NodeTask((), 10), ground)
    done = ground.node_folder(()) / "DONE.json"
    content = json.loads(done.read_text())
    content["record"]["operations"] += 1
    done.write_text(json.dumps(content))
    assert finished(ground, ()) is None
    assert finished(ground, (0,)) is None  # not even begun


def test_a_child_of_another_parent_is_not_finished(tmp_path: Path) -> None:
    ground = ground_of(tmp_path)
    write_root(ground, by_blocks=False)
    grow_whole(NodeTask((0,), 5), ground)
    assert finished(ground, (0,)) is not None
    write_root(ground, by_blocks=True)
    assert finished(ground, (0,)) is None
