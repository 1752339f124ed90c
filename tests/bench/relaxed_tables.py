"""Relaxed hierarchies on real data beside their rivals, with verdicts worked out (Gao & Koller, Figures 2, 3 and 5).

    python -m tests.bench.relaxed_tables linear SHARED/data FOLDER [--sets tiny clinc-dense clinc-sparse] [--seeds 0]
    python -m tests.bench.relaxed_tables kernel SHARED/data FOLDER [--rows 40] [--seeds 0]
    python -m tests.bench.relaxed_tables classes SHARED/data FOLDER [--sets tiny] [--draws 2] [--sizes 50 100 150 200]
    python -m tests.bench.relaxed_tables time SHARED/data FOLDER [--sets tiny] [--rho 0.4]

`linear` compares accuracy at equal complexity, classifiers asked per row; `kernel` does so with an rbf kernel on few
rows a class of clinc150's dense rows, where complexity is the union of the support vectors of all classifiers asked.
Both are relative to one-vs-rest. `classes` fits classifiers ~ K^e to samples of the classes, `time` trains one
hierarchy from nothing and tells what each part of it took. --pairs adds ovo and dag-svm, --rho, --alpha, --levels and
--doubt replace the settings, --classes N lets `linear` and `kernel` learn a sample of the classes (one-vs-rest by SGD
is left out then).

A curve is the settings of one doubt that no other of them beats, straight between them over the logarithm of the
complexity, level from the dearest on. The papers have doubt 0: rivals `as in their papers`. Runs in FOLDER that are
finished are shown again, but those of `time`.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.dataset import Dataset
from pipeline.store import RunFolder, read_manifest
from tasks.models.folder import load_model
from tasks.relaxed.hierarchy import Hierarchy
from tasks.seeds import stream
from tests.bench.hashing_table import SETS, make_dataset
from tests.bench.real_data import labelgrove
from tests.bench.relaxed_verdicts import RELAXED, Line, verdicts
from tests.bench.tree_peers import NO_KERNEL, THREADS

RHO = (0.05, 0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.7, 0.8, 0.9)
LEVELS = (2, 3, 4, 5)
ALPHA = (0.1, 0.2, 0.4, 0.5, 0.6, 0.8)
KERNEL_RHO, KERNEL_ALPHA = (0.2, 0.3, 0.5, 0.7, 0.9), (0.2, 0.4, 0.5, 0.6, 0.8)
DOUBT = (0.5, 0.0)
ONE_RHO, ONE_ALPHA = (0.4,), (0.4,)  # of `classes` and `time`, where a curve says nothing
ROWS_SEED = 0  # of the rows that `kernel` draws
MEANS = ("mean_per_class_top1", "top1", "relative_complexity", "test_ops_per_row", "nodes", "depth", "train_seconds")
Found = Mapping[str, Any]  # metrics.json of a run


# ---- runs ----------------------------------------------------------------------------------------------------------


def section(name: str, kind: str, *keys: str) -> str:
    return "\n".join(["[[train]]", f'name = "{name}"', f'kind = "{kind}"', *keys, ""])


def curves(given: argparse.Namespace, *keys: str) -> str:
    """The hierarchies with all their settings, and pairs of classes where asked for."""
    keys = (f"doubt = {list(given.doubt)}", *keys)
    text = section("relaxed", RELAXED, f"rho = {list(given.rho)}", *keys)
    text += section("spectral", "spectral-tree", f"levels = {list(given.levels)}", *keys)
    text += section("marszalek", "marszalek", f"alpha = {list(given.alpha)}", *keys)
    return text + (section("ovo", "ovo", *keys[1:]) + section("dag", "dag-svm", *keys[1:]) if given.pairs else "")


def run(given: argparse.Namespace, name: str, dataset: Path, seed: int, models: str) -> Path:
    """Train and test them; returns the run folder."""
    config = given.folder / f"{name}.toml"
    config.write_text(f'name = "{name}"\nseed = {seed}\n[data]\npath = "{dataset.name}"\n{models}')
    labelgrove("run", str(config), "--scheduler", given.scheduler)
    return Path(given.folder / "runs" / name)


def metrics_of(place: Path) -> Found:
    return dict(json.loads((place / "metrics.json").read_text()))


def measured(place: Path) -> dict[str, Found]:
    """What was measured in each step of a finished run, by the step's name."""
    folder = RunFolder(place)
    steps = read_manifest(folder)["steps"].items()
    done = {name: folder.done(name, step["fingerprint"]) for name, step in steps}
    return {name: one.measured | one.results for name, one in done.items() if one is not None}


