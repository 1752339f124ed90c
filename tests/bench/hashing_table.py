"""HESHING beside the baselines of its paper on real data (Zhao & Xing, Table 2 and Figure 3), means over seeds.

    python tests/bench/hashing_table.py SHARED/data FOLDER [--sets clinc-sparse ...] [--seeds 0 1 2] [--share 0.1]

Runs the preset `hashing` for every set and seed and prints one table per set: both errors with their standard
deviation over seeds, bytes held in training, the most that a training task held above its idle worker, and seconds.
--share is the part of one-vs-rest's parameters that the hash learners have.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from pipeline import preset
from pipeline.dataset import Dataset
from pipeline.store import RunFolder, read_manifest
from tests.bench.real_data import CLINC, TINY, labelgrove

SIFT = "tinyimagenet-sift"
SETS = {
    "clinc-sparse": (CLINC, "X_train.npz", "X_test.npz", "val_rows_in_train.npy"),
    "clinc-dense": (CLINC, "minilm_train.npy", "minilm_test.npy", "val_rows_in_train.npy"),
    "tiny": (TINY, "effnet_train.npy", "effnet_test.npy", None),
    "tiny-sift": (SIFT, "X_train.npz", "X_test.npz", None),
}
HEADING = f"{'model':18} {'flat error':>16} {'hier. error':>16} {'in training':>12} {'task memory':>12} {'seconds':>8}"


def make_dataset(name: str, data: Path, folder: Path) -> Path:
    """The dataset of a set; made once."""
    path = folder / f"{name}.zarr"
    if path.exists():
        return path
    source, train, test, split = SETS[name]
    place = data / source
    options = ["--split", str(place / split)] if split else []
    labelgrove(
        "ingest", str(place / train), str(path), "--labels", str(place / "y_train.npy"), "--classes",
        str(place / "classes.json"), "--taxonomy", str(place / "taxonomy.json"), "--test-source", str(place / test),
        "--test-labels", str(place / "y_test.npy"), *options,
    )  # fmt: skip
    return path


def run(name: str, dataset: Path, seed: int, folder: Path, scheduler: str) -> dict[str, dict[str, float]]:
    """The numbers of every model."""
    config = folder / f"{name}-{seed}.toml"
    text = preset.filled("hashing", Dataset.open(dataset), f"{name}-{seed}", dataset.name)
    config.write_text(text.replace("\n\n[data]", f"\nseed = {seed}\n\n[data]", 1))
    labelgrove("run", str(config), "--scheduler", scheduler)
    place = RunFolder(folder / "runs" / f"{name}-{seed}")
    found: dict[str, dict[str, float]] = json.loads((place / "metrics.json").read_text())["models"]
    steps = read_manifest(place)["steps"]
    for model, numbers in found.items():
        done = place.done(f"train_{model}", steps[f"train_{model}"]["fingerprint"])
        assert done is not None
        numbers["task_bytes"] = done.measured["task_peak_bytes"]
    return found


def show(name: str, found: list[dict[str, dict[str, float]]]) -> None:
    print(f"\n{name}: means of {len(found)} seeds\n{HEADING}")
    for model in found[0]:
        flat = [100 * (1 - one[model]["top1"]) for one in found]
        height = [one[model]["hier_err"] for one in found]
        numbers = {key: np.mean([one[model][key] for one in found]) for key in found[0][model] if key in TOLD}
        print(
            f"{model:18} {np.mean(flat):8.2f} +- {np.std(flat):4.2f} {np.mean(height):8.3f} +- {np.std(height):4.3f} "
            f"{numbers['training_bytes'] / 1024:8.0f} KiB {numbers['task_bytes'] / 2**20:8.1f} MiB "
            f"{numbers['train_seconds']:8.1f}"
        )


TOLD = ("training_bytes", "task_bytes", "train_seconds")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--share", type=float, default=preset.SHARE)
    parser.add_argument("--scheduler", default="local")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    preset.SHARE = given.share
    for name in given.sets:
        dataset = make_dataset(name, given.data, given.folder)
        show(name, [run(name, dataset, seed, given.folder, given.scheduler) for seed in given.seeds])


if __name__ == "__main__":
    main()
