"""What stands at a place where a run was expected: in words, and what is to be given instead."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from pipeline.config_errors import ConfigError
from pipeline.owned import ZARR
from pipeline.store import MANIFEST
from tasks.models.sums import HEADER, SUMS
from tasks.places import is_remote

TAKES = "give a run folder (`run` has printed it: runs/NAME, or its URL), or the run's config"
CONFIG = ".toml"
LARGEST = 1 << 20  # bytes of a text that is looked at: no config is as large
SHOWN = 5  # runs or configs that a hint names


def is_config(path: Path) -> bool:
    """Whether a file is meant for a config: by its ending, or since it is short TOML."""
    from pipeline.config import read_toml

    if path.suffix.lower() == CONFIG:
        return True
    if path.stat().st_size > LARGEST:
        return False
    try:
        read_toml(path)
    except ConfigError:
        return False
    return True


def what_it_is(path: Path) -> tuple[str, str]:
    """What is at a place of which no run is found, and what to do. Looks at names alone, at the first of many."""
    if not path.exists():
        return "there is no such file or folder", _likely(path)
    run = _run_around(path)
    if run is not None:
        return f"this is a part of the run {run.name}", f"give the run: {shlex.quote(str(run))}"
    if path.is_file():
        return f"this file is {_of_file(path)}", TAKES
    if not path.is_dir():
        return "this is neither a file nor a folder", TAKES
    if _is_model(path):
        return "this is a model folder, and a run is expected", f"{TAKES}; `labelgrove inspect` shows a model"
    if _is_dataset(path):
        return "this is a dataset, and a run is expected", f"{TAKES}; `labelgrove inspect` shows a dataset"
    return _of_folder(path)


def _likely(path: Path) -> str:
    """A run may have been named without its folder runs/."""
    near = path.parent / "runs" / path.name
    if not is_remote(path) and (near / MANIFEST).is_file():
        return f"is it {shlex.quote(str(near))}?"
    return TAKES


def _run_around(path: Path) -> Path | None:
    """The run folder that holds `path`; other programs have manifests of this name, too."""
    above = path.absolute().parents
    return next((folder for folder in above if (folder / MANIFEST).is_file() and (folder / "steps").is_dir()), None)


def _is_model(path: Path) -> bool:
    return any((path / name).is_file() for name in (HEADER, SUMS))


def _is_dataset(path: Path) -> bool:
    return any((path / name).is_file() for name in ZARR)


def _of_file(path: Path) -> str:
    if _is_model(path.parent):
        return "a part of a model, and a run is expected"
    if any(_is_dataset(folder) for folder in islice(path.absolute().parents, 4)):
        return "a part of a dataset, and a run is expected"
    return f"neither of a run nor a config ({CONFIG})"


def _of_folder(path: Path) -> tuple[str, str]:
    """A folder of runs, or of configs, or one that has nothing to do with runs."""
    runs = _some(path, f"*/{MANIFEST}", up=True) or _some(path, f"runs/*/{MANIFEST}", up=True)
    if runs:
        return "this folder is no run, but has runs", f"name one: {', '.join(runs)}"
    configs = _some(path, f"*{CONFIG}")
    if configs:
        return "this is no run folder, but a folder of TOML files", f"name the run's config: {', '.join(configs)}"
    return "this is no run folder" if any(path.iterdir()) else "this folder is empty", TAKES


def _some(path: Path, pattern: str, up: bool = False) -> Sequence[str]:
    """The first few that fit, as they are typed; with `up` the folders that these files are in."""
    if is_remote(path):  # to list a store may take minutes
        return []
    found = sorted(islice(path.glob(pattern), 100))
    names = [shlex.quote(str(one.parent if up else one)) for one in found]
    return [*names[:SHOWN], *(["..."] if len(names) > SHOWN else [])]
