"""Every input format: one matrix written in it and ingested, beside what the disk itself reads and writes.

    python -m tests.bench.formats [MB] [--folder FOLDER]

For each format x {dense, CSR where it exists}: MB/s of the matrix from the call of `ingest` to the dataset on the disk,
the peak of anonymous memory (RssAnon, sampled; pages of mapped files are the system's cache, and come and go) above
that of an idle process, and whether the dataset's digest is that of the same matrix from .npy or .npz. Each ingest is a
process of its own. Exit 1 when a digest differs.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from tests.pipeline.ingest import formats

N_FEATURES, N_CLASSES, ENTRIES = 256, 50, 64  # ENTRIES: of a sparse row
CHUNK_ROWS, PIECE = 4096, 1 << 22
CHILD = """
import json, sys, threading, time
from pipeline.ingest import ingest
from pipeline.ingest import readers, parquet, hdf5, zarr_folder, webdataset
def anonymous():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("RssAnon")) * 1024
idle, peak, done = anonymous(), [0], threading.Event()
def watch():
    while not done.wait(0.005):
        peak[0] = max(peak[0], anonymous())
thread = threading.Thread(target=watch); thread.start()
source, labels, place, options = json.loads(sys.argv[1])
began = time.perf_counter()
made = ingest(source, place, labels=labels, **options)
seconds = time.perf_counter() - began
done.set(); thread.join()
print(json.dumps([seconds, peak[0] - idle, made.digest]))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("megabytes", type=int, nargs="?", default=256)
    parser.add_argument("--folder", type=Path, default=None)
    given = parser.parse_args()
    formats.CHUNK_ROWS = CHUNK_ROWS
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        folder = Path(name)
        write, read = disk_rates(folder / "disk", given.megabytes << 20)
        print(f"disk: {write:,.0f} MB/s written and synced, {read:,.0f} MB/s read back without its cache")
        print(f"{'format':24}{'body':8}{'MB':>8}{'MB/s':>8}{'memory':>10}  digest")
        wrong = dense(folder, given.megabytes << 20) + sparse(folder, given.megabytes << 20)
    sys.exit(1 if wrong else 0)


def dense(folder: Path, nbytes: int) -> int:
    n_rows = nbytes // (4 * N_FEATURES)
    x = np.random.default_rng(0).standard_normal((n_rows, N_FEATURES), np.float32)
    return table(folder, formats.DENSE, x, x.nbytes, "npy")


def sparse(folder: Path, nbytes: int) -> int:
    n_rows = nbytes // (8 * ENTRIES)
    rng = np.random.default_rng(0)
    width = 16 * ENTRIES
    columns = np.sort(rng.integers(0, 16, (n_rows, ENTRIES)) + 16 * np.arange(ENTRIES), axis=1)
    values = rng.standard_normal(n_rows * ENTRIES).astype(np.float32)
    pointers = np.arange(0, values.size + 1, ENTRIES)
    x = scipy.sparse.csr_matrix((values, columns.reshape(-1), pointers), (n_rows, width))
    return table(folder, formats.SPARSE, x, 8 * values.size, "npz")


def table(folder: Path, writers: dict[str, formats.Writer], x: Any, nbytes: int, reference: str) -> int:
    """One line a format; returns how many digests differ from that of the reference, which comes first."""
    y = np.arange(x.shape[0]) % N_CLASSES
    np.save(folder / "y.npy", y)
    digests: dict[str, str] = {}
    for name in sorted(writers, key=lambda name: name != reference):
        place = folder / "source"
        place.mkdir()
        source, options = writers[name](place, x, y)
        options.pop("labels_at", None)
        seconds, memory, digests[name] = ingested(source, folder / "y.npy", folder / "made.zarr", options)
        same = "as the reference" if digests[name] == digests[reference] else "OTHER"
        body = "csr" if scipy.sparse.issparse(x) else "dense"
        line = f"{name:24}{body:8}{nbytes / 1e6:8,.0f}{nbytes / 1e6 / seconds:8,.1f}{memory / 1e6:7,.0f} MB"
        print(f"{line}  {same}", flush=True)
        shutil.rmtree(place)
    return sum(digest != digests[reference] for digest in digests.values())


def ingested(source: str | Path, labels: Path, place: Path, options: dict[str, Any]) -> tuple[float, int, str]:
    drop_cache(Path(source).parent)
    asked = json.dumps([str(source), str(labels), str(place), options])
    done = subprocess.run([sys.executable, "-c", CHILD, asked], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    shutil.rmtree(place)
    seconds, memory, digest = json.loads(done.stdout.splitlines()[-1])
    return seconds, memory, digest


def drop_cache(folder: Path) -> None:
    """Ask the system to forget the pages of all files below a folder, so that they are read from the disk."""
    for path in (path for path in folder.rglob("*") if path.is_file()):
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def disk_rates(folder: Path, nbytes: int) -> tuple[float, float]:
    """MB/s of one file written from front to back and synced, and of reading it when nothing of it is cached."""
    folder.mkdir()
    path, piece = folder / "file", np.random.default_rng(1).bytes(PIECE)
    began = time.perf_counter()
    with open(path, "wb") as file:
        for _ in range(nbytes // PIECE):
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())
    write = time.perf_counter() - began
    drop_cache(folder)
    began = time.perf_counter()
    with open(path, "rb", buffering=0) as file:
        while file.read(PIECE):
            pass
    read = time.perf_counter() - began
    path.unlink()
    return nbytes / 1e6 / write, nbytes / 1e6 / read


if __name__ == "__main__":
    main()
