"""10,000 real rows: every kind of model that is exported names the same classes as `predict`, in all top-5 places.

What may differ is said by `agreement`: places of classes whose scores are as near as sums in another order.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tasks.models.folder import load_model
from tasks.rows import Dense
from tests.pipeline.cli_caller import succeeds
from tests.pipeline.export.agreement import agreement, session_of
from tests.shared import shared_path

TRAIN_ROWS = 8_000
FEW = 1e-4  # of all places, where rounding may let classes change places, or a row's code of a subvector be another
CONFIG = """
name = "r"
[data]
path = "rows.zarr"
[[encode]]
name = "pq"
kind = "pq"
subquantizers = 32
[[encode]]
name = "l2"
kind = "normalize"
[[encode]]
name = "pca"
kind = "pca"
components = 64
[[encode]]
name = "standard"
kind = "normalize"
norm = "standard"
[[train]]
name = "ovr"
kind = "ovr"
rounds = 3
[[train]]
name = "ovr-pq"
kind = "ovr"
rows = "pq"
rounds = 3
[[train]]
name = "trace"
kind = "trace-norm"
rows = "pca"
lambda1 = 0.001
max_iterations = 60
[[train]]
name = "label"
kind = "label-tree"
branching = 14
[[train]]
name = "label-standard"
kind = "label-tree"
rows = "standard"
branching = 14
[[train]]
name = "kmeans"
kind = "kmeans-tree"
rows = "l2"
beam = 8
[[train]]
name = "kmeans-pq"
kind = "kmeans-tree"
rows = "pq"
beam = 8
[[train]]
name = "forest"
kind = "kmeans-tree"
trees = 3
beam = 4
"""
EXPORTS = [("ovr", None), ("ovr-pq", None), ("trace", None), ("label", 1), ("label", 4), ("label-standard", 1)]
EXPORTS += [("kmeans", 1), ("kmeans", 8), ("kmeans-pq", 8), ("forest", 4)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of LABELGROVE_EXPORT_RUN, where models have been trained before; else they are trained."""
    if "LABELGROVE_EXPORT_RUN" in os.environ:
        return Path(os.environ["LABELGROVE_EXPORT_RUN"])
    data, folder = shared_path("data/tinyimagenet-effnet"), tmp_path_factory.mktemp("real")
    random = np.random.default_rng(1)
    chosen = np.sort(random.choice(40_000, TRAIN_ROWS, replace=False))
    np.save(folder / "x.npy", np.load(data / "effnet_train.npy")[chosen])
    (folder / "y.txt").write_text("".join(f"{label}\n" for label in np.load(data / "y_train.npy")[chosen]))
    succeeds("ingest", folder / "x.npy", folder / "rows.zarr", "--labels", folder / "y.txt", "--split", "0.9,0.05,0.05")
    (folder / "r.toml").write_text(CONFIG.replace("rows.zarr", str(folder / "rows.zarr")))
    succeeds("run", folder / "r.toml", "--scheduler", "serial", "--runs", folder / "runs")
    return folder / "runs" / "r"


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("name", "beam"), EXPORTS)
def test_real_rows_rank_alike(run: Path, tmp_path: Path, name: str, beam: int | None) -> None:
    values = np.load(shared_path("data/tinyimagenet-effnet") / "effnet_test.npy")
    saved = load_model(run / "models" / name)
    found = agreement(saved, tmp_path / "m.onnx", values, 5, beam)
    print(name, beam, found, _times(saved, tmp_path / "m.onnx", values, beam))
    assert found.places == 50_000
    assert found.swapped <= FEW * found.places, found


def _times(saved: Any, path: Path, values: np.ndarray, beam: int | None) -> str:
    """Microseconds per row, the best of three, ours and the graph's."""
    session, part = session_of(path), values[:2000]
    ours = min(_seconds(lambda: saved.rank(Dense(part), 5, beam=beam)) for _ in range(3))
    theirs = min(_seconds(lambda: session.run(None, {"rows": part})) for _ in range(3))
    single = min(_seconds(lambda: session.run(None, {"rows": part[:1]})) for _ in range(5))
    return f"ours {ours / len(part) * 1e6:.1f}, graph {theirs / len(part) * 1e6:.1f}, a row alone {single * 1e6:.0f} us"


def _seconds(call: Any) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started
