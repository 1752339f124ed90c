"""Rows stores: what is written is read back; what is missing or damaged is named, never zeros."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasks import io
from tasks.errors import ArtefactError, ParamError
from tasks.files import DiskFull, settle
from tasks.rows import Csr, Dense, OneHot, PqCodes
from tests.damage import DAMAGES, delete, flip
from tests.strategies import block_rows, csr_matrices, dense_matrices

quick = settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
KINDS = ["dense", "csr", "pq", "onehot"]


def write_csr_matrix(path, matrix, size):
    blocks = io.create_csr(path, *matrix.shape, size)
    digests = []
    for block in blocks:
        part = matrix[block.start : block.stop]
        digests.append(io.write_csr(block, part.data, part.indices, part.indptr.astype(np.int64)))
    return blocks, digests


def make(kind: str, path: str, n_rows: int = 10, size: int = 4):
    """A store of 10 rows in blocks of 4, 4 and 2, and its matrix as rows read it."""
    rng = np.random.default_rng(3)
    if kind == "dense":
        matrix = rng.standard_normal((n_rows, 3)).astype(np.float32)
        blocks = io.create_dense(path, n_rows, 3, size)
        digests = [io.write_dense(block, matrix[block.start : block.stop]) for block in blocks]
    elif kind == "csr":
        values = rng.standard_normal((n_rows, 5)) * (rng.random((n_rows, 5)) < 0.7)
        sparse = scipy.sparse.csr_matrix(values.astype(np.float32))
        matrix = sparse.toarray()
        blocks, digests = write_csr_matrix(path, sparse, size)
    elif kind == "onehot":
        codes = rng.integers(0, 300, (n_rows, 7)).astype(np.uint16)
        codes[2, 3] = 2**16 - 1
        matrix = OneHot(codes, 300).to_array()
        blocks = io.create_onehot(path, n_rows, 7, size, "uint16", 300)
        digests = [io.write_codes(block, codes[block.start : block.stop]) for block in blocks]
    else:
        codebooks = rng.standard_normal((2, 256, 3)).astype(np.float32)
        codes = rng.integers(0, 256, (n_rows, 2)).astype(np.uint8)
        matrix = PqCodes(codes, codebooks).to_array()
        blocks = io.create_codes(path, n_rows, 2, size, codebooks)
        digests = [io.write_codes(block, codes[block.start : block.stop]) for block in blocks]
    return blocks, digests, matrix


def chunk_files(store: Path) -> list[Path]:
    return sorted(path for path in store.rglob("*") if path.is_file() and path.name != "zarr.json")


# ---- round trips -------------------------------------------------------------------------------------------------


@quick
@given(values=dense_matrices(), size=block_rows, dtype=st.sampled_from(["float32", "float16"]))
def test_dense_rows_come_back(tmp_path, values, size, dtype):
    path, values = str(tmp_path / "X"), values.astype(dtype)
    blocks = io.create_dense(path, *values.shape, size, dtype)
    digests = [io.write_dense(block, values[block.start : block.stop]) for block in blocks]
    assert [block.index for block in blocks] == list(range(len(blocks)))
    assert sum(block.n_rows for block in blocks) == len(values)
    assert io.blocks_of(path) == blocks
    back = [io.read_rows(block) for block in blocks]
    assert all(isinstance(rows, Dense) and rows.values.dtype == dtype for rows in back)
    np.testing.assert_array_equal(np.vstack([np.empty_like(values[:0]), *[rows.values for rows in back]]), values)
    assert [io.rows_digest(rows) for rows in back] == digests


@quick
@given(matrix=csr_matrices(), size=st.integers(3, 9))
def test_csr_rows_come_back(tmp_path, matrix, size):
    path = str(tmp_path / "X")
    blocks, digests = write_csr_matrix(path, matrix, size)
    facts = io.facts_of(path)
    assert (facts.body, facts.n_rows, facts.n_features, facts.dtype) == ("csr", *matrix.shape, "float32")
    for block, digest in zip(io.blocks_of(path), digests, strict=True):
        rows = io.read_rows(block)
        assert isinstance(rows, Csr)
        assert (rows.data.dtype, rows.indices.dtype, rows.indptr.dtype) == (np.float32, np.int32, np.int64)
        np.testing.assert_array_equal(rows.to_array(), matrix[block.start : block.stop].toarray())
        assert io.rows_digest(rows) == digest
    assert blocks == io.blocks_of(path)


@quick
@given(n_rows=st.integers(0, 20), size=block_rows, width=st.integers(1, 3), seed=st.integers(0, 99))
def test_codes_come_back_with_one_copy_of_the_codebooks(tmp_path, n_rows, size, width, seed):
    rng, path = np.random.default_rng(seed), str(tmp_path / "X")
    codebooks = rng.standard_normal((3, 16, width)).astype(np.float32)
    codes = rng.integers(0, 16, (n_rows, 3)).astype(np.uint8)
    blocks = io.create_codes(path, n_rows, 3, size, codebooks)
    for block in blocks:
        io.write_codes(block, codes[block.start : block.stop])
    back = [io.read_rows(block) for block in blocks]
    np.testing.assert_array_equal(np.vstack([codes[:0], *[rows.codes for rows in back]]), codes)
    assert all(rows.codebooks is io.read_codebooks(path) for rows in back)
    np.testing.assert_array_equal(io.read_codebooks(path), codebooks)
    assert io.facts_of(path) == io.StoreFacts("pq", n_rows, 3 * width, size, "uint8")


@quick
@given(n_rows=st.integers(0, 20), size=block_rows, data=st.data())
def test_columns_come_back_over_chunk_borders(tmp_path, n_rows, size, data):
    dataset, values = str(tmp_path / "d"), np.arange(n_rows, dtype=np.int32) ** 2
    io.create_group(dataset, {})
    io.create_column(dataset, "y", n_rows, size, "int32")
    for start in range(0, n_rows, size):
        io.write_column(dataset, "y", start, values[start : start + size])
    start = data.draw(st.integers(0, n_rows))
    stop = data.draw(st.integers(start, n_rows))
    np.testing.assert_array_equal(io.read_labels(dataset, start, stop), values[start:stop])
    assert io.column_length(dataset, "y") == n_rows


def test_all_zero_chunks_are_stored(tmp_path):
    """zarr leaves out chunks of zeros by default; then "all zero" and "never written" would look alike."""
    (block,) = io.create_dense(str(tmp_path / "X"), 4, 2, 4)
    io.write_dense(block, np.zeros((4, 2), np.float32))
    assert chunk_files(tmp_path)
    assert not io.read_rows(block).to_array().any()


@pytest.mark.parametrize("kind", KINDS)
def test_writing_again_is_harmless(tmp_path, kind):
    blocks, digests, matrix = make(kind, str(tmp_path / "X"))
    before = {path: path.read_bytes() for path in chunk_files(tmp_path)}
    rows = [io.read_rows(block) for block in blocks]
    for block, part, digest in zip(blocks, rows, digests, strict=True):
        if isinstance(part, Csr):
            assert io.write_csr(block, part.data, part.indices, part.indptr) == digest
        elif isinstance(part, PqCodes | OneHot):
            assert io.write_codes(block, part.codes) == digest
        else:
            assert io.write_dense(block, part.to_array()) == digest
    assert {path: path.read_bytes() for path in chunk_files(tmp_path)} == before
    np.testing.assert_array_equal(np.vstack([io.load_rows(block).to_array() for block in blocks]), matrix)


# ---- one writer, whole chunks ------------------------------------------------------------------------------------


@pytest.mark.parametrize("shift", [1, 2])
def test_a_part_of_a_chunk_is_refused(tmp_path, shift):
    blocks = io.create_dense(str(tmp_path / "X"), 10, 2, 4)
    moved = io.Block(blocks[0].store, 0, shift, shift + 4)
    with pytest.raises(ValueError, match="whole chunk"):
        io.write_dense(moved, np.zeros((4, 2), np.float32))
    with pytest.raises(ValueError, match="whole chunk"):
        io.write_dense(blocks[0], np.zeros((4 - shift, 2), np.float32))
    assert not chunk_files(tmp_path)


def test_another_type_is_refused(tmp_path):
    (block,) = io.create_dense(str(tmp_path / "X"), 4, 2, 4)
    with pytest.raises(ValueError, match="float64"):
        io.write_dense(block, np.zeros((4, 2)))


def test_csr_arrays_that_do_not_fit_are_refused(tmp_path):
    (block,) = io.create_csr(str(tmp_path / "X"), 3, 5, 4)
    with pytest.raises(ValueError, match="3 rows"):
        io.write_csr(block, np.ones(2, np.float32), np.zeros(2, np.int32), np.array([0, 1, 2]))


@pytest.mark.parametrize("size", [0, -3])
def test_blocks_have_rows(tmp_path, size):
    with pytest.raises(ParamError, match="block_rows"):
        io.create_dense(str(tmp_path / "X"), 4, 2, size)
    with pytest.raises(ParamError, match="block_rows"):
        io.create_csr(str(tmp_path / "X"), 4, 2, size)


def test_a_block_too_large_for_its_codec_is_refused_before_writing(tmp_path):
    with pytest.raises(ParamError, match="block_rows"):
        io.create_dense(str(tmp_path / "X"), 2**20, 1024, 2**20)
    assert not (tmp_path / "X").exists()


def test_a_dense_store_has_float_types_and_codebooks_fit_a_byte(tmp_path):
    with pytest.raises(ParamError, match="dtype"):
        io.create_dense(str(tmp_path / "X"), 4, 2, 4, "float64")
    with pytest.raises(ParamError, match="codebooks"):
        io.create_codes(str(tmp_path / "X"), 4, 2, 4, np.zeros((2, 257, 3), np.float32))


def test_creating_starts_anew(tmp_path):
    blocks, _, _ = make("dense", str(tmp_path / "X"))
    io.read_rows(blocks[0])
    io.create_dense(str(tmp_path / "X"), 10, 3, 4)
    with pytest.raises(io.MissingChunk):
        io.read_rows(blocks[0])


# ---- damage ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("kind", KINDS)
def test_every_damaged_chunk_is_named(tmp_path, kind, damage):
    """Each chunk file in turn; the blocks that need it fail with its place, the others still read right."""
    blocks, _, matrix = make(kind, str(tmp_path / "X"))
    expected = io.MissingChunk if damage is delete else io.DamagedChunk
    for path in chunk_files(tmp_path):
        content = path.read_bytes()
        damage(path)
        errors = [error_of(block, matrix, expected) for block in blocks]
        path.write_bytes(content)
        shared = "codebooks" in path.parts
        assert sum(error is not None for error in errors) == (len(blocks) if shared else 1)
        for block, error in zip(blocks, errors, strict=True):
            if error is not None:
                array, chunk = error.where.split(", ")[:2]
                assert f"{array}/{chunk.removeprefix('chunk ')}" == str(path)
                assert error.exit_code == 4
                assert shared or f"rows {block.start}..{block.stop - 1}" in error.where


def error_of(block, matrix, expected):
    """The error that reading a block gives; None when it reads right."""
    try:
        rows = io.load_rows(block)
    except expected as error:
        return error
    np.testing.assert_array_equal(rows.to_array(), matrix[block.start : block.stop])
    return None


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_cached_is_not_believed_when_its_chunk_is_gone_or_rewritten(tmp_path, kind):
    blocks, _, _ = make(kind, str(tmp_path / "X"))
    first = io.read_rows(blocks[0])
    assert io.read_rows(blocks[0]) is first
    other = tmp_path / "Y"
    make(kind, str(other))
    shutil.rmtree(tmp_path / "X")
    shutil.copytree(other, tmp_path / "X")
    again = io.read_rows(blocks[0])
    assert again is not first
    np.testing.assert_array_equal(again.to_array(), first.to_array())
    for path in chunk_files(tmp_path / "X"):
        path.unlink()
    with pytest.raises(io.MissingChunk):
        io.read_rows(blocks[0])


@pytest.mark.parametrize("kind", ["dense", "pq", "onehot"])
def test_a_block_never_written_is_missing(tmp_path, kind):
    path = str(tmp_path / "X")
    blocks = {
        "dense": lambda: io.create_dense(path, 10, 3, 4),
        "pq": lambda: io.create_codes(path, 10, 2, 4, np.zeros((2, 4, 3), np.float32)),
        "onehot": lambda: io.create_onehot(path, 10, 2, 4, "uint8", 16),
    }[kind]()
    with pytest.raises(io.MissingChunk, match=r"rows 4\.\.7"):
        io.read_rows(blocks[1])


def test_a_csr_block_never_written_is_missing(tmp_path):
    blocks = io.create_csr(str(tmp_path / "X"), 10, 3, 4)
    with pytest.raises(io.MissingChunk, match=r"rows 8\.\.9"):
        io.read_rows(blocks[2])


def test_csr_parts_swapped_between_blocks_do_not_fit(tmp_path):
    """A sibling's chunk has a right checksum; its length gives it away."""
    matrix = scipy.sparse.csr_matrix(np.tri(8, dtype=np.float32))
    blocks, _ = write_csr_matrix(str(tmp_path / "X"), matrix, 4)
    shutil.rmtree(tmp_path / "X" / "00000" / "data")
    shutil.copytree(tmp_path / "X" / "00001" / "data", tmp_path / "X" / "00000" / "data")
    with pytest.raises(io.DamagedChunk, match="fit together"):
        io.read_rows(blocks[0])


