"""Blocks of rows in zarr stores: the only module of `tasks` that knows zarr.

A rows store is one of
  dense   a zarr array (n_rows, n_features) float32 or float16, chunk = one block of rows x all features
  csr     a group, attrs {"labelgrove": "csr", "shape", "offsets"}; sub-group 00042 = data, indices, indptr of block 42
  pq      a group, attrs {"labelgrove": "pq"}; arrays codes (n_rows, n_subquantizers) uint8 chunked by block, codebooks
"""

from __future__ import annotations

from dataclasses import dataclass

from tasks.rows import Rows


@dataclass(frozen=True, slots=True, order=True)
class Block:
    """A run of consecutive rows of a rows store: what travels to a worker in place of the rows."""

    store: str  # path of the rows store
    index: int
    start: int
    stop: int

    @property
    def n_rows(self) -> int:
        return self.stop - self.start


def read_rows(block: Block) -> Rows:
    """The rows of a block, from this process's cache when it has them."""
    raise NotImplementedError
