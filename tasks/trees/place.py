"""Where a tree grows: which rows a node has, found in its parent's routes; never copied down the tree.

A node's folder holds its split (`classes`, `children`, `bias`, `weights`; of weights on few features also `columns`, of
sparse ones `starts` and `entries` too; its scale is found when all nodes are grown), its routes in one or more pieces,
and `DONE.json`, written last.
A piece lists the rows that the children get, sorted by child, then part, block and offset: `routes-NAME` (n, 3) int32 =
block, offset in it, class; `starts-NAME` (2 Q + 1,) int64 = where each child's training rows and validation rows begin.
A node trained whole writes one piece, a node trained by blocks one per block.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path as Folder
from typing import Any

import numpy as np

from tasks.digest import combine, digest_arrays, digest_text
from tasks.fit.targets import TRAIN, VALIDATION
from tasks.io import Block, blocks_of, read_labels, read_split
from tasks.places import at, open_array, read_array
from tasks.places import write_whole as write_whole
from tasks.rows.base import Array
from tasks.trees.local import node_name
from tasks.trees.node import Grown
from tasks.trees.params import TreeParams
from tasks.trees.tree import Path, Split
from tasks.trees.weights import ActiveWeights, AnyWeights, SparseWeights

DONE = "DONE.json"
WHOLE = "all"  # name of the one piece of a node that was trained whole
PARTS = (TRAIN, VALIDATION)
SPARSE = ("columns", "starts", "entries")  # what a folder holds beside `weights` when these are sparse


@dataclass(frozen=True, slots=True)
class Ground:
    """What all tasks of a growing tree know: paths, parameters, sizes; small and picklable.

    dataset  path of the dataset, for labels and split
    rows     path of the rows store that nodes learn from, in the same blocks
    judges   path of the store that validation rows are read from: the rows that the tree is to be tested on
    folder   where the node folders are; seed and name: where the random streams come from
    """

    dataset: str
    rows: str
    judges: str
    folder: str
    params: TreeParams
    seed: int
    name: str
    n_features: int
    n_classes: int

    def node_folder(self, path: Path) -> Folder:
        return at(self.folder) / node_name(path)

    def source(self, block: Block, part: int) -> Block:
        """The block that rows of one part (training or validation) are read from."""
        return replace(block, store=self.rows if part == TRAIN else self.judges)

    def place(self, path: Path) -> str:
        """The name of a node among the run's random streams."""
        return f"{self.name}/{node_name(path)}"


@dataclass(frozen=True, slots=True, eq=False)
class Members:
    """Rows of a node, by block and offset ascending: block, offset, label (n,) int32."""

    block: Array
    offset: Array
    label: Array


def piece_of(block: int) -> str:
    return f"{block:05d}"


# ---- who is at a node --------------------------------------------------------------------------------------------


def classes_at(ground: Ground, path: Path) -> Array:
    """(K,) int32, ascending: the classes of a node."""
    if not path:
        return np.arange(ground.n_classes, dtype=np.int32)
    folder = ground.node_folder(path[:-1])
    classes, children = (_read(folder, name) for name in ("classes", "children"))
    held: Array = classes[children[path[-1]]]
    return held


def members(ground: Ground, path: Path, part: int) -> Members:
    """All rows of one part (training or validation) at a node."""
    if not path:
        found = [_root_members(ground, block, part) for block in blocks_of(ground.rows)]
    else:
        folder = ground.node_folder(path[:-1])
        found = [_routed(folder, name, path[-1], part) for name in pieces(folder)]
    return Members(*np.concatenate([np.zeros((0, 3), np.int32), *found]).T.copy())


def members_of_block(ground: Ground, path: Path, part: int, block: Block) -> tuple[Array, Array]:
    """(offset, label) of a node's rows in one block; the parent was trained by blocks, or the node is the root."""
    if not path:
        found = _root_members(ground, block, part)
    else:
        found = _routed(ground.node_folder(path[:-1]), piece_of(block.index), path[-1], part)
    return found[:, 1], found[:, 2]


def _root_members(ground: Ground, block: Block, part: int) -> Array:
    offset = np.flatnonzero(read_split(ground.dataset, block.start, block.stop) == part)
    label = read_labels(ground.dataset, block.start, block.stop)[offset]
    labelled = label >= 0
    return np.stack([np.full(offset.size, block.index), offset, label], axis=1).astype(np.int32)[labelled]


def _routed(folder: Folder, name: str, child: int, part: int) -> Array:
    starts = _read(folder, f"starts-{name}")
    first, last = starts[2 * child + part : 2 * child + part + 2]
    rows = open_array(folder / f"routes-{name}.npy")
    return np.array(rows[first:last])


# ---- node folders ------------------------------------------------------------------------------------------------


def pieces(folder: Folder) -> list[str]:
    """Names of the route pieces of a finished node, in block order."""
    return list(read_done(folder)["pieces"])


def write_piece(ground: Ground, path: Path, name: str, chosen: Sequence[tuple[Members, Array]], n_children: int) -> str:
    """Write one piece of a node's routes; returns its digest.

    chosen  for training, then validation rows: members that the children get, and the child (n,) of each
    """
    child = np.concatenate([gone for _, gone in chosen])
    part = np.repeat(PARTS, [gone.size for _, gone in chosen])
    table = np.concatenate([np.stack([m.block, m.offset, m.label], axis=1) for m, _ in chosen]).astype(np.int32)
    cell = 2 * child + part
    order = np.argsort(cell, kind="stable")  # within a child members are ascending already
    starts = np.searchsorted(cell[order], np.arange(2 * n_children + 1)).astype(np.int64)
    folder = ground.node_folder(path)
    return combine([_write(folder, f"routes-{name}", table[order]), _write(folder, f"starts-{name}", starts)])


