"""Paths at URLs with the verbs of `pathlib.Path`, over fsspec; every object is put whole.

`tasks.places` makes them. What differs from a folder on a disk: there are no folders to make or to rename, nothing is
appended, and a write is one request that is done or not.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from datetime import datetime
from types import SimpleNamespace
from typing import IO, Any

import fsspec
import fsspec.asyn
from upath import UPath
from upath.extensions import ProxyUPath

from tasks.urls import UrlRefused, named, package_missing, shown

# Of one request to S3, which is given up after ATTEMPTS * READ_SECONDS and pauses of some seconds between attempts.
CONNECT_SECONDS, READ_SECONDS, ATTEMPTS = 5, 30, 4
REQUEST_SECONDS = 130  # these attempts and the pauses; a put may take longer by its bytes
LEAST_BYTES_A_SECOND = 1 << 18
BOUNDED = ("s3", "s3a")
READS = 3  # an answer that breaks off in its middle is asked for again; a store that is silent then is not
BROKEN = ("ClientPayloadError", "IncompleteRead", "IncompleteReadError", "ResponseStreamingError")


def options_of(protocol: str) -> dict[str, Any]:
    """How a store is opened: no listings kept (other processes write, too), attempts and time-outs bounded.

    What fsspec's own configuration says (FSSPEC_S3_..., its files) comes first.
    """
    options: dict[str, Any] = {"use_listings_cache": False}
    own = fsspec.config.conf.get(protocol, {})
    if protocol in BOUNDED and "config_kwargs" not in own:
        retries = {"max_attempts": ATTEMPTS - 1, "mode": "standard"}  # it counts those after the first
        options["max_concurrency"] = 1  # an object is one request; with more, its size is asked first
        options["config_kwargs"] = {
            "retries": retries,
            "connect_timeout": CONNECT_SECONDS,
            "read_timeout": READ_SECONDS,
            "max_pool_connections": 32,
        }
    return {key: value for key, value in options.items() if key not in own}


def opened(url: str) -> UPath:
    """Raises UrlRefused for unknown protocols, PackageMissing."""
    protocol = url.split("://")[0]
    if protocol not in fsspec.available_protocols():
        raise UrlRefused(f"no protocol is called {protocol!r}", shown(url), "s3, gs, abfs, memory, file or the like")
    try:
        fsspec.get_filesystem_class(protocol)
    except ImportError as error:
        raise package_missing(protocol, error) from None
    with named(url):
        path: UPath = UPath(url, **options_of(protocol))
        bounded(path.fs)
        return path


def bounded(system: Any) -> None:
    """s3fs would try each request five times more, and reads five times that: a silent store took hours to be given up.

    Attempts are counted by its client alone.
    """
    if hasattr(system, "retries"):
        system.retries = 1


class RemotePath(ProxyUPath):
    """A place in an object store. Errors are those of `tasks.urls.named`."""

    __slots__ = ()

    @classmethod
    def of(cls, url: str) -> RemotePath:
        """The place of a URL that was checked."""
        return cls._from_upath(opened(url))

    @property
    def key(self) -> str:
        """As the file system calls it: bucket and key."""
        return str(self.path).rstrip("/")

    def of_key(self, key: str) -> RemotePath:
        """Another place of the same store, by bucket and key."""
        return type(self)._from_upath(self.__wrapped__.with_segments(f"{self.protocol}://{key.lstrip('/')}"))

    # ---- reading ----

    def read_bytes(self) -> bytes:
        """One request."""
        return self._read()

    def _read(self, **which: int) -> bytes:
        """All of the object or a part, asked for again when the answer breaks off."""
        with named(self):
            for left in reversed(range(READS)):
                try:
                    data: bytes = self.fs.cat_file(self.key, **which)
                    return data
                except Exception as error:
                    if not left or type(error).__name__ not in BROKEN:
                        raise
        raise AssertionError("unreachable: the last attempt returns or raises")

    def read_text(self, encoding: str | None = None, errors: str | None = None, newline: str | None = None) -> str:
        with io.TextIOWrapper(io.BytesIO(self.read_bytes()), encoding or "utf-8", errors, newline) as text:
            return text.read()

    def open(self, mode: str = "r", *_: Any, **options: Any) -> IO[Any]:  # type: ignore[override]
        """The whole object, in memory, to read from."""
        if mode not in ("r", "rb"):
            raise io.UnsupportedOperation(f"objects are put whole (tasks.places.whole_file), not opened for {mode!r}")
        data = self.read_bytes()
        return io.BytesIO(data) if mode == "rb" else io.StringIO(data.decode(options.get("encoding") or "utf-8"))

    def pieces(self, total: int | None = None, size: int = 1 << 24) -> Iterator[bytes]:
        """The object from first to last, in bounded pieces; `total`: its bytes, where they are known."""
        total, start = int(self.info_of()["size"]) if total is None else total, 0
        if 0 < total <= size:
            yield self.read_bytes()
            return
        while start < total:
            piece = self._read(start=start, end=min(start + size, total))
            if not piece:
                raise FileNotFoundError(2, "it has become shorter", shown(str(self)))
            start += len(piece)
            yield piece

    def stat(self, *, follow_symlinks: bool = True) -> Any:  # noqa: ARG002
        """Size and time of change, as `os.stat` names them."""
        info = self.info_of()
        changed = info.get("LastModified") or info.get("created") or info.get("mtime")
        seconds = changed.timestamp() if isinstance(changed, datetime) else float(changed or 0.0)
        return SimpleNamespace(st_size=int(info["size"]), st_mtime_ns=int(seconds * 1e9), st_mtime=seconds)

    def info_of(self) -> dict[str, Any]:
        """Size and version, one request for an object that is there. Raises FileNotFoundError."""
        with named(self):
            found: dict[str, Any] = self.fs.info(self.key)
        if found.get("type") == "directory":
            raise FileNotFoundError(2, "no such object", shown(str(self)))
        return found

    def exists(self, *, follow_symlinks: bool = True) -> bool:  # noqa: ARG002
        return self.is_file() or self.is_dir()

    def is_file(self) -> bool:
        try:
            self.info_of()
        except FileNotFoundError:
            return False
        return True

    def is_dir(self) -> bool:
        with named(self):
            return bool(self.fs.isdir(self.key))

    def is_symlink(self) -> bool:
        return False

    def files_below(self) -> dict[str, dict[str, Any]]:
        """Objects below this place by their names relative to it, in order: size and version of each, one listing."""
        with named(self):
            found = self.fs.find(self.key, detail=True)
        start = len(self.key) + 1
        return {name[start:]: info for name, info in sorted(found.items()) if name.rstrip("/") != self.key}

    def iterdir(self) -> Iterator[RemotePath]:
        with named(self):
            found = self.fs.ls(self.key, detail=False)
        return (self.of_key(name.rstrip("/")) for name in sorted(found) if name.rstrip("/") != self.key)

    def glob(self, pattern: str, **_: Any) -> Iterator[RemotePath]:
        with named(self):
            found = self.fs.glob(f"{self.key}/{pattern}")
        return (self.of_key(name) for name in sorted(found))

    def absolute(self) -> RemotePath:
        return self

    # ---- writing ----

    def _put(self, verb: str, *values: Any, nbytes: int, **options: Any) -> None:
        """A put that is given up in time: HTTP clients wait without end for a frozen server to take what is sent."""
        if not getattr(self.fs, "async_impl", False):
            getattr(self.fs, verb)(*values, **options)
            return
        limit = REQUEST_SECONDS + nbytes / LEAST_BYTES_A_SECOND
        fsspec.asyn.sync(self.fs.loop, getattr(self.fs, f"_{verb}"), *values, timeout=limit, **options)

    def write_bytes(self, data: bytes | bytearray | memoryview) -> int:
        """Put the object, whole."""
        with named(self):
            self._put("pipe_file", self.key, bytes(data), nbytes=len(data))
        return len(data)

    def write_new(self, data: bytes) -> None:
        """Put the object if there is none: of several who try, one does. Raises FileExistsError."""
        with named(self):
            try:
                self._put("pipe_file", self.key, data, nbytes=len(data), mode="create")
            except FileExistsError:
                raise FileExistsError(17, "the object is there already", shown(str(self))) from None

    def write_text(
        self, data: str, encoding: str | None = None, errors: str | None = None, newline: str | None = None
    ) -> int:
        if newline not in (None, "\n"):
            data = data.replace("\n", newline)
        return self.write_bytes(data.encode(encoding or "utf-8", errors or "strict"))

    def put_file(self, local: str) -> None:
        """Put what a local file holds; large ones in parts that become one object at the end."""
        with named(self):
            self._put("put_file", local, self.key, nbytes=os.stat(local).st_size)

    def get_file(self, local: str) -> None:
        """Write the object to a local file."""
        with named(self):
            self.fs.get_file(self.key, local)

    def copy_to(self, target: RemotePath) -> None:
        """Within one store, by the store."""
        with named(self):
            self.fs.cp_file(self.key, target.key)

    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        """Object stores have no folders: nothing to do."""

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove the object; object stores do not tell whether there was one."""
        try:
            with named(self):
                self.fs.rm_file(self.key)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def rmdir(self, recursive: bool = False) -> None:
        """Folders end with their last object."""

    def remove_below(self) -> None:
        """Remove all objects below this place, and one at it."""
        with named(self):
            keys = list(self.fs.find(self.key))
            if keys:
                self.fs.rm(keys)

    def remove_all(self, paths: list[RemotePath]) -> None:
        """Remove objects of this store, many by one request where it can."""
        if paths:
            with named(self):
                self.fs.rm([path.key for path in paths])

    def rename(self, target: Any, **_: Any) -> Any:
        raise io.UnsupportedOperation(f"object stores cannot rename {self} to {target}")

    replace = rename
