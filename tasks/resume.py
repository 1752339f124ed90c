"""Work on blocks that continues after a kill: what tells that a block's rows are whole is kept beside them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

from tasks.calls import write_array
from tasks.digest import digest_arrays
from tasks.errors import ArtefactError
from tasks.io import Block, load_rows, rows_digest
from tasks.places import at, read_array, write_whole
from tasks.rows.base import Array


class Report(Protocol):
    """A dataclass of plain values with the content digests of the blocks that it is about."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def digests(self) -> tuple[str, ...]: ...


R = TypeVar("R", bound=Report)


def once(written: Block, marks: str, work: Callable[[], R], of_plain: Callable[[dict[str, Any]], R]) -> R:
    """The report of `work`, which writes the block `written`; not done again when a kept report fits what is there.

    marks     folder of the reports, one JSON file a block, written after the rows and by rename
    of_plain  a report from its plain values; raises ValueError, KeyError or TypeError when they are none
    """
    path = at(marks) / f"{written.index:05d}.json"
    kept = _kept(path, written, of_plain)
    if kept is not None:
        return kept
    report = work()
    write_whole(path, json.dumps(asdict(report)).encode())
    return report


def array_once(path: Path, work: Callable[[], Array]) -> tuple[Array, str]:
    """The array of `work` and its digest, kept at `path` and beside it; one that is there as it was written stays.

    Raises DiskFull.
    """
    mark = path.with_suffix(".digest")
    with contextlib.suppress(OSError, ValueError):
        found = read_array(path)
        if mark.read_text("ascii") == (digest := digest_arrays(found)):
            return found, digest
    made = work()
    digest = digest_arrays(made)
    write_array(path, made)
    write_whole(mark, digest.encode())
    return made, digest


def _kept(path: Path, written: Block, of_plain: Callable[[dict[str, Any]], R]) -> R | None:
    try:
        report = of_plain(json.loads(path.read_text()))
        there = rows_digest(load_rows(written))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ArtefactError):
        return None
    return report if report.digests == (there,) else None
