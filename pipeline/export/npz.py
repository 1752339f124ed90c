"""A model as one .npz file that `numpy.load(..., allow_pickle=False)` reads: all that predicting takes.

Arrays: every tensor of the model under its name in model.json, those of encoder i as `encoder.<i>.<name>`; and two
texts of JSON, arrays of one string: `header` (model.json) and `class_table` (ids and names by class).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path

import numpy as np

from pipeline.export.facts import class_table
from pipeline.placing import made_beside
from tasks.models.folder import SavedModel
from tasks.models.header import json_text
from tasks.rows.base import Array

HEADER, CLASS_TABLE = "header", "class_table"
ENTRY, ENDS = 30 + 20 + 46, 22  # bytes of a zip: of an entry, its zip64 field and its line of the directory; of the end


def write_npz(saved: SavedModel, output: Path, told: Callable[[int], None] | None = None, force: bool = False) -> None:
    """Write the file, whole or not at all; of one model always the same bytes.

    told    is given the size of the file, bytes, before it is written
    force   whether what stands there is replaced
    raises  DiskFull, OutputExists, ValueError on a clash

    Nothing is compressed, so that arrays can be mapped and weights, which hardly compress, are read at once.
    """
    tensors = tensors_of(saved)
    texts = {HEADER: np.array(json_text(dict(saved.header))), CLASS_TABLE: np.array(class_table(saved.classes))}
    if clash := texts.keys() & tensors.keys():
        raise ValueError(f"a tensor must not be called {sorted(clash)}")
    arrays = {**tensors, **texts}
    size = file_bytes(arrays)
    if told is not None:
        told(size)
    with made_beside(output, size, force) as local:
        np.savez(local, allow_pickle=False, **{name: arrays[name] for name in sorted(arrays)})


def tensors_of(saved: SavedModel) -> dict[str, Array]:
    """Those of the model and of its encoders, by their names in the file."""
    tensors = dict(saved.model.tensors())
    for place, encoder in enumerate(saved.encoders):
        tensors |= {f"encoder.{place}.{name}": values for name, values in encoder.tensors().items()}
    return tensors


def file_bytes(arrays: Mapping[str, Array]) -> int:
    """What an .npz of these arrays takes: of zip's format, for each its numbers, their header, and its name twice."""
    return ENDS + sum(
        ENTRY + 2 * len(f"{name}.npy".encode()) + _header_bytes(values) + values.nbytes
        for name, values in arrays.items()
    )


def _header_bytes(values: Array) -> int:
    """Of NumPy's header, of format 1.0: names of fields, which may need another, are in no tensor."""
    head = BytesIO()
    np.lib.format.write_array_header_1_0(head, np.lib.format.header_data_from_array_1_0(values))
    return head.tell()


def stored_bytes(saved: SavedModel) -> int:
    """Of these tensors alone, as arrays hold them."""
    return sum(values.nbytes for values in tensors_of(saved).values())
