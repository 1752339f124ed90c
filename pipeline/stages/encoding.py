"""What the stages of all encodings have in common: their section is their settings, their source their input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipeline.config import OWN_ROWS, Encoding
from pipeline.stage import Stage, Work, encode_step
from tasks.files import disk_room


class EncodeStage(Stage):
    """Rows made from rows, block by block, each block written by one task."""

    encoding: Encoding  # each kind of stage says which
    n_features: int  # of the rows that are encoded

    @property
    def name(self) -> str:
        return encode_step(self.encoding.name)

    def settings(self) -> dict[str, Any]:
        return self.encoding.model_dump(mode="json")

    @property
    def inputs(self) -> tuple[str, ...]:
        return () if self.encoding.rows == OWN_ROWS else (encode_step(self.encoding.rows),)

    @property
    def reads_rows(self) -> bool:
        return True


def marks_folder(work: Work) -> Path:
    """Where blocks that are written leave their mark, for an attempt that is interrupted. Raises DiskFull."""
    marks = work.folder / "progress" / "blocks"
    with disk_room(str(marks), 0):
        marks.mkdir(parents=True, exist_ok=True)
    return marks
