"""Relaxed hierarchies and their rivals in runs: costs recomputed from paths, drawn and odd classes, settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from scipy.sparse import load_npz

from pipeline import preset as preset_module
from pipeline.dataset import Dataset
from pipeline.ingest import ingest
from pipeline.preset import filled
from pipeline.stages.predict import compared, relative_metrics
from pipeline.stages.svm_setup import CONFUSION, GRID, KERNEL_GRID
from pipeline.store import SOLVED, RunFolder, read_manifest
from tasks.features.errors import NegativeFeature
from tasks.models.evaluate import evaluate_rows
from tasks.models.folder import load_model
from tasks.models.predictions import Predictions, read_part
from tasks.relaxed.hierarchy import Hierarchy
from tasks.relaxed.pairs import PairModel
from tasks.rows import Dense, Rows
from tasks.svm.kernel_bank import KernelBank
from tests.bodies import csr_of
from tests.pipeline.cli_caller import succeeds
from tests.systems.harness import run_here

N_CLASSES, WIDTH = 12, 10
UNSEEN, RARE = 10, 11  # classes with no training rows, and with one


def odd_rows(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values of 0 or more, labels and parts: groups of classes hard to tell apart, one without training rows."""
    rng = np.random.default_rng(seed)
    labels = np.arange(360) % N_CLASSES
    far = 4 * rng.random((4, WIDTH)) * (rng.random((4, WIDTH)) < 0.6)
    near = far[np.arange(N_CLASSES) % 4] + rng.random((N_CLASSES, WIDTH))
    values = np.maximum(near[labels] + 0.4 * rng.standard_normal((360, WIDTH)), 0)
    split = np.repeat([0, 2], [240, 120])
    split[labels == UNSEEN] = 2
    split[labels == RARE] = 2
    split[np.flatnonzero(labels == RARE)[0]] = 0
    return values.astype(np.float32), labels, split


def odd_dataset(folder: Path, body: str) -> Dataset:
    values, labels, split = odd_rows()
    rows: Any = scipy.sparse.csr_matrix(values) if body == "csr" else values
    return ingest(rows, folder / f"{body}.zarr", labels=labels, split=split, block_rows=64)


def section(name: str, kind: str, *keys: str) -> str:
    return "\n".join(["[[train]]", f'name = "{name}"', f'kind = "{kind}"', *keys, ""])


