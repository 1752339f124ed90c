"""`labelgrove inspect` of models made of support vector machines: setting, kernel, shape, what was learnt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.commands.inspecting_svm import kind_of, setting_of, svm_facts
from pipeline.stages.hierarchy import rule_of
from tasks.classes import ClassTable
from tasks.models.base import Model
from tasks.models.folder import save_model
from tasks.models.linear import LinearModel
from tasks.relaxed.assemble import Node, build
from tasks.relaxed.hierarchy import ONE_VS_ALL, RELAXED
from tasks.relaxed.pairs import DAG, MAX_WINS, PairModel
from tasks.rows import Dense
from tasks.svm.classifier import KernelClassifier, LinearClassifier
from tasks.svm.kernels import Kernel
from tests.pipeline.cli_caller import labelgrove, succeeds
from tests.pipeline.test_svm_config import learner, loaded

WIDTH = 3
MADE_OF = {"C": 2.5, "training_rows": 40}


def line(*weights: float) -> LinearClassifier:
    return LinearClassifier(np.array(weights, np.float32), 0.5)


def saved(folder: Path, model: Model) -> Path:
    names = tuple(f"c{k}" for k in range(model.n_classes))
    save_model(folder, model, ClassTable(names, names))
    return folder


def inspected(place: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(succeeds("inspect", place, "--json").out)
    return found


def nodes() -> dict[str, Node]:
    """Classes 0 to 4: the root gives 0 alone, and 1 to 4, which ignores 2, and has two leaves of two classes."""
    return {
        "root": Node(np.arange(5), [line(1, 0, 0)], np.array([-1, 1, 1, 1, 1], np.int8), "left", "right"),
        "left": Node(np.array([0])),
        "right": Node(np.arange(1, 5), [line(0, 1, 0)], np.array([-1, 0, 1, 1], np.int8), "pair", "three"),
        "pair": Node(np.array([1, 2]), [line(0, 0, 1), line(0, 0, -1)]),
        "three": Node(np.array([2, 3, 4]), [line(1, 1, 1)] * 3),
    }


def test_a_relaxed_hierarchy_says_its_setting_and_shape(tmp_path: Path) -> None:
    (section,) = loaded(tmp_path, learner("relaxed-hierarchy", "rho = 0.3", "balance = 7"))
    facts = MADE_OF | {"rule": repr(rule_of(section, 50))}
    place = saved(tmp_path / "m", build(RELAXED, nodes(), "root", WIDTH, 9, facts | {"drawn": 5}))
    found = inspected(place)
    told = found["support_vector_machines"]
    assert (found["kind"], told["kernel"], told["width"], told["C"]) == ("relaxed-hierarchy", "linear", None, 2.5)
    assert (told["setting"]["rho"], told["setting"]["balance"]) == (0.3, 7)
    assert {
        key: told[key] for key in ("nodes", "splits", "single_leaves", "ovr_leaves", "ovr_leaf_classes", "depth")
    } == {
        "nodes": 5,
        "splits": 2,
        "single_leaves": 1,
        "ovr_leaves": 2,
        "ovr_leaf_classes": 5,
        "depth": 2,
    }
    assert (told["classifiers"], told["support_vectors"], told["training_rows"]) == (7, 0, 40)
    assert (told["classes"], told["drawn"]) == (5, True)
    text = succeeds("inspect", place).out
    for words in (
        "relaxed-hierarchy\n",
        "9, 5 of them learnt, drawn at random\n",
        "linear; C 2.5\n",
        "rho 0.3, balance 7, doubt 0\n",
        "nodes 5: splits 2, leaves of one class 1, one-vs-all leaves 2 (5 classes); depth 2\n",
        "7; 40 training rows\n",
        "margins of the leaf",
    ):
        assert words in text


def test_doubt_is_told_with_its_judges(tmp_path: Path) -> None:
    model = build(RELAXED, nodes(), "root", WIDTH, 9, MADE_OF, doubt=0.25, judges=[line(0, 0, c) for c in range(5)])
    place = saved(tmp_path / "m", model)
    told = inspected(place)["support_vector_machines"]
    assert (told["classifiers"], told["judges"], told["doubt"]) == (7, 5, 0.25)
    text = succeeds("inspect", place).out
    assert told["scores"].endswith("those of the judges")
    assert "0.25: rows so near a split go both ways, and are judged by one-vs-rest: 5 judges\n" in text


@pytest.mark.parametrize(
    ("kind", "key", "value"),
    [("spectral-tree", "levels", 4), ("marszalek", "alpha", 0.25), ("relaxed-hierarchy", "rho", 2.0)],
)
def test_the_setting_is_that_of_the_section(tmp_path: Path, kind: str, key: str, value: float) -> None:
    (section,) = loaded(tmp_path, learner(kind, f"{key} = {value}"))
    assert setting_of(repr(rule_of(section, 50)))[key] == value


@pytest.mark.parametrize("rule", ["", "AllRule()", "words that are no rule", "Rule(rho=os.remove('x'))", "3"])
def test_a_rule_that_says_nothing_is_no_setting(rule: str) -> None:
    assert setting_of(rule) == {}


def test_one_vs_rest_of_a_kernel_is_an_ovr_with_its_kernel(tmp_path: Path) -> None:
    rows, signs = np.ones((6, WIDTH), np.float32), np.array([1, -1], np.float32)
    root = {"r": Node(np.arange(3), [KernelClassifier(np.array([k, k + 1]), signs, 0.0) for k in range(3)])}
    kernel = Kernel("chi2", 0.75)
    model = build(ONE_VS_ALL, root, "r", WIDTH, 4, MADE_OF | {"rule": "AllRule()"}, kernel, lambda n: Dense(rows[n]))
    place = saved(tmp_path / "m", model)
    found = inspected(place)
    told = found["support_vector_machines"]
    assert (found["kind"], told["kernel"], told["width"], told["setting"]) == ("ovr", "chi2", 0.75, {})
    assert (told["classifiers"], told["support_vectors"], told["classes"], told["drawn"]) == (3, 4, 3, False)
    text = succeeds("inspect", place).out
    assert "svm-ovr" not in text
    assert "hierarchy" not in text
    for words in (
        "ovr\n",
        "chi2 of width 0.75; C 2.5\n",
        "3 over 4 support vectors; 40 training rows",
        "4, 3 of them learnt\n",
    ):
        assert words in text
    assert "model of kind ovr hashes nothing" in labelgrove("inspect", place, "--hash").err
    np.save(tmp_path / "x.npy", rows)
    np.save(tmp_path / "y.npy", np.zeros(len(rows), np.int64))
    asked = ("evaluate", place, tmp_path / "x.npy", "--labels", tmp_path / "y.npy", "--json")
    assert "speedup" not in succeeds(*asked).out  # what one-vs-rest of a kernel costs is known beside its model alone
    refused = labelgrove("predict", place, tmp_path / "x.npy", "-o", tmp_path / "p.parquet", "--proba")
    assert "this ovr model" in refused.err
    assert "An ovr classifier" in (place / "README.md").read_text("utf-8")
    np.save(tmp_path / "wide.npy", np.ones((2, WIDTH + 1), np.float32))
    wide = labelgrove("predict", place, tmp_path / "wide.npy", "-o", tmp_path / "p.parquet")
    assert "svm-ovr" not in wide.err


@pytest.mark.parametrize(("kind", "asked", "scores"), [(MAX_WINS, 6, "votes"), (DAG, 3, "rounds")])
def test_pairs_say_how_many_are_asked(tmp_path: Path, kind: str, asked: int, scores: str) -> None:
    model = PairModel.build(kind, np.arange(4), [line(1, 2, 3)] * 6, WIDTH, 4, MADE_OF)
    place = saved(tmp_path / "m", model)
    told = inspected(place)["support_vector_machines"]
    assert (told["classifiers"], told["asked"], told["classes"]) == (6, asked, 4)
    assert "nodes" not in told
    text = succeeds("inspect", place).out
    assert f"6, {'all' if kind == MAX_WINS else asked} asked for a row; 40 training rows" in text
    assert f"scores          {scores}: " in text


def test_other_models_have_no_such_lines() -> None:
    model = LinearModel(np.zeros((WIDTH, 2), np.float32), None, "ovr")
    assert svm_facts(model) == {}
    assert kind_of(model) == "ovr"
