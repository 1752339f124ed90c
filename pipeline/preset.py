"""Presets: the experiments of the papers as configs, filled in for a dataset."""

from __future__ import annotations

import json
import math
import os
import shlex
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from pipeline.dataset import Dataset
from pipeline.placing import made_beside
from tasks.errors import UsageError
from tasks.features.sift import SiftParams
from tasks.io import longest_side_of
from tasks.places import is_remote

FOLDER = "pipeline.presets"
PRESETS = {
    "hashing": "HESHING beside the baselines of its paper in one table; hash learners with a tenth of ovr's numbers",
    "hash-bits": "errors and collisions of the hash learners against the number of hash bits",
    "codes": "winner-take-all codes as features: accuracy against the number of hashes",
    "retrieval": "winner-take-all codes for retrieval: precision against recall, means of ten seeds",
    "trace-norm": "trace norm beside one-vs-rest and the multinomial loss alone: accuracy, rank, spectra, top-k",
    "trees": "label trees beside Bengio's, trees of clusters and one-vs-rest: accuracy, training cost and speed-up",
    "relaxed": "relaxed hierarchies beside all rivals of their paper: accuracy against relative complexity",
    "relaxed-kernel": "the same with a kernel, costs counted in support vectors; for some ten thousand rows at most",
    "relaxed-classes": "complexity of relaxed hierarchies and their rivals against the number of classes, five draws",
    "images": "bags of words, LLC and Fisher vectors of dense SIFT, each with nearest class mean and one-vs-rest",
    "compression": "one-vs-rest and trace norm on rows, on PQ codes, and learnt on codes but tested on rows",
}
CODES = ("codes", "retrieval")  # presets that need two features to compare
DENSE = ("compression",)  # presets whose encoding is of dense rows
IMAGES = ("images",)  # presets of images
WORDS, PATCHES_A_WORD = 1000, 20  # of a vocabulary at most; patches of training images for each at least
LEAST_SIDE, LARGE_SIDE = 24, 128  # pixels: of the larger patch; from which on an image is cut into 4 x 4 cells, too
DRAWS = [0, 1, 2, 3, 4]  # of a part of the classes
PQ_WIDTH = 16  # features for a byte at most
TOP = 20  # classes that a row's predictions name
WINDOW = 4  # features that a hash compares
MOST_PAIRED = 400  # classes whose pairs have classifiers in a preset
SHARE = 0.1  # of one-vs-rest's parameters, that HESHING may have at most
MOST_COMPONENTS = 500
BITS_AROUND = (-3, -2, -1, 0, 1, 2, 3, 4)  # of a sweep, around the bits of that share


class PresetChanged(UsageError):
    """The config that a preset would write is there already, and is another one."""


def text_of(name: str) -> str:
    """The text of a file of the package's presets, its blanks not filled in."""
    return files(FOLDER).joinpath(name).read_text(encoding="utf-8")


def write_preset(name: str, data: Path, folder: Path) -> Path:
    """Write the config of a preset for a dataset, NAME-DATASET.toml; one that is there already must be the same.

    Raises UsageError for a preset that does not exist, PresetChanged, the errors of opening the dataset, DiskFull.
    """
    if name not in PRESETS:
        listed = "".join(f"\n    {known}: {what}" for known, what in PRESETS.items())
        raise UsageError(f"there is no preset {name!r}", name, f"name one of these{listed}")
    dataset = Dataset.open(data)
    if (name in IMAGES) != (dataset.body == "images"):
        what = "is of images" if name in IMAGES else "is of rows of numbers, and these are images"
        raise UsageError(f"preset {name} {what}", str(data), "take another preset")
    if name in CODES and dataset.n_features < 2:
        raise UsageError(f"preset {name}: rows of one feature have no winner", str(data), "take another preset")
    if name in DENSE and dataset.body != "dense":
        raise UsageError(f"preset {name}: product quantisation is of dense rows", str(data), "take another preset")
    path = folder / f"{name}-{plain_name(data)}.toml"
    text = filled(name, dataset, path.stem, path_from(folder, data))
    refuse_changed(path, text)
    write_text(path, text)
    return path


