"""What lies in the folder of a dataset or a model and is no part of it: an editor's copy, a model saved in it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from pipeline.dataset import CODEBOOKS, COLUMNS, FEATURE_NAMES, HAS_NAMES, Dataset
from pipeline.ingest.image_listing import FILES
from tasks.errors import one_line
from tasks.io import FEATURES, PARTS, read_attrs
from tasks.models.sums import SUMS, listed_in
from tasks.places import at, is_remote
from tasks.rows import Dense, Images, PqCodes

NODE = "zarr.json"
TAXONOMY = ("parent", "leaf_of_class")
SHOWN = 10  # entries that a note names


def foreign_to_dataset(dataset: Dataset) -> list[str]:
    """Entries of its folder that ingest has not written there, in order; of a foreign folder itself alone."""
    return _beyond(at(dataset.path), _files_of(dataset))


def foreign_to_model(folder: Path) -> list[str]:
    """Entries of a model folder that its SHA256SUMS does not list."""
    return _beyond(folder, [SUMS, *listed_in(folder)])


def foreign_note(found: list[str]) -> str:
    """What is to be said of them; "" where there are none."""
    if not found:
        return ""
    more = f" and {len(found) - SHOWN:,} more" if len(found) > SHOWN else ""
    return f"no part of it, and not judged: {', '.join(map(one_line, found[:SHOWN]))}{more}"


def _files_of(dataset: Dataset) -> Iterator[str]:
    """Every file that the dataset may consist of, relative to its folder."""
    yield NODE
    blocks = range(len(dataset.blocks()))
    yield f"{FEATURES}/{NODE}"
    if dataset.body == Dense.body:
        yield from (f"{FEATURES}/c/{block}/0" for block in blocks)
    elif dataset.body == PqCodes.body:
        yield from (f"{FEATURES}/{name}/{NODE}" for name in ("codes", CODEBOOKS))
        yield f"{FEATURES}/{CODEBOOKS}/c/0/0/0"
        yield from (f"{FEATURES}/codes/c/{block}/0" for block in blocks)
    else:
        groups = [f"{FEATURES}/{block:05d}" for block in blocks]
        yield from (f"{group}/{NODE}" for group in groups)
        for part in PARTS[dataset.body]:
            yield from (f"{group}/{part}/{name}" for group in groups for name in (NODE, "c/0"))
    for column in COLUMNS:
        yield f"{column}/{NODE}"
        yield from (f"{column}/c/{block}" for block in blocks)
    yield from (f"{group}/{NODE}" for group in ("classes", "digests"))
    if read_attrs(dataset.path).get(HAS_NAMES):
        yield f"{FEATURE_NAMES}/{NODE}"
    if read_attrs(dataset.path)["has_taxonomy"]:
        yield f"taxonomy/{NODE}"
        yield from (f"taxonomy/{column}/{name}" for column in TAXONOMY for name in (NODE, "c/0"))
    if dataset.body == Images.body:
        yield FILES


def _beyond(folder: Path, files: Iterable[str]) -> list[str]:
    """What is in a folder beyond these files and the folders that they are in."""
    known = set(files)
    above = {name[:place] for name in known for place, letter in enumerate(name) if letter == "/"}
    if is_remote(folder):
        return list(dict.fromkeys(_topmost(name, above) for name in folder.files_below() if name not in known))
    return sorted(_strange(folder, "", known, above))


def _topmost(name: str, above: set[str]) -> str:
    """The shortest part of a foreign object's name that is none of ours."""
    places = [place for place, letter in enumerate(name) if letter == "/"]
    return next((f"{name[:place]}/" for place in places if name[:place] not in above), name)


def _strange(folder: Path, below: str, known: set[str], above: set[str]) -> Iterator[str]:
    with os.scandir(folder / below) as entries:
        for entry in entries:
            name = f"{below}{entry.name}"
            if name in above and entry.is_dir(follow_symlinks=True):
                yield from _strange(folder, f"{name}/", known, above)
            elif name not in known:
                yield f"{name}/" if entry.is_dir(follow_symlinks=False) else name
