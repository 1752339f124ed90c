"""Product quantisation that continues after a kill."""

from __future__ import annotations

from typing import Any

from tasks.io import Block
from tasks.quantize.blocks import EncodeReport, encode_block
from tasks.resume import once
from tasks.rows.base import Array


def encode_block_once(block: Block, codebooks: Array, target: str, marks: str) -> EncodeReport:
    """`encode_block`, unless an earlier attempt has written this block and its report still fits what is there.

    marks  folder of the reports, one file a block, written after the codes and by rename
    """
    written = Block(target, block.index, block.start, block.stop)
    return once(written, marks, lambda: encode_block(block, codebooks, target), _of_plain)


def _of_plain(values: dict[str, Any]) -> EncodeReport:
    return EncodeReport(
        int(values["rows"]), float(values["squared_error"]), float(values["squared_norm"]), tuple(values["digests"])
    )
