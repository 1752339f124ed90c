"""The comparison on real data: every system through the command line, beside scikit-learn's LinearSVC on the same rows.

    python tests/bench/real_data.py SHARED/data FOLDER [--sets clinc-sparse clinc-dense tiny] [--seeds 0 1 2] [--no-svm]

LinearSVC learns from the dataset's training rows; its C is chosen on the validation rows, as ours are never needed for
one-vs-rest. Prints the table of `labelgrove run` for every seed, the models' means over the seeds, and LinearSVC's
validation and test accuracy for every C.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import scipy.sparse
from sklearn.svm import LinearSVC

from pipeline.dataset import SPLITS, Dataset
from tasks.io import read_column, read_rows
from tasks.rows import Csr

CLINC, TINY = "clinc150", "tinyimagenet-effnet"
SETS = {
    "clinc-sparse": (CLINC, "X_train.npz", "X_test.npz", "val_rows_in_train.npy", 20, None),
    "clinc-dense": (CLINC, "minilm_train.npy", "minilm_test.npy", "val_rows_in_train.npy", 18, 24),
    "tiny": (TINY, "effnet_train.npy", "effnet_test.npy", None, 18, 16),
}
GRID = (0.001, 0.01, 0.1, 1.0, 10.0)


def config_text(name: str, seed: int, bits: int, subquantizers: int | None, levels: int) -> str:
    """One-vs-rest, both hash learners at the same parameter bytes, label trees on rows and on codes."""
    tree = '[[train]]\nname = "tree"\nkind = "label-tree"\n'
    text = f'name = "{name}-{seed}"\nseed = {seed}\n[data]\npath = "{name}.zarr"\n'
    if subquantizers:
        text += f'[[encode]]\nname = "pq"\nkind = "pq"\nsubquantizers = {subquantizers}\n'
        tree += '[[train]]\nname = "tree-pq"\nkind = "label-tree"\nrows = "pq"\ntest_rows = "x"\n'
    text += '[[train]]\nname = "ovr"\nkind = "ovr"\n'
    text += f'[[train]]\nname = "heshing"\nkind = "heshing"\nbits = {bits}\n'
    text += f'[[train]]\nname = "flat-hash"\nkind = "flat-hash"\nbuckets = {(levels - 1) << bits}\n'
    return text + tree


def labelgrove(*arguments: str) -> None:
    print("$ labelgrove", *arguments, flush=True)
    subprocess.run([sys.executable, "-m", "pipeline.cli", *arguments], check=True)


def make_dataset(name: str, data: Path, folder: Path) -> Dataset:
    source, train, test, split, _, _ = SETS[name]
    place = data / source
    options = ["--split", str(place / split)] if split else []
    labelgrove(
        "ingest", str(place / train), str(folder / f"{name}.zarr"), "--labels", str(place / "y_train.npy"),
        "--classes", str(place / "classes.json"), "--taxonomy", str(place / "taxonomy.json"),
        "--test-source", str(place / test), "--test-labels", str(place / "y_test.npy"), "--force", *options,
    )  # fmt: skip
    return Dataset.open(folder / f"{name}.zarr")


def part(dataset: Dataset, split: int) -> tuple[object, np.ndarray]:
    """All rows of one part, as scikit-learn takes them, with their classes."""
    keep = read_column(dataset.path, "split", 0, dataset.n_rows) == split
    labels = read_column(dataset.path, "y", 0, dataset.n_rows)[keep]
    bodies = [read_rows(block) for block in dataset.blocks()]
    if isinstance(bodies[0], Csr):
        matrices = [scipy.sparse.csr_matrix((b.data, b.indices, b.indptr), shape=b.shape) for b in bodies]
        return scipy.sparse.vstack(matrices).tocsr()[keep], labels
    return np.concatenate([body.to_array() for body in bodies])[keep], labels


def compare_svm(name: str, dataset: Dataset, grid: list[float]) -> None:
    (train, y), (validation, y_validation), (test, y_test) = (part(dataset, i) for i in range(len(SPLITS)))
    found = []
    for c in grid:
        began = time.process_time()
        model = LinearSVC(C=c).fit(train, y)
        found.append((model.score(validation, y_validation), model.score(test, y_test), c))
        taken = time.process_time() - began
        print(
            f"  LinearSVC {name} C={c}: validation {found[-1][0]:.4f} test {found[-1][1]:.4f} ({taken:.1f} s)",
            flush=True,
        )
    best = max(found, key=lambda row: row[0])
    print(f"  LinearSVC {name}: chosen C={best[2]}, test {best[1]:.4f}")


def run(name: str, seed: int, dataset: Dataset, folder: Path, scheduler: str) -> dict[str, tuple[float, float]]:
    """Top-1 accuracy and hierarchical error of every model."""
    assert dataset.taxonomy is not None
    config = folder / f"{name}-{seed}.toml"
    config.write_text(config_text(name, seed, *SETS[name][4:], levels=dataset.taxonomy.n_levels))
    labelgrove("run", str(config), "--scheduler", scheduler)
    metrics = json.loads((folder / "runs" / f"{name}-{seed}" / "metrics.json").read_text())["models"]
    return {model: (values["top1"], values["hier_err"]) for model, values in metrics.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--no-svm", action="store_true")
    parser.add_argument("--grid", nargs="+", type=float, default=list(GRID))
    parser.add_argument("--scheduler", default="local")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    for name in given.sets:
        dataset = make_dataset(name, given.data, given.folder)
        found = [run(name, seed, dataset, given.folder, given.scheduler) for seed in given.seeds]
        means = {model: np.mean([values[model] for values in found], axis=0) for model in found[0]}
        for model, (top1, hierarchical) in means.items():
            share = top1 / means["ovr"][0]
            print(f"  {name} {model}: {top1:.4f}, {share:.1%} of ovr, hierarchical error {hierarchical:.4f}")
        if not given.no_svm:
            compare_svm(name, dataset, given.grid)


if __name__ == "__main__":
    main()
