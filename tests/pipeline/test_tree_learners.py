"""The tree learners in runs: caps that come from another tree, wanted speed-ups, trees that are grown once."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pipeline.choice import Choice, without
from pipeline.config import ConfigError, load_config
from pipeline.config import LabelTree as LabelTreeSection
from pipeline.dataset import Dataset
from pipeline.plan import make_plan
from pipeline.stages.grow import findings_of
from pipeline.stages.grow_params import ROOT_AMBIGUITY, tree_params
from pipeline.store import SOLVED, RunFolder, read_json, read_manifest
from tasks.trees.tree import Split, assemble
from tests.pipeline.cli_caller import succeeds
from tests.systems.conftest import make_dataset
from tests.systems.harness import run_here

BENGIO = '[[train]]\nname = "bengio"\nkind = "bengio-tree"\nbranching = 3\nrounds = 2\novr_rounds = 2\n'
LABEL = '[[train]]\nname = "{name}"\nkind = "label-tree"\nbranching = 3\nrounds = 2\n{more}\n'


def write_config(folder: Path, dataset: Path, *parts: str, name: str = "trees") -> Path:
    path = folder / f"{name}.toml"
    path.write_text(f'name = "{name}"\nseed = 3\n[data]\npath = "{dataset}"\n' + "".join(parts), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return make_dataset(tmp_path_factory.mktemp("trees"), "dense")


def trained(folder: Path, name: str, config: str = "trees") -> dict[str, object]:
    """The results of the training step of a model of a finished run."""
    run = RunFolder(folder / "runs" / config)
    done = run.done(f"train_{name}", read_manifest(run)["steps"][f"train_{name}"]["fingerprint"])
    assert done is not None
    return done.results


def test_a_label_tree_takes_its_cap_from_the_root_of_a_bengio_tree(dataset: Dataset, tmp_path: Path) -> None:
    parts = BENGIO + LABEL.format(name="label", more='ambiguity_of = "bengio"')
    run_here(write_config(tmp_path, Path(dataset.path), parts))
    cap = trained(tmp_path, "bengio")[ROOT_AMBIGUITY]
    assert isinstance(cap, float)
    assert 0 < cap < 1
    found = trained(tmp_path, "label")
    assert found["ambiguity"] == cap
    judged = found["judged"]
    assert isinstance(judged, list)
    assert judged[0]["ambiguity"] <= cap * (1 + 1e-9)


def test_a_cap_must_come_from_a_bengio_tree_above(dataset: Dataset, tmp_path: Path) -> None:
    label = LABEL.format(name="label", more='ambiguity_of = "bengio"')
    with pytest.raises(ConfigError, match=r"ambiguity_of = 'bengio': expected a bengio-tree above it, there is none"):
        load_config(write_config(tmp_path, Path(dataset.path), label, BENGIO))
    other = LABEL.format(name="label", more='ambiguity_of = "label"')
    with pytest.raises(ConfigError, match=r"expected a bengio-tree above it, one of \['bengio'\]"):
        load_config(write_config(tmp_path, Path(dataset.path), BENGIO, other))


def test_a_speedup_must_have_something_to_propose(dataset: Dataset, tmp_path: Path) -> None:
    kmeans = '[[train]]\nname = "k"\nkind = "kmeans-tree"\nspeedup = 3.0\nbranching = 4\ndepth = 2\n'
    with pytest.raises(ConfigError, match="speedup proposes what is not given of branching and depth"):
        load_config(write_config(tmp_path, Path(dataset.path), kmeans))


@pytest.mark.parametrize(
    ("more", "hint"),
    [
        ("ambiguity = 0.02", "a larger `ambiguity`"),
        ("loss = 0.9", "a smaller `loss`"),
        ("speedup = 2.0", "a smaller `speedup`"),
        ('ambiguity_of = "bengio"', "an `ambiguity` of its own that is larger"),
    ],
)
def test_what_keeps_classes_is_the_key_that_was_given(dataset: Dataset, tmp_path: Path, more: str, hint: str) -> None:
    run = load_config(write_config(tmp_path, Path(dataset.path), BENGIO, LABEL.format(name="label", more=more))).run
    learner = run.train[1]
    assert isinstance(learner, LabelTreeSection)
    root = np.arange(3, dtype=np.int32)
    split = Split(root, np.array([[True, False, False], [False, True, False]]), np.zeros((1, 2)), np.zeros(2))
    (finding,) = findings_of(learner, assemble({(): split}, 1, 3, {}, root))
    assert finding.startswith("GivenUp: label: 1 of 3 classes")
    assert f"or {hint}, keep them" in finding


@pytest.mark.parametrize("more", ['ambiguity_of = "bengio"\nloss = 0.1', "ambiguity = 0.5\nspeedup = 3.0"])
def test_one_constraint_is_given_not_two(dataset: Dataset, tmp_path: Path, more: str) -> None:
    with pytest.raises(ConfigError, match="are 2 constraints: give one"):
        load_config(write_config(tmp_path, Path(dataset.path), BENGIO, LABEL.format(name="label", more=more)))


def test_a_chosen_tree_brings_the_one_that_it_is_made_from(dataset: Dataset, tmp_path: Path) -> None:
    flat = '[[train]]\nname = "ovr"\nkind = "ovr"\n'
    parts = BENGIO + flat + LABEL.format(name="label", more='ambiguity_of = "bengio"')
    config = load_config(write_config(tmp_path, Path(dataset.path), parts)).run
    assert Choice(only=("label",)).chosen(config) == ["bengio", "label"]
    assert Choice(skip=("bengio",)).chosen(config) == ["bengio", "ovr", "label"]
    assert Choice(skip=("bengio",)).needed(config) == Choice(only=("label",)).needed(config) == ["bengio"]
    assert Choice(only=("ovr",)).needed(config) == []
    assert Choice(only=("ovr",)).chosen(config) == ["ovr"]
    assert [one.name for one in without(config, ["ovr"]).train] == ["bengio", "label"]
    assert [one.name for one in without(config, ["bengio", "ovr"]).train] == ["bengio", "label"]
    path = write_config(tmp_path, Path(dataset.path), parts)
    for name, trained in (("bengio", ["bengio"]), ("label", ["bengio", "label"]), ("ovr", ["ovr"])):
        plan = make_plan(load_config(path), choice=Choice(only=(name,)))
        assert [step.name for step in plan.steps if step.name.startswith("train_")] == [
            f"train_{one}" for one in trained
        ]


def test_a_wanted_speedup_proposes_the_shape(dataset: Dataset, tmp_path: Path) -> None:
    text = '[[train]]\nname = "quick"\nkind = "label-tree"\nspeedup = 2.0\n'
    (learner,) = load_config(write_config(tmp_path, Path(dataset.path), text)).run.train
    params = tree_params(learner, dataset)  # type: ignore[arg-type]
    budget = dataset.n_classes / 2
    assert params.branching is not None
    assert params.ambiguity is not None
    learned = params.height - 1
    assert learned * params.branching + dataset.n_classes * params.ambiguity**learned <= budget * (1 + 1e-9)
    run_here(write_config(tmp_path, Path(dataset.path), text))
    metrics = read_json(RunFolder(tmp_path / "runs" / "trees") / "metrics.json")["models"]["quick"]
    assert metrics["speedup"] > 1.5


def test_trees_that_differ_in_beam_alone_are_grown_once_and_a_beam_trains_nothing(
    dataset: Dataset, tmp_path: Path
) -> None:
    parts = "".join(LABEL.format(name=f"beam{beam}", more=f"beam = {beam}") for beam in (1, 3))
    path = write_config(tmp_path, Path(dataset.path), parts)
    run_here(path)
    run = RunFolder(tmp_path / "runs" / "trees")
    metrics = read_json(run / "metrics.json")["models"]
    assert metrics["beam1"]["train_seconds"] == metrics["beam3"]["train_seconds"]
    assert metrics["beam3"]["test_ops_per_row"] >= metrics["beam1"]["test_ops_per_row"]
    assert not (run / SOLVED).exists()
    assert {key: value for key, value in trained(tmp_path, "beam1").items() if key != "history"} == {
        key: value for key, value in trained(tmp_path, "beam3").items() if key != "history"
    }
    path.write_text(path.read_text("utf-8").replace("beam = 3", "beam = 2"), "utf-8")
    again = {step.name: step.runs for step in make_plan(load_config(path)).steps}
    assert [name for name, runs in again.items() if runs] == ["predict_beam3", "evaluate_beam3", "report"]
    alone = write_config(tmp_path, Path(dataset.path), LABEL.format(name="other", more="beam = 3"), name="alone")
    run_here(alone)
    models = [tmp_path / "runs" / place / "models" for place in ("trees/", "alone")]
    digests = [read_json(models[i] / name / "model.json")["digest"] for i, name in ((0, "beam1"), (1, "other"))]
    assert digests[0] == digests[1]
    assert read_json(models[1] / "other" / "model.json")["beam"] == 3


def test_a_tree_tells_its_shape_and_classes_that_it_gave_up(dataset: Dataset, tmp_path: Path) -> None:
    tight = LABEL.format(name="tight", more="ambiguity = 0.02\nrunners_up = false")
    forest = '[[train]]\nname = "forest"\nkind = "kmeans-tree"\nbranching = 3\ntrees = 2\n'
    run_here(write_config(tmp_path, Path(dataset.path), tight, forest))
    run = tmp_path / "runs" / "trees"
    (finding,) = read_json(RunFolder(run) / "metrics.json")["findings"]
    told = json.loads(succeeds("inspect", run / "models" / "tight", "--json").out)["tree"]
    assert f"GivenUp: tight: {told['never_answered']} of {dataset.n_classes} classes are in no leaf" in finding
    assert 0 < told["never_answered"] < dataset.n_classes
    assert told["trees"] == told["beam"] == 1
    text = succeeds("inspect", run / "models" / "forest").out
    assert "2 trees, the first of" in text
    assert "beam 10" in text
    assert "predict --proba gives probabilities" in text
