"""A matrix larger than the workers: made in blocks, ingested, encoded and trained on two workers of 1.5 GB.

    python tests/bench/large_matrix.py FOLDER [--gigabytes 6] [--memory "1.5 GB"]

Prints the plan's bound per worker, the highest resident memory that any task saw, and every warning of Dask about large
graphs. Exit 1 when a worker went over the bound.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from tasks.seeds import stream

N_FEATURES, N_CLASSES, BLOCK = 4096, 100, 2048
CONFIG = """\
name = "large"
[data]
path = "large.zarr"
[[encode]]
name = "pq"
kind = "pq"
subquantizers = 256
[[train]]
name = "ovr"
kind = "ovr"
rounds = 2
[[train]]
name = "ovr-pq"
kind = "ovr"
rows = "pq"
rounds = 2
[[train]]
name = "tree-pq"
kind = "label-tree"
rows = "pq"
"""


def write_rows(folder: Path, n_rows: int, centres: np.ndarray, noise: float) -> None:
    """rows.npy and labels.npy: normal noise of this deviation around class centres, written block by block.

    centres  (n_classes, n_features) float32; all classes have as many rows, but for one
    """
    n_classes, n_features = centres.shape
    rows = np.lib.format.open_memmap(folder / "rows.npy", "w+", np.float32, (n_rows, n_features))
    labels = (stream(0, "labels").permutation(n_rows) % n_classes).astype(np.int32)
    for start in range(0, n_rows, BLOCK):
        of = labels[start : start + BLOCK]
        drawn = stream(0, "rows", start).standard_normal((of.size, n_features), np.float32)
        rows[start : start + of.size] = centres[of] + noise * drawn
    rows.flush()
    np.save(folder / "labels.npy", labels)


def labelgrove(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pipeline.cli", *arguments]
    began = time.perf_counter()
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    print(f"$ labelgrove {' '.join(arguments)}   [{time.perf_counter() - began:.0f} s, exit {ended.returncode}]")
    if ended.returncode:
        sys.exit(ended.stderr)
    return ended


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gigabytes", type=float, default=6.0)
    parser.add_argument("--memory", default="1.5 GB")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    n_rows = int(given.gigabytes * 1e9 / (4 * N_FEATURES))
    centres = stream(0, "centres").normal(size=(N_CLASSES, N_FEATURES)).astype(np.float32)
    write_rows(given.folder, n_rows, 0.15 * centres, noise=1.0)
    print(f"{n_rows:,} x {N_FEATURES} float32, {n_rows * N_FEATURES * 4 / 1e9:.2f} GB")
    source, dataset, config = (str(given.folder / name) for name in ("rows.npy", "large.zarr", "large.toml"))
    labelgrove("ingest", source, dataset, "--labels", str(given.folder / "labels.npy"), "--force")
    Path(config).write_text(CONFIG)
    where = ("--scheduler", "local:2", "--memory", given.memory)
    plan = json.loads(labelgrove("plan", config, "--json", *where).stdout)
    ended = labelgrove("run", config, *where)
    print(ended.stdout)
    tasks = pq.read_table(given.folder / "runs" / "large" / "tasks.parquet")
    peak, bound = max(tasks["peak"].to_pylist()), plan["worker_peak_bytes"]
    print(f"highest resident memory of a worker: {peak / 1e6:,.0f} MB; the plan's bound: {bound / 1e6:,.0f} MB")
    large = [line for line in ended.stderr.splitlines() if "large graph" in line.lower()]
    print(f"large-graph warnings: {len(large)}")
    sys.exit(1 if peak > bound or large else 0)


if __name__ == "__main__":
    main()
