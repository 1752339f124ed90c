"""Local copies of what stands at URLs, for files that are memory-mapped: fetched once per process and version."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections import OrderedDict
from collections.abc import Hashable
from pathlib import Path
from threading import RLock
from typing import Any

from tasks.files import disk_room
from tasks.versions import version_of

SPOOL_BYTES = 8 << 30  # kept on the disk of temporary files; a file that is mapped stays readable when its copy goes


class Spool:
    """A folder of copies; those that were not asked for longest go first."""

    def __init__(self, cap: int = SPOOL_BYTES) -> None:
        self.cap, self.nbytes = cap, 0
        self._root: Path | None = None
        self._owner = 0
        self._count = 0
        self._held: OrderedDict[str, tuple[Hashable, Path, int]] = OrderedDict()
        self._lock = RLock()

    def file(self, path: Any) -> Path:
        """A copy of one object. Raises FileNotFoundError, DiskFull."""
        version = version_of(str(path))
        with self._lock:
            held = self._found(str(path), version)
            if held is None:
                held = self._new() / path.name
                with disk_room(str(held), 0):
                    path.get_file(str(held))
                self._keep(str(path), version, held, held.stat().st_size)
            return held

    def folder(self, path: Any, mark: str) -> Path:
        """A copy of all objects below a place, by the version of its object `mark`."""
        version = version_of(str(path / mark))
        with self._lock:
            held = self._found(str(path), version)
            if held is None:
                held, size = self._new() / path.name, 0
                with disk_room(str(held), 0):
                    for name, info in path.files_below().items():
                        local = held / name
                        local.parent.mkdir(parents=True, exist_ok=True)
                        (path / name).get_file(str(local))
                        size += int(info["size"])
                self._keep(str(path), version, held, size)
            return held

    def _found(self, key: str, version: Hashable) -> Path | None:
        self._after_fork()
        held = self._held.get(key)
        if held is None:
            return None
        if held[0] != version or not held[1].exists():
            self._drop(key)
            return None
        self._held.move_to_end(key)
        return held[1]

    def _after_fork(self) -> None:
        """Copies are of the process that has made them."""
        if self._owner != os.getpid():
            self._owner, self._root, self.nbytes = os.getpid(), None, 0
            self._held.clear()

    def _new(self) -> Path:
        if self._root is None or not self._root.is_dir():
            self._root = Path(tempfile.mkdtemp(prefix="labelgrove-spool-"))
            atexit.register(shutil.rmtree, self._root, ignore_errors=True)
        self._count += 1
        folder = self._root / f"{self._count:06d}"
        folder.mkdir()
        return folder

    def _keep(self, key: str, version: Hashable, path: Path, size: int) -> None:
        self._held[key] = (version, path, size)
        self.nbytes += size
        while self.nbytes > self.cap and len(self._held) > 1:
            self._drop(next(iter(self._held)))

    def _drop(self, key: str) -> None:
        _, path, size = self._held.pop(key)
        self.nbytes -= size
        shutil.rmtree(path.parent, ignore_errors=True)


SPOOL = Spool()
