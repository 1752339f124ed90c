"""Where a process changes the disk, as Python's audit events tell it before each change."""

from __future__ import annotations

import os
from pathlib import PurePath
from typing import Any

from pipeline.store import DONE, EVENTS, UNFINISHED

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
CHANGES = {"os.rename": 1, "os.link": 1, "os.remove": 0, "os.mkdir": 0, "os.rmdir": 0}  # argument that names the place
WRITE, RENAME, MARK, LOCK, EVENT = "temp write", "rename", "DONE", "lock", "event"
KINDS = (WRITE, RENAME, MARK, LOCK, EVENT)


def changed_path(event: str, arguments: tuple[Any, ...]) -> str:
    """The path that an audit event is about to change, "" when it changes none: opening for writing is a change."""
    place: Any = None
    if event == "open":
        path, _, flags = arguments
        place = path if isinstance(flags, int) and flags & WRITING else None
    elif event in CHANGES:
        place = arguments[CHANGES[event]]
    return os.fsdecode(place) if isinstance(place, str | bytes | os.PathLike) else ""


def kind_of(event: str, arguments: tuple[Any, ...]) -> str:
    """Which of KINDS a change is, or ""."""
    path = changed_path(event, arguments)
    if not path:
        return ""
    name = os.path.basename(path)
    if event == "open":
        if name == EVENTS:
            return EVENT
        return WRITE if any(UNFINISHED.fullmatch(part) for part in PurePath(path).parts) else ""
    if event == "os.link":
        return LOCK if name == "lock.json" else ""
    if event != "os.rename" or not UNFINISHED.fullmatch(os.path.basename(os.fsdecode(arguments[0]))):
        return ""
    return MARK if name == DONE else RENAME
