"""As large as the label-tree paper's largest experiment: 9 million rows of 10,000 features in 10,184 classes.

    python -m tests.bench.headline FOLDER [--rows 9000000 --features 10000 --classes 10184] [--workers 2]
        [--memory "4 GB"] [--kill-ingest 300] [--kill 1200]

The matrix (180 GB as float16) never exists: `ingest` makes a block of rows, encodes it to a byte for 16 features and
drops it. Then a run grows a T(101, 2) label tree and a k-means tree on the codes, evaluates and reports them. Rows come
from `Drawn`: any block at any time, from a seed. With --kill-ingest and --kill both commands are ended by SIGKILL after
so many seconds and typed again. Prints seconds and memory of all processes together, by step, and writes them as JSON.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import numba
import numpy as np

from pipeline.byte_sizes import human_bytes
from pipeline.ingest import MadeRows, ingest
from tasks.seeds import stream
from tests.bench.limits import blas, copy_rate, gemm_rate
from tests.bench.record import record
from tests.bench.watched import LABELGROVE, run_twice, table

BLOCK = 2048  # rows that are made at once: 80 MB as float32
WIDTH = 16  # features of a byte
CONFIG = """\
name = "headline"
[data]
path = "headline.zarr"
[[train]]
name = "label-tree"
kind = "label-tree"
branching = 101
depth = 2
[[train]]
name = "kmeans-tree"
kind = "kmeans-tree"
branching = 101
reach = 2
"""


@numba.njit(nogil=True, cache=True)
def draw(first: int, labels: np.ndarray, centres: np.ndarray, noise: np.float32, seed: int, out: np.ndarray) -> None:
    """out[i] = centre of the class of row first + i, in 1/64, plus noise: two uniform numbers, halves of a hash, added.

    labels (n,) int32, centres (n_classes, n_features) int8, out (n, n_features) float32. The hash is MurmurHash3's
    finaliser of (row, feature): every number is drawn by itself, so any block can be made at any time.
    """
    size = np.float32(noise / 26754.0)  # of the sum of two uniform numbers below 2^16 the deviation is 26,754
    for i in range(labels.size):
        start = np.uint32((np.uint32(first + i) * np.uint32(0x9E3779B1)) ^ np.uint32(seed))
        centre, row = centres[labels[i]], out[i]
        for j in range(row.size):
            x = np.uint32(start + np.uint32(np.uint32(j) * np.uint32(0x85EBCA77)))
            x = np.uint32(x ^ np.uint32(x >> np.uint32(16)))
            x = np.uint32(x * np.uint32(0x85EBCA6B))
            x = np.uint32(x ^ np.uint32(x >> np.uint32(13)))
            x = np.uint32(x * np.uint32(0xC2B2AE35))
            x = np.uint32(x ^ np.uint32(x >> np.uint32(16)))
            both = np.int32(np.uint32(x & np.uint32(0xFFFF))) + np.int32(np.uint32(x >> np.uint32(16)))
            row[j] = np.float32(both - np.int32(65535)) * size + np.float32(centre[j]) * np.float32(1 / 64)


@dataclass(frozen=True)
class Drawn:
    """Classes in groups of groups: centres are sums of a vector of each group, and of the class's own.

    deviations   of the vectors of groups, of groups within them and of classes, in every feature
    noise        of a row around its class, in every feature
    """

    n_rows: int
    n_features: int
    n_classes: int
    seed: int = 0
    deviations: tuple[float, float, float] = (0.10, 0.08, 0.07)
    noise: float = 1.0

    def centres(self) -> np.ndarray:
        """(n_classes, n_features) int8, in 1/64."""
        side = max(2, round(self.n_classes ** (1 / 3)))
        summed = np.zeros((self.n_classes, self.n_features), np.float32)
        for level, deviation in enumerate(self.deviations):
            n = min(self.n_classes, side ** (level + 1)) if level < 2 else self.n_classes
            drawn = stream(self.seed, "groups", level).standard_normal((n, self.n_features), np.float32)
            summed += np.float32(deviation) * drawn[np.arange(self.n_classes) * n // self.n_classes]
        found: np.ndarray = np.rint(64 * summed).clip(-127, 127).astype(np.int8)
        return found

    def labels(self) -> np.ndarray:
        """(n_rows,) int32: as many of every class, but for one, in random order."""
        return (stream(self.seed, "labels").permutation(self.n_rows) % self.n_classes).astype(np.int32)

    def rows(self) -> MadeRows:
        """The source of `ingest`."""
        centres, labels, noise = self.centres(), self.labels(), np.float32(self.noise)

        def make(number: int) -> tuple[np.ndarray, np.ndarray]:
            part = labels[number * BLOCK : (number + 1) * BLOCK]
            out = np.empty((part.size, self.n_features), np.float32)
            draw(number * BLOCK, part, centres, noise, self.seed, out)
            return out, part

        about = {"seed": self.seed, "deviations": list(self.deviations), "noise": self.noise}
        return MadeRows(make, self.n_rows, self.n_features, BLOCK, about | {"classes": self.n_classes})


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    for name, default in (("rows", 9_000_000), ("features", 10_000), ("classes", 10_184), ("workers", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--memory", default="4 GB")
    parser.add_argument("--kill-ingest", type=float)
    parser.add_argument("--kill", type=float)
    parser.add_argument("--ingest", action="store_true", help=argparse.SUPPRESS)  # what a child does
    asked = parser.parse_args()
    folder, sizes = asked.folder.absolute(), (asked.rows, asked.features, asked.classes)
    folder.mkdir(parents=True, exist_ok=True)
    dataset, log = folder / "headline.zarr", folder / "log.txt"
    if asked.ingest:
        made = Drawn(*sizes).rows()
        print(ingest(made, dataset, encode="pq", subquantizers=asked.features // WIDTH, split="0.96,0.02,0.02"))
        return
    print(f"BLAS {blas()}: {gemm_rate() / 1e9:.0f} GFLOP/s of a core; copy {copy_rate() / 1e9:.1f} GB/s", flush=True)
    found: dict[str, object] = dict(zip(("rows", "features", "classes"), sizes, strict=True))
    if not dataset.exists():
        words = ["-m", "tests.bench.headline", *sys.argv[1:], "--ingest"]
        attempts = run_twice(words, log, asked.kill_ingest)
        seconds, peak = sum(one.seconds for one in attempts), max(one.peak for one in attempts)
        found |= {"ingest_seconds": seconds, "ingest_peak_bytes": peak}
        print(f"ingest: {seconds:.0f} s, {asked.rows / seconds:,.0f} rows/s, {human_bytes(peak)} at most", flush=True)
    config, run = folder / "headline.toml", folder / "runs" / "headline"
    config.write_text(CONFIG)
    shutil.rmtree(run, ignore_errors=True)
    words = [*LABELGROVE, "run", str(config), "--scheduler", f"local:{asked.workers}", "--memory", asked.memory]
    attempts = run_twice(words, log, asked.kill)
    seconds, peak = sum(one.seconds for one in attempts), max(one.peak for one in attempts)
    found |= {"steps": table(run, attempts), "run_seconds": seconds, "run_peak_bytes": peak}
    print(f"run: {seconds:.0f} s, {human_bytes(peak)} at most in all processes together")
    print(log.read_text().rpartition("  model ")[2])
    print(record("headline", found))


if __name__ == "__main__":
    main()