def run(folder: Path, dataset: Dataset, *sections: str, more: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "svm.toml"
    path.write_text(f'name = "svm"\nseed = 2\n[data]\npath = "{dataset.path}"\n' + "\n".join(sections) + more)
    return run_here(path)


def family(kernel: str, *keys: str) -> list[str]:
    keys = (f'kernel = "{kernel}"', *keys)
    sure = (*keys, "doubt = 0")
    return [
        section("svm", "ovr", *keys),
        section("doubtful", "relaxed-hierarchy", "rho = 0.7", "doubt = [0.3, 1e9]", *keys),
        section("relaxed", "relaxed-hierarchy", "rho = [0.3, 0.7]", *sure),
        section("parted", "relaxed-hierarchy", 'leaves = "continued"', "rho = 1.2", "balance = 0", *sure),
        section("voted", "relaxed-hierarchy", 'initialisation = "top-down"', *sure),
        section("spectral", "spectral-tree", "levels = [1, 3]", *keys),
        section("marszalek", "marszalek", "alpha = [0.5, 1.0]", *keys),
        section("ovo", "ovo", *keys),
        section("dag", "dag-svm", *keys),
    ]


DRAWN = [
    section(f"{name}-{draw}", kind, "classes = 5", f"draw = {draw}", "C = 1.0", *keys)
    for draw in (0, 1)
    for name, kind, keys in (
        ("drawn-svm", "ovr", ('kernel = "linear"',)),
        ("drawn-relaxed", "relaxed-hierarchy", ()),
        ("drawn-ovo", "ovo", ()),
        ("drawn-spectral", "spectral-tree", ()),
    )
]
HIERARCHIES = ["svm", "relaxed-0.3", "relaxed-0.7", "parted", "voted", "spectral-1", "spectral-3"]
HIERARCHIES += ["marszalek-0.5", "marszalek-1.0"]


@pytest.fixture(scope="module")
def linear(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of everything linear, on dense rows."""
    folder = tmp_path_factory.mktemp("linear")
    sgd = section("sgd", "ovr", "rounds = 2")
    return run(folder, odd_dataset(folder, "dense"), sgd, *family("linear"), *DRAWN)


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of everything with a kernel, on sparse rows; one model has no one-vs-rest of the same options."""
    folder = tmp_path_factory.mktemp("kernel")
    alone = section("alone", "relaxed-hierarchy", 'kernel = "chi2"', "C = 5.0", "width = 0.7", "doubt = 0")
    return run(folder, odd_dataset(folder, "csr"), *family("chi2"), alone)


def metrics(folder: Path) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = json.loads((folder / "metrics.json").read_text())["models"]
    return found


def predicted(folder: Path, name: str) -> Predictions:
    return read_part(folder / "predictions" / f"{name}.parquet")


def hierarchy(folder: Path, name: str) -> Hierarchy:
    model = load_model(folder / "models" / name).model
    assert isinstance(model, Hierarchy)
    return model


def results(folder: Path, step: str) -> dict[str, Any]:
    run_folder = RunFolder(folder)
    done = run_folder.done(step, read_manifest(run_folder)["steps"][step]["fingerprint"])
    assert done is not None
    return done.results


# ---- costs ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HIERARCHIES)
def test_linear_costs_are_those_of_the_paths(linear: Path, name: str) -> None:
    model, found = hierarchy(linear, name), predicted(linear, name)
    told, path = metrics(linear)[name], found.ranking.path
    assert path is not None
    counts, leaves = [], 0
    for nodes in path:
        nodes = [int(node) for node in nodes if node >= 0]
        asked = 0
        for node in nodes:
            is_split = model.negative[node] >= 0
            size = len(model.label_set(node))
            asked += 1 if is_split else size if size > 1 else 0
        leaves += model.negative[nodes[-1]] < 0 and len(model.label_set(nodes[-1])) > 1
        counts.append(asked)
    assert found.ranking.evaluations.tolist() == counts
    n_learnt = N_CLASSES - 1
    assert told["test_rows"] == len(counts)
    assert told["classifiers_per_row"] == told["test_ops_per_row"] == pytest.approx(np.mean(counts))
    assert told["relative_complexity"] == told["relative_classifiers"] == pytest.approx(np.mean(counts) / n_learnt)
    assert told["speedup"] == pytest.approx(n_learnt / np.mean(counts))
    assert told["ovr_leaf_share"] == pytest.approx(leaves / len(counts))
    if name == "svm":
        assert (told["relative_complexity"], told["ovr_leaf_share"]) == (1.0, 1.0)
    if name == "parted":
        assert told["ovr_leaf_share"] == 0
    assert told["top1"] > 0.3


def test_pairs_cost_what_the_paper_says(linear: Path, kernel: Path) -> None:
    n = N_CLASSES - 1
    for folder in (linear, kernel):
        told = metrics(folder)
        assert told["ovo"]["relative_classifiers"] == pytest.approx((n - 1) / 2)
        assert told["dag"]["classifiers_per_row"] == n - 1
        assert told["dag"]["relative_classifiers"] == pytest.approx((n - 1) / n)
        assert told["ovo"]["top1"] > 0.45
    told = metrics(linear)
    assert told["ovo"]["relative_complexity"] == pytest.approx((n - 1) / 2)
    assert told["dag"]["relative_complexity"] == pytest.approx((n - 1) / n)
    assert metrics(kernel)["dag"]["relative_complexity"] <= metrics(kernel)["ovo"]["relative_complexity"]


@pytest.mark.parametrize("name", [*HIERARCHIES, "alone"])
def test_kernel_costs_are_the_union_of_support_vectors_on_the_path(kernel: Path, name: str) -> None:
    model, found = hierarchy(kernel, name), predicted(kernel, name)
    bank, path = model.bank, found.ranking.path
    assert isinstance(bank, KernelBank)
    assert path is not None
    counts = []
    for nodes in path:
        asked: set[int] = set()
        for node in nodes[nodes >= 0]:
            first = int(model.first_classifier[node])
            for place in range(first, first + int(model.classifiers_of_node[node])):
                asked |= set(bank.index[bank.offsets[place] : bank.offsets[place + 1]].tolist())
        counts.append(len(asked))
    assert found.ranking.evaluations.tolist() == counts
    told = metrics(kernel)[name]
    assert told["test_ops_per_row"] == pytest.approx(np.mean(counts))
    split = odd_rows()[2]
    n_train = int((split == 0).sum())
    ovr = metrics(kernel)["svm"]["test_ops_per_row"] if name != "alone" else n_train
    assert results(kernel, f"train_{name}")["hierarchy"]["n_rows"] == n_train
    assert told["relative_complexity"] == pytest.approx(np.mean(counts) / ovr)
    assert told["speedup"] == pytest.approx(ovr / np.mean(counts))
    assert told["top1"] > 0.45


@pytest.mark.parametrize("name", ["doubtful-0.3", "doubtful-1000000000.0"])
@pytest.mark.parametrize("kernel_too", [False, True], ids=["linear", "kernel"])
def test_doubt_is_judged_by_one_vs_rest_of_the_run(linear: Path, kernel: Path, kernel_too: bool, name: str) -> None:
    folder = kernel if kernel_too else linear
    model, sure, flat = (hierarchy(folder, one) for one in (name, "relaxed-0.7", "svm"))
    for part in ("negative", "positive", "classes", "colors", "offsets", "first_classifier"):
        np.testing.assert_array_equal(getattr(model, part), getattr(sure, part))  # one hierarchy, grown once
    rows = odd_rows()[0]
    session, own = model.bank.session(model_rows(model, rows)), flat.bank.session(model_rows(flat, rows))
    every = np.arange(len(rows))
    judges = session.block(every, model.n_node_classifiers, model.bank.n_classifiers)
    np.testing.assert_array_equal(judges, own.block(every, 0, flat.bank.n_classifiers))
    told, plain = metrics(folder)[name], metrics(folder)["relaxed-0.7"]
    assert told["classifiers_per_row"] > plain["classifiers_per_row"]
    assert told["relative_complexity"] > plain["relative_complexity"]
    assert told["train_seconds"] > plain["train_seconds"]
    assert results(folder, f"train_{name}")["hierarchy"]["setting"] == {"rho": 0.7, "doubt": model.doubt}
    if model.doubt > 1:
        assert told["mean_per_class_top1"] >= metrics(folder)["svm"]["mean_per_class_top1"] - 0.05


def model_rows(model: Hierarchy, values: np.ndarray) -> Rows:
    """As sparse rows where the model's support vectors are."""
    if isinstance(model.bank, KernelBank) and model.bank.support.body == "csr":
        return csr_of(values)
    return Dense(values)


def test_the_wrong_measure_is_told_of_kernels_too(kernel: Path) -> None:
    told = metrics(kernel)
    assert told["svm"]["relative_classifiers"] == told["svm"]["relative_complexity"] == 1.0
    assert told["relaxed-0.7"]["relative_classifiers"] == told["relaxed-0.7"]["classifiers_per_row"] / (N_CLASSES - 1)
    assert told["relaxed-0.7"]["relative_classifiers"] < 1


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        ("svm-ovr", {"classifiers_per_row": 8.0}, 1.0),
        ("relaxed-hierarchy", {"classifiers_per_row": 2.0}, 0.25),
        ("ovo", {}, 3.5),
        ("dag-svm", {}, 0.875),
    ],
)
@pytest.mark.parametrize("of", ["linear", "rbf"])
def test_metrics_are_relative_to_the_classes_learnt(
    kind: str, given: dict[str, float], expected: float, of: str
) -> None:
    before = {"test_ops_per_row": 4.0, "speedup": 99.0, "top1": 0.5, **given}
    found = relative_metrics(before, {"n_classes": 8, "kernel": of}, kind)
    assert found["relative_classifiers"] == expected
    assert found["top1"] == 0.5
    if of == "linear":
        assert (found["relative_complexity"], found["speedup"]) == (0.5, 2.0)
    else:
        assert "speedup" not in found
        assert "relative_complexity" not in found
    assert before["speedup"] == 99.0


