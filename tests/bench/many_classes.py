"""Trees over 10,000 classes on two workers of 3 GB: seconds, memory per worker, accuracy, cost, and the digests of runs
on other numbers of workers; `kills` does the same after kills.

    python -m tests.bench.many_classes FOLDER [--classes 10000] [--rows 100] [--features 512] [--workers 2 1 4]

Classes are planted in groups of groups, with more noise than lies between neighbours. Exit 1 when a worker went over
the plan's bound, or when digests differ.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from tasks.seeds import stream
from tests.bench.large_matrix import labelgrove, write_rows

CONFIG = """\
name = "{name}"
[data]
path = "many.zarr"
{trees}
"""
TREES = {
    "kmeans": 'kind = "kmeans-tree"',
    "kmeans-3": 'kind = "kmeans-tree"\ndepth = 3',
    "label": 'kind = "label-tree"\nspeedup = 20',
}
SPREAD = (1.0, 0.6, 0.35)  # of groups, of groups within them, of classes within these: deviations of each coordinate
NOISE = 0.9  # of a row around its class


def planted(n_classes: int, n_features: int) -> np.ndarray:
    """(n_classes, n_features) float32: centres in groups of groups, about as many classes in each."""
    side = max(2, round(n_classes ** (1 / 3)))
    centres = np.zeros((n_classes, n_features), np.float32)
    of_class = np.arange(n_classes)
    for level, spread in enumerate(SPREAD):
        group = of_class * side ** (level + 1) // n_classes if level < 2 else of_class
        drawn = stream(0, "planted", level).standard_normal((int(group.max()) + 1, n_features), np.float32)
        centres += spread / np.sqrt(n_features) * np.float32(8.0) * drawn[group]
    return centres


def run(folder: Path, name: str, workers: int, memory: str) -> dict[str, dict[str, float]]:
    """Train and test the trees on a cluster of so many workers; what metrics.json says of them."""
    text = "\n".join(f'[[train]]\nname = "{tree}"\n{keys}' for tree, keys in TREES.items())
    config = folder / f"{name}.toml"
    config.write_text(CONFIG.format(name=name, trees=text))
    where = ("--scheduler", f"local:{workers}", "--memory", memory)
    plan = json.loads(labelgrove("plan", str(config), "--json", *where).stdout)
    print(labelgrove("run", str(config), *where).stdout)
    tasks = pq.read_table(folder / "runs" / name / "tasks.parquet")
    peak, bound = max(tasks["peak"].to_pylist()), plan["worker_peak_bytes"]
    print(f"highest resident memory of a worker: {peak / 1e6:,.0f} MB; the plan's bound: {bound / 1e6:,.0f} MB")
    if peak > bound:
        sys.exit(1)
    return dict(json.loads((folder / "runs" / name / "metrics.json").read_text())["models"])


def headers(folder: Path, name: str, trees: Iterable[str] = TREES) -> dict[str, dict[str, Any]]:
    """model.json of every model of a run."""
    models = folder / "runs" / name / "models"
    return {tree: json.loads((models / tree / "model.json").read_text()) for tree in trees}


def digests(folder: Path, name: str, trees: Iterable[str] = TREES) -> dict[str, str]:
    """Of every model of a run."""
    return {tree: str(header["digest"]) for tree, header in headers(folder, name, trees).items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--classes", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=100, help="training rows of a class; as many again / 5 are tested")
    parser.add_argument("--features", type=int, default=512)
    parser.add_argument("--workers", type=int, nargs="+", default=[2])
    parser.add_argument("--memory", default="3 GB")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    n_rows = given.classes * given.rows * 13 // 10
    if not (given.folder / "many.zarr").is_dir():
        write_rows(given.folder, n_rows, planted(given.classes, given.features), NOISE)
        source, labels = (str(given.folder / name) for name in ("rows.npy", "labels.npy"))
        split = "0.769,0.077,0.154"
        labelgrove("ingest", source, str(given.folder / "many.zarr"), "--labels", labels, "--split", split)
        (given.folder / "rows.npy").unlink()
    print(f"{n_rows:,} x {given.features} float32, {n_rows * given.features * 4 / 1e9:.2f} GB")
    found = {}
    for workers in given.workers:
        metrics = run(given.folder, f"many-{workers}", workers, given.memory)
        for tree, numbers in metrics.items():
            print(f"{tree}: top-1 {numbers['top1']:.4f}, trained in {numbers['train_seconds']:.0f} s")
        found[workers] = digests(given.folder, f"many-{workers}")
    same = all(other == found[given.workers[0]] for other in found.values())
    print(f"digests with {', '.join(map(str, given.workers))} workers: {'equal' if same else found}")
    sys.exit(0 if same else 1)


if __name__ == "__main__":
    main()
