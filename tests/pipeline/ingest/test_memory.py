"""Blocks, and the memory that ingest takes for them."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.ingest import ingest
from pipeline.ingest.errors import DeclaredTooLarge
from pipeline.ingest.layout import choose_block_rows


@given(n_rows=st.integers(1, 10**8), row_bytes=st.integers(1, 10**8))
def test_block_rows_follow_their_rule(n_rows, row_bytes):
    rows = choose_block_rows(n_rows, row_bytes)
    assert rows & (rows - 1) == 0
    assert rows == 1 or rows * row_bytes <= 8 * 2**20
    larger = 2 * rows
    assert larger * row_bytes > 8 * 2**20 or larger > max(256, n_rows / 16)


@pytest.mark.parametrize("order", ["C", "F"])
def test_memory_is_bounded_by_a_few_blocks(tmp_path, order):
    """A 48 MB matrix in blocks of 1 MB: what NumPy and Python allocate stays far below the matrix."""
    n_rows, n_features = 24_000, 500
    matrix = np.lib.format.open_memmap(
        tmp_path / "x.npy", "w+", np.float32, (n_rows, n_features), fortran_order=order == "F"
    )
    matrix[:] = np.arange(n_features, dtype=np.float32)
    matrix.flush()
    del matrix
    labels = np.arange(n_rows) % 7
    tracemalloc.start()
    made = ingest(tmp_path / "x.npy", tmp_path / "d", labels=labels, block_rows=512)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert made.n_rows == n_rows
    assert peak < 25e6


def test_a_bomb_is_refused_before_it_is_inflated(tmp_path):
    np.savez_compressed(tmp_path / "x.npz", x=np.zeros((4000, 1000), np.float32))
    assert (tmp_path / "x.npz").stat().st_size < 100_000
    tracemalloc.start()
    with pytest.raises(DeclaredTooLarge, match="16,000,128 bytes") as caught:
        ingest(tmp_path / "x.npz", tmp_path / "d", labels=np.arange(4000) % 2, max_bytes=20_000_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert caught.value.exit_code == 5
    assert peak < 4e6


def test_progress_goes_up_to_all_rows(tmp_path, small):
    seen = []
    ingest(
        small[0], tmp_path / "d", labels=small[1], block_rows=8, progress=lambda done, total: seen.append((done, total))
    )
    assert seen == sorted(seen)
    assert {total for _, total in seen} == {40}
    assert seen[-1] == (40, 40)
