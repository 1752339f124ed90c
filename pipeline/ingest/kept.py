"""What an ingest notes while it works, so that the same command continues it after a kill.

In the folder that the dataset is made in: what each source was found to hold, which store was begun, and for every
block that is written its digests. Each note is a small file that is there whole or not at all, written after what it is
about; what it is about is compared with it before it counts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.dataset import COLUMNS
from tasks import io
from tasks.digest import digest_arrays
from tasks.errors import ArtefactError
from tasks.files import beside, disk_room

FOLDER = "kept.partial"  # swept when the dataset is whole
BLOCKS = "block-*.json"
SUMS = "sums"


@dataclass(frozen=True)
class Written:
    """A block that is written.

    digests  of its rows and its columns
    sums     of rows that are codes, squared error and squared norm
    """

    digests: dict[str, str]
    sums: tuple[float, ...] = ()


class Kept:
    """The notes of one ingest.

    notes  False: of one that nobody could continue; nothing is noted
    """

    def __init__(self, folder: Path, notes: bool = True) -> None:
        self.folder, self.notes = folder / FOLDER, notes
        self.found = self.folder.is_dir()  # whether an earlier attempt has been here
        if notes:
            with disk_room(str(self.folder), 0):
                self.folder.mkdir(exist_ok=True)

    def load(self, name: str) -> dict[str, Any] | None:
        """A note, None when there is none that can be read."""
        try:
            values = json.loads((self.folder / f"{name}.json").read_text())
        except (OSError, ValueError):
            return None
        return values if isinstance(values, dict) else None

    def save(self, name: str, values: Mapping[str, Any]) -> None:
        """Write a note. Raises DiskFull."""
        if not self.notes:
            return
        path, text = self.folder / f"{name}.json", json.dumps(dict(values))
        spare = beside(path)
        with disk_room(str(path), len(text)):
            spare.write_text(text)
            os.replace(spare, path)

    def n_blocks(self) -> int:
        """Blocks that are noted as written."""
        return sum(1 for _ in self.folder.glob(BLOCKS))

    def forget_blocks(self) -> None:
        """They are of another store."""
        for path in self.folder.glob(BLOCKS):
            path.unlink(missing_ok=True)

    def written(self, dataset: str, block: io.Block) -> Written | None:
        """What is noted of a block, when all of it is there, read again; None otherwise."""
        noted = self.load(_block_name(block.index))
        sums = None if noted is None else noted.pop(SUMS, None)
        if noted is None or set(noted) != {io.FEATURES, *COLUMNS}:
            return None
        try:
            there = {io.FEATURES: io.rows_digest(io.load_rows(block))}
            for name in COLUMNS:
                there[name] = digest_arrays(io.read_column(dataset, name, block.start, block.stop, cached=False))
        except (ArtefactError, OSError, ValueError):
            return None
        return Written(there, tuple(sums or ())) if there == noted else None

    def note_block(self, block: io.Block, written: Written) -> None:
        sums = {SUMS: written.sums} if written.sums else {}
        self.save(_block_name(block.index), {**written.digests, **sums})


def _block_name(index: int) -> str:
    return f"block-{index:05d}"
