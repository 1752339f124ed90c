"""Stores of rows at URLs: the same digests as on a disk; missing and damaged chunks are errors, never zeros."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import s3fs
import scipy.sparse

from tasks import io
from tasks.io import Block
from tasks.places import sizes_below
from tasks.rows import Images
from tasks.stores import DamagedChunk, MissingChunk, StoreMetadata
from tasks.versions import one_look
from tests.remote.objects import Bucket

N_ROWS, BLOCK = 50, 20
RNG = np.random.default_rng(5)
DENSE = RNG.normal(size=(N_ROWS, 6)).astype(np.float32)
SPARSE = scipy.sparse.csr_array(np.where(RNG.random((N_ROWS, 9)) < 0.3, 1.5, 0).astype(np.float32))
FILES = [bytes(RNG.integers(0, 256, int(n), dtype=np.uint8)) for n in RNG.integers(0, 40, N_ROWS)]


def write_dense(store: str) -> list[str]:
    blocks = io.create_dense(store, N_ROWS, 6, BLOCK)
    return [io.write_dense(block, DENSE[block.start : block.stop]) for block in blocks]


def write_csr(store: str) -> list[str]:
    digests = []
    for block in io.create_csr(store, N_ROWS, 9, BLOCK):
        part = SPARSE[block.start : block.stop]
        digests.append(io.write_csr(block, part.data, part.indices, part.indptr))
    return digests


def write_pq(store: str) -> list[str]:
    codes = np.arange(N_ROWS * 3, dtype=np.uint8).reshape(N_ROWS, 3) % 4
    blocks = io.create_codes(store, N_ROWS, 3, BLOCK, np.ones((3, 4, 2), np.float32))
    return [io.write_codes(block, codes[block.start : block.stop]) for block in blocks]


def write_images(store: str) -> list[str]:
    digests = []
    for block in io.create_images(store, N_ROWS, BLOCK, 9):
        files = FILES[block.start : block.stop]
        offsets = np.concatenate([[0], np.cumsum([len(one) for one in files])]).astype(np.int64)
        digests.append(io.write_images(block, Images(np.frombuffer(b"".join(files), np.uint8), offsets)))
    return digests


WRITERS = {"dense": write_dense, "csr": write_csr, "pq": write_pq, "images": write_images}
CHUNKS = {"dense": "c/1/0", "csr": "00001/data/c/0", "pq": "codes/c/1/0", "images": "00001/data/c/0"}
POINTERS = {"csr": "00001/indptr/c/0", "images": "00001/offsets/c/0"}


@pytest.mark.parametrize("body", WRITERS)
def test_rows_are_those_of_a_disk(body: str, bucket: Bucket, tmp_path: Path) -> None:
    here, there = WRITERS[body](str(tmp_path / "x")), WRITERS[body](bucket.url("x"))
    assert there == here
    assert io.facts_of(bucket.url("x")) == io.facts_of(str(tmp_path / "x"))
    for block, digest in zip(io.blocks_of(bucket.url("x")), here, strict=True):
        assert io.rows_digest(io.read_rows(block)) == io.rows_digest(io.load_rows(block)) == digest
    assert [name.removeprefix("x/") for name in bucket.names("x")] == sorted(sizes_below(tmp_path / "x"))


@pytest.mark.parametrize("body", WRITERS)
def test_a_lost_chunk_is_missing_and_a_flipped_one_damaged(body: str, bucket: Bucket) -> None:
    WRITERS[body](bucket.url("x"))
    block = io.blocks_of(bucket.url("x"))[1]
    whole = io.rows_digest(io.load_rows(block))
    for name in {CHUNKS[body], POINTERS.get(body, CHUNKS[body])}:
        data = bucket.read(f"x/{name}")
        bucket.flip(f"x/{name}")
        with pytest.raises(DamagedChunk, match=r"rows 20\.\.39"):
            io.load_rows(block)
        bucket.write(f"x/{name}", data[: len(data) // 2])
        with pytest.raises(DamagedChunk, match=r"rows 20\.\.39"):
            io.load_rows(block)
        bucket.remove(f"x/{name}")
        with pytest.raises(MissingChunk, match=r"rows 20\.\.39"):
            io.load_rows(block)
        bucket.write(f"x/{name}", data)
        assert io.rows_digest(io.load_rows(block)) == whole


def test_what_another_process_has_replaced_is_read_afresh(bucket: Bucket) -> None:
    write_dense(bucket.url("x"))
    block = io.blocks_of(bucket.url("x"))[0]
    before = io.read_rows(block)
    other = Bucket.made(f"{bucket.name}-2")
    blocks = io.create_dense(other.url("x"), N_ROWS, 6, BLOCK)
    io.write_dense(blocks[0], 2 * DENSE[:BLOCK])
    bucket.write("x/c/0/0", other.read("x/c/0/0"))
    np.testing.assert_array_equal(io.read_rows(block).to_array(), 2 * before.to_array())


def test_there_is_no_store(bucket: Bucket) -> None:
    with pytest.raises(StoreMetadata, match="no store"):
        io.facts_of(bucket.url("nothing"))
    bucket.write("bad/zarr.json", b"{")
    with pytest.raises(StoreMetadata, match="cannot be read"):
        io.facts_of(bucket.url("bad"))


def test_columns_and_a_store_made_again(bucket: Bucket) -> None:
    url = bucket.url("d")
    io.ensure_group(url)
    for values in (np.arange(45, dtype=np.int32), np.arange(25, dtype=np.int32) + 7):
        io.create_column(url, "y", values.size, 20, "int32")
        for start in range(0, values.size, 20):
            io.write_column(url, "y", start, values[start : start + 20])
        np.testing.assert_array_equal(io.read_column(url, "y", 3, values.size), values[3:])
    assert [name for name in bucket.names("d/y") if "/c/" in name] == ["d/y/c/0", "d/y/c/1"]
    io.write_attrs(url, {"a": 1})
    assert io.read_attrs(url) == {"a": 1}


@pytest.fixture
def requests(monkeypatch) -> Counter[str]:
    """How often each kind of request was made."""
    counted: Counter[str] = Counter()
    call = s3fs.S3FileSystem._call_s3

    async def count(self, method: str, *arguments, **named):
        counted[method] += 1
        return await call(self, method, *arguments, **named)

    monkeypatch.setattr(s3fs.S3FileSystem, "_call_s3", count)
    return counted


def test_a_task_asks_for_little(bucket: Bucket, requests: Counter[str]) -> None:
    """Of a block: its store's metadata and its chunk once each; of a block in the cache their versions alone."""
    write_dense(bucket.url("x"))
    blocks = io.blocks_of(bucket.url("x"))
    requests.clear()
    with one_look():
        for _ in range(3):
            io.read_rows(blocks[0])
    assert requests == {"head_object": 2, "get_object": 1}
    requests.clear()
    with one_look():
        io.read_rows(Block(blocks[0].store, 0, 0, BLOCK))
    assert requests == {"head_object": 2}
    requests.clear()
    with one_look():
        io.write_dense(blocks[0], DENSE[:BLOCK])
    assert requests == {"head_object": 1, "put_object": 1}
