"""Stores that are in this process alone: what `tasks.io` says of them is what it says of the same rows in files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

from tasks import io
from tasks.cache import ROWS
from tasks.errors import ParamError
from tasks.held import held_node, holding, is_held
from tasks.held_rows import create_held, note_held
from tasks.rows import Csr, Dense, Rows
from tasks.stores import StoreFacts

SIZE, BLOCK_ROWS = (10, 5), 4


def rows_of(body: str, seed: int) -> Rows:
    """Rows of which some hold nothing."""
    rng = np.random.default_rng(seed)
    values = (rng.standard_normal(SIZE) * (rng.random(SIZE) < 0.4)).astype(np.float32)
    if body == "dense":
        return Dense(values)
    matrix = scipy.sparse.csr_matrix(values)
    return Csr(matrix.data, matrix.indices, matrix.indptr.astype(np.int64), SIZE[1])


def written(path: str, rows: Rows) -> list[str]:
    """The same rows in files; returns the digests of the blocks."""
    if isinstance(rows, Csr):
        blocks = io.create_csr(path, *SIZE, BLOCK_ROWS)
        parts = [rows.part(block.start, block.stop) for block in blocks]
        return [io.write_csr(b, p.data, p.indices, p.indptr) for b, p in zip(blocks, parts, strict=True)]
    blocks = io.create_dense(path, *SIZE, BLOCK_ROWS)
    return [io.write_dense(block, rows.to_array()[block.start : block.stop]) for block in blocks]


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "too-large-to-keep"])
@pytest.mark.parametrize("body", ["dense", "csr"])
def test_rows_are_those_of_a_store_in_files(
    body: str, kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ROWS, "cap", ROWS.cap if kept else 0)
    rows, there, here = rows_of(body, 1), str(tmp_path / "there"), str(tmp_path / "held" / "X")
    digests, asked = written(there, rows), []

    def load(start: int, stop: int) -> Rows:
        asked.append(start)
        return rows.part(start, stop)

    with holding(str(tmp_path / "held")):
        blocks = create_held(here, StoreFacts(body, *SIZE, BLOCK_ROWS, "float32"), load)
        assert [note_held(block) for block in blocks] == digests
        assert io.facts_of(here) == io.facts_of(there)
        assert [(b.index, b.start, b.stop) for b in blocks] == [(b.index, b.start, b.stop) for b in io.blocks_of(there)]
        for block, twin in zip(blocks, io.blocks_of(there), strict=True):
            assert type(io.read_rows(block)) is type(io.read_rows(twin))
            np.testing.assert_array_equal(io.read_rows(block).to_array(), io.read_rows(twin).to_array())
            taken = io.take_rows(block, np.array([1, 0]))
            np.testing.assert_array_equal(taken, io.take_rows(twin, np.array([1, 0])))
        if body == "csr":
            assert io.nonzeros_of(here) == io.nonzeros_of(there)
        assert len(asked) == (3 if kept else 12)  # of three blocks: once, or whenever one is read
    assert not (tmp_path / "held").exists()


def test_columns_and_groups(tmp_path: Path) -> None:
    place = str(tmp_path / "d")
    with holding(place):
        io.ensure_group(place)
        io.create_column(place, "y", 10, BLOCK_ROWS, "int32")
        values = np.arange(10, dtype=np.int32)
        digests = [io.write_column(place, "y", start, values[start : start + BLOCK_ROWS]) for start in (0, 4)]
        values[0] = 7  # what was written stays
        assert io.read_column(place, "y", 0, 4)[0] == 0
        values[0] = 0
        with pytest.raises(io.MissingChunk, match=r"chunk c/2, rows 8\.\.9"):
            io.read_column(place, "y")
        io.write_column(place, "y", 8, values[8:])
        found = io.read_column(place, "y", 3, 9)
        np.testing.assert_array_equal(found, values[3:9])
        found[:] = 0  # a copy
        np.testing.assert_array_equal(io.read_column(place, "y"), values)
        assert digests[0] == io.write_column(place, "y", 0, values[:4])
        assert io.column_length(place, "y") == 10
        with pytest.raises(ValueError, match="one whole chunk"):
            io.write_column(place, "y", 1, values[:4])
        io.create_group(f"{place}/classes", {"ids": ["0"]})
        io.write_attrs(f"{place}/classes", {"names": ["a"]})
        assert io.read_attrs(f"{place}/classes") == {"ids": ["0"], "names": ["a"]}
        io.ensure_group(f"{place}/classes")
        assert io.read_attrs(f"{place}/classes")["ids"] == ["0"]
        io.create_group(place, {})  # in place of all that was there
        assert held_node(f"{place}/y") is None
    assert not Path(place).exists()


def test_what_is_held_is_gone_afterwards_and_nothing_beside_it_is(tmp_path: Path) -> None:
    place, beside = str(tmp_path / "d"), str(tmp_path / "d-2")
    with holding(place):
        assert is_held(place)
        assert is_held(f"{place}/y")
        assert not is_held(beside)
        io.create_column(place, "y", 2, 2, "int32")
        io.create_column(beside, "y", 2, 2, "int32")
        with pytest.raises(ParamError, match="block_rows"):
            create_held(f"{place}/X", StoreFacts("dense", 2, 1, 0, "float32"), lambda *_: Dense(np.zeros((2, 1))))
    assert (Path(beside) / "y" / "zarr.json").is_file()
    with pytest.raises(io.StoreMetadata, match="there is no store"):
        io.read_column(place, "y")
