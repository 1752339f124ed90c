"""One worker and two on the same work, and what a plan says of a matrix that is far larger.

    python -m tests.bench.scaling workers FOLDER [--encode --rows 60000 --classes 200 --features 512 --repeats 3]
    python -m tests.bench.scaling plan FOLDER [--rows 9000000 --classes 10000 --features 1024]

`workers`: product-quantised codes, one-vs-rest on rows and on codes, a label tree on codes (the codes alone with
--encode); runs on local:1 and local:2 by turns, the best of each call. Per call of the pool: seconds from the start of
its first task to the end of its last, the ratio, and the share of the workers' time that was spent inside tasks. Before
each turn the machine is asked what two processes gain on it that share nothing: its processors may be half of a core
each, or slow down together. Digests of all runs must be equal.

`plan`: a dataset whose metadata and labels are there and whose rows are not (a plan reads no rows), and the plan of
the same systems over it: steps, tasks, memory of a worker, disk, and the processor hours that follow from the rates of
deploy/SCALING.md.

Figures are written to FOLDER, too, unless LABELGROVE_BENCH names another place.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from pipeline.byte_sizes import human_bytes
from pipeline.config import load_config
from pipeline.connection.profile import Profile
from pipeline.dataset import FORMAT, VERSION, attributes_digest, count_splits
from pipeline.plan import make_plan, memory_plan
from tasks import io
from tests.bench.large_matrix import labelgrove, write_rows
from tests.bench.many_classes import planted
from tests.bench.record import FOLDER, record
from tests.stores import store_columns

CODES = """\
name = "{name}"
[data]
path = "{dataset}"
[[encode]]
name = "pq"
kind = "pq"
subquantizers = {subquantizers}
"""
MODELS = """\
[[train]]
name = "ovr"
kind = "ovr"
rows = "{rows}"
[[train]]
name = "ovr-pq"
kind = "ovr"
rows = "pq"
[[train]]
name = "tree-pq"
kind = "label-tree"
rows = "pq"
"""


YARDSTICK = """\
import time
import numpy as np
from tasks.quantize.assign import nearest
draw = np.random.default_rng(0)
values = draw.standard_normal((2048, 512), np.float32)
codebooks = draw.standard_normal((64, 256, 8), np.float32)
nearest(values, codebooks)
input()
start = time.perf_counter()
for _ in range(40):
    nearest(values, codebooks)
