"""Chosen rows of many blocks as one body of rows: what a node that is trained whole holds."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tasks.io import Block, read_rows
from tasks.rows import Dense, OneHot, PqCodes, Rows
from tasks.rows.base import Array
from tasks.rows.stack import stacked


def gather(blocks: list[Block], block: Array, offset: Array) -> Rows:
    """Rows `offset` of blocks `block` (both (n,) integers, `block` ascending), in that order, in the store's body.

    One block is read at a time; dense rows and codes go straight to their place.
    """
    wanted, starts = np.unique(block, return_index=True)
    offsets = np.split(offset, starts[1:])
    nothing = read_rows(blocks[0]).take(np.zeros(0, np.int64))
    parts = (read_rows(blocks[b]).take(index) for b, index in zip(wanted, offsets, strict=False))
    if isinstance(nothing, Dense):
        return Dense(_filled(nothing.values, block.size, (part.values for part in parts if isinstance(part, Dense))))
    if isinstance(nothing, PqCodes):
        codes = (part.codes for part in parts if isinstance(part, PqCodes))
        return PqCodes(_filled(nothing.codes, block.size, codes), nothing.codebooks)
    if isinstance(nothing, OneHot):
        codes = (part.codes for part in parts if isinstance(part, OneHot))
        return OneHot(_filled(nothing.codes, block.size, codes), nothing.n_codes)
    return stacked([nothing, *parts])


def _filled(like: Array, n_rows: int, parts: Iterator[Array]) -> Array:
    values = np.empty((n_rows, like.shape[1]), like.dtype)
    at = 0
    for part in parts:
        values[at : at + len(part)] = part
        at += len(part)
    return values