def setup_of(place: Path) -> Found:
    """The step in which C and confusion were settled."""
    return next(found for name, found in measured(place).items() if name.startswith("svm_"))


def few_rows(given: argparse.Namespace) -> Path:
    """clinc150's dense rows, so many training rows a class, drawn from those that are not for validation; made once."""
    path = Path(given.folder / f"minilm-{given.rows}.zarr")
    if path.exists():
        return path
    folder, train, test, validation = SETS["clinc-dense"]
    place = given.data / folder
    labels = np.load(place / "y_train.npy")
    usable = np.setdiff1d(np.arange(labels.size), np.load(place / str(validation)))
    order = usable[stream(ROWS_SEED, "few-rows").permutation(usable.size)]
    classes = range(int(labels.max()) + 1)
    chosen = np.sort(np.concatenate([order[labels[order] == one][: given.rows] for one in classes]))
    for name, values in (("rows", np.load(place / train)[chosen]), ("labels", labels[chosen])):
        np.save(given.folder / f"minilm-{given.rows}-{name}.npy", values)
    labelgrove(
        "ingest", str(given.folder / f"minilm-{given.rows}-rows.npy"), str(path), "--labels",
        str(given.folder / f"minilm-{given.rows}-labels.npy"), "--classes", str(place / "classes.json"), "--taxonomy",
        str(place / "taxonomy.json"), "--test-source", str(place / test), "--test-labels", str(place / "y_test.npy"),
        "--validation", "0",
    )  # fmt: skip
    return path


# ---- curves and verdicts -------------------------------------------------------------------------------------------


def depth_of(place: Path, model: str) -> float:
    """Splits on the longest way down; NaN of what has none."""
    held = load_model(place / "models" / model).model
    return float(held.depth_of.max()) if isinstance(held, Hierarchy) else math.nan


def lines_of(places: Sequence[Path]) -> list[Line]:
    """One a model, of the same models with every seed."""
    found, lines = [metrics_of(place) for place in places], []
    for model in found[0]["run"]["models"]:
        told = found[0]["details"].get(model, {}).get("hierarchy", {})
        known_cost = {} if told else {"relative_complexity": 1.0}  # of one-vs-rest by SGD, which says none
        numbers = [
            known_cost | one["models"][model] | {"depth": depth_of(place, model)}
            for place, one in zip(places, found, strict=True)
        ]
        setting = ", ".join(f"{key} {value:g}" for key, value in told.get("setting", {}).items())
        means = {key: float(np.mean([one.get(key, math.nan) for one in numbers])) for key in MEANS}
        spread = float(np.std([100 * one["mean_per_class_top1"] for one in numbers]))
        doubt = float(told.get("setting", {}).get("doubt", 0))
        lines.append(Line(model, told.get("family", "ovr"), setting, doubt, means, spread))
    return lines


def table(lines: Sequence[Line], cost: str, several: bool) -> str:
    """One line a model; with the deviation of accuracy where there are several seeds."""
    heading = f"{'model':16} {'per class %':>{19 if several else 11}} {'top-1 %':>8} {'relative':>9} {cost:>16} "
    text = [heading + f"{'nodes':>6} {'depth':>6} {'train s':>8}"]
    for line in lines:
        n = line.numbers
        accuracy = f"{line.accuracy:11.2f}" + (f" +- {line.spread:4.2f}" if several else "")
        text.append(
            f"{line.model:16} {accuracy} {100 * n['top1']:8.2f} {line.relative:9.3f} {n['test_ops_per_row']:16.1f} "
            f"{known(n['nodes']):>6} {known(n['depth']):>6} {n['train_seconds']:8.1f}"
        )
    return "\n".join(text)


