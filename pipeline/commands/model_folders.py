"""What is given for a model and is none: a run folder, its folder of models, a dataset."""

from __future__ import annotations

import shlex
from pathlib import Path

from pipeline.store import MANIFEST
from tasks.errors import UsageError
from tasks.models.errors import ModelMissing
from tasks.models.sums import HEADER, SUMS


def refuse_other_folder(model: Path, usage: str = "") -> None:
    """Raise ModelMissing for a folder of models, which are named, and for a dataset; UsageError for a run folder.

    usage  how the command is typed, for a dataset in the place of the model
    """
    if (model / HEADER).exists() or (model / SUMS).exists() or not model.is_dir():
        return
    if (model / MANIFEST).is_file():
        _refuse_run(model)
    if (model / "zarr.json").is_file():
        raise ModelMissing("this is a dataset, and a model is expected", str(model), f"the model comes first: {usage}")
    found = sorted(path.parent for pattern in (f"*/{HEADER}", f"models/*/{HEADER}") for path in model.glob(pattern))
    if found:
        raise ModelMissing("this is a folder of models", str(model), f"name one: {', '.join(map(str, found))}")


def _refuse_run(run: Path) -> None:
    """A run folder in the place of one of its models: which it has, and what shows the run itself."""
    folder = shlex.quote(str(run))
    found = sorted(path.parent for path in run.glob(f"models/*/{HEADER}"))
    hint = f"name one of its models: {', '.join(map(str, found))}" if found else "it has no models yet"
    raise UsageError(
        "this is a run folder, and a model is expected", str(run), f"{hint}; `labelgrove report {folder}` shows the run"
    )
