"""Rows of one body, one below the other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tasks.rows.base import Array, Rows
from tasks.rows.csr import Csr
from tasks.rows.dense import Dense
from tasks.rows.images import Images


def stacked(parts: Sequence[Rows]) -> Rows:
    """Dense or sparse rows, or images, of at least one part; raises TypeError for other bodies, and for several."""
    if len(parts) == 1:
        return parts[0]
    dense = [part for part in parts if isinstance(part, Dense)]
    sparse = [part for part in parts if isinstance(part, Csr)]
    images = [part for part in parts if isinstance(part, Images)]
    if len(dense) == len(parts):
        return Dense(np.concatenate([part.values for part in dense]))
    if len(sparse) == len(parts):
        data, indices = (np.concatenate([getattr(part, name) for part in sparse]) for name in ("data", "indices"))
        return Csr(data, indices, _joined([part.indptr for part in sparse]), parts[0].n_features)
    if len(images) == len(parts):
        return Images(np.concatenate([part.data for part in images]), _joined([part.offsets for part in images]))
    raise TypeError(f"rows of body {' and '.join(sorted({part.body for part in parts}))} cannot be stacked")


def _joined(pointers: Sequence[Array]) -> Array:
    """(n + 1,) int64 of all rows together, from those of each part."""
    lengths = np.concatenate([np.diff(part) for part in pointers])
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
