"""demo and init: the first commands a newcomer types."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import numpy as np

from pipeline.commands.data import ingest
from pipeline.commands.profiles import profile_of
from pipeline.commands.running import run
from pipeline.dataset import Dataset
from pipeline.demo import DemoData, make_demo_data
from pipeline.ingest.npy_file import write_array
from pipeline.last_resort import say
from pipeline.preset import text_of
from tasks.digest import digest_text
from tasks.errors import ArtefactError, UsageError
from tasks.files import disk_room
from tasks.seeds import stream

SMALL_CLASSES = 60
GLYPHS, GLYPH_CLASSES = "glyphs", 60
TINY_FILES = ("rows.npy", "labels.txt", "taxonomy.tsv")


class FolderInUse(UsageError):
    """The folder that is to be filled has something in it."""


def demo(folder: Path, *, scheduler: str | None = None, seed: int = 0, small: bool = False) -> None:
    """Draw characters, ingest them, compare four systems on them. Typed again, it continues or reuses."""
    data = make_demo_data(
        folder / "data", seed=seed, n_classes=SMALL_CLASSES if small else None, log=lambda text: say(f"  {text}")
    )
    for line in data.summary():
        say(line)
    dataset = folder / "characters.zarr"
    if dataset_is_of(dataset, data, seed):
        say(f"{dataset}: reused")
    else:
        ingest_demo(data, dataset, seed)
    config = folder / "demo.toml"
    text = text_of("demo.toml").replace("seed = 0", f"seed = {seed}")
    config.write_text(text, encoding="utf-8")
    run(config, profile_of(None, scheduler), force=False)
    say(f"the same run again: labelgrove run {shlex.quote(str(config))}")


def ingest_demo(data: DemoData, dataset: Path, seed: int) -> None:
    ingest(
        str(data.rows("train")),
        dataset,
        labels=str(data.labels("train")),
        classes=str(data.classes),
        taxonomy=str(data.taxonomy),
        validation_source=str(data.rows("validation")),
        validation_labels=str(data.labels("validation")),
        test_source=str(data.rows("test")),
        test_labels=str(data.labels("test")),
        seed=seed,
        force=True,
    )
    (dataset.parent / f"{dataset.name}.from").write_text(source_mark(data, seed))


def source_mark(data: DemoData, seed: int) -> str:
    """What the dataset was made from: the demo data's own stamp."""
    return digest_text((data.folder / "demo.json").read_text(encoding="utf-8"), str(seed))


def dataset_is_of(dataset: Path, data: DemoData, seed: int) -> bool:
    """Whether the dataset was made from exactly these files, and can be opened."""
    try:
        Dataset.open(dataset)
        return (dataset.parent / f"{dataset.name}.from").read_text() == source_mark(data, seed)
    except (ArtefactError, OSError):
        return False


def init(folder: Path, *, images: bool = False) -> None:
    """Write a commented config.toml and the files of a tiny dataset; print the commands that come next.

    images  the dataset is a folder of images, the config makes features of them
    Raises FolderInUse when the folder is not empty.
    """
    if folder.exists() and any(folder.iterdir()):
        raise FolderInUse("the folder is not empty", str(folder), "name a new folder")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with disk_room(str(folder / "rows.npy"), 0):
            (_write_glyphs if images else write_tiny)(folder)
            config = text_of("init-images.toml" if images else "init.toml")
            (folder / "config.toml").write_text(config, encoding="utf-8")
    except BaseException:  # half a folder would be in the way of the same command
        for name in (*TINY_FILES, "config.toml"):
            (folder / name).unlink(missing_ok=True)
        shutil.rmtree(folder / GLYPHS, ignore_errors=True)
        raise
    place = shlex.quote(str(folder))
    if images:
        say(f"{folder}: config.toml, and {GLYPHS}, small pictures of characters. Now type")
        parts = f"--validation-source {place}/{GLYPHS}/validation --test-source {place}/{GLYPHS}/test"
        say(f"  labelgrove ingest {place}/{GLYPHS}/train {place}/images.zarr {parts}")
    else:
        say(f"{folder}: config.toml, and the files of a tiny dataset: rows.npy, labels.txt, taxonomy.tsv. Now type")
        say(
            f"  labelgrove ingest {place}/rows.npy {place}/tiny.zarr --labels {place}/labels.txt "
            f"--taxonomy {place}/taxonomy.tsv --split 0.7,0.15,0.15"
        )
    say(f"  labelgrove run {place}/config.toml")


def _write_glyphs(folder: Path) -> None:
    from pipeline.demo.images import write_images

    write_images(folder / GLYPHS, GLYPH_CLASSES, copies=1)


def write_tiny(folder: Path, n_groups: int = 5, per_group: int = 6, n_rows: int = 3000, n_features: int = 32) -> None:
    """Gaussian classes in groups: a class lies near the centre of its group, as siblings of a taxonomy do."""
    rng = stream(0, "init")
    n_classes = n_groups * per_group
    centres = np.repeat(rng.normal(size=(n_groups, n_features)), per_group, axis=0)
    centres = 1.2 * centres + 0.7 * rng.normal(size=(n_classes, n_features))
    labels = rng.permutation(np.arange(n_rows) % n_classes)
    rows = centres[labels] + 0.8 * rng.normal(size=(n_rows, n_features))
    write_array(folder / "rows.npy", rows.astype(np.float32))
    names = [f"group{group}-class{member}" for group in range(n_groups) for member in range(per_group)]
    (folder / "labels.txt").write_text("".join(f"{names[label]}\n" for label in labels))
    edges = [f"root\tgroup{group}\n" for group in range(n_groups)]
    edges += [f"{name.split('-')[0]}\t{name}\n" for name in names]
    (folder / "taxonomy.tsv").write_text("".join(edges))
