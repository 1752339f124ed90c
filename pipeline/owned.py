"""Places that belong to a dataset, a run or a model: no command writes files of its own among theirs."""

from __future__ import annotations

import os
from pathlib import Path

from pipeline.store import MANIFEST
from tasks.errors import UsageError
from tasks.models.sums import HEADER, SUMS
from tasks.places import at, is_remote
from tasks.urls import StoreRefused

OF_A_RUN = ("steps", "models", "predictions", "neighbours", "report-figures", "logs", "solved", "scratch")
FILES_OF_A_RUN = (
    "config.toml",
    MANIFEST,
    "metrics.json",
    "report.html",
    "events.jsonl",
    "tasks.parquet",
    "lock.json",
    "submission.json",
)
ZARR = ("zarr.json", ".zgroup", ".zarray")
HINT = "what is there is judged by digests, and removed or replaced as a whole: name a place outside of it"


class PlaceTaken(UsageError):
    """What was to be written would lie within a dataset, a model folder or what a run has made."""


def refuse_owned(path: str | os.PathLike[str]) -> None:
    """Raise PlaceTaken when `path`, a file or folder to be written, lies within what is not its writer's to change.

    Within a zarr store (a dataset), a model folder, or what a run has made; `path` may itself be a dataset or a model
    folder, which its writer replaces or refuses. Links are followed. Nothing is written.
    """
    place = at(path)
    if not is_remote(place):
        place = Path(os.path.realpath(place))
    below: tuple[str, ...] = (place.name,)
    for folder in place.parents:
        _refuse_within(folder, below, place)
        below = (folder.name, *below)


def _refuse_within(folder: Path, below: tuple[str, ...], place: Path) -> None:
    if any(_there(folder / name) for name in ZARR):
        raise PlaceTaken(f"this is within the dataset or zarr store {folder}", str(place), HINT)
    if any(_there(folder / name) for name in (HEADER, SUMS)):
        raise PlaceTaken(f"this is within the model folder {folder}", str(place), HINT)
    own = below[0] in OF_A_RUN or (len(below) == 1 and below[0] in FILES_OF_A_RUN)
    if own and _there(folder / MANIFEST):
        raise PlaceTaken(f"{below[0]} is the run's own: {folder}", str(place), HINT)


def _there(path: Path) -> bool:
    """Whether a file is there; what a store or a disk does not show us is none."""
    try:
        return path.is_file()
    except (StoreRefused, OSError):
        return False
