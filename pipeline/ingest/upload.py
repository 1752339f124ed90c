"""A dataset at a URL: made here as any other, in a folder of temporary files, then put; its attributes go last.

The attributes of the dataset's group carry a digest over themselves: without them nothing there is a dataset. What an
interrupted ingest has done stays in that folder, and the same command continues it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pipeline.dataset import FORMAT
from pipeline.ingest.errors import DatasetExists
from tasks import io
from tasks.digest import digest_text
from tasks.errors import ArtefactError
from tasks.places import at, put_file

MARK = "zarr.json"  # of the dataset's own group
UNFINISHED = "unfinished.partial"  # put first, gone when the dataset is whole
WRITERS = 8  # objects that are put at the same time


def staged_at(url: str) -> Path:
    """Where the dataset of a URL is made before it is put: the same place for the same user and URL."""
    own = Path(tempfile.gettempdir(), f"labelgrove-{os.getuid()}")
    own.mkdir(mode=0o700, exist_ok=True)
    if own.is_symlink() or own.stat().st_uid != os.getuid() or own.stat().st_mode & 0o077:
        own = Path(tempfile.mkdtemp(prefix="labelgrove-"))  # somebody else could write there
    folder = own / digest_text(url)[:12]
    folder.mkdir(exist_ok=True)
    return folder / at(url).name


def refuse_existing(url: str, force: bool) -> None:
    """Raises DatasetExists when something is there; with `force`, when it is no dataset.

    What an ingest was interrupted in putting there is nothing yet.
    """
    if not at(url).is_dir():
        return
    try:
        ours = io.read_attrs(url).get("format") == FORMAT
    except ArtefactError:
        ours = False
    if not ours and (at(url) / UNFINISHED).is_file():
        return
    if not force:
        raise DatasetExists("something is there already", url, "choose another name, or --force to replace it")
    if not ours:
        raise DatasetExists("what is there is no dataset", url, "only a dataset is ever replaced; choose another name")


def put_dataset(local: Path, url: str, say: Callable[[str], None] | None) -> None:
    """Put all files of a finished store but scratch, and at last what makes a dataset of them."""
    target: Any = at(url)
    old = set(target.files_below())
    (target / UNFINISHED).write_bytes(b"the same `labelgrove ingest` again puts the rest\n")
    (target / MARK).unlink(missing_ok=True)
    paths = [path for path in sorted(local.rglob("*")) if path.is_file()]
    names = [path.relative_to(local).as_posix() for path in paths]
    names = [name for name in names if ".partial" not in name and name != MARK]
    if say:
        total = sum((local / name).stat().st_size for name in names)
        say(f"putting {len(names) + 1:,} objects, {total:,} bytes, at {url}")
    with ThreadPoolExecutor(WRITERS) as threads:
        for _ in threads.map(lambda name: put_file(local / name, target / name), names):
            pass
    for name in sorted(old - {*names, MARK, UNFINISHED}):
        (target / name).unlink(missing_ok=True)
    put_file(local / MARK, target / MARK)
    (target / UNFINISHED).unlink(missing_ok=True)


def forget_staged(local: Path) -> None:
    """Remove what was made here."""
    shutil.rmtree(local.parent, ignore_errors=True)
