"""A model as one .npz file that `numpy.load(..., allow_pickle=False)` reads: all that predicting takes.

Arrays: every tensor of the model under its name in model.json, those of encoder i as `encoder.<i>.<name>`; and two
texts of JSON, arrays of one string: `header` (model.json) and `class_table` (ids and names by class).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pipeline.export.facts import class_table
from pipeline.export.placing import made_beside
from tasks.models.folder import SavedModel
from tasks.models.header import json_text
from tasks.rows.base import Array

HEADER, CLASS_TABLE = "header", "class_table"


def write_npz(saved: SavedModel, output: Path) -> None:
    """Write the file, whole or not at all; of one model always the same bytes. Raises DiskFull, ValueError on a clash.

    Nothing is compressed, so that arrays can be mapped and weights, which hardly compress, are read at once.
    """
    tensors = tensors_of(saved)
    texts = {HEADER: np.array(json_text(dict(saved.header))), CLASS_TABLE: np.array(class_table(saved.classes))}
    if clash := texts.keys() & tensors.keys():
        raise ValueError(f"a tensor must not be called {sorted(clash)}")
    arrays = {**tensors, **texts}
    with made_beside(output, sum(values.nbytes for values in arrays.values())) as local:
        np.savez(local, allow_pickle=False, **{name: arrays[name] for name in sorted(arrays)})


def tensors_of(saved: SavedModel) -> dict[str, Array]:
    """Those of the model and of its encoders, by their names in the file."""
    tensors = dict(saved.model.tensors())
    for place, encoder in enumerate(saved.encoders):
        tensors |= {f"encoder.{place}.{name}": values for name, values in encoder.tensors().items()}
    return tensors


def stored_bytes(saved: SavedModel) -> int:
    """Of these tensors: what an .npz takes, but for its texts."""
    return sum(values.nbytes for values in tensors_of(saved).values())