def test_a_model_that_asks_nothing_has_no_speedup() -> None:
    assert compared({"test_ops_per_row": 0.0}, 5.0) == {"relative_complexity": 0.0}


# ---- classes -------------------------------------------------------------------------------------------------------


def test_drawn_classes_are_the_same_for_all_learners_and_alone_tested(linear: Path) -> None:
    _, labels, split = odd_rows()
    drawn = {}
    for draw in (0, 1):
        relaxed = hierarchy(linear, f"drawn-relaxed-{draw}").label_set(0).tolist()
        pairs = load_model(linear / "models" / f"drawn-ovo-{draw}").model
        assert isinstance(pairs, PairModel)
        assert len(relaxed) == 5
        assert UNSEEN not in relaxed
        assert pairs.classes.tolist() == relaxed
        assert hierarchy(linear, f"drawn-svm-{draw}").label_set(0).tolist() == relaxed
        assert hierarchy(linear, f"drawn-spectral-{draw}").label_set(0).tolist() == relaxed
        tested = (split == 2) & np.isin(labels, relaxed)
        for name in ("drawn-svm", "drawn-relaxed", "drawn-ovo", "drawn-spectral"):
            told, found = metrics(linear)[f"{name}-{draw}"], predicted(linear, f"{name}-{draw}")
            right = found.ranking.classes[:, 0] == found.label
            known = np.isin(found.label, relaxed)
            assert told["test_rows"] == tested.sum() == known.sum()
            assert told["top1"] == pytest.approx(right[known].mean())
            assert set(found.ranking.classes[found.ranking.classes >= 0].tolist()) <= set(relaxed)
        assert metrics(linear)[f"drawn-svm-{draw}"]["relative_complexity"] == 1.0
        assert metrics(linear)[f"drawn-ovo-{draw}"]["relative_complexity"] == 2.0
        drawn[draw] = relaxed
    assert drawn[0] != drawn[1]