@pytest.mark.parametrize("column", ["y", "split", "row_id"])
@pytest.mark.parametrize("damage", [delete, flip])
def test_damaged_labels_are_named(tmp_path, column, damage):
    io.create_group(str(tmp_path), {})
    io.create_column(str(tmp_path), column, 6, 4, "int32")
    for start in (0, 4):
        io.write_column(str(tmp_path), column, start, np.arange(start, min(start + 4, 6), dtype=np.int32))
    damage(tmp_path / column / "c" / "1")
    assert io.read_column(str(tmp_path), column, 0, 4).tolist() == [0, 1, 2, 3]
    expected = io.MissingChunk if damage is delete else io.DamagedChunk
    with pytest.raises(expected, match=rf"{column}, chunk c/1, rows 4\.\.5"):
        io.read_column(str(tmp_path), column, 3, 6)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"zarr_format": 2}', b'{"zarr_format": 3}'])
def test_damaged_metadata_is_named(tmp_path, content):
    make("dense", str(tmp_path / "X"))
    (tmp_path / "X" / "zarr.json").write_bytes(content)
    with pytest.raises(io.StoreMetadata, match="X"):
        io.blocks_of(str(tmp_path / "X"))


@pytest.mark.parametrize("change", [{"shape": [-1, 3]}, {"node_type": "soup"}, {"codecs": [{"name": "rot13"}]}])
def test_absurd_metadata_is_named(tmp_path, change):
    make("dense", str(tmp_path / "X"))
    place = tmp_path / "X" / "zarr.json"
    place.write_text(json.dumps(json.loads(place.read_text()) | change))
    with pytest.raises(ArtefactError, match="X"):
        io.read_rows(io.blocks_of(str(tmp_path / "X"))[0])


