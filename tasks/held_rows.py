"""Rows of an array in memory as a store of this process: what `tasks.io` gives block by block, without a file."""

from __future__ import annotations

from collections.abc import Callable

from tasks.held import HeldRows, put_node
from tasks.io import Block, blocks_of, read_rows, rows_digest
from tasks.rows import Csr, Rows
from tasks.stores import StoreFacts
from tasks.zarr_nodes import check_block_rows, open_node


def create_held(path: str, facts: StoreFacts, load: Callable[[int, int], Rows]) -> list[Block]:
    """A store of dense or CSR rows at a place that is held; returns its blocks.

    load  load(start, stop) gives rows start..stop, with values of `facts.dtype`: the same ones at every call
    Raises ParamError for blocks without rows.
    """
    check_block_rows(facts.block_rows)
    put_node(path, HeldRows(facts, load))
    return blocks_of(path)


def note_held(block: Block) -> str:
    """Look at the rows of a block for the first time; returns their content digest, as writing them would."""
    rows, store = read_rows(block), open_node(block.store)
    if isinstance(rows, Csr):
        store.nonzeros[block.index] = int(rows.data.size)
    return rows_digest(rows)
