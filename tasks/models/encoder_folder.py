"""An encoder on its own: a folder with its header and its tensors, as models carry them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tasks.files import disk_room
from tasks.models.encoder import Encoder
from tasks.models.errors import ModelFormat
from tasks.models.header import RESTORE, json_text
from tasks.models.registry import ENCODERS, class_of
from tasks.models.tensors import read_tensors, write_tensors

HEADER, TENSORS = "encoder.json", "encoder.safetensors"


def save_encoder(folder: Path, encoder: Encoder) -> None:
    """Write both files; whoever keeps the folder keeps their digests. Raises DiskFull."""
    tensors = encoder.tensors()
    with disk_room(str(folder), sum(values.nbytes for values in tensors.values())):
        folder.mkdir(parents=True, exist_ok=True)
        write_tensors(folder / TENSORS, tensors)
        (folder / HEADER).write_text(json_text(encoder.header(), indent=1) + "\n", "utf-8")


def load_encoder(folder: Path) -> Encoder:
    """Raises ModelFormat when header and tensors are not an encoder's."""
    where = str(folder / HEADER)
    try:
        header: dict[str, Any] = json.loads((folder / HEADER).read_bytes())
        encoder: Encoder = class_of(header["kind"], ENCODERS, where).load(header, read_tensors(folder / TENSORS))
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise ModelFormat(f"this is no encoder ({error})", where, RESTORE) from error
    return encoder
