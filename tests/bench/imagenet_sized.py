"""ImageNet-1k in size, on this machine: 1,281,167 rows of 1,024 float16 features, 1,000 classes under WordNet.

    python -m tests.bench.imagenet_sized FOLDER [--rows 1281167] [--workers 2] [--memory "2 GB"] [--kill 900]
        [--taxonomy taxonomy.json] [--only NAME ...]

The rows are drawn, block by block, from a seeded generator (`Planted`) whose classes are alike where the taxonomy says
so. Then the commands that a user would type: `ingest`, and `run` of product-quantised codes, one-vs-rest and trace norm
on codes, a label tree, a k-means tree and HESHING, each evaluated, and the report. With --kill the run is ended by
SIGKILL, with all its workers, after so many seconds, and typed again. Prints seconds and memory of every step, and
writes them as JSON.

--taxonomy is a file as `ingest` takes it (default: LABELGROVE_SHARED/data/ilsvrc1000-taxonomy/taxonomy.json).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pipeline.byte_sizes import human_bytes
from tasks.seeds import stream
from tests.bench.limits import blas, copy_rate, gemm_rate
from tests.bench.record import record
from tests.bench.watched import LABELGROVE, run_twice, table, watched

N_ROWS, N_FEATURES = 1_281_167, 1024
BLOCK = 8192
ROOT = Path(__file__).parents[2]
CONFIG = """\
name = "imagenet-sized"
[data]
path = "imagenet.zarr"
[[encode]]
name = "pq"
kind = "pq"
subquantizers = 128
"""
LEARNERS = {
    "ovr-pq": 'kind = "ovr"\nrows = "pq"\ntest_rows = "x"',
    "label-tree": 'kind = "label-tree"',
    "kmeans-tree": 'kind = "kmeans-tree"',
    "heshing": 'kind = "heshing"\nbatch = 64',
    "trace-pq": 'kind = "trace-norm"\nlambda1 = 0.005\ngap = 0.05\nrows = "pq"\ntest_rows = "x"',
}


@dataclass(frozen=True)
class Planted:
    """Rows around the centres of their classes, which are sums of a vector of each node above them in the taxonomy.

    The vectors of nodes are normal and independent; those of classes have deviation `own` in every feature, those of
    inner nodes `above` / sqrt(depth), so that classes under one parent are alike. A row is its centre, plus noise of
    deviation `noise` in every feature, plus `factors` directions that all classes share and in which rows vary by
    `shared`: so do features of networks.
    """

    parent: tuple[int, ...]  # of every inner node of the taxonomy, -1 for the root; parents come first
    node_of_class: tuple[int, ...]  # the inner node that a class hangs at
    n_features: int
    seed: int = 0
    own: float = 0.10
    above: float = 0.15
    noise: float = 1.0
    factors: int = 32
    shared: float = 2.0

    def centres(self) -> np.ndarray:
        """(n_classes, n_features) float32."""
        size, depth = (len(self.parent), self.n_features), np.zeros(len(self.parent), np.int64)
        summed = np.zeros(size, np.float32)
        for node in range(1, len(self.parent)):
            above = self.parent[node]
            depth[node] = depth[above] + 1
            drawn = stream(self.seed, "node", node).standard_normal(self.n_features, np.float32)
            summed[node] = summed[above] + self.above / np.sqrt(depth[node]) * drawn
        shape = (len(self.node_of_class), self.n_features)
        apart = stream(self.seed, "classes").standard_normal(shape, np.float32)
        centres: np.ndarray = summed[list(self.node_of_class)] + np.float32(self.own) * apart
        return centres

    def directions(self) -> np.ndarray:
        """(factors, n_features) float32, of lengths that fall like 1 / sqrt(k)."""
        drawn = stream(self.seed, "factors").standard_normal((self.factors, self.n_features), np.float32)
        sizes = self.shared / np.sqrt(np.arange(1, self.factors + 1)) / np.sqrt(self.factors)
        return (sizes[:, None] * drawn).astype(np.float32)

    def labels(self, n_rows: int) -> np.ndarray:
        """(n_rows,) int32: as many of every class, but for one, in random order."""
        return (stream(self.seed, "labels").permutation(n_rows) % len(self.node_of_class)).astype(np.int32)

    def block(self, index: int, labels: np.ndarray, centres: np.ndarray, directions: np.ndarray) -> np.ndarray:
        """(labels.size, n_features) float32: the rows of the index-th block."""
        rng = stream(self.seed, "rows", index)
        rows = rng.standard_normal((labels.size, self.n_features), np.float32)
        rows *= np.float32(self.noise)
        rows += rng.standard_normal((labels.size, self.factors), np.float32) @ directions
        rows += centres[labels]
        return rows


def write(folder: Path, n_rows: int, planted: Planted) -> None:
    """rows.npy (float16) and labels.npy."""
    rows = np.lib.format.open_memmap(folder / "rows.npy", "w+", np.float16, (n_rows, planted.n_features))
    labels, centres, directions = planted.labels(n_rows), planted.centres(), planted.directions()
    for index, start in enumerate(range(0, n_rows, BLOCK)):
        part = labels[start : start + BLOCK]
        rows[start : start + part.size] = planted.block(index, part, centres, directions)
    rows.flush()
    np.save(folder / "labels.npy", labels)


def planted_of(taxonomy: Path) -> Planted:
    """Classes and inner nodes of a file {"nodes": [{"id", "parent"}], "leaves": [id of class 0, ...]}."""
    told = json.loads(taxonomy.read_text())
    leaves, above = told["leaves"], {node["id"]: node["parent"] for node in told["nodes"]}
    inner = sorted(above.keys() - set(leaves), key=lambda node: (len(list(path(node, above))), node))
    place = {node: index for index, node in enumerate(inner)}
    parent = tuple(-1 if above[node] is None else place[above[node]] for node in inner)
    return Planted(parent, tuple(place[above[leaf]] for leaf in leaves), N_FEATURES)


def path(node: str | None, above: dict[str, str | None]) -> Iterator[str]:
    """A node and all above it."""
    while node is not None:
        yield node
        node = above[node]


def generate(folder: Path, n_rows: int, taxonomy: Path) -> float:
    """The source files; seconds."""
    began = time.time()
    write(folder, n_rows, planted_of(taxonomy))
    return time.time() - began


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=N_ROWS)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--memory", default="2 GB")
    parser.add_argument("--kill", type=float, help="seconds after which the run is killed, to be typed again")
    shared = Path(os.environ.get("LABELGROVE_SHARED", str(ROOT.parent / "shared")))
    parser.add_argument("--taxonomy", type=Path, default=shared / "data" / "ilsvrc1000-taxonomy" / "taxonomy.json")
    parser.add_argument("--only", nargs="*", choices=list(LEARNERS), default=list(LEARNERS))
    asked = parser.parse_args()
    folder, log = asked.folder.absolute(), asked.folder.absolute() / "log.txt"
    folder.mkdir(parents=True, exist_ok=True)
    print(f"BLAS {blas()}: {gemm_rate() / 1e9:.0f} GFLOP/s of a core; copy {copy_rate() / 1e9:.1f} GB/s")
    dataset, took = folder / "imagenet.zarr", {}
    if not dataset.exists():
        took["generate"] = generate(folder, asked.rows, asked.taxonomy)
        print(f"{asked.rows:,} x {N_FEATURES:,} float16 rows drawn in {took['generate']:.0f} s", flush=True)
        words = [str(folder / "rows.npy"), str(dataset), "--labels", str(folder / "labels.npy")]
        words += ["--taxonomy", str(asked.taxonomy), "--split", "0.9,0.05,0.05"]
        ingested = watched([*LABELGROVE, "ingest", *words], log)
        (folder / "rows.npy").unlink()
        took["ingest"] = ingested.seconds
        print(f"ingest: {ingested.seconds:.0f} s, {human_bytes(ingested.peak)} at most", flush=True)
    learners = "".join(f'[[train]]\nname = "{name}"\n{LEARNERS[name]}\n' for name in asked.only)
    config, run = folder / "imagenet-sized.toml", folder / "runs" / "imagenet-sized"
    config.write_text(CONFIG + learners)
    shutil.rmtree(run, ignore_errors=True)
    words = [*LABELGROVE, "run", str(config), "--scheduler", f"local:{asked.workers}", "--memory", asked.memory]
    attempts = run_twice(words, log, asked.kill)
    steps = table(run, attempts)
    seconds, peak = sum(attempt.seconds for attempt in attempts), max(attempt.peak for attempt in attempts)
    print(f"run: {seconds:.0f} s, {human_bytes(peak)} at most in all processes together")
    print(log.read_text().rpartition("  model ")[2])
    found = {"rows": asked.rows, "seconds": took | {"run": seconds}, "peak_bytes": peak, "steps": steps}
    print(record("imagenet_sized", found))


if __name__ == "__main__":
    main()
