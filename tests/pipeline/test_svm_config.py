"""Sections of relaxed hierarchies and their rivals: lists that are curves, keys that disagree, unknown words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipeline.config import DagSvm, MarszalekTree, OneVsRest, RelaxedHierarchy, SpectralTree, is_svm, load_config
from pipeline.config_errors import ConfigError
from pipeline.stages.hierarchy import rule_of
from tasks.relaxed.rules import RelaxedRule

HEAD = 'name = "s"\n[data]\npath = "x.zarr"\n'


def written(folder: Path, *sections: str) -> Path:
    path = folder / "s.toml"
    path.write_text(HEAD + "".join(f"[[train]]\n{section}\n" for section in sections))
    return path


def learner(kind: str, *keys: str, name: str = "m") -> str:
    return "\n".join([f'name = "{name}"', f'kind = "{kind}"', *keys])


def loaded(folder: Path, *sections: str, overrides: tuple[str, ...] = ()) -> tuple[Any, ...]:
    return load_config(written(folder, *sections), overrides).run.train


def refused(folder: Path, *sections: str, overrides: tuple[str, ...] = ()) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(written(folder, *sections), overrides)
    return str(caught.value)


@pytest.mark.parametrize(
    ("kind", "key", "values", "section"),
    [
        ("relaxed-hierarchy", "rho", [0.5, 0.6, 1.5], RelaxedHierarchy),
        ("marszalek", "alpha", [0.1, 1.0], MarszalekTree),
        ("spectral-tree", "levels", [2, 5], SpectralTree),
        ("relaxed-hierarchy", "rho", [0.7], RelaxedHierarchy),
    ],
)
def test_a_list_is_a_curve_of_models(tmp_path: Path, kind: str, key: str, values: list[float], section: type) -> None:
    first, *found = loaded(tmp_path, learner("ovr", name="ovr"), learner(kind, f"{key} = {values}", "C = 2"))
    assert [one.name for one in found] == [f"m-{value}" for value in values]
    assert [getattr(one, key) for one in found] == values
    assert all(isinstance(one, section) and one.C == 2 for one in found)
    assert isinstance(first, OneVsRest)
    (plain,) = loaded(tmp_path, learner(kind, f"{key} = {values[0]}"))
    assert (plain.name, getattr(plain, key)) == ("m", values[0])


def test_a_curve_may_be_swept_further_and_its_name_say_where_the_value_goes(tmp_path: Path) -> None:
    sweep = "sweep = { samples = [1, 30] }"
    found = loaded(tmp_path, learner("relaxed-hierarchy", "rho = [0.5, 0.9]", sweep, name="r{rho}of{samples}"))
    assert [(one.name, one.rho, one.samples) for one in found] == [
        ("r0.5of1", 0.5, 1),
        ("r0.9of1", 0.9, 1),
        ("r0.5of30", 0.5, 30),
        ("r0.9of30", 0.9, 30),
    ]


def test_overrides_reach_a_curve_and_each_of_its_models(tmp_path: Path) -> None:
    section = learner("relaxed-hierarchy", "rho = [0.5, 0.6]")
    found = loaded(tmp_path, section, overrides=("m.C=3", "m-0.6.samples=7", "train.m-0.5.balance=2"))
    assert [(one.rho, one.C, one.samples, one.balance) for one in found] == [(0.5, 3, 30, 2), (0.6, 3, 7, 10)]
    found = loaded(tmp_path, section, overrides=("m.rho=[0.2, 0.3, 0.4]",))
    assert [one.name for one in found] == ["m-0.2", "m-0.3", "m-0.4"]
    found = loaded(tmp_path, learner("marszalek"), overrides=("m.alpha=[0.2, 0.3]",))
    assert [(one.name, one.alpha) for one in found] == [("m-0.2", 0.2), ("m-0.3", 0.3)]
    (one,) = loaded(tmp_path, section, overrides=("m.rho=0.4",))
    assert (one.name, one.rho) == ("m", 0.4)
    assert "rho is swept, and the name says its value" in refused(tmp_path, section, overrides=("m-0.5.rho=0.4",))


@pytest.mark.parametrize(
    ("section", "words"),
    [
        (learner("relaxed-hierarchy", "rho = []"), ["rho = []", "several different ones"]),
        (learner("relaxed-hierarchy", "rho = [0.5, 0]"), ["line 7: train[0].rho", "greater than 0", "it is 0"]),
        (learner("relaxed-hierarchy", 'rho = [0.5, "much"]'), ["line 7: train[0].rho", "'much'"]),
        (learner("relaxed-hierarchy", "rho = -1"), ["line 7: train[0].rho", "greater than 0"]),
        (learner("relaxed-hierarchy", "rho = inf"), ["line 7: train[0].rho"]),
        (learner("relaxed-hierarchy", "rho = [0.5, 0.5]"), ["rho = [0.5, 0.5]", "different"]),
        (learner("relaxed-hierarchy", "rhoo = 0.5"), ["line 7: train[0].rhoo", "did you mean 'rho'"]),
        (learner("relaxed-hierarchy", "balence = 3"), ["did you mean 'balance'"]),
        (learner("relaxed-hierarchy", "balance = -1"), ["train[0].balance", "it is -1"]),
        (learner("relaxed-hierarchy", 'initialisation = "top"'), ["'top-down'", "it is 'top'"]),
        (learner("relaxed-hierarchy", 'leaves = "ovr"'), ["'one-vs-all'", "'continued'"]),
        (learner("relaxed-hierarchy", "half_steps = 1"), ["train[0].half_steps"]),
        (learner("relaxed-hierarchy", "least_active = 1.5"), ["train[0].least_active"]),
        (learner("relaxed-hierarchy", "samples = 0"), ["train[0].samples"]),
        (learner("relaxed-hierarchy", "C = 0"), ["train[0].C", "greater than 0"]),
        (learner("relaxed-hierarchy", "alpha = 0.5"), ["train[0].alpha", "no such key"]),
        (learner("relaxed-hierarchy", "rounds = 3"), ["train[0].rounds", "no such key"]),
        (learner("relaxed-hierarchy", "classes = 1"), ["train[0].classes", "it is 1"]),
        (learner("relaxed-hierarchy", "rows_per_node = 1"), ["train[0].rows_per_node"]),
        (learner("relaxed-hierachy"), ["line 6: train[0].kind", "did you mean 'relaxed-hierarchy'"]),
        (learner("dagsvm"), ["did you mean 'dag-svm'"]),
        (learner("marszalek", "alpha = 0"), ["train[0].alpha", "it is 0"]),
        (learner("marszalek", "alpha = 1.1"), ["train[0].alpha", "it is 1.1"]),
        (learner("spectral-tree", "levels = 0"), ["train[0].levels"]),
        (learner("spectral-tree", "levels = 2.5"), ["train[0].levels", "integer"]),
        (learner("ovo", 'kernel = "gaussian"'), ["train[0].kernel", "'rbf'", "it is 'gaussian'"]),
        (learner("ovr", 'kernel = "chi-squared"'), ["train[0].kernel", "'chi2'"]),
        (learner("ovo", "rho = 0.5"), ["train[0].rho", "no such key"]),
        (learner("dag-svm", "rows_per_node = 50"), ["no such key"]),
        (learner("ovo", "width = 2.0"), ["width is of the kernels rbf and chi2, not of 'linear'"]),
        (learner("ovo", 'kernel = "histogram-intersection"', "width = 2"), ["not of 'histogram-intersection'"]),
        (learner("ovo", 'kernel = "rbf"', "width = 0"), ["train[0].width", "greater than 0"]),
        (learner("relaxed-hierarchy", "draw = 1"), ["give their number, classes"]),
        (learner("ovr", "C = 2"), ['C: only with a kernel, for example kernel = "linear"']),
        (learner("ovr", "C = 2", "classes = 5", "draw = 1"), ["C, classes, draw: only with a kernel"]),
        (learner("ovr", 'kernel = "linear"', "rounds = 3"), ["rounds: not with a kernel, which is solved without SGD"]),
        (learner("ovr", 'kernel = "rbf"', 'loss = "hinge"', "bias = false"), ["bias and loss: not with a kernel"]),
        (learner("ovr", "width = 1.0"), ["width: only with a kernel", "width is of the kernels rbf and chi2"]),
    ],
)
def test_what_is_wrong_is_said_at_its_place(tmp_path: Path, section: str, words: list[str]) -> None:
    said = refused(tmp_path, section)
    assert [word for word in words if word not in said] == [], said


def test_findings_of_all_sections_come_at_once(tmp_path: Path) -> None:
    said = refused(tmp_path, learner("relaxed-hierarchy", "rho = 0"), learner("ovo", "draws = 1", name="n"))
    assert "2 findings" in said
    assert "did you mean 'draw'" in said


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        (learner("ovr"), False),
        (learner("ovr", 'kernel = "linear"'), True),
        (learner("ovr", 'kernel = "chi2"', "width = 3", "C = 1", "classes = 4", "draw = 2", 'rows = "x"'), True),
        (learner("msvm"), False),
        (learner("ovo"), True),
        (learner("dag-svm", 'kernel = "rbf"', "width = 0.5"), True),
        (learner("spectral-tree"), True),
        (learner("marszalek", "classes = 2"), True),
        (learner("relaxed-hierarchy", "rho = 3", "balance = 0"), True),
    ],
)
def test_what_agrees_loads_and_says_whether_it_is_made_of_support_vector_machines(
    tmp_path: Path, section: str, expected: bool
) -> None:
    (found,) = loaded(tmp_path, section)
    assert is_svm(found) == expected


def test_defaults_are_those_of_the_paper_where_it_has_them(tmp_path: Path) -> None:
    relaxed, dag = loaded(tmp_path, learner("relaxed-hierarchy"), learner("dag-svm", name="dag"))
    assert isinstance(relaxed, RelaxedHierarchy)
    assert isinstance(dag, DagSvm)
    assert (relaxed.balance, relaxed.samples, relaxed.initialisation) == (10, 30, "bottom-up")
    assert relaxed.leaves == "one-vs-all"
    assert (relaxed.kernel, relaxed.C, relaxed.width, relaxed.classes) == ("linear", None, None, None)


@pytest.mark.parametrize(
    ("keys", "n_classes", "most_lost"),
    [
        (("rho = 0.4",), 10_000, 0.003),
        (("rho = 0.1",), 200, 0.003),
        (("rho = 0.3",), 20, 0.03),  # each of 20 classifiers is ten times as much of all of them as each of 200
        (("rho = 0.8",), 200, 16 * 0.003),
        (("most_lost = 0.01",), 20, 0.01),
        (("most_lost = 0",), 200, 0.0),
        (('kernel = "rbf"',), 20, 1.0),
        (('kernel = "rbf"', "most_lost = 0.02"), 20, 0.02),
    ],
)
def test_the_price_of_a_split(tmp_path: Path, keys: tuple[str, ...], n_classes: int, most_lost: float) -> None:
    (section,) = loaded(tmp_path, learner("relaxed-hierarchy", *keys))
    rule = rule_of(section, n_classes)
    assert isinstance(rule, RelaxedRule)
    assert rule.most_lost == pytest.approx(most_lost)


def test_splits_of_kernels_learn_from_few_rows(tmp_path: Path) -> None:
    found = []
    for number, keys in enumerate(
        ((), ('kernel = "rbf"',), ('kernel = "rbf"', "split_rows = 50"), ("split_rows = 60",))
    ):
        (folder := tmp_path / str(number)).mkdir()
        rule = rule_of(loaded(folder, learner("relaxed-hierarchy", *keys))[0], 9)
        assert isinstance(rule, RelaxedRule)
        found.append((rule.search_rows, rule.split_rows))
    assert found == [(4000, 100_000), (2000, 2000), (50, 50), (60, 60)]