def known(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.0f}"


def show(title: str, places: Sequence[Path], cost: str, flat: Sequence[str]) -> None:
    lines = lines_of(places)
    tested = {int(one["test_rows"]) for one in metrics_of(places[0])["models"].values()}
    assert len(tested) == 1, f"models were tested on different numbers of rows: {sorted(tested)}"
    settled = float(np.mean([setup_of(place)["seconds"] for place in places]))
    print(f"\n{title}\n{table(lines, cost, len(places) > 1)}")
    print(f"training seconds include {settled:.1f} s of the setup (C, confusion), which all these machines share")
    print(f"\n{verdicts(lines, tested.pop(), flat)}", flush=True)


def seeds(given: argparse.Namespace) -> str:
    return f"run with seed {', '.join(map(str, given.seeds))}"


def compare_linear(given: argparse.Namespace) -> None:
    for name in given.sets:
        dataset = make_dataset(name, given.data, given.folder)
        keys = [f"classes = {given.classes}"] if given.classes else []
        models = section("ovr-svm", "ovr", 'kernel = "linear"', *keys) + curves(given, *keys)
        flat = ["ovr-svm"]
        if not given.classes:  # one-vs-rest by SGD knows no samples of the classes
            models, flat = section("ovr", "ovr") + models, ["ovr-svm", "ovr"]
        title = f"linear-{name}" + (f"-{given.classes}" if given.classes else "")
        places = [run(given, f"{title}-{seed}", dataset, seed, models) for seed in given.seeds]
        show(f"{title}, {seeds(given)}", places, "classifiers/row", flat)


def compare_kernel(given: argparse.Namespace) -> None:
    keys = ['kernel = "rbf"', *([f"classes = {given.classes}"] if given.classes else [])]
    models = section("ovr", "ovr", *keys) + curves(given, *keys)
    title = f"kernel-{given.rows}" + (f"-{given.classes}" if given.classes else "")
    dataset = few_rows(given)
    places = [run(given, f"{title}-{seed}", dataset, seed, models) for seed in given.seeds]
    show(f"{title}, rows drawn with seed {ROWS_SEED}, {seeds(given)}", places, "support vec./row", ["ovr"])


# ---- complexity against the number of classes ----------------------------------------------------------------------


@dataclass(frozen=True)
class Sample:
    """A model of a sample of the classes."""

    what: str  # family and setting
    n_classes: int
    classifiers: float
    relative: float
    accuracy: float
    flat: float  # accuracy of one-vs-rest of the same classes


def samples_of(found: Found) -> list[Sample]:
    """Every model of a run but one-vs-rest's own."""
    told = {model: found["details"][model]["hierarchy"] for model in found["run"]["models"]}
    accuracy = {model: 100 * found["models"][model]["mean_per_class_top1"] for model in told}
    flat = {(one["n_classes"], one["draw"]): accuracy[model] for model, one in told.items() if one["family"] == "ovr"}
    samples = []
    for model, one in told.items():
        if one["family"] == "ovr":
            continue
        what = ", ".join([one["family"], *(f"{key} {value:g}" for key, value in one["setting"].items())])
        numbers = found["models"][model]
        costs = numbers["classifiers_per_row"], numbers["relative_complexity"]
        n_classes = int(one["n_classes"])
        samples.append(Sample(what, n_classes, *costs, accuracy[model], flat[n_classes, one["draw"]]))
    return samples


