"""Codes, components, retrieval and the seven learners of the hashing paper: the same content on every pool."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipeline.dataset import Dataset
from tasks.features.pca import EXACT_FEATURES
from tests.systems.digests import assert_same, digests_of
from tests.systems.harness import run_here

CONFIG = """\
name = "hashing"
seed = 5
[data]
path = "{data}"
[[encode]]
name = "wta"
kind = "wta"
hashes = 40
[[encode]]
name = "dwta"
kind = "dwta"
hashes = 40
[[encode]]
name = "pca"
kind = "pca"
components = 6
[[encode]]
name = "codes-of-pca"
kind = "dwta"
rows = "pca"
hashes = 16
range = 0
[[retrieve]]
name = "near"
rows = "dwta"
top = 3
"""
KINDS = ("ovr", "msvm", "hie-svm", "tree-svm", "heshing", "flat-hash")
LEARNERS = {
    **{kind: f'kind = "{kind}"' for kind in KINDS},
    "heshing-per-level": 'kind = "heshing"\nbits = 7\ntable = "per-level"',
    "ovr-pca": 'kind = "ovr"\nrows = "pca"',
    "ovr-wta": 'kind = "ovr"\nrows = "wta"',
    "hie-svm-dwta": 'kind = "hie-svm"\nrows = "dwta"',
    "tree-dwta": 'kind = "label-tree"\nrows = "dwta"',
    "heshing-codes-of-pca": 'kind = "heshing"\nbits = 9\nrows = "codes-of-pca"',
}


@pytest.fixture(scope="module")
def configs(data_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("hashing")
    learners = "".join(f'[[train]]\nname = "{name}"\nrounds = 2\n{keys}\n' for name, keys in LEARNERS.items())
    found = {}
    for body in ("dense", "csr"):
        found[body] = folder / f"{body}.toml"
        found[body].write_text(CONFIG.format(data=data_folder / f"{body}-0-128.zarr") + learners)
    return found


@pytest.fixture(scope="module")
def expected(configs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """body -> digests of the run of the serial pool."""
    runs = tmp_path_factory.mktemp("serial")
    return {body: digests_of(run_here(config, runs=runs / body)) for body, config in configs.items()}


@pytest.mark.parametrize(
    ("body", "workers"), [("csr", 2), *(pytest.param("dense", n, marks=pytest.mark.slow) for n in (1, 4))]
)
def test_workers(configs: dict[str, Path], expected: dict[str, Any], tmp_path: Path, body: str, workers: int) -> None:
    assert_same(expected[body], run_here(configs[body], f"local:{workers}", 1, tmp_path))


def test_every_kind_of_artefact_was_compared(expected: dict[str, Any], data_folder: Path) -> None:
    """Retrieval among rows of both bodies, and components of the whole scatter, too."""
    for body in ("dense", "csr"):
        assert Dataset.open(data_folder / f"{body}-0-128.zarr").n_features <= EXACT_FEATURES
        found = expected[body].keys()
        assert {f"rows of encode_{name}" for name in ("wta", "dwta", "pca", "codes-of-pca")} <= found
        assert {f"encoder.safetensors of encode_{name}" for name in ("wta", "dwta", "pca")} <= found
        assert {f"weights of {name}" for name in LEARNERS} <= found
        assert "neighbours of retrieve_near" in found
