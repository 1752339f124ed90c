"""Chunks read without zarr: the same numbers, the same refusals, and what is left to zarr."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import zarr

from tasks import io
from tasks.io import DamagedChunk, blocks_of, load_rows
from tasks.plain_chunks import is_plain, read_plain
from tasks.zarr_nodes import create_array, open_node
from tests.stores import store_dense

N_ROWS, BLOCK = 300, 128


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "uint8", "int64"])
@pytest.mark.parametrize("shape", [(N_ROWS, 7), (N_ROWS,), (N_ROWS, 2, 3)])
def test_the_same_as_zarr_reads(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(1).integers(0, 200, shape).astype(dtype)
    path = str(tmp_path / "a")
    array = create_array(path, shape, (BLOCK, *shape[1:]), dtype, packed=False)
    array[...] = values
    assert is_plain(path, open_node(path))
    for start, stop in ((0, 128), (128, 256), (256, 300), (130, 131), (5, 5)):
        key = "/".join(["c", str(start // BLOCK), *("0" for _ in shape[1:])])
        found = read_plain(path, key, open_node(path), start, stop)
        assert found.dtype == values.dtype
        assert found.flags.writeable
        np.testing.assert_array_equal(found, zarr.open(path)[start:stop])  # type: ignore[index]


def test_few_rows_do_not_keep_their_chunk(tmp_path: Path) -> None:
    path = str(tmp_path / "a")
    create_array(path, (9, 2), (8, 2), "float32", packed=False)[...] = 1.0
    array = open_node(path)
    most, few = read_plain(path, "c/0/0", array, 0, 8), read_plain(path, "c/1/0", array, 8, 9)
    assert [part.base is None for part in (most, few)] == [False, True]


def test_what_is_left_to_zarr(tmp_path: Path) -> None:
    path = str(tmp_path / "a")
    assert not is_plain(path, create_array(path, (9, 2), (4, 2), "float32", packed=True))
    assert not is_plain(path, create_array(path, (9, 2), (4, 1), "float32", packed=False))
    assert not is_plain(path, create_array(path, (9, 2), (4, 2), ">f4", packed=False))
    plain = create_array(path, (9, 2), (4, 2), "float32", packed=False)
    assert is_plain(path, plain)
    assert not is_plain("s3://bucket/a", plain)
    assert not is_plain(path, create_array(path, (0, 2), (4, 2), "float32", packed=False))  # no chunk at all
    foreign = zarr.create_array(tmp_path / "b", shape=(9, 2), chunks=(4, 2), dtype="float32", compressors=None)
    assert not is_plain(str(tmp_path / "b"), foreign)  # no checksum


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
@pytest.mark.parametrize("damage", ["shorter", "longer", "empty", "number", "sum"])
def test_damage_is_named_by_its_rows_however_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str, packed: bool
) -> None:
    """As zarr names it: `packed` has zarr read the same file."""
    path = str(tmp_path / "a")
    store_dense(path, np.arange(N_ROWS * 4, dtype=np.float32).reshape(N_ROWS, 4), BLOCK)
    if packed:
        monkeypatch.setattr(io, "is_plain", lambda *_: False)
    block = blocks_of(path)[1]
    file = Path(block.store) / "c" / "1" / "0"
    data = bytearray(file.read_bytes())
    if damage == "number":
        data[40] ^= 1
    if damage == "sum":
        data[-1] ^= 128
    changed = {"shorter": data[:-1], "longer": data + b"x", "empty": b""}.get(damage, data)
    file.write_bytes(bytes(changed))
    with pytest.raises(DamagedChunk, match=r"rows 128\.\.255"):
        load_rows(block)