def write_split(ground: Ground, path: Path, split: Split) -> str:
    """Write what goes into the tree; returns its digest."""
    folder, arrays = ground.node_folder(path), split_arrays(split)
    return combine([_write(folder, name, arrays[name]) for name in arrays])


def split_arrays(split: Split) -> dict[str, Array]:
    """What is written of a split, by name."""
    weights = split.weights
    arrays = {"classes": split.classes, "children": split.children, "bias": split.bias}
    if isinstance(weights, SparseWeights):
        return arrays | {"weights": weights.values} | {name: getattr(weights, name) for name in SPARSE}
    if isinstance(weights, ActiveWeights):
        return arrays | {"weights": weights.matrix, "columns": weights.columns}
    return arrays | {"weights": weights}


def read_split_of(folder: Folder, names: Sequence[str], n_features: int) -> Split:
    """The split of a node folder that holds the arrays `names`."""
    arrays = {name: _read(folder, name) for name in names}
    weights: AnyWeights = arrays["weights"]
    shape = (n_features, len(arrays["children"]))
    if set(SPARSE) <= set(arrays):
        weights = SparseWeights(values=arrays["weights"], shape=shape, **{name: arrays[name] for name in SPARSE})
    elif "columns" in arrays:
        weights = ActiveWeights(arrays["columns"], arrays["weights"], shape)
    return Split(arrays["classes"], arrays["children"], weights, arrays["bias"])


def write_done(ground: Ground, path: Path, grown: Grown, piece_digests: Mapping[str, str], routed: Array) -> Summary:
    """Write a node's split and, last, its DONE.json.

    routed  (Q, 2) int64: training and validation rows that each child gets
    """
    split = write_split(ground, path, grown.split)
    children = [
        [int(held), int(train), int(validation)]
        for held, (train, validation) in zip(grown.split.children.sum(axis=1), routed, strict=True)
    ]
    content = {
        "parent": parent_digest(ground, path),
        "split": split,
        "arrays": list(split_arrays(grown.split)),
        "pieces": dict(piece_digests),
        "record": grown.record,
        "children": children,
    }
    content["digest"] = digest_text(json.dumps(content, sort_keys=True))
    folder = ground.node_folder(path)
    write_whole(folder / DONE, json.dumps(content, indent=1).encode())
    return summary_of(content)


@dataclass(frozen=True, slots=True)
class Summary:
    """What the driver learns of a finished node: its digest; of each child the classes and training rows.

    judged_rows, loss, ambiguity  of the node's record, for who watches
    """

    digest: str
    children: tuple[tuple[int, int], ...]
    judged_rows: float = 0.0
    loss: float = 0.0
    ambiguity: float = 0.0


def summary_of(content: Mapping[str, Any]) -> Summary:
    told = (float(content["record"].get(key, 0.0)) for key in ("judged_rows", "loss", "ambiguity"))
    return Summary(content["digest"], tuple((held, train) for held, train, _ in content["children"]), *told)


def read_done(folder: Folder) -> dict[str, Any]:
    """DONE.json of a node. Raises OSError, ValueError when it is not there or not readable."""
    content: dict[str, Any] = json.loads((folder / DONE).read_bytes())
    return content


def parent_digest(ground: Ground, path: Path) -> str:
    """The digest of the parent, which decides a node's rows; that of what was asked for, at the root."""
    if not path:
        return digest_text(repr(ground.params), str(ground.seed), ground.name)
    return str(read_done(ground.node_folder(path[:-1]))["digest"])


def finished(ground: Ground, path: Path) -> Summary | None:
    """The summary of a node that was finished before, None when it was not, or does not hold any more.

    Every file is read again and its digest compared; a node whose parent came out otherwise is not finished.
    """
    folder = ground.node_folder(path)
    try:
        content = read_done(folder)
        named = {key: value for key, value in content.items() if key != "digest"}
        held = (
            content["digest"] == digest_text(json.dumps(named, sort_keys=True))
            and content["parent"] == parent_digest(ground, path)
            and content["split"] == combine([digest_arrays(_read(folder, name)) for name in content["arrays"]])
            and all(
                digest == combine([digest_arrays(_read(folder, f"{kind}-{name}")) for kind in ("routes", "starts")])
                for name, digest in content["pieces"].items()
            )
        )
    except Exception:
        return None
    return summary_of(content) if held else None


def read_grown(ground: Ground, path: Path) -> Grown:
    """A finished node."""
    folder = ground.node_folder(path)
    content = read_done(folder)
    return Grown(read_split_of(folder, content["arrays"], ground.n_features), content["record"])


def _read(folder: Folder, name: str) -> Array:
    return read_array(folder / f"{name}.npy")


def _write(folder: Folder, name: str, values: Array) -> str:
    buffer = io.BytesIO()
    np.save(buffer, values, allow_pickle=False)
    write_whole(folder / f"{name}.npy", buffer.getvalue())
    return digest_arrays(values)
