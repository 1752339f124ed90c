"""What is said about stores of rows: blocks, sizes, what can be wrong with them. `tasks.io` reads and writes them."""

from __future__ import annotations

from dataclasses import dataclass

from tasks.errors import ArtefactError


class StoreMetadata(ArtefactError):
    """A store that should be there is not, or its zarr metadata cannot be read."""


class MissingChunk(ArtefactError):
    """A chunk that should have been written is not there."""


class DamagedChunk(ArtefactError):
    """A chunk is there and is not what was written: wrong checksum, wrong length."""


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


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """What a rows store says about itself without reading a row."""

    body: str  # "dense", "csr", "pq", "onehot", "images"
    n_rows: int
    n_features: int
    block_rows: int
    dtype: str  # of the values as stored