print(time.perf_counter() - start)
"""


def write_config(folder: Path, name: str, dataset: Path, subquantizers: int, rows: str, parts: str) -> Path:
    """The config of a run over a dataset; `parts` is CODES, or CODES + MODELS."""
    path = folder / f"{name}.toml"
    path.write_text(parts.format(name=name, dataset=dataset, subquantizers=subquantizers, rows=rows))
    return path


def alone_and_together(n: int) -> float:
    """Seconds that each of n processes needs for the same encoding at the same time, on average."""
    words = [sys.executable, "-c", YARDSTICK]
    piped: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(words, **piped) for _ in range(n)]
    time.sleep(5)  # all have compiled, or loaded what was compiled, and wait
    for process in processes:
        process.stdin.write("\n")  # type: ignore[union-attr]
        process.stdin.flush()  # type: ignore[union-attr]
    return sum(float(process.communicate()[0]) for process in processes) / n


# ---- one worker and two ------------------------------------------------------------------------------------------


def made(folder: Path, n_rows: int, n_classes: int, n_features: int) -> Path:
    """A dataset of planted classes, ingested once."""
    dataset = folder / f"planted-{n_rows}-{n_classes}-{n_features}.zarr"
    if not dataset.exists():
        write_rows(folder, n_rows, planted(n_classes, n_features), noise=0.9)
        source, labels = str(folder / "rows.npy"), str(folder / "labels.npy")
        labelgrove("ingest", source, str(dataset), "--labels", labels)
    return dataset


def calls_of(run: Path) -> dict[str, dict[str, float]]:
    """Of each call of the pool that the run made: wall seconds, seconds inside tasks, tasks.

    A call is what has one step and name; those of a solver's rounds follow one another, and their walls are added up
    between the first and the last.
    """
    spans: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for row in pq.read_table(run / "tasks.parquet").to_pylist():
        spans[f"{row['step']} / {row['task']}"].append((row["start"], row["start"] + row["seconds"]))
    return {
        name: {
            "seconds": max(stop for _, stop in found) - min(start for start, _ in found),
            "inside": sum(stop - start for start, stop in found),
            "tasks": len(found),
        }
        for name, found in spans.items()
    }


def steps_of(run: Path) -> dict[str, float]:
    """Seconds of each step, as DONE.json says."""
    done = (json.loads(path.read_text()) for path in run.glob("steps/*/DONE.json"))
    return {found["step"]: float(found["measured"]["seconds"]) for found in done}


def compare(folder: Path, sizes: tuple[int, int, int], repeats: int, parts: str) -> dict[str, Any]:
    """Runs on one worker and on two by turns; prints each call's and step's best and their ratio."""
    n_rows, n_classes, n_features = sizes
    dataset = made(folder, n_rows, n_classes, n_features)
    best: dict[int, dict[str, dict[str, float]]] = {1: {}, 2: {}}
    digests: set[str] = set()
    steps: dict[int, dict[str, float]] = {1: {}, 2: {}}
    limits = []
    for turn in range(repeats):
        limits.append(2 * alone_and_together(1) / alone_and_together(2))
        for workers in (1, 2):
            name = f"w{workers}-{turn}"
            shutil.rmtree(folder / "runs" / name, ignore_errors=True)
            config = write_config(folder, name, dataset, n_features // 8, "x", parts)
            labelgrove("run", str(config), "--scheduler", f"local:{workers}", "--memory", "3 GB")
            run = folder / "runs" / name
            digests.add(json.dumps(digests_of(run), sort_keys=True))
            for call, found in calls_of(run).items():
                if call not in best[workers] or found["seconds"] < best[workers][call]["seconds"]:
                    best[workers][call] = found
            for step, seconds in steps_of(run).items():
                steps[workers][step] = min(seconds, steps[workers].get(step, seconds))
    assert len(digests) == 1, f"runs differ: {digests}"
    print(f"two processes that share nothing, on this machine: {', '.join(f'{limit:.2f}x' for limit in limits)}")
    print_calls(best, steps)
    counts = {"rows": n_rows, "classes": n_classes, "features": n_features}
    return {"calls": best, "steps": steps, "limits": limits, **counts}


def digests_of(run: Path) -> dict[str, str]:
    """Of each step."""
    done = (json.loads(path.read_text()) for path in run.glob("steps/*/DONE.json"))
    return {found["step"]: str(found["digest"]) for found in done}


def print_calls(best: dict[int, dict[str, dict[str, float]]], steps: dict[int, dict[str, float]]) -> None:
    """Calls of more than half a second, and all steps."""
    for call, one in sorted(best[1].items(), key=lambda item: -item[1]["seconds"]):
        two = best[2].get(call)
        if two is None or one["seconds"] < 0.5:
            continue
        share = two["inside"] / (2 * two["seconds"])
        ratio = one["seconds"] / two["seconds"]
        print(f"{call:40} {one['seconds']:7.2f} s -> {two['seconds']:7.2f} s  {ratio:.2f}x  inside tasks {share:.0%}")
    for step, seconds in sorted(steps[1].items(), key=lambda item: -item[1]):
        print(f"step {step:35} {seconds:7.2f} s -> {steps[2][step]:7.2f} s  {seconds / steps[2][step]:.2f}x")


# ---- the plan of a matrix that is not there ----------------------------------------------------------------------


def hollow(folder: Path, n_rows: int, n_classes: int, n_features: int, block_rows: int) -> Path:
    """A dataset with all its metadata, labels and splits, and none of its rows: enough for a plan, no run starts."""
    place = str(folder / f"hollow-{n_rows}-{n_classes}-{n_features}.zarr")
    shutil.rmtree(place, ignore_errors=True)
    io.ensure_group(place)
    io.create_dense(f"{place}/{io.FEATURES}", n_rows, n_features, block_rows, "float16")
    y = (np.arange(n_rows) % n_classes).astype(np.int32)
    split = (np.arange(n_rows) >= 9 * n_rows // 10).astype(np.uint8) * np.uint8(2)
    store_columns(place, block_rows, y=y, split=split, row_id=np.arange(n_rows))
    names = [f"class {i:05d}" for i in range(n_classes)]
    io.create_group(f"{place}/classes", {"ids": names, "names": names})
    io.create_group(f"{place}/digests", {})
    attrs = {
        "format": FORMAT,
        "version": VERSION,
        "n_rows": n_rows,
        "n_features": n_features,
        "n_classes": n_classes,
        "block_rows": block_rows,
        "body": "dense",
        "dtype": "float16",
        "split_counts": count_splits(split),
        "has_taxonomy": False,
        "digest": "hollow",
        "notes": [],
        "made_from": {},
    }
    io.write_attrs(place, attrs | {"attributes_digest": attributes_digest(attrs)})
    return Path(place)


# Of one processor, a second; deploy/SCALING.md says how they were measured.
ENCODED = 20e6  # numbers, that is rows x features
MULTIPLIED = 22e9  # multiply-adds of SGD, with 2,000 classes and more
LOOKED_UP = 16e6 * 64  # of prediction on codes: one for each class and subquantizer
SMALL_NODES = 5  # times as slow is SGD in a tree of small nodes
ROUNDS = 10  # of one-vs-rest
TREE_PRODUCTS = 40  # dot products of a training row in a tree of two depths, times the root of the number of classes


def subquantizers_of(n_features: int) -> int:
    """Bytes of a code."""
    return max(8, n_features // 16)


def hours(n_rows: int, n_classes: int, n_features: int) -> dict[str, tuple[float, float]]:
    """Step -> processor hours, least and most; nine rows of ten learn, the others are predicted."""
    learn, test = 0.9 * n_rows, 0.1 * n_rows
    sgd = ROUNDS * learn * n_classes * 2 * n_features / MULTIPLIED
    tree = TREE_PRODUCTS * n_classes**0.5 * learn * n_features / MULTIPLIED
    seconds = {
        "encode_pq": (n_rows * n_features / ENCODED,) * 2,
        "train_ovr": (sgd, sgd),
        "train_ovr-pq": (sgd, sgd),
        "train_tree-pq": (tree, SMALL_NODES * tree),
        "predict_ovr": (0.0, test * n_classes * n_features / MULTIPLIED),
        "predict_ovr-pq": (test * n_classes * subquantizers_of(n_features) / LOOKED_UP,) * 2,
    }
    return {step: (least / 3600, most / 3600) for step, (least, most) in seconds.items()}


def hours_text(least: float, most: float) -> str:
    """Of processor hours."""
    if not least:
        return f"{most:.2g} h at most"
    return f"{least:.2g} h" if least == most else f"{least:.2g} to {most:.2g} h"


def plan(folder: Path, n_rows: int, n_classes: int, n_features: int) -> dict[str, Any]:
    """What a plan of the same systems says: tasks, memory, disk; and processor hours."""
    dataset = hollow(folder, n_rows, n_classes, n_features, block_rows=8192)
    config = write_config(folder, "hollow", dataset, subquantizers_of(n_features), "pq", CODES + MODELS)
    took = hours(n_rows, n_classes, n_features)
    made_plan = make_plan(load_config(config))
    memory = memory_plan(made_plan, Profile("local:2", memory_per_worker="8 GiB"))
    found: dict[str, Any] = {"worker_peak_bytes": memory.peak, "disk_bytes": made_plan.disk_bytes, "steps": {}}
    print(f"{n_rows:,} x {n_features:,}, {n_classes:,} classes, blocks of 8,192: {-(-n_rows // 8192):,} blocks")
    for step in made_plan.steps:
        one = step.estimate
        found["steps"][step.name] = {"tasks": one.tasks, "task_bytes": one.task_bytes, "disk_bytes": one.disk_bytes}
        need = f"{human_bytes(one.task_bytes)} each, disk {human_bytes(one.disk_bytes)}"
        if step.name in took:
            found["steps"][step.name]["processor_hours"] = took[step.name]
            need += f", {hours_text(*took[step.name])} of a processor"
        print(f"  {step.name:20} {one.tasks:>7,} tasks, {need}")
    print(f"  a worker comes to {human_bytes(memory.peak)} at most, disk {human_bytes(made_plan.disk_bytes)}")
    return found


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("workers", "plan"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--encode", action="store_true", help="codes alone")
    for name in ("rows", "classes", "features"):
        parser.add_argument(f"--{name}", type=int)
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    folder, there = asked.folder.absolute(), asked.what == "workers"
    os.environ.setdefault(FOLDER, str(folder))
    rows, classes, features = (60_000, 200, 512) if there else (9_000_000, 10_000, 1024)
    sizes = (asked.rows or rows, asked.classes or classes, asked.features or features)
    if there:
        parts = CODES if asked.encode else CODES + MODELS
        print(record("scaling_encode" if asked.encode else "scaling", compare(folder, sizes, asked.repeats, parts)))
    else:
        print(record("scaling_plan", plan(folder, *sizes)))


if __name__ == "__main__":
    main()
