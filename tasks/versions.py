"""What changes when a file is replaced, on a disk or in an object store, asked of a store once per task.

A task takes what stands at a URL for one version from its first look to its end: so a block costs a request or two for
versions, not one at every turn. Files on a disk are looked at every time, which costs nothing.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tasks.urls import check_url, is_url

CONTENT = ("ETag", "etag", "md5Hash")  # of what stores tell of an object, what is of its content
TIMES = ("generation", "LastModified", "last_modified", "mtime", "updated", "created")
_seen = threading.local()


@contextmanager
def one_look() -> Iterator[None]:
    """Within the block (a task or a step, in its thread) the version of each URL is asked once.

    A block within another goes on with what that one has seen: both are in one process, which forgets what it writes.
    """
    if getattr(_seen, "versions", None) is not None:
        yield
        return
    _seen.versions = {}
    try:
        yield
    finally:
        _seen.versions = None


def version_of(path: str) -> Hashable:
    """What changes when a file is replaced; FileNotFoundError when it is not there."""
    path = check_url(path) if is_url(path) else path
    if not is_url(path):  # nor was it, if it began with file://
        stat = os.stat(path)
        return stat.st_mtime_ns, stat.st_size, stat.st_ino
    seen: dict[str, Hashable] | None = getattr(_seen, "versions", None)
    if seen is not None and path in seen:
        return seen[path]
    from tasks.remote_path import RemotePath  # late: it loads what opens stores

    found = told_of(RemotePath.of(path).info_of())
    if seen is not None:
        seen[path] = found
    return found


def told_of(info: Mapping[str, Any]) -> str:
    """The version of an object by what its store tells: of its content where it tells that, else when it was put."""
    told = next((info[name] for name in (*CONTENT, *TIMES) if info.get(name) is not None), "")
    return f"{str(told).strip(chr(34))} {info.get('size')}"


def forget(path: str) -> None:
    """This task has written it: what was seen before does not hold."""
    seen: dict[str, Hashable] | None = getattr(_seen, "versions", None)
    if seen is not None:
        seen.pop(path, None)
