"""Stores that this process has in its memory: of a dataset that is made of an array, used once, and never written.

Below a place that is `holding`, groups, columns and rows are objects of this module where `tasks.zarr_nodes` and
`tasks.io` would make zarr nodes. Rows are not even copied: a block is taken from the array that they came in whenever
it is asked for, and kept by the cache of rows as a block from a disk is.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tasks.rows.base import Array, Rows
from tasks.stores import StoreFacts

Node = Any  # HeldGroup, HeldArray or HeldRows
_PLACES: dict[str, dict[str, Node]] = {}  # of each place its nodes, by their paths
_VERSIONS = itertools.count(1)  # of what is held, over all places: none ever comes twice


@dataclass
class HeldGroup:
    """What a zarr group is to us: attributes."""

    attrs: dict[str, Any]


@dataclass
class HeldArray:
    """A column: whole chunks in, whole chunks out. What comes out is shared: treat it as read-only."""

    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    dtype: np.dtype
    values: dict[int, tuple[Hashable, Array]] = field(default_factory=dict)  # by chunk: version and content

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))

    def version(self, start: int) -> Hashable:
        """Of the chunk that holds row `start`. Raises KeyError when it was never written."""
        return self.values[start // self.chunks[0]][0]

    def __getitem__(self, rows: slice) -> Array:
        first = rows.start // self.chunks[0]
        chunk = self.values[first][1]
        return chunk[rows.start - first * self.chunks[0] : rows.stop - first * self.chunks[0]]

    def __setitem__(self, rows: slice, values: Array) -> None:
        self.values[rows.start // self.chunks[0]] = (next(_VERSIONS), np.array(values))  # the caller may change his


@dataclass
class HeldRows:
    """A store of dense or CSR rows.

    load      load(start, stop) gives the rows of a block, the same ones at every call
    nonzeros  values of each block, noted when it was read first
    """

    facts: StoreFacts
    load: Callable[[int, int], Rows]
    nonzeros: dict[int, int] = field(default_factory=dict)
    version: Hashable = field(default_factory=lambda: next(_VERSIONS))

    @property
    def offsets(self) -> list[int]:
        """First row of each block, and the one after the last."""
        return [*range(0, self.facts.n_rows, self.facts.block_rows), self.facts.n_rows]


@contextmanager
def holding(place: str) -> Iterator[None]:
    """Within the block, stores at and below the path `place` are held; then they are gone."""
    _PLACES[place] = {}
    try:
        yield
    finally:
        del _PLACES[place]


def _nodes_at(path: str) -> dict[str, Node] | None:
    for place, nodes in tuple(_PLACES.items()):
        if path == place or path.startswith(f"{place}/"):
            return nodes
    return None


def is_held(path: str) -> bool:
    """Whether a store at `path` is one of this process."""
    return _nodes_at(path) is not None


def held_node(path: str) -> Node | None:
    """What is held at `path`."""
    nodes = _nodes_at(path) if _PLACES else None
    return None if nodes is None else nodes.get(path)


def put_node(path: str, node: Node) -> Node:
    """Hold a node in place of what was at `path` and below it. Raises KeyError where nothing is held."""
    nodes = _nodes_at(path)
    if nodes is None:
        raise KeyError(path)
    for below in [other for other in nodes if other.startswith(f"{path}/")]:
        del nodes[below]
    nodes[path] = node
    return node


def new_array(shape: Sequence[int], chunks: Sequence[int], dtype: str) -> HeldArray:
    """A column without values."""
    return HeldArray(tuple(shape), tuple(chunks), np.dtype(dtype))
