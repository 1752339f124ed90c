"""Small data for figures: sixteen classes in four groups, dense and sparse; and fits of seconds."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

from pipeline.preset import filled
from tests.pipeline.cli_caller import gaussian, succeeds, write_source

N_CLASSES = 16
FEW = {"rho": [0.5, 0.8], "alpha": [0.2, 0.8], "levels": [2, 4]}  # of the values that are tried
TREE = "".join(f"r\tg{c // 4}\n" * (c % 4 == 0) + f"g{c // 4}\tc{c}\n" for c in range(N_CLASSES))


@pytest.fixture(scope="session")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with dense.zarr, flat.zarr (the same without a taxonomy), sparse.zarr."""
    folder = tmp_path_factory.mktemp("stores")
    rows, labels = gaussian(640, 16, N_CLASSES)
    names = [f"c{label}" for label in labels]
    (folder / "tree.tsv").write_text(TREE)
    source, marks = write_source(folder / "dense", rows, names)
    succeeds("ingest", source, folder / "dense.zarr", "--labels", marks, "--taxonomy", folder / "tree.tsv")
    succeeds("ingest", source, folder / "flat.zarr", "--labels", marks)
    sparse = scipy.sparse.csr_matrix(np.where(rows > 3, rows, 0))
    source, marks = write_source(folder / "sparse", sparse, names)
    succeeds("ingest", source, folder / "sparse.zarr", "--labels", marks, "--taxonomy", folder / "tree.tsv")
    return folder


@pytest.fixture(scope="session")
def again(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where figures are made that share their runs, as they do for users."""
    return tmp_path_factory.mktemp("again")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Configs with fits of seconds in place of those that real data want."""

    def shorter(*given: object) -> str:
        text = filled(*given)  # type: ignore[arg-type]
        for kind in ("ovr", "msvm", "hie-svm", "tree-svm", "flat-hash", "heshing", "label-tree", "bengio-tree"):
            text = text.replace(f'kind = "{kind}"\n', f'kind = "{kind}"\nrounds = 1\n')
        text = text.replace('rounds = 1\nkernel = "', 'kernel = "')
        for key, few in FEW.items():
            text = re.sub(rf"^{key} = \[.*\]$", f"{key} = {few}", text, flags=re.MULTILINE)
        text = text.replace('kind = "trace-norm"\n', 'kind = "trace-norm"\nlambda1_steps = 3\n')
        return text.replace("[125, 250, 500, 1000, 2000]", "[16, 32]").replace(
            "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]", "[0, 1]"
        )

    monkeypatch.setattr("pipeline.reproduce.configs.filled", shorter)