def test_rows_of_a_class_without_training_rows_count_as_wrong_as_for_every_learner(linear: Path) -> None:
    """Unless classes are drawn: then only rows of these are looked at."""
    _, labels, split = odd_rows()
    told = metrics(linear)
    for name in ("sgd", *HIERARCHIES, "ovo", "dag"):
        assert told[name]["test_rows"] == (split == 2).sum()
        found = predicted(linear, name)
        assert told[name]["top1"] == pytest.approx((found.ranking.classes[:, 0] == found.label).mean())
        if name != "sgd":
            assert not (found.ranking.classes == UNSEEN).any()
    assert (labels[split == 2] == UNSEEN).sum() == 30


def test_evaluations_of_rows_that_are_not_looked_at_are_not_added(linear: Path) -> None:
    found = predicted(linear, "relaxed-0.7")
    model = hierarchy(linear, "relaxed-0.7")
    sets = {"one_vs_all": model.one_vs_all, "learnt": np.array([1, 3])}
    scores = evaluate_rows(found, N_CLASSES, None, sets)
    kept = np.isin(found.label, [1, 3])
    assert (scores.rows, scores.evaluations) == (kept.sum(), found.ranking.evaluations[kept].sum())
    assert scores.asked is not None
    assert scores.asked[0] == found.ranking.evaluations[kept].sum()
    assert (scores + scores).asked == (2 * scores.asked[0], 2 * scores.asked[1])
    plain = evaluate_rows(found, N_CLASSES)
    assert plain.asked is None
    assert (plain + scores).asked == scores.asked


@pytest.mark.parametrize(
    ("n_classes", "per_class", "of"), [(2, 6, "linear"), (3, 1, "rbf"), (3, 1, "linear"), (9, 2, "rbf")]
)
def test_few_classes_and_few_rows(tmp_path: Path, n_classes: int, per_class: int, of: str) -> None:
    """Two classes, classes of one row each, and more classes than rows a node may have."""
    rng = np.random.default_rng(1)
    labels = np.tile(np.arange(n_classes), per_class + 2)
    split = np.repeat([0, 2], [n_classes * per_class, 2 * n_classes])
    values = (5 * rng.random((n_classes, 4)))[labels] + 0.1 * rng.standard_normal((labels.size, 4))
    dataset = ingest(values.astype(np.float32), tmp_path / "few.zarr", labels=labels, split=split, block_rows=16)
    small = section(
        "small", "relaxed-hierarchy", "rows_per_node = 3", "search_rows = 2", "samples = 2", f'kernel = "{of}"'
    )
    told = metrics(run(tmp_path, dataset, *family(of), small))
    for name in (*HIERARCHIES, "ovo", "dag", "small"):
        assert told[name]["test_rows"] == 2 * n_classes
        assert told[name]["top1"] > 1.2 / n_classes


def test_rows_that_are_all_the_same_come_to_one_leaf(tmp_path: Path) -> None:
    dataset = ingest(
        np.ones((60, 3), np.float32), tmp_path / "same.zarr", labels=np.arange(60) % 4, split=np.repeat([0, 2], 30)
    )
    folder = run(tmp_path, dataset, *family("linear"))
    told = metrics(folder)
    assert told["relaxed-0.3"]["ovr_leaf_share"] == 1.0
    assert told["relaxed-0.3"]["relative_complexity"] == 1.0
    assert told["parted"]["ovr_leaf_share"] == 0.0


