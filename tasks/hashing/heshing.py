"""Hierarchical feature hashing (HESHING, Zhao & Xing 2012): one table of weights that all classes share.

score(x, y) = scale * sum over the nodes u of y's path, at level t, of <w_t, Phi(x, u)>,   scale = 1 / sqrt T.

The root's share is the same for all classes, so it cancels in every comparison of classes and its optimal weights are 0
(SPECS 1.5): the root is never scored, and w_0 is not kept. The table holds w_1 .. w_{T-1}: (T - 1) m numbers where the
paper counts T m. Losses that compare a class with zero (one-vs-rest) therefore see no root either. FlatHash is one
level, each class under its own seed, scale 1.

A level of few nodes has more of its m numbers than it can use, while the classes crowd theirs. `shared` puts all nodes
into one table of (T - 1) m numbers instead, each node once, under its own seed as before: with the same bytes the
classes have more numbers to be told apart by.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, Self

import numpy as np

from tasks.fit.scorer import Parameters
from tasks.hashing.flat import check_buckets
from tasks.hashing.kernels import COLUMN, FIRST, LAST, path_sums, residuals_below, subtract_hashed, unhash
from tasks.hashing.layout import NodeLayout
from tasks.hashing.murmur import mixed_keys
from tasks.hashing.sparse import (
    by_column,
    sparse_node_scores,
    sparse_subtract,
    sparse_subtract_touched,
    touched_slots,
)
from tasks.rows.base import Array, Rows
from tasks.rows.csr import Csr

if TYPE_CHECKING:
    from tasks.hashing.mirror import Mirror

ROWS_AT_ONCE = 1024  # rows decoded, and rows of node scores, at a time
TILE_ELEMENTS = 2**19  # un-hashed weights held at a time (2 MB in float32)
TILE_NODES = (16, 256)  # fewest and most nodes of a tile
FEW = 4  # residuals touch few nodes when at most a FEW-th of them


class NodeArrays(Protocol):
    """What a taxonomy offers: nodes breadth-first, root first."""

    @property
    def node_seeds(self) -> Array: ...
    @property
    def parent(self) -> Array: ...
    @property
    def level(self) -> Array: ...
    @property
    def leaf_of_class(self) -> Array: ...


@dataclass(frozen=True, eq=False)
class HashedScorer:
    """Scores linear in {"table": (n_tables, n_buckets)}; small and picklable: a few numbers per node.

    node_seeds     (n_nodes,) uint32, breadth-first
    parent         (n_nodes,) int32, -1 where a node has none
    level          (n_nodes,) int32, 0-based
    leaf_of_class  (n_classes,) int32
    n_levels       levels of the deepest leaf (T): a leaf at level l stands at levels l..T-1 under the same seed
    """

    node_seeds: Array
    parent: Array
    level: Array
    leaf_of_class: Array
    n_levels: int
    n_buckets: int
    n_features: int
    scale: float

    def __post_init__(self) -> None:
        check_buckets(self.n_buckets)
        for name, dtype in (("node_seeds", np.uint32), ("parent", np.int32), ("level", np.int32)):
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), dtype))
        object.__setattr__(self, "leaf_of_class", np.ascontiguousarray(self.leaf_of_class, np.int32))

    @classmethod
    def hierarchical(cls, taxonomy: NodeArrays, n_buckets: int, n_features: int) -> Self:
        """HESHING over a taxonomy."""
        n_levels = int(np.max(taxonomy.level)) + 1
        arrays = (taxonomy.node_seeds, taxonomy.parent, taxonomy.level, taxonomy.leaf_of_class)
        return cls(*arrays, n_levels, n_buckets, n_features, float(1 / np.sqrt(n_levels)))

    @classmethod
    def shared(cls, taxonomy: NodeArrays, n_buckets: int, n_features: int) -> Self:
        """HESHING with all levels in one table of n_buckets numbers; a leaf above the last level stands in it once."""
        level = np.minimum(taxonomy.level, 1)  # below the root there is one level
        scale = float(1 / np.sqrt(int(np.max(taxonomy.level)) + 1))
        arrays = (taxonomy.node_seeds, taxonomy.parent, level, taxonomy.leaf_of_class)
        return cls(*arrays, int(np.max(level)) + 1, n_buckets, n_features, scale)

    @classmethod
    def flat(cls, class_seeds: Array, n_buckets: int, n_features: int) -> Self:
        """FlatHash: class c is hashed under class_seeds[c], the id of its leaf."""
        classes = np.arange(len(class_seeds), dtype=np.int32)
        return cls(
            class_seeds, np.full_like(classes, -1), np.zeros_like(classes), classes, 1, n_buckets, n_features, 1.0
        )

    def __getstate__(self) -> dict[str, object]:
        return {name: self.__dict__[name] for name in self.__dataclass_fields__}

    @property
    def n_outputs(self) -> int:
        return int(self.leaf_of_class.size)

    @property
    def squared_scale(self) -> float:
        """Share of a class's features that its siblings lack: its leaf's levels over T, mean over classes; 1 if flat.

        Features of siblings differ by 2 |x|^2 times this, those of two flat classes by 2 |x|^2.
        """
        own = self.n_levels - self.level[self.leaf_of_class]
        return self.scale**2 * float(own.mean())

    @property
    def n_tables(self) -> int:
        """Rows of the table: one per level below the root, or one for the single level of FlatHash."""
        return max(1, self.n_levels - 1)

    @cached_property
    def depth(self) -> Array:
        """(n_nodes,) int32: nodes above each; its level, but where all levels share a table."""
        depth = np.zeros(self.parent.size, np.int32)
        for node, above in enumerate(self.parent.tolist()):
            depth[node] = depth[above] + 1 if above >= 0 else 0
        return depth

    @cached_property
    def _layout(self) -> NodeLayout:
        top = self.n_levels - self.n_tables  # the level of the table's first row
        return NodeLayout.of(self.node_seeds, self.parent, self.level, self.leaf_of_class, top, self.n_tables)

    @cached_property
    def _nodes(self) -> Array:
        """The scored nodes (n_scored, 4) int64 for the dense kernels, by slot."""
        layout = self._layout
        columns = (layout.seeds, layout.first, layout.last, np.arange(layout.n_slots))
        nodes: Array = np.stack([column[layout.first >= 0].astype(np.int64) for column in columns], axis=1)
        return nodes

    @cached_property
    def has_mirror(self) -> bool:
        """Whether `mirror` can be had, and pays."""
        return self._layout.has_mirror(self.n_features, self.n_tables * self.n_buckets)

    @cached_property
    def mirror(self) -> Mirror:
        """Where the plain weights of all nodes are: found once for many steps."""
        from tasks.hashing.mirror import Mirror  # vector instructions: numba is loaded with them

        return Mirror.of(self._layout, self.n_tables, self.n_buckets, self.n_features)

    def whole_vector(self, table: Array) -> Array:
        """The paper's w (n_levels * n_buckets,), root first, of a table: with the root's block of zeros put back."""
        root = np.zeros((self.n_levels - self.n_tables, self.n_buckets), table.dtype)
        vector: Array = np.concatenate([root, table]).ravel()
        return vector

    def operations_per_row(self) -> float:
        """Hashed dot products: one per scored node."""
        return float(self._layout.n_scored)

    def lookups_per_row(self, rows: Rows, batch: int) -> float:
        """Look-ups in the table that scoring one row takes, about: dense rows of a batch share theirs."""
        numbers = rows.data.size / max(rows.n_rows, 1) if isinstance(rows, Csr) else self.n_features / batch
        return self._layout.n_scored * numbers

    def initial(self, dtype: type) -> Parameters:
        """The table of zeros."""
        return {"table": np.zeros((self.n_tables, self.n_buckets), dtype)}

    def scores(self, parameters: Parameters, rows: Rows) -> Array:
        """(n_rows, n_classes) in the dtype of the table."""
        table, layout = parameters["table"], self._layout
        out = np.empty((rows.n_rows, self.n_outputs), table.dtype)
        scale = table.dtype.type(self.scale)
        start = 0
        for part in _slices(rows):
            sums = np.zeros((part.n_rows, layout.n_slots), table.dtype)
            if isinstance(part, Csr):
                self._score_sparse(table, part, sums)
            else:
                self._score_dense(table, part, sums)
            target = out[start : start + part.n_rows]
            path_sums(sums, layout.parent, layout.inner, layout.leaf_of_class, layout.above, scale, target)
            start += part.n_rows
        return out

    def subtract(self, parameters: Parameters, rows: Rows, residuals: Array, step: float) -> None:
        """table -= step * gradient of sum(residuals * scores), in place; nodes of residual 0 are not touched."""
        table = parameters["table"]
        factor = table.dtype.type(step * self.scale)
        start = 0
        for part in _slices(rows):
            given = residuals[start : start + part.n_rows].astype(table.dtype, copy=False)
            if isinstance(part, Csr):
                self._subtract_sparse(table, part, given, factor)
            else:
                self._subtract_dense(table, part, given, factor)
            start += part.n_rows

    def _score_sparse(self, table: Array, rows: Csr, out: Array) -> None:
        """out[:, slot] = <sum of the table's rows of the slot, Phi(row, node)>; out is zero before."""
        layout = self._layout
        turned = by_column(rows.data.astype(table.dtype, copy=False), rows.indices, rows.indptr)
        tails_from = layout.tails_from(turned[0].size, self.n_buckets)
        sparse_node_scores(turned, layout.seeds, layout.segments, table, tails_from, out)

    def _score_dense(self, table: Array, rows: Rows, out: Array) -> None:
        values, mixed = rows.to_array(table.dtype.type), mixed_keys(self.n_features)
        for nodes, base in self._lookups(table):
            for tile, where in self._tiles(nodes):
                weights = np.empty((len(tile), self.n_features), table.dtype)
                unhash(base, table, tile, mixed, weights)
                out[:, where] = values @ weights.T

    def _subtract_sparse(self, table: Array, rows: Csr, residuals: Array, factor: float) -> None:
        layout = self._layout
        data = rows.data.astype(table.dtype, copy=False)
        if np.count_nonzero(residuals) * self.n_levels * FEW <= rows.n_rows * layout.n_slots:
            touched = touched_slots(residuals, layout.parent, layout.leaf_of_class, factor)
            body = (data, rows.indices, rows.indptr)
            sparse_subtract_touched(body, touched, layout.seeds, layout.first, layout.last, table)
            return
        turned = by_column(data, rows.indices, rows.indptr)
        tails_from = layout.tails_from(turned[0].size, self.n_buckets)
        below = residuals_below(residuals, layout.parent, layout.leaf_of_class, factor)
        sparse_subtract(turned, layout.seeds, layout.segments, below, tails_from, table)

    def _subtract_dense(self, table: Array, rows: Rows, residuals: Array, factor: float) -> None:
        layout = self._layout
        below = residuals_below(residuals, layout.parent, layout.leaf_of_class, factor)
        used: Array = np.asarray(below.any(axis=0))
        nodes = self._nodes[used[self._nodes[:, COLUMN]]]
        values, mixed = rows.to_array(table.dtype.type), mixed_keys(self.n_features)
        for tile, where in self._tiles(nodes):
            vectors = np.ascontiguousarray(below[:, where].T) @ values
            subtract_hashed(vectors, tile, mixed, table)

    def _lookups(self, table: Array) -> Iterator[tuple[Array, Array]]:
        """The scored nodes with a base (n_buckets,) or (0,) that is added to the levels they still name.

        A leaf above the last level needs the sum of the table's rows below it. With many look-ups it pays to have a
        running sum of them, which is one row and changes from one pair to the next. Both ways add from the last level
        up, so the bits agree.
        """
        nodes, layout = self._nodes, self._layout
        tails_from = layout.tails_from(self.n_features, self.n_buckets)
        if tails_from == self.n_tables:
            yield nodes, table[0, :0]
            return
        short = nodes[:, FIRST] < nodes[:, LAST]
        yield nodes[~short], table[0, :0]
        nodes, tail = nodes[short], np.array(table[-1])
        for level in range(self.n_tables - 2, tails_from - 1, -1):
            tail += table[level]
            some = nodes[nodes[:, FIRST] == level if level > tails_from else nodes[:, FIRST] <= level]
            some[:, LAST] = level - 1  # of the leaves that begin further up, the levels in between
            yield some, tail

    def _tiles(self, nodes: Array) -> Iterator[tuple[Array, slice | Array]]:
        """Nodes in tiles, with their slots: a slice where they follow one another, which is copied faster."""
        fewest, most = TILE_NODES
        size = min(most, max(fewest, TILE_ELEMENTS // max(1, self.n_features)))
        for start in range(0, len(nodes), size):
            tile = nodes[start : start + size]
            begin, end = int(tile[0, COLUMN]), int(tile[-1, COLUMN]) + 1
            yield tile, slice(begin, end) if end - begin == len(tile) else tile[:, COLUMN]


def _slices(rows: Rows) -> Iterator[Rows]:
    """Rows as `Csr` or `Dense` in parts of ROWS_AT_ONCE: what is decoded, and node scores, stay small."""
    for start in range(0, rows.n_rows, ROWS_AT_ONCE):
        yield rows.part(start, min(start + ROWS_AT_ONCE, rows.n_rows)).decoded()
