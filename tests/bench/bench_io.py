"""Ingest and predict beside what the disk and the processor allow: bytes of rows a second, from file to finished file.

The limit of ingest reads the rows' file and writes as many bytes to the same disk, synced; both with nothing in the
cache. The limit of prediction reads the file and multiplies every row with every class, one after the other. Each is
the best of REPEATS.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from pipeline.commands.predicting import predict
from pipeline.config import load_config
from pipeline.connection.profile import Profile
from pipeline.ingest import ingest
from pipeline.runner import run_config
from tests.bench.formats import disk_rates, drop_cache
from tests.bench.table import HotPath, Suite

N_ROWS, N_FEATURES, N_CLASSES = 120_000, 1024, 1000
FEW = 8_000  # rows that the model learns from
REPEATS = 3
CONFIG = """\
name = "io"
[data]
path = "few.zarr"
[[train]]
name = "ncm"
kind = "nearest-class-mean"
"""


def best(work: Callable[[], object], before: Callable[[], object]) -> float:
    """Seconds of the best of some repeats; `before` is not counted."""
    least = np.inf
    for _ in range(REPEATS):
        before()
        began = time.perf_counter()
        work()
        least = min(least, time.perf_counter() - began)
    return float(least)


def source(folder: Path, dtype: type) -> Path:
    """rows.npy and labels.npy."""
    rng = np.random.default_rng(0)
    path = folder / f"rows-{np.dtype(dtype).name}.npy"
    rows = np.lib.format.open_memmap(path, "w+", dtype, (N_ROWS, N_FEATURES))
    for start in range(0, N_ROWS, 10_000):
        rows[start : start + 10_000] = rng.standard_normal((10_000, N_FEATURES), np.float32)
    rows.flush()
    np.save(folder / "labels.npy", np.arange(N_ROWS) % N_CLASSES)
    return path


def model(folder: Path) -> Path:
    """A linear model of all classes: one-vs-rest predicts the same way."""
    rows = np.random.default_rng(1).standard_normal((FEW, N_FEATURES), np.float32)
    ingest(rows, folder / "few.zarr", labels=np.arange(FEW) % N_CLASSES)
    (folder / "io.toml").write_text(CONFIG)
    return (
        run_config(load_config(folder / "io.toml"), Profile("serial"), folder / "runs").folder.path / "models" / "ncm"
    )


def ingested(folder: Path, path: Path) -> float:
    """Seconds of an ingest."""
    place = folder / "made.zarr"

    def clean() -> None:
        shutil.rmtree(place, ignore_errors=True)
        drop_cache(folder)

    return best(lambda: ingest(str(path), place, labels=str(folder / "labels.npy")), clean)


def predicted(folder: Path, path: Path, trained: Path) -> float:
    """Seconds of ranking classes for all rows."""
    ranked = folder / "ranked.parquet"

    def clean() -> None:
        ranked.unlink(missing_ok=True)
        drop_cache(folder)

    return best(lambda: predict(trained, str(path), ranked), clean)


def bench_io() -> None:
    suite = Suite("io")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        trained, written, read = model(folder), *disk_rates(folder / "disk", 4 * N_ROWS * N_FEATURES)
        print(f"disk: {written:,.0f} MB/s written and synced, {read:,.0f} MB/s read")
        for dtype in (np.float16, np.float32):
            path, kind = source(folder, dtype), np.dtype(dtype).name
            nbytes, limit = path.stat().st_size, 1e6 / (1 / written + 1 / read)
            rate, what = nbytes / ingested(folder, path), "reading and writing the disk"
            suite.add(HotPath(f"ingest of {kind} rows, .npy", "bytes/s", rate, 1, limit, what))
            products = 2 * N_ROWS * N_FEATURES * N_CLASSES / suite.gemm_flops
            limit = nbytes / (nbytes / (1e6 * read) + products)
            rate, what = nbytes / predicted(folder, path, trained), "reading the disk, and the products"
            suite.add(HotPath(f"predict of {kind} rows, 1,000 classes", "bytes/s", rate, 1, limit, what))
            path.unlink()
