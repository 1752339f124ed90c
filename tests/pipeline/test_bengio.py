"""bengio-trees in runs: every body of rows, workers, interruptions, shared classifiers, what is told of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from pipeline import pool as pools
from pipeline.config import BengioTree, ConfigError, load_config
from pipeline.dataset import Dataset
from pipeline.ingest import ingest
from pipeline.plan import facts_of
from pipeline.stages import bengio
from pipeline.stages.bengio import BengioStage
from pipeline.stages.bengio_size import bengio_bytes
from pipeline.stages.grow_params import ROOT_AMBIGUITY
from pipeline.store import SOLVED, Done, RunFolder, read_json, read_manifest
from tasks.models.folder import load_model
from tasks.trees.tree import LabelTree
from tests.systems.conftest import make_dataset, planted
from tests.systems.digests import differences, digests_of
from tests.systems.harness import run_here

TREE = """[[train]]
name = "{name}"
kind = "bengio-tree"
branching = {branching}
depth = {depth}
rounds = 3
ovr_rounds = 2
least_rows = 4000
{more}
"""
ENCODED = """[[encode]]
name = "pq"
kind = "pq"
subquantizers = 12
bits = 5
iterations = 3
[[encode]]
name = "codes"
kind = "dwta"
hashes = 150
window = 6
"""


def tree_of(name: str = "tree", branching: int = 4, depth: int = 3, more: str = "") -> str:
    return TREE.format(name=name, branching=branching, depth=depth, more=more)


def config_of(folder: Path, dataset: Path | str, *parts: str, name: str = "run") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.toml"
    path.write_text(f'name = "{name}"\nseed = 3\n[data]\npath = "{dataset}"\n' + "".join(parts), encoding="utf-8")
    return path


def done_of(run: Path, model: str = "tree") -> Done:
    folder = RunFolder(run)
    done = folder.done(f"train_{model}", read_manifest(folder)["steps"][f"train_{model}"]["fingerprint"])
    assert done is not None
    return done


def model_of(run: Path, name: str = "tree") -> LabelTree:
    model = load_model(run / "models" / name).model
    assert isinstance(model, LabelTree)
    return model


def metrics_of(run: Path, name: str = "tree") -> dict[str, Any]:
    metrics: dict[str, Any] = read_json(run / "metrics.json")["models"][name]
    return metrics


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """31 planted classes, dense and sparse."""
    folder = tmp_path_factory.mktemp("bengio")
    return {body: Path(make_dataset(folder, body).path) for body in ("dense", "csr")}


@pytest.fixture(scope="module")
def finished(datasets: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """body -> a finished run of one tree."""
    folder = tmp_path_factory.mktemp("finished")
    return {body: run_here(config_of(folder / body, path, tree_of())) for body, path in datasets.items()}


@pytest.mark.parametrize("body", ["dense", "csr"])
def test_a_tree_of_disjoint_parts_tells_classes_apart(finished: dict[str, Path], body: str) -> None:
    model, metrics = model_of(finished[body]), metrics_of(finished[body])
    assert model.kind == "bengio-tree"
    assert metrics["top1"] > 0.5
    assert metrics["speedup"] > 1.5
    leaves = np.flatnonzero(model.n_children == 0)
    assert sorted(int(c) for leaf in leaves for c in model.label_set(leaf)) == list(range(31))
    assert model.n_children[0] == 4
    assert model.depth_of.max() <= 3
    assert (model.columns is not None) == (body == "csr")


def test_what_is_told_of_a_tree(finished: dict[str, Path]) -> None:
    run, model = finished["dense"], model_of(finished["dense"])
    results, nodes = done_of(run).results, model.facts["nodes"]
    assert results[ROOT_AMBIGUITY] == results["judged"][0]["ambiguity"] == nodes[0]["ambiguity"]
    sizes = np.array([model.label_set(node).size for node in range(1, 5)])
    assert sizes.min() / 31 <= results[ROOT_AMBIGUITY] <= sizes.max() / 31
    assert [one["node"] for one in nodes][:2] == ["0", "0.0"]
    assert len(nodes) == np.count_nonzero(model.n_children)
    assert sum(one["operations"] for one in nodes) == pytest.approx(model.facts["operations"])
    assert results["train_ops_per_row"] < results["ovr_ops_per_row"]
    assert results["ovr_ops_per_row"] % (2 * 31) == 0  # passes of dot products and additions for every class
    assert (results["ambiguity"], results["loss"], results["branching"], results["depth"]) == (None, None, 4, 3)
    assert done_of(run).measured["ovr_seconds"] > 0


@pytest.mark.parametrize("body", [pytest.param("dense", marks=pytest.mark.slow), "csr"])
def test_the_same_content_on_workers(
    finished: dict[str, Path], datasets: dict[str, Path], tmp_path: Path, body: str
) -> None:
    run = run_here(config_of(tmp_path, datasets[body], tree_of()), "local:2")
    assert differences(digests_of(finished[body]), digests_of(run)) == []


def test_the_same_content_of_models_that_are_averaged(
    datasets: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with rows that are too many for one model."""
    monkeypatch.setattr(bengio, "whole", lambda params: params)
    with monkeypatch.context() as patch:
        names = counting(patch)
        serial = run_here(config_of(tmp_path / "serial", datasets["csr"], tree_of()))
    assert names.count("sgd_tree") == 4 * 3
    assert metrics_of(serial)["top1"] > 0.5
    shared = run_here(config_of(tmp_path, datasets["csr"], tree_of()), "local:2")
    assert differences(digests_of(serial), digests_of(shared)) == []