def test_zero_rows_a_chunk_are_named(tmp_path):
    make("dense", str(tmp_path / "X"))
    place = tmp_path / "X" / "zarr.json"
    metadata = json.loads(place.read_text())
    metadata["chunk_grid"]["configuration"]["chunk_shape"] = [0, 3]
    place.write_text(json.dumps(metadata))
    with pytest.raises(io.StoreMetadata):
        io.blocks_of(str(tmp_path / "X"))


def test_no_store_and_other_groups_are_named(tmp_path):
    with pytest.raises(io.StoreMetadata, match="no store"):
        io.blocks_of(str(tmp_path / "nothing"))
    io.create_group(str(tmp_path / "g"), {"labelgrove": "poem"})
    with pytest.raises(io.StoreMetadata, match="poem"):
        io.blocks_of(str(tmp_path / "g"))


# ---- files -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_full_disk_is_named(tmp_path, monkeypatch, kind):
    """At whichever chunk the disk fills up: the error names place, need and what is free, and the rest stays whole."""
    room = 2

    def write(array, place, values, real=zarr.Array.__setitem__):
        nonlocal room
        room -= 1
        if room < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(array, place, values)

    monkeypatch.setattr(zarr.Array, "__setitem__", write)
    with pytest.raises(DiskFull, match="bytes were to be written") as caught:
        make(kind, str(tmp_path / "X"))
    assert caught.value.exit_code == 5
    assert str(tmp_path / "X") in caught.value.where
    assert len(chunk_files(tmp_path)) == 2