# ---- presets -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", ["relaxed", "relaxed-kernel", "relaxed-classes"])
def test_one_command_compares_the_family(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, preset: str) -> None:
    monkeypatch.setattr(preset_module, "filled", lambda *given: shorter(filled(*given)))
    values, labels, split = odd_rows()
    source = tmp_path / "x.npy"
    np.save(source, values)
    ingest(source, tmp_path / "some.zarr", labels=labels, split=split)
    monkeypatch.chdir(tmp_path)
    succeeds("run", preset, "--data", "some.zarr", "--scheduler", "serial")
    folder = tmp_path / "runs" / f"{preset}-some"
    told = metrics(folder)
    kinds = {name.partition("-")[0] for name in told}
    assert {"ovr", "relaxed", "spectral", "marszalek"} <= kinds
    assert ({"ovo", "dag"} <= kinds) == (preset != "relaxed-classes")
    asked = {"top1", "mean_per_class_top1", "relative_complexity", "relative_classifiers", "train_seconds"}
    assert all(asked <= numbers.keys() for name, numbers in told.items() if name != "ovr")
    written = {path.name for path in (folder / "report-figures").glob("relaxed*")}
    assert written
    again = succeeds("run", preset, "--data", "some.zarr", "--scheduler", "serial")
    assert "0 of " in again.err


def shorter(text: str) -> str:
    """One draw in place of five, and little of SGD."""
    text = text.replace("draw = [0, 1, 2, 3, 4]", "draw = [1]")
    return text.replace('kind = "ovr"\n\n', 'kind = "ovr"\nrounds = 1\nleast_rows = 100\n\n', 1)


# ---- settings ------------------------------------------------------------------------------------------------------


def setups(folder: Path) -> list[str]:
    return [step for step in read_manifest(RunFolder(folder))["steps"] if step.startswith("svm_")]


def test_learners_of_the_same_options_share_a_setup(linear: Path, kernel: Path) -> None:
    assert len(setups(linear)) == 2
    assert len(setups(kernel)) == 2
    assert not (linear / SOLVED).exists()
    chosen = {bool(results(kernel, step)["trials"]): results(kernel, step) for step in setups(kernel)}
    assert (chosen[False]["C"], chosen[False]["kernel"]["width"]) == (5.0, 0.7)
    for folder, grid in ((linear, GRID), (kernel, KERNEL_GRID)):
        found = next(results(folder, step) for step in setups(folder) if results(folder, step)["trials"])
        table = found["trials"]
        unit = 1 / found["scale"]
        assert [one["C"] for one in table] == pytest.approx([unit * step for step in grid])
        best = max(one["top1"] for one in table)
        assert found["C"] == next(one["C"] for one in table if one["top1"] == best)
        assert best > 0.5


def test_every_training_row_is_held_out_once(linear: Path) -> None:
    _, labels, split = odd_rows()
    for step in setups(linear):
        run_folder = RunFolder(linear)
        place = run_folder.step_folder(step, read_manifest(run_folder)["steps"][step]["fingerprint"])
        confusion = load_npz(place / CONFUSION).toarray()
        counts = np.bincount(labels[split == 0], minlength=N_CLASSES)
        assert confusion.sum(axis=1).tolist() == counts.tolist()
        assert np.trace(confusion) / confusion.sum() == pytest.approx(results(linear, step)["held_out_top1"])


def test_a_kernel_of_histograms_refuses_values_below_0(tmp_path: Path) -> None:
    values, labels, split = odd_rows()
    values[7, 3] = -1
    dataset = ingest(values, tmp_path / "bad.zarr", labels=labels, split=split)
    with pytest.raises(NegativeFeature, match="-1 is below 0") as caught:
        run(tmp_path, dataset, section("m", "relaxed-hierarchy", 'kernel = "histogram-intersection"'))
    assert "row 7, column 3" in caught.value.where


def test_the_report_has_the_family(linear: Path, kernel: Path) -> None:
    for folder, what in ((linear, "linear"), (kernel, "chi2")):
        details = json.loads((folder / "metrics.json").read_text())["details"]
        for name in HIERARCHIES:
            told = details[name]["hierarchy"]
            assert told["kernel"] == what
            assert told["n_classes"] == N_CLASSES - 1
            model = hierarchy(folder, name)
            assert told["nodes"] == model.n_nodes
            assert told["splits"] == model.is_split.sum()
            assert told["ovr_leaves"] == model.one_vs_all.sum()
            assert told["single_leaves"] == model.n_nodes - told["splits"] - told["ovr_leaves"]
            root = told["records"][0]
            assert root["depth"] == 0
            assert sorted(root["positive"] + root["negative"] + root["ignored"]) == model.label_set(0).tolist()
            depths = [record["depth"] for record in told["records"]]
            assert depths == sorted(depths)
            assert max(depths) <= 2
