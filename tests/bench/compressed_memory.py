"""Trace norm on PQ codes of a matrix that would not fit: 250,000 x 4,096 rows, a byte for 16 features.

    python -m tests.bench.compressed_memory FOLDER [--rows 250000] [--memory "900 MB"] [--workers 2]

Prints the plan's bound for a worker, the highest resident memory that a task of the training step saw, and by how much
it was above that of an idle worker, beside the bytes of the float32 matrix. The path is three pairs. Exit 1 when the
bound did not hold.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from pipeline.plan import IDLE_WORKER_BYTES
from tasks.seeds import stream
from tests.bench.large_matrix import labelgrove, write_rows

N_FEATURES, N_CLASSES, RANK = 4096, 200, 24
CONFIG = """\
name = "compressed"
[data]
path = "compressed.zarr"
[[encode]]
name = "pq"
kind = "pq"
subquantizers = 256
[[train]]
name = "trace"
kind = "trace-norm"
rows = "pq"
test_rows = "x"
lambda1_steps = 3
"""


def centres() -> np.ndarray:
    """(N_CLASSES, N_FEATURES) float32, in RANK dimensions."""
    axes = np.linalg.qr(stream(0, "axes").standard_normal((N_FEATURES, RANK)))[0]
    drawn: np.ndarray = 5 * stream(0, "centres").standard_normal((N_CLASSES, RANK)) @ axes.T
    return drawn.astype(np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=250_000)
    parser.add_argument("--memory", default="900 MB")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    folder = given.folder
    folder.mkdir(parents=True, exist_ok=True)
    matrix = 4 * given.rows * N_FEATURES
    dataset, config = str(folder / "compressed.zarr"), folder / "compressed.toml"
    if not Path(dataset).exists():
        write_rows(folder, given.rows, centres(), noise=2.0)
        labelgrove("ingest", str(folder / "rows.npy"), dataset, "--labels", str(folder / "labels.npy"))
        (folder / "rows.npy").unlink()
    config.write_text(CONFIG)
    where = ("--scheduler", f"local:{given.workers}", "--memory", given.memory)
    plan = json.loads(labelgrove("plan", str(config), "--json", *where).stdout)
    began = time.time()
    print(labelgrove("run", str(config), *where).stdout)
    tasks = pq.read_table(folder / "runs" / "compressed" / "tasks.parquet").to_pylist()
    trained = [task for task in tasks if task["step"] == "train_trace" and task["start"] >= began]
    peak, bound = max(task["peak"] for task in trained), plan["worker_peak_bytes"]
    room = bound - IDLE_WORKER_BYTES
    print(f"float32 matrix {matrix / 1e6:,.0f} MB; codes {given.rows * 256 / 1e6:,.0f} MB")
    print(f"highest resident memory of a worker in training: {peak / 1e6:,.0f} MB, bound {bound / 1e6:,.0f} MB")
    print(f"the bound above an idle worker's {IDLE_WORKER_BYTES / 1e6:.0f} MB: {room / 1e6:,.0f} MB,")
    print(f"1/{matrix / room:.0f} of the matrix")
    sys.exit(1 if peak > bound else 0)


if __name__ == "__main__":
    main()
