"""Encoding that continues after a kill: a block's report is kept beside the codes once they are written."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

from tasks.digest import digest_arrays
from tasks.errors import ArtefactError
from tasks.files import beside, disk_room
from tasks.io import Block, read_rows
from tasks.quantize.blocks import EncodeReport, encode_block
from tasks.rows import PqCodes
from tasks.rows.base import Array


def encode_block_once(block: Block, codebooks: Array, target: str, marks: str) -> EncodeReport:
    """`encode_block`, unless an earlier attempt has written this block and its report still fits what is there.

    marks  folder of the reports, one file a block, written after the codes and by rename
    """
    path = Path(marks) / f"{block.index:05d}.json"
    kept = _kept(path, Block(target, block.index, block.start, block.stop))
    if kept is not None:
        return kept
    report = encode_block(block, codebooks, target)
    spare = beside(path)
    text = json.dumps(asdict(report))
    with disk_room(str(path), len(text)):
        spare.write_text(text)
        os.replace(spare, path)
    return report


def _kept(path: Path, written: Block) -> EncodeReport | None:
    try:
        values = json.loads(path.read_text())
        report = EncodeReport(
            int(values["rows"]), float(values["squared_error"]), float(values["squared_norm"]), tuple(values["digests"])
        )
        rows = read_rows(written)
    except (OSError, ValueError, KeyError, TypeError, ArtefactError):
        return None
    codes = rows.codes if isinstance(rows, PqCodes) else None
    return report if codes is not None and report.digests == (digest_arrays(codes),) else None