@pytest.mark.parametrize("rows", ["pq", "codes"])
def test_trees_of_codes(datasets: dict[str, Path], tmp_path: Path, rows: str) -> None:
    tested = 'test_rows = "x"' if rows == "pq" else ""
    run = run_here(config_of(tmp_path, datasets["dense"], ENCODED, tree_of(more=f'rows = "{rows}"\n{tested}')))
    assert metrics_of(run)["top1"] > 0.4


class Interrupted(Exception):
    """Stands for a kill."""


def interrupting(monkeypatch: pytest.MonkeyPatch, stop: int) -> None:
    """The pool stops before the task with this number; each task works on as before otherwise."""
    left, work = [stop], pools.SerialPool._call

    def call(self: pools.SerialPool, *args: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            raise Interrupted
        return work(self, *args)

    monkeypatch.setattr(pools.SerialPool, "_call", call)


def counting(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the tasks that are called from now on."""
    names: list[str] = []
    work = pools.SerialPool._call

    def call(self: pools.SerialPool, fn: Callable[..., Any], item: Any, values: Any, tally: pools.Tally) -> Any:
        names.append(tally.name)
        return work(self, fn, item, values, tally)

    monkeypatch.setattr(pools.SerialPool, "_call", call)
    return names


def stopping_before(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The pool stops before the first task of this name."""
    work = pools.SerialPool._call

    def call(self: pools.SerialPool, fn: Callable[..., Any], item: Any, values: Any, tally: pools.Tally) -> Any:
        if tally.name == name:
            raise Interrupted
        return work(self, fn, item, values, tally)

    monkeypatch.setattr(pools.SerialPool, "_call", call)


def test_interrupted_again_and_again_a_run_goes_on_to_the_same_end(
    finished: dict[str, Path], datasets: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the first task of every kind, one stop after another."""
    config = config_of(tmp_path / "whole", datasets["csr"], tree_of())
    with monkeypatch.context() as patch:
        names = counting(patch)
        run_here(config)
    kinds = [name for name in dict.fromkeys(names) if "tree" in name]
    assert {"confusion_tree", "part_tree", "features_tree", "sgd_tree", "judge_tree"} <= set(kinds)
    stopped = config_of(tmp_path, datasets["csr"], tree_of())
    for name in kinds:
        with monkeypatch.context() as patch:
            stopping_before(patch, name)
            with pytest.raises(Interrupted):
                run_here(stopped)
    assert differences(digests_of(finished["csr"]), digests_of(run_here(stopped))) == []


def test_finished_work_is_not_done_again(
    datasets: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of(tmp_path, datasets["dense"], tree_of())
    with monkeypatch.context() as patch:
        names = counting(patch)
        run_here(config)
    stop = max(i for i, name in enumerate(names) if name == "sgd_tree")
    again = config_of(tmp_path / "again", datasets["dense"], tree_of())
    with monkeypatch.context() as patch:
        interrupting(patch, stop + 1)
        with pytest.raises(Interrupted):
            run_here(again)
    with monkeypatch.context() as patch:
        rest = counting(patch)
        run_here(again)
    assert rest.count("sgd_tree") == names.count("sgd_tree") // 3 == 1
    assert not {"sgd_bengio-tree-ovr", "confusion_tree", "part_tree"} & set(rest)


def test_trees_of_other_shapes_share_the_flat_classifiers(
    finished: dict[str, Path], datasets: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = tree_of() + tree_of("other", 3, 2)
    with monkeypatch.context() as patch:
        names = counting(patch)
        run = run_here(config_of(tmp_path, datasets["dense"], parts))
    assert names.count("confusion_other") == 0 < names.count("confusion_tree")
    assert not (run / SOLVED).exists()
    assert done_of(run).digest == done_of(finished["dense"]).digest
    assert done_of(run, "other").results["ovr_ops_per_row"] == done_of(run).results["ovr_ops_per_row"]
    trained = done_of(run, "other").measured
    assert trained["train_seconds"] == pytest.approx(trained["seconds"] + trained["ovr_seconds"])


def test_a_model_of_the_config_may_tell_the_confusion(
    datasets: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flat = '[[train]]\nname = "flat"\nkind = "ovr"\nrounds = 2\n'
    config = config_of(tmp_path, datasets["dense"], flat, tree_of(more='confusion_of = "flat"'))
    with monkeypatch.context() as patch:
        names = counting(patch)
        run = run_here(config)
    assert not any("bengio-tree-ovr" in name for name in names)
    assert done_of(run).results["ovr_ops_per_row"] == done_of(run, "flat").results["train_ops_per_row"]
    assert metrics_of(run)["top1"] > 0.5


@pytest.mark.parametrize(
    ("flat", "more", "expected"),
    [
        ("", 'confusion_of = "flat"', r"confusion_of = 'flat': expected an ovr above it, there is none"),
        (
            '[[train]]\nname = "flat"\nkind = "ovr"\nrows = "pq"\n',
            'confusion_of = "flat"',
            r"confusion_of = 'flat' is tested on 'pq', not on 'x'",
        ),
    ],
    ids=["not there", "other rows"],
)
def test_what_tells_the_confusion_must_stand_above(
    datasets: dict[str, Path], tmp_path: Path, flat: str, more: str, expected: str
) -> None:
    with pytest.raises(ConfigError, match=expected):
        load_config(config_of(tmp_path, datasets["dense"], ENCODED, flat, tree_of(more=more)))


def test_a_tree_of_one_split_needs_no_flat_classifiers(datasets: dict[str, Path], tmp_path: Path) -> None:
    run = run_here(config_of(tmp_path, datasets["dense"], tree_of(depth=1)))
    assert "ovr_ops_per_row" not in done_of(run).results
    assert model_of(run).n_children.tolist() == [31] + [0] * 31
    assert metrics_of(run)["top1"] > 0.5


@pytest.mark.parametrize("body", ["dense", "csr"])
def test_without_validation_rows_training_rows_tell(tmp_path: Path, body: str) -> None:
    rows, labels, _ = planted(600, 24, body, 0, shape=(3, 4))
    source: Any = rows
    if body == "csr":
        source = tmp_path / "rows.npz"
        scipy.sparse.save_npz(source, rows)
    ingest(source, tmp_path / "d.zarr", labels=labels, validation=0.0, block_rows=100)
    run = run_here(config_of(tmp_path, "d.zarr", tree_of(branching=3, depth=2)))
    results = done_of(run).results
    assert results["judged"][0]["rows"] == Dataset.open(tmp_path / "d.zarr").split_counts["train"]
    assert 1 / 13 < results[ROOT_AMBIGUITY] < 1
    assert metrics_of(run)["top1"] > 0.5


def test_classes_without_any_training_row_are_leaves_like_others(tmp_path: Path) -> None:
    """Two of fifteen classes have test rows alone."""
    rows, labels, _ = planted(600, 24, "csr", 1, shape=(3, 5))
    order = np.argsort(labels >= 13, kind="stable")
    split = np.where(labels[order] >= 13, "test", np.where(np.arange(600) % 5 == 0, "validation", "train"))
    scipy.sparse.save_npz(tmp_path / "rows.npz", rows[order])
    ingest(tmp_path / "rows.npz", tmp_path / "d.zarr", labels=labels[order], split=split.tolist(), block_rows=100)
    run = run_here(config_of(tmp_path, "d.zarr", tree_of(branching=3, depth=3)))
    model = model_of(run)
    assert sorted(model.label_set(leaf).tolist()[0] for leaf in np.flatnonzero(model.n_children == 0)) == list(
        range(16)
    )


@pytest.mark.parametrize("body", ["dense", "csr"])
def test_the_plan_bounds_the_weights(
    finished: dict[str, Path], datasets: dict[str, Path], tmp_path: Path, body: str
) -> None:
    config = load_config(config_of(tmp_path, datasets[body], tree_of()))
    facts, (learner,) = facts_of(config, config.run, Dataset.open(datasets[body])), config.run.train
    assert isinstance(learner, BengioTree)
    held = done_of(finished[body]).results["training_bytes"]
    assert held <= bengio_bytes(learner, facts) <= 4 * held
    estimate = BengioStage.of(learner, facts).estimate(facts)
    assert estimate.disk_bytes > done_of(finished[body]).results["model_bytes"]
