"""A small planted taxonomy, ingested dense and sparse, and runs of it that the tests start from."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from pipeline.dataset import Dataset
from pipeline.ingest import ingest
from tests.systems.harness import run_here

CONFIG = """\
name = "small"
seed = 3
[data]
path = "{data}"
[[encode]]
name = "pq"
kind = "pq"
subquantizers = 8
bits = 4
iterations = 4
[[train]]
name = "ovr"
kind = "ovr"
rounds = 3
partitions = 10
[[train]]
name = "ovr-pq"
kind = "ovr"
rows = "pq"
rounds = 2
[[train]]
name = "heshing"
kind = "heshing"
bits = 8
rounds = 3
[[train]]
name = "flat"
kind = "flat-hash"
bits = 10
rounds = 2
[[train]]
name = "tree"
kind = "label-tree"
rounds = 2
[[train]]
name = "tree-pq"
kind = "label-tree"
rows = "pq"
test_rows = "x"
rounds = 2
"""
STEPS_OF_A_MODEL = ("train", "predict", "evaluate")


def planted(
    n_rows: int, n_features: int, body: str, seed: int, shape: tuple[int, ...] = (3, 2, 5)
) -> tuple[Any, np.ndarray, dict[str, Any]]:
    """Rows, labels and taxonomy of classes that lie where their ancestors lie; one class hangs at the top level.

    shape  children of root, of its children, and so on; the leaves are the classes
    """
    rng = np.random.default_rng(seed)
    nodes, centres, level = [{"id": "root", "name": "root"}], [np.zeros(n_features)], ["root"]
    place = {"root": 0}
    for depth, width in enumerate(shape):
        below = []
        for parent in level:
            for child in range(width):
                name = f"{parent}.{child}"
                place[name] = len(nodes)
                nodes.append({"id": name, "name": name, "parent": parent})
                centres.append(centres[place[parent]] + rng.normal(size=n_features) * 2.0**-depth)
                below.append(name)
        level = below
    nodes.append({"id": "lonely", "name": "lonely", "parent": "root"})
    centres.append(rng.normal(size=n_features))
    leaves = [*level, "lonely"]
    labels = rng.integers(0, len(leaves), n_rows)
    labels[: len(leaves)] = np.arange(len(leaves))
    of_class = np.array([centres[place.get(name, len(nodes) - 1)] for name in leaves])
    values = (of_class[labels] + 0.9 * rng.normal(size=(n_rows, n_features))).astype(np.float32)
    rows: Any = values
    if body == "csr":
        rows = scipy.sparse.csr_matrix(np.where(np.abs(values) > 1.2, values, 0).astype(np.float32))
    return rows, labels, {"nodes": nodes, "leaves": leaves}


def make_dataset(folder: Path, body: str = "dense", seed: int = 0, block_rows: int = 128) -> Dataset:
    """1,500 rows, 31 classes, 48 features, at most 12 blocks: more than one level of additions."""
    rows, labels, taxonomy = planted(1500, 48, body, seed)
    if body == "csr":
        source: Any = folder / f"{body}-{seed}.npz"
        scipy.sparse.save_npz(source, rows)
    else:
        source = rows
    target = folder / f"{body}-{seed}-{block_rows}.zarr"
    return ingest(source, target, labels=labels, taxonomy=taxonomy, block_rows=block_rows, seed=1)


@pytest.fixture(scope="session")
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """dense-0-128.zarr and csr-0-128.zarr, shared by all tests: read only."""
    folder = tmp_path_factory.mktemp("planted")
    for body in ("dense", "csr"):
        make_dataset(folder, body)
    return folder


def write_config(folder: Path, dataset: Path, *more: tuple[str, str]) -> Path:
    """The config of these tests over a dataset, with replacements (old text, new text) in it."""
    folder.mkdir(parents=True, exist_ok=True)
    text = CONFIG.format(data=dataset)
    for old, new in more:
        assert old in text, old
        text = text.replace(old, new)
    path = folder / "config.toml"
    path.write_text(text)
    return path


def long_config(folder: Path) -> Path:
    """The config of the long runs: minutes of work, over 20,000 planted rows or the dataset that is named."""
    named = os.environ.get("LABELGROVE_LONG_DATASET")  # a dense dataset of which 16 divides the features
    dataset = Path(named).absolute() if named else folder / "long.zarr"
    if not named:
        rows, labels, taxonomy = planted(20_000, 128, "dense", 0, shape=(5, 5, 6))
        ingest(rows, dataset, labels=labels, taxonomy=taxonomy, block_rows=1024)
    changes = [(f"rounds = {n}\n", "") for n in (2, 3)]
    longer = [("subquantizers = 8\nbits = 4\niterations = 4", "subquantizers = 16"), ("bits = 8", "bits = 14")]
    return write_config(folder / "long", dataset, *longer, *changes)


@pytest.fixture(scope="session")
def finished_runs(data_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """body -> a finished run of the serial pool; copy it before changing it."""
    found = {}
    for body in ("dense", "csr"):
        folder = tmp_path_factory.mktemp(f"finished-{body}")
        found[body] = run_here(write_config(folder, data_folder / f"{body}-0-128.zarr"))
    return found


@pytest.fixture
def copied(finished_runs: dict[str, Path], tmp_path: Path) -> Path:
    """The config of a finished dense run of one's own, its run folder beside it in runs/small."""
    source = finished_runs["dense"].parent.parent
    shutil.copytree(source, tmp_path / "own")
    return tmp_path / "own" / "config.toml"