def test_a_twin_of_a_csr_part_that_was_faster_stays(tmp_path, monkeypatch):
    """Two workers write the same block at once: between one's two renames the other's part moves in."""
    blocks, digests, _ = make("csr", str(tmp_path / "X"))
    rows, twin, place = io.load_rows(blocks[0]), tmp_path / "twin", tmp_path / "X" / "00000"
    shutil.copytree(place, twin)
    real = os.rename

    def rename(source, target):
        if str(target) == str(place) and twin.exists():
            real(twin, place)
        real(source, target)

    monkeypatch.setattr(os, "rename", rename)
    assert io.write_csr(blocks[0], rows.data, rows.indices, rows.indptr) == digests[0]
    assert not twin.exists()
    assert sorted(path.name for path in (tmp_path / "X").iterdir()) == ["00000", "00001", "00002", "zarr.json"]
    assert io.rows_digest(io.load_rows(blocks[0])) == digests[0]


def test_settle_removes_what_killed_writers_left(tmp_path):
    blocks, digests, _ = make("csr", str(tmp_path / "X"))
    shutil.copytree(tmp_path / "X" / "00000", tmp_path / "X" / "00000.abc.partial")
    (tmp_path / "X" / "00001" / "data" / "c" / "0.abc.partial").write_bytes(b"torn")
    settle(str(tmp_path / "X"))
    assert not list(tmp_path.rglob("*partial*"))
    assert [io.rows_digest(io.load_rows(block)) for block in blocks] == digests


def test_csr_parts_read_as_anndata_layout(tmp_path):
    """Another program can read a block: the group layout and attributes of AnnData's csr_matrix."""
    blocks, _, matrix = make("csr", str(tmp_path / "X"))
    group = zarr.open_group(str(tmp_path / "X" / "00001"), mode="r")
    assert group.attrs["encoding-type"] == "csr_matrix"
    assert group.attrs["shape"] == [4, 5]
    parts = [group[name][...] for name in ("data", "indices", "indptr")]
    np.testing.assert_array_equal(Csr(*parts, 5).to_array(), matrix[4:8])
    assert blocks[1].start == 4


def test_worker_settings():
    io.configure_worker()
    assert zarr.config.get("async.concurrency") == 4
    assert zarr.config.get("threading.max_workers") == 2