def path_from(folder: Path, data: Path) -> str:
    """The dataset as a config in that folder names it."""
    return str(data) if is_remote(data) else os.path.relpath(data, folder)


def refuse_changed(path: Path, text: str) -> None:
    """Raises PresetChanged where a config with another text is there already."""
    if path.exists() and path.read_text(encoding="utf-8") != text:
        hint = f"`labelgrove run {shlex.quote(str(path))}` runs it as it is; remove it to have the preset again"
        raise PresetChanged("a config of this name is there already, and is another one", str(path), hint)


def write_text(path: Path, text: str) -> None:
    """Whole or not at all: a part of a config would be refused as another one. Raises DiskFull.

    Two commands of one preset may write it at the same time: both write the same.
    """
    content = text.encode()
    with made_beside(path.absolute(), len(content), force=True, alone=False) as local:
        local.write_bytes(content)


def plain_name(data: Path) -> str:
    """The dataset's name in letters that a run's name may have."""
    stem = data.absolute().name.removesuffix(".zarr")
    return (
        "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in stem)[:40].strip("-") or "data"
    )


def filled(name: str, dataset: Dataset, run_name: str, path: str, kernel: str = "") -> str:
    """A preset's text for a dataset; `kernel` over the one that its rows suggest."""
    levels = max(1, dataset.taxonomy.n_levels - 1) if dataset.taxonomy is not None else 1
    buckets = max(2, int(SHARE * dataset.n_classes * dataset.n_features / levels))
    bits = math.floor(math.log2(buckets))
    most = min(dataset.n_features, max(1, dataset.split_counts["train"]))
    width = max(w for w in range(1, PQ_WIDTH + 1) if dataset.n_features % w == 0)
    kernel = kernel or ("chi2" if dataset.body == "csr" else "rbf")
    pairs = text_of("relaxed-pairs.toml") if dataset.n_classes <= MOST_PAIRED else ""
    counts = counts_of_classes(dataset) if name == "relaxed-classes" else [dataset.n_classes]
    drawn = [(counts[:-1], DRAWS), (counts[-1:], DRAWS[:1])]  # all classes are the same however often they are drawn
    sections = Template(text_of("relaxed-draws.toml"))
    blanks = {
        **image_blanks(dataset),
        "kernel": kernel,
        "drawn": "\n".join(sections.substitute(counts=some, draws=draws) for some, draws in drawn if some),
        "pairs": Template(pairs).substitute(kernel=kernel if name == "relaxed-kernel" else "linear"),
        "name": run_name,
        "path": json.dumps(path)[1:-1],
        "components": max(1, min(most // 2, MOST_COMPONENTS)),
        "buckets": buckets,
        "all_buckets": levels * buckets,
        "window": min(WINDOW, dataset.n_features),
        "queries": "test" if dataset.split_counts["test"] else "validation",
        "width": width,
        "subquantizers": dataset.n_features // width,
        "code_bits": min(8, max(1, dataset.split_counts["train"].bit_length() - 1)),
        "top": min(TOP, dataset.n_classes),
        "bits": [bits + step for step in BITS_AROUND if 1 <= bits + step <= 26],
    }
    return Template(text_of(f"{name}.toml")).substitute(blanks)


def image_blanks(dataset: Dataset) -> dict[str, Any]:
    """Words and pyramid for images of that size, and for so many of them."""
    side = longest_side_of(dataset.rows_store) if dataset.body == "images" else 0
    patches = SiftParams(max_side=max(LEAST_SIDE, min(side, SiftParams().max_side))).most_patches()
    words = min(WORDS, max(2, dataset.split_counts["train"] * patches // PATCHES_A_WORD))
    return {"words": words, "pyramid": [1, 2, 4] if side >= LARGE_SIDE else [1, 2]}


def counts_of_classes(dataset: Dataset) -> list[int]:
    """Quarters of the classes that have training rows, at least 2; the last is all of them."""
    from pipeline.stages.problems import class_counts

    n_classes = max(2, int((class_counts(dataset) > 0).sum()))
    return sorted({max(2, round(n_classes * part / 4)) for part in (1, 2, 3, 4)})