def drawn(given: argparse.Namespace, sizes: Sequence[int], draws: int) -> str:
    """Sections of all models of samples of these sizes."""
    swept = f"classes = {list(sizes)}, draw = {list(range(draws))}"
    relaxed = f"sweep = {{ rho = {list(given.rho)}, doubt = {list(given.doubt)}, {swept} }}"
    rival = f"sweep = {{ alpha = {list(given.alpha)}, {swept} }}"
    text = section("ovr-{classes}-{draw}", "ovr", 'kernel = "linear"', f"sweep = {{ {swept} }}")
    text += section("relaxed-{rho}-{doubt}-{classes}-{draw}", RELAXED, relaxed)
    return text + section("marszalek-{alpha}-{classes}-{draw}", "marszalek", rival)


def compare_classes(given: argparse.Namespace) -> None:
    for name in given.sets:
        dataset = make_dataset(name, given.data, given.folder)
        most = Dataset.open(dataset).n_classes
        below = sorted({size for size in given.sizes if size < most})
        models = drawn(given, below, given.draws) if below else ""
        if any(size >= most for size in given.sizes):  # all classes are the same sample, however often drawn
            models += drawn(given, [most], 1)
        places = [run(given, f"classes-{name}-{seed}", dataset, seed, models) for seed in given.seeds]
        samples = [sample for place in places for sample in samples_of(metrics_of(place))]
        print(f"\ncomplexity against the number of classes: {name}, {given.draws} draws, {seeds(given)}")
        print(growth_table(samples), flush=True)


def growth_table(samples: Sequence[Sample]) -> str:
    """Means for each number of classes, and the power of it that the classifiers grow with, over all samples."""
    heading = f"{'method':28} {'classes':>7} {'samples':>7} {'classifiers':>11} {'relative':>9} {'per class %':>11} "
    text = [heading + f"{'one-vs-rest %':>13} {'lead':>6}"]
    for what in dict.fromkeys(sample.what for sample in samples):
        own = [sample for sample in samples if sample.what == what]
        sizes = sorted({sample.n_classes for sample in own})
        for size in sizes:
            here = [(one.classifiers, one.relative, one.accuracy, one.flat) for one in own if one.n_classes == size]
            classifiers, relative, accuracy, flat = np.mean(here, axis=0)
            text.append(
                f"{what:28} {size:7} {len(here):7} {classifiers:11.2f} {relative:9.3f} {accuracy:11.2f} {flat:13.2f} "
                f"{accuracy - flat:+6.2f}"
            )
        if len(sizes) > 1:
            sizes_of, costs = np.log([(one.n_classes, one.classifiers) for one in own]).T
            text.append(f"{what:28} classifiers ~ K^{np.polyfit(sizes_of, costs, 1)[0]:.2f}, {len(own)} samples")
    return "\n".join(text)


# ---- training time -------------------------------------------------------------------------------------------------


def fresh(given: argparse.Namespace, name: str, dataset: Path, models: str) -> Path:
    """As `run`, with nothing left of an earlier run."""
    shutil.rmtree(given.folder / "runs" / name, ignore_errors=True)
    return run(given, name, dataset, given.seeds[0], models)


def compare_time(given: argparse.Namespace) -> None:
    for name in given.sets:
        dataset, keys = (
            make_dataset(name, given.data, given.folder),
            (f"rho = {given.rho[0]}", f"doubt = {given.doubt[0]}"),
        )
        flat = section("ovr", "ovr") + section("ovr-svm", "ovr", 'kernel = "linear"')
        small = section("ovr", "ovr") + section("relaxed", RELAXED, *keys, "C = 1.0", "classes = 10")
        fresh(given, f"time-{name}-warm", dataset, small)  # kernels that are compiled once are compiled by now
        place = fresh(given, f"time-{name}", dataset, section("relaxed", RELAXED, *keys) + flat)
        found = setup_of(place)
        alone = fresh(given, f"time-{name}-C", dataset, section("relaxed", RELAXED, *keys, f"C = {found['C']!r}"))
        about = Dataset.open(dataset)
        rows = f"{about.n_classes} classes, {about.split_counts['train']:,} training rows"
        said = f"{name}, {rows}, {', '.join(keys)}, {given.scheduler}"
        print(f"\ntraining time: {said}\n{time_table(place, alone)}", flush=True)


