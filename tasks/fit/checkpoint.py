"""Progress of a fit between rounds: arrays in one file that is there whole or not at all."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from tasks.digest import DIGEST_BYTES
from tasks.files import disk_room
from tasks.fit.fit import Record
from tasks.fit.scorer import Parameters
from tasks.places import reading, whole_file
from tasks.rows.base import Array

HEAD = 2 * DIGEST_BYTES + 1  # the digest of what follows, in hexadecimal, and a line's end
READ_BYTES = 1 << 20


class FileCheckpoint:
    """The model after the last finished round, one file that is there whole or not at all."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "round.npz"

    def load(self) -> tuple[int, Parameters, list[Record]] | None:
        """None when there is none, or when it does not hold: the fit then begins anew, to the same bits."""
        saved = load_kept(self.path)
        if saved is None:
            return None
        progress = json.loads(str(saved.pop("progress")))
        return int(progress["round"]), {name[1:]: array for name, array in saved.items()}, progress["history"]

    def save(self, round_index: int, parameters: Parameters, history: list[Record]) -> None:
        progress = np.array(json.dumps({"round": round_index, "history": history}))
        keep(self.path, {"progress": progress, **{f"={name}": array for name, array in parameters.items()}})


class SparingCheckpoint(FileCheckpoint):
    """The same, but not oftener than every so many seconds: for fits that are short beside the time to write them."""

    def __init__(self, folder: Path, seconds: float) -> None:
        super().__init__(folder)
        self.seconds, self.last = seconds, time.monotonic()

    def save(self, round_index: int, parameters: Parameters, history: list[Record]) -> None:
        if time.monotonic() - self.last >= self.seconds:
            super().save(round_index, parameters, history)
            self.last = time.monotonic()


def keep(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write arrays for an attempt that may be interrupted: a line with the digest of the .npz that follows it.

    Whole or not at all, and never held a second time; raises DiskFull.
    """
    named: dict[str, Any] = dict(arrays)
    with disk_room(str(path), sum(array.nbytes for array in named.values())):
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as file:
            file.write(b"\n" * HEAD)
            np.savez(file, **named)
            digest = _digest_of_rest(file)
            file.seek(0)
            file.write(digest)


def load_kept(path: Path) -> dict[str, Array] | None:
    """What was kept, None when nothing was, or when it is not what was written."""
    try:
        with reading(path) as file:
            if _digest_of_rest(file) != file.read(HEAD - 1):
                return None
            file.seek(HEAD)
            with np.load(file, allow_pickle=False) as saved:
                return {name: saved[name] for name in saved.files}
    except OSError:
        return None


def _digest_of_rest(file: IO[bytes]) -> bytes:
    """BLAKE2b-128 of what follows the first line; the file then stands at its beginning."""
    state = hashlib.blake2b(digest_size=DIGEST_BYTES)
    file.seek(HEAD)
    while chunk := file.read(READ_BYTES):
        state.update(chunk)
    file.seek(0)
    return state.hexdigest().encode()
