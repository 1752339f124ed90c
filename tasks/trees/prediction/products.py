"""Scores of any rows at many nodes of a tree in one call.

A row's scores do not depend on the other rows: neither a block's size nor a batch's changes an answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tasks.rows import Csr, Dense, Rows
from tasks.rows.base import Array
from tasks.trees.prediction.dense_products import score_dense
from tasks.trees.prediction.rounds import MATRICES, Nodes, Round
from tasks.trees.prediction.sparse_products import Entries, score_sparse

WIDEST_TABLE = 1 << 23  # features up to which places are looked up in a table (32 MB) and not searched for


def scorer_of(rows: Rows, nodes: Nodes) -> Callable[[Round], Array]:
    """What gives the scores (n_scores,) float32 of a round of these rows; they are decoded at once.

    Dense rows of a tree of sparse weights are taken as sparse ones.
    """
    plain = rows.decoded()
    if isinstance(plain, Dense) and nodes.form == MATRICES:
        values = plain.to_array(np.float32)
        return lambda group: _scored(score_dense, group, values, group, nodes)
    sparse = plain if isinstance(plain, Csr) else _sparse(plain.to_array(np.float32))
    entries = Entries(
        sparse.data.astype(np.float32, copy=False),
        sparse.indices,
        np.asarray(sparse.indptr, np.int64),
        rows.n_features,
    )
    size = rows.n_features if nodes.form != MATRICES and rows.n_features <= WIDEST_TABLE else 0
    table = np.full(size, -1, np.int32)
    return lambda group: _scored(score_sparse, group, entries, group, nodes, table)


def _scored(kernel: Callable[..., None], group: Round, *arguments: Any) -> Array:
    out = np.empty(int(group.starts[-1]), np.float32)
    if out.size:
        kernel(*arguments, out)
    return out


def _sparse(values: Array) -> Csr:
    row, column = np.nonzero(values)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(values)))]).astype(np.int64)
    return Csr(values[row, column], column.astype(np.int32), indptr, values.shape[1])
