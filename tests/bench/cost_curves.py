"""What a run costs against its size: processor seconds and memory at 1, 2, 4, 8 times the rows, features and classes.

    python -m tests.bench.cost_curves FOLDER [--rows 8000 --features 128 --classes 64] [--only NAME ...]

One of the three sizes grows while the other two stay; rows are planted as in `many_classes`. Every run is one worker's.
Per step: processor seconds inside tasks (`tasks.parquet`, kernels compiled before), the most that a task held beyond
what its worker held before it, and the exponents a of cost ~ size^a, fitted over all four sizes and over the last two,
which say where it is going.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from pipeline.byte_sizes import human_bytes
from tests.bench.large_matrix import labelgrove, write_rows
from tests.bench.many_classes import NOISE, planted
from tests.bench.record import record

TIMES = (1, 2, 4, 8)
SIZES = ("rows", "features", "classes")
CONFIG = """\
name = "{name}"
[data]
path = "{dataset}"
[[encode]]
name = "pq"
kind = "pq"
subquantizers = {subquantizers}
sample = 4096
"""
LEARNERS = {
    "ovr": 'kind = "ovr"',
    "ovr-pq": 'kind = "ovr"\nrows = "pq"',
    "label-tree": 'kind = "label-tree"',
    "kmeans-tree": 'kind = "kmeans-tree"',
    "bengio-tree": 'kind = "bengio-tree"',
    "flat-hash": 'kind = "flat-hash"',
    "trace-norm": 'kind = "trace-norm"\nlambda1_steps = 3',
    "nearest-class-mean": 'kind = "nearest-class-mean"',
}
MOST = 1.15  # an exponent above it is worse than linear


def sizes(base: dict[str, int]) -> dict[tuple[str, int], dict[str, int]]:
    """(size that grows, times) -> all three sizes."""
    return {(name, times): base | {name: base[name] * times} for name in SIZES for times in TIMES}


def made(folder: Path, size: dict[str, int]) -> Path:
    """The dataset of a size, ingested once."""
    dataset = folder / ("-".join(str(size[name]) for name in SIZES) + ".zarr")
    if not dataset.exists():
        write_rows(folder, size["rows"], planted(size["classes"], size["features"]), NOISE)
        labelgrove("ingest", str(folder / "rows.npy"), str(dataset), "--labels", str(folder / "labels.npy"))
        (folder / "rows.npy").unlink()
    return dataset


def costs(folder: Path, dataset: Path, features: int, learners: list[str]) -> dict[str, tuple[float, float]]:
    """Step -> (processor seconds in tasks, bytes of a task at most), of a run of its own."""
    name = f"run-{dataset.stem}"
    config, run = folder / f"{name}.toml", folder / "runs" / name
    text = CONFIG.format(name=name, dataset=dataset, subquantizers=features // 8)
    config.write_text(text + "".join(f'[[train]]\nname = "{one}"\n{LEARNERS[one]}\n' for one in learners))
    shutil.rmtree(run, ignore_errors=True)
    labelgrove("run", str(config), "--scheduler", "local:1", "--memory", "4 GB")
    seconds: dict[str, float] = defaultdict(float)
    held: dict[str, float] = defaultdict(float)
    for task in pq.read_table(run / "tasks.parquet").to_pylist():
        seconds[task["step"]] += task["cpu_seconds"]
        held[task["step"]] = max(held[task["step"]], task["peak"] - task["resident_before"])
    return {step: (seconds[step], held[step]) for step in seconds}


def exponent(values: list[float]) -> float:
    """The slope of log cost against log size, over sizes that double; nan where a cost is nothing."""
    if min(values) <= 0:
        return float("nan")
    steps = np.log2(values)
    return float(np.polyfit(np.arange(len(values)), steps, 1)[0])


def show(grown: str, found: list[dict[str, tuple[float, float]]]) -> dict[str, dict[str, object]]:
    """One table, and the same as JSON."""
    print(f"\n{grown}: {'step':28} {'processor seconds':>36} {'a':>6} {'last':>6}   {'bytes of a task':>40} {'a':>6}")
    told: dict[str, dict[str, object]] = {}
    for step in found[0]:
        seconds, held = ([one[step][i] for one in found if step in one] for i in (0, 1))
        if len(seconds) < len(TIMES):
            continue
        slopes = exponent(seconds), exponent(seconds[-2:]), exponent(held)
        said = " ".join(f"{value:8.2f}" for value in seconds), " ".join(f"{human_bytes(int(b)):>9}" for b in held)
        mark = "  worse than linear" if slopes[1] > MOST and seconds[-1] > 1 else ""
        print(f"      {step:28} {said[0]:>36} {slopes[0]:6.2f} {slopes[1]:6.2f}   {said[1]:>40} {slopes[2]:6.2f}{mark}")
        told[step] = {"cpu_seconds": seconds, "bytes": held, "exponent": slopes[0], "exponent_last": slopes[1]}
        told[step]["exponent_bytes"] = slopes[2]
    return told


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    for name, default in (("rows", 8000), ("features", 128), ("classes", 64)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--only", nargs="*", choices=list(LEARNERS), default=list(LEARNERS))
    asked = parser.parse_args()
    folder = asked.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    base = {name: getattr(asked, name) for name in SIZES}
    known: dict[str, dict[str, tuple[float, float]]] = {}
    told: dict[str, object] = {"base": base}
    dataset = made(folder, base)
    costs(folder, dataset, base["features"], asked.only)  # kernels are compiled, and kept
    for grown, group in itertools.groupby(sizes(base).items(), key=lambda item: item[0][0]):
        found = []
        for _, size in group:
            dataset = made(folder, size)
            if dataset.stem not in known:
                known[dataset.stem] = costs(folder, dataset, size["features"], asked.only)
            found.append(known[dataset.stem])
        told[grown] = show(grown, found)
        (folder / "costs.json").write_text(json.dumps(told, indent=1))
    print(record("cost_curves", told))


if __name__ == "__main__":
    main()
