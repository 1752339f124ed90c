"""What is given for a model and is none: a run folder, its folder of models, a dataset."""

from __future__ import annotations

from pathlib import Path

from tasks.models.errors import ModelMissing
from tasks.models.sums import HEADER, SUMS


def refuse_other_folder(model: Path, usage: str = "") -> None:
    """Raise ModelMissing for a folder of models, which are named, and for a dataset.

    usage  how the command is typed, for a dataset in the place of the model
    """
    if (model / HEADER).exists() or (model / SUMS).exists() or not model.is_dir():
        return
    if (model / "zarr.json").is_file():
        raise ModelMissing("this is a dataset, and a model is expected", str(model), f"the model comes first: {usage}")
    found = sorted(path.parent for pattern in (f"*/{HEADER}", f"models/*/{HEADER}") for path in model.glob(pattern))
    if found:
        raise ModelMissing("this is a folder of models", str(model), f"name one: {', '.join(map(str, found))}")
