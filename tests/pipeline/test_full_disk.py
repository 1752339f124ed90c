"""A disk that fills up under ingest, predict, init and demo: one named error, nothing half-made left in the way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

from tests.pipeline.cli_caller import gaussian, labelgrove, succeeds, write_source
from tests.pipeline.test_cli_predict import random_model

N_FEATURES, N_CLASSES = 32, 40


def source_of(folder: Path, kind: str) -> Path:
    rows, _ = gaussian(4000, N_FEATURES, N_CLASSES)
    if kind == "csr":
        return write_source(folder, scipy.sparse.csr_matrix(rows), np.zeros(1, int))[0]
    if kind == "svmlight":
        lines = (" ".join(f"{j}:{value:.7g}" for j, value in enumerate(row)) for row in rows.tolist())
        (folder / "x.svm").write_text("".join(f"0 {line}\n" for line in lines))
        return folder / "x.svm"
    return write_source(folder, np.asfortranarray(rows) if kind == "fortran" else rows, np.zeros(1, int))[0]


@pytest.mark.parametrize("kind", ["dense", "fortran", "csr", "svmlight"])
def test_ingest(tmp_path: Path, small_disk: Callable[[str], Path], kind: str) -> None:
    """A page of a mapped file that finds no room kills the process: whatever is written, is written in the open."""
    source = source_of(tmp_path, kind)
    np.save(tmp_path / "y.npy", np.arange(4000) % N_CLASSES)
    for size in ("8k", "200k", "400k"):
        disk = small_disk(size)
        said = labelgrove("ingest", source, disk / "d.zarr", "--labels", tmp_path / "y.npy")
        assert said.code == 5, said
        assert "DiskFull: no space left" in said.err
        assert list(disk.iterdir()) == []
    succeeds("ingest", source, small_disk("9m") / "d.zarr", "--labels", tmp_path / "y.npy")


def test_predict(tmp_path: Path, small_disk: Callable[[str], Path]) -> None:
    source = source_of(tmp_path, "dense")
    random_model(tmp_path / "model", N_FEATURES, N_CLASSES)
    for size in ("4k", "100k", "300k"):
        disk = small_disk(size)
        said = labelgrove("predict", tmp_path / "model", source, "-o", disk / "p.parquet", "--top", N_CLASSES)
        assert said.code == 5, said
        assert "DiskFull: no space left" in said.err
        assert list(disk.iterdir()) == []


def test_init(small_disk: Callable[[str], Path]) -> None:
    said = labelgrove("init", small_disk("200k") / "new")
    assert said.code == 5
    assert "DiskFull: no space left" in said.err
    succeeds("init", small_disk("2m") / "new")  # what is left of the first one is not in the way