def time_table(place: Path, alone: Path) -> str:
    """Seconds of each part of a run, and of one whose C was given: its setup makes the confusion alone."""
    steps, models = measured(place), metrics_of(place)["models"]
    found, given, hierarchy = setup_of(place), setup_of(alone), models["relaxed"]
    whole, sgd = hierarchy["train_seconds"], models["ovr"]["train_seconds"]
    rest = found["seconds"] - found["choice_seconds"] - found["confusion_seconds"]
    nodes = f"{hierarchy['nodes']:.0f} nodes, {hierarchy['relative_complexity']:.3f} of one-vs-rest's complexity"
    text = [
        (f"relaxed hierarchy, whole training: {nodes}", whole),
        ("  setup: C and confusion", found["seconds"]),
        ("    rows sorted, scale", rest),
        (f"    choice of C = {found['C']:.3g}", found["choice_seconds"]),
        ("    confusion", found["confusion_seconds"]),
        ("  learning its nodes", steps["train_relaxed"]["seconds"]),
        ("setup with that C given: rows sorted, confusion", given["seconds"]),
        ("  confusion alone", given["confusion_seconds"]),
        ("  learning its nodes", measured(alone)["train_relaxed"]["seconds"]),
        ("ovr by SGD", sgd),
        (
            "ovr-svm, after the same setup; of a hierarchy with doubt, a part",
            models["ovr-svm"]["train_seconds"] - found["seconds"],
        ),
    ]
    shown = "\n".join(f"{what:84} {seconds:8.1f} s" for what, seconds in text)
    accuracy = {model: 100 * one["mean_per_class_top1"] for model, one in models.items()}
    told = ", ".join(f"{model} {accuracy[model]:.2f} %" for model in models)
    return f"{shown}\nthe whole training is {whole / sgd:.1f} times that of ovr; accuracy per class: {told}"


DEFAULTS: Mapping[str, tuple[Sequence[str], Sequence[float], Sequence[float]]] = {  # sets, rho, alpha
    "linear": (("tiny", "clinc-dense", "clinc-sparse"), RHO, ALPHA),
    "kernel": ((), KERNEL_RHO, KERNEL_ALPHA),
    "classes": (("tiny",), ONE_RHO, ONE_ALPHA),
    "time": (("tiny",), ONE_RHO, ONE_ALPHA),
}
COMMANDS = {"linear": compare_linear, "kernel": compare_kernel, "classes": compare_classes, "time": compare_time}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=list(COMMANDS))
    parser.add_argument("data", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", nargs="+", choices=list(SETS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--rho", nargs="+", type=float)
    parser.add_argument("--levels", nargs="+", type=int, default=list(LEVELS))
    parser.add_argument("--alpha", nargs="+", type=float)
    parser.add_argument("--doubt", nargs="+", type=float, default=list(DOUBT), help="of `time` the first")
    parser.add_argument("--pairs", action="store_true", help="also ovo and dag-svm")
    parser.add_argument("--classes", type=int, help="of `linear` and `kernel`: learn a sample of so many")
    parser.add_argument("--rows", type=int, default=40, help="of `kernel`: training rows a class")
    parser.add_argument("--draws", type=int, default=2, help="of `classes`: samples of each size")
    parser.add_argument("--sizes", nargs="+", type=int, default=[50, 100, 150, 200], help="of `classes`")
    parser.add_argument("--scheduler", default="local:2")
    given = parser.parse_args()
    sets, rho, alpha = DEFAULTS[given.what]
    given.sets, given.rho, given.alpha = given.sets or sets, given.rho or rho, given.alpha or alpha
    for variable in NO_KERNEL:  # processes that are started take the environment over
        os.environ.pop(variable, None)
    os.environ.update(dict.fromkeys(THREADS, "1"))
    given.folder.mkdir(parents=True, exist_ok=True)
    COMMANDS[given.what](given)


if __name__ == "__main__":
    main()
