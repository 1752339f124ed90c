"""Arrays in files: one that is damaged is read as an error, and not taken for what a task has left."""

from __future__ import annotations

import os
import random
from pathlib import Path

import numpy as np
import pytest

from tasks.digest import digest_arrays
from tasks.places import open_array, read_array
from tasks.resume import array_once
from tests.damage import HOWS, damage

SEED = int(os.environ.get("LABELGROVE_DAMAGE_SEED", "0")) or random.SystemRandom().randrange(10**6)
VALUES = np.arange(24, dtype=np.float32).reshape(6, 4)


def made_at(folder: Path) -> Path:
    path = folder / "values.npy"
    array_once(path, lambda: VALUES)
    return path


def test_a_whole_file_is_not_made_again(tmp_path: Path) -> None:
    path = made_at(tmp_path)
    kept, digest = array_once(path, lambda: VALUES + 1)
    assert kept.tolist() == VALUES.tolist()
    assert digest == digest_arrays(VALUES)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("file", ["values.npy", "values.digest"])
def test_a_damaged_one_is(tmp_path: Path, how: str, file: str) -> None:
    print(f"LABELGROVE_DAMAGE_SEED={SEED}")
    rng = random.Random(f"{SEED} {how} {file}")
    for _ in range(20):
        path = made_at(tmp_path)
        changed = damage(tmp_path / file, how, rng)
        same_bits = how == "flip" and file == "values.npy" and _reads_as(path, VALUES)  # a blank of the header
        again, _ = array_once(path, lambda: VALUES + 1)
        assert changed
        assert again.tolist() == (VALUES if same_bits else VALUES + 1).tolist()
        assert _reads_as(path, again)
        path.unlink()


def _reads_as(path: Path, values: np.ndarray) -> bool:
    try:
        found = read_array(path)
    except (OSError, ValueError):
        return False
    return found.dtype == values.dtype and found.shape == values.shape and found.tobytes() == values.tobytes()


def test_a_process_without_memory_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def starved(*_: object, **__: object) -> None:
        raise MemoryError

    path = made_at(tmp_path)
    monkeypatch.setattr(np, "load", starved)
    with pytest.raises(MemoryError):
        array_once(path, lambda: VALUES + 1)


@pytest.mark.parametrize("read", [open_array, read_array])
def test_any_damage_of_a_file_is_an_oserror_or_a_valueerror(tmp_path: Path, read: object) -> None:
    """numpy says EOFError of an empty file, and what its parser of headers says is anybody's guess."""
    print(f"LABELGROVE_DAMAGE_SEED={SEED}")
    rng, refused = random.Random(SEED), 0
    for place in range(10, 118):  # the version, the length of the header, and the header
        for how in ("flip", "truncate", "empty"):
            path = made_at(tmp_path)
            content = path.read_bytes()
            new = {
                "flip": content[:place] + bytes([content[place] ^ 1 << rng.randrange(8)]) + content[place + 1 :],
                "truncate": content[:place],
                "empty": b"",
            }[how]
            path.unlink()
            path.write_bytes(new)
            try:
                read(path)  # type: ignore[operator]
            except (OSError, ValueError):
                refused += 1
            path.unlink()
    assert refused > 200
