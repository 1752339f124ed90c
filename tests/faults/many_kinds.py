"""A small finished run with many kinds of steps: every file that a run folder can hold."""

from __future__ import annotations

from pathlib import Path

from pipeline.ingest import ingest
from tests.image_files import image_folder
from tests.systems.conftest import planted

ROWS = """\
name = "many"
seed = 3
[data]
path = "d.zarr"
[[encode]]
name = "pq"
kind = "pq"
subquantizers = 4
bits = 3
iterations = 3
[[encode]]
name = "pca"
kind = "pca"
components = 6
[[encode]]
name = "dwta"
kind = "dwta"
hashes = 24
[[encode]]
name = "shares"
kind = "normalize"
norm = "l2"
[[train]]
name = "ovr"
kind = "ovr"
rows = "shares"
rounds = 2
[[train]]
name = "codes"
kind = "flat-hash"
rows = "dwta"
bits = 9
rounds = 2
[[train]]
name = "tree"
kind = "label-tree"
rows = "pq"
test_rows = "x"
rounds = 2
[[train]]
name = "kmeans"
kind = "kmeans-tree"
rounds = 2
[[train]]
name = "trace"
kind = "trace-norm"
rows = "pca"
lambda1_steps = 2
max_iterations = 30
[[train]]
name = "relaxed"
kind = "relaxed-hierarchy"
samples = 4
[[train]]
name = "means"
kind = "nearest-class-mean"
[[retrieve]]
name = "near"
rows = "dwta"
top = 3
"""
IMAGES = """\
name = "images"
seed = 3
[data]
path = "images.zarr"
[[encode]]
name = "sift"
kind = "sift"
patches = [16]
[[encode]]
name = "bow"
kind = "bow"
rows = "sift"
words = 10
sample = 400
iterations = 2
[[train]]
name = "ovr"
kind = "ovr"
rows = "bow"
rounds = 2
"""


def many_kinds(folder: Path) -> Path:
    """The config of learners, encodings and neighbours over 300 planted rows of nine classes."""
    rows, labels, taxonomy = planted(300, 12, "dense", 0, shape=(2, 2, 2))
    ingest(rows, folder / "d.zarr", labels=labels, taxonomy=taxonomy, block_rows=64, seed=1)
    (folder / "config.toml").write_text(ROWS)
    return folder / "config.toml"


def of_images(folder: Path) -> Path:
    """The config of a bag of words over 24 images of four classes."""
    image_folder(folder / "images", 4, 6)
    ingest(folder / "images", folder / "images.zarr", seed=1)
    (folder / "images.toml").write_text(IMAGES)
    return folder / "images.toml"
