"""Raw files that rows are written to in order, and that go on where they were after a kill.

A reader that gives rows only from first to last writes them here; then they are memory-mapped and taken in any order. A
small progress file beside them says how far they are known to be good: with the same folder and the same source, what
came later is cut off and the reader goes on from there. Sums of what is good are compared first.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Self

import numpy as np

from tasks.files import DiskFull, disk_room, sync_path
from tasks.later import later
from tasks.rows.base import Array

crc32c = later("google_crc32c")

PROGRESS = "progress.json"
READ_BYTES = 16 * 2**20  # that are summed up at once
MARK_BYTES, MARK_SECONDS = 256 * 2**20, 10.0  # written since the last mark, before the next one


class Spool:
    """Columns of numbers in files of one folder, appended to.

    columns  name -> dtype of each file
    about    what tells one source from another (JSON values): files made of something else are begun anew

    damaged  whether what an earlier attempt has noted is no longer what it wrote; it is then begun anew
    """

    def __init__(self, folder: Path, columns: Mapping[str, np.dtype], about: Mapping[str, Any]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.columns = folder, dict(columns)
        kinds = {name: dtype.str for name, dtype in self.columns.items()}
        self.about = json.loads(json.dumps({"columns": kinds, **about}))
        self.damaged = False
        kept = self._kept()
        self.rows: int = kept.get("rows", 0)
        self.state: dict[str, Any] = kept.get("state", {})  # what the reader needs to go on
        self.whole: bool = kept.get("whole", False)
        self.sizes: dict[str, int] = kept.get("sizes", dict.fromkeys(self.columns, 0))
        self.sums: dict[str, int] = kept.get("sums", dict.fromkeys(self.columns, 0))  # crc32c of each file
        self.resumed = self.rows
        self._files: dict[str, IO[bytes]] = {}
        self._marked, self._time = sum(self.sizes.values()), time.monotonic()

    def _kept(self) -> dict[str, Any]:
        """What an earlier attempt has noted, when its files are still what it says."""
        try:
            found: dict[str, Any] = json.loads((self.folder / PROGRESS).read_text())
            if found["about"] != self.about:
                return {}
            good = all(self._sum(name, found["sizes"][name]) == found["sums"][name] for name in self.columns)
        except (ValueError, KeyError, TypeError):
            return {}
        except OSError:  # a file is gone, or cannot be read; or nothing was noted
            good = not (self.folder / PROGRESS).exists()
            found = {}
        self.damaged = not good
        return found if good else {}

    def _sum(self, name: str, size: int) -> int | None:
        """The crc32c of the first `size` bytes of a file; None where there are fewer."""
        total = 0
        with open(self.path(name), "rb") as file:
            while size > 0:
                piece = file.read(min(size, READ_BYTES))
                if not piece:
                    return None
                total, size = crc32c.extend(total, piece), size - len(piece)
        return total

    def path(self, name: str) -> Path:
        return self.folder / f"{name}.raw"

    def __enter__(self) -> Self:
        for name in self.columns:
            with disk_room(str(self.folder), 0):
                file = open(self.path(name), "ab")
                file.truncate(self.sizes[name])
            self._files[name] = file
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files.values():
            try:
                file.close()
            except OSError:  # what could not be written was an error already
                continue
        self._files = {}

    def need(self, nbytes: int) -> None:
        """Raise DiskFull when the disk cannot hold files of `nbytes` bytes in all."""
        missing = nbytes - sum(self.sizes.values())
        file_system = os.statvfs(self.folder)
        free = file_system.f_bavail * file_system.f_frsize
        if missing > free:
            what = f"{missing:,} bytes are to be copied here and {free:,} are free"
            raise DiskFull(what, str(self.folder), "free some space, or write the dataset to another disk")

    def append(self, rows: int, **columns: Array) -> None:
        """Add `rows` rows: of each column an array of any shape, written value after value."""
        for name, values in columns.items():
            data = np.ascontiguousarray(values, self.columns[name])
            plain = data.reshape(-1).view(np.uint8)
            with disk_room(str(self.path(name)), data.nbytes):
                self._files[name].write(plain.data)
            self.sizes[name] += data.nbytes
            plain.flags.writeable = False  # crc32c takes no other
            self.sums[name] = crc32c.extend(self.sums[name], plain)
        self.rows += rows

    def due(self) -> bool:
        """Whether a mark is worth its wait for the disk."""
        written = sum(self.sizes.values()) - self._marked
        return written >= MARK_BYTES or (written > 0 and time.monotonic() - self._time >= MARK_SECONDS)

    def mark(self, whole: bool = False) -> None:
        """Push the files to the disk, then note that they are good so far."""
        for name, file in self._files.items():
            with disk_room(str(self.path(name)), 0):
                file.flush()
                os.fdatasync(file.fileno())
        self.whole = whole
        found = {"about": self.about, "rows": self.rows, "sizes": self.sizes, "sums": self.sums}
        found |= {"state": self.state, "whole": whole}
        spare = self.folder / f"{PROGRESS}.next"
        with disk_room(str(spare), 0):
            spare.write_text(json.dumps(found))
            sync_path(str(spare))
        os.replace(spare, self.folder / PROGRESS)
        self._marked, self._time = sum(self.sizes.values()), time.monotonic()

    def column(self, name: str) -> Array:
        """All values of a column (n,), memory-mapped."""
        dtype = self.columns[name]
        if not self.sizes[name]:
            return np.empty(0, dtype)  # an empty file cannot be mapped
        mapped: Array = np.memmap(self.path(name), dtype, mode="r", shape=(self.sizes[name] // dtype.itemsize,))
        return mapped
