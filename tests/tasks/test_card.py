"""The model card says what a reader needs, in Markdown and YAML that hold whatever the names are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from scipy import sparse

from tasks.features.pca_encoder import PcaEncoder
from tasks.models.card import METRIC_NAMES, code_text, markdown_text
from tasks.models.encoder import PqEncoder
from tasks.models.folder import save_model, verify_model
from tasks.rows import Dense
from tests.tasks.model_samples import class_table, factored, linear, small_rows
from tests.tasks.tree_samples import Drawn, random_tree

FACTS = {
    "seed": 7,
    "dataset": "abc123",
    "dataset_name": "cranes|*.zarr",
    "train_rows": 1234,
    "settings": {"rounds": 3, "name": "a|b", "rows": "x"},
    "regularization": 1e-4,
}


def card(folder: Path, model: Any, **more: Any) -> str:
    save_model(folder, model, class_table(model.n_classes), **more)
    return (folder / "README.md").read_text("utf-8")


def test_it_says_how_the_model_was_trained(tmp_path: Path) -> None:
    text = card(tmp_path / "m", linear(1), provenance=FACTS, metrics={"top1": 0.5, "own_number": 3.0})
    plain = text.replace("\\", "")
    for line in ("seed: 7", "dataset: cranes|*.zarr", "training rows: 1234", "digest of the dataset: abc123"):
        assert f"- {line}\n" in plain
    assert '- settings: name = "a|b", rounds = 3, rows = "x"\n' in plain
    assert "- regularization: 0.0001\n" in plain
    assert "| accuracy | 0.5 | share of test rows |" in plain
    assert "| own_number | 3 |  |" in plain
    assert yaml.safe_load(text.split("---\n")[1])["model-index"][0]["results"][0]["dataset"]["name"] == "cranes|*.zarr"
    assert verify_model(tmp_path / "m")


def test_every_measure_has_a_unit() -> None:
    assert all(word and unit for word, unit in METRIC_NAMES.values())


def test_a_model_of_which_nothing_is_recorded_says_so(tmp_path: Path) -> None:
    assert "Nothing is recorded." in card(tmp_path / "m", linear(1))


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("ovr", "Scores are margins"),
        ("trace-norm", "Scores are log-odds"),
        ("kmeans-tree", "Scores are values of paths"),
        ("label-tree", "Scores are margins"),
    ],
)
def test_it_says_what_scores_are(tmp_path: Path, kind: str, said: str) -> None:
    trees = {name: random_tree(1, Drawn(kind=name, probabilistic=name == "kmeans-tree")) for name in ("kmeans-tree",
             "label-tree")}  # fmt: skip
    model = {"ovr": linear(1), "trace-norm": factored(1), **trees}[kind]
    text = card(tmp_path / "m", model)
    assert said in text
    assert "on CPUs of one family" in text


@pytest.mark.parametrize("encoder", ["none", "pq", "pca"])
def test_its_lines_of_python_work(tmp_path: Path, encoder: str) -> None:
    random = np.random.default_rng(1)
    carried = {
        "none": (),
        "pq": (PqEncoder(random.normal(size=(3, 4, 2)).astype(np.float32)),),
        "pca": (PcaEncoder(np.zeros(11, np.float32), random.normal(size=(11, 6)).astype(np.float32)),),
    }[encoder]
    text = card(tmp_path / "m", linear(1), encoders=carried)
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    width = 11 if encoder == "pca" else 6
    assert f"(n, {width})" in code
    rows = random.normal(size=(4, width)).astype(np.float32)
    told = []
    for given in (rows, sparse.csr_matrix(rows)):
        found: dict[str, Any] = {"rows": given}
        exec(code.replace("THIS_FOLDER", str(tmp_path / "m")), found)
        told.append([str(label) for label in found["labels"]])
    assert told[0] == told[1]
    assert set(told[0]) <= set(class_table(9).names)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("train_rows of d-1.zarr (0.5): {a + b}!", "train_rows of d-1.zarr (0.5): {a + b}!"),
        ('class_weight = "squared-hinge"', 'class_weight = "squared-hinge"'),
        ("_a_ __b__ a_", r"\_a\_ \_\_b\_\_ a\_"),
        ("*a* `b` [c](d) ~e~ $f$ a|b #1 \\", r"\*a\* \`b\` \[c\](d) \~e\~ \$f\$ a\|b \#1 \\"),
        ("http://a www.b a@b :smile: 10:30", r"http\://a www\.b a\@b \:smile: 10:30"),
        ("- a", r"\- a"),
        ("1. a", r"1\. a"),
        ("123) a", r"123\) a"),
        ("0.5", "0.5"),
    ],
    ids=["none", "quotes", "underscores", "marks", "links", "dash", "item", "item-bracket", "number"],
)
def test_only_what_may_be_markup_is_escaped(text: str, shown: str) -> None:
    assert markdown_text(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [("pq_4-x", "`pq_4-x`"), ("a`b", "``a`b``"), ("`a", "`` `a ``"), ("a\nb", "`a\N{REPLACEMENT CHARACTER}b`")],
)
def test_code_is_shown_as_it_is(text: str, shown: str) -> None:
    assert code_text(text) == shown


def test_names_of_rows_have_no_escapes(tmp_path: Path) -> None:
    assert "Learnt from rows `pq_4-x`, predicts on rows `x`." in card(tmp_path / "m", linear(1), rows="pq_4-x")


def test_its_first_place_is_that_of_the_model(tmp_path: Path) -> None:
    text = card(tmp_path / "m", linear(1))
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    found: dict[str, Any] = {"rows": small_rows(1)}
    exec(code.replace("THIS_FOLDER", str(tmp_path / "m")), found)
    best = linear(1).rank(Dense(small_rows(1)), 1).classes[:, 0]
    assert [str(label) for label in found["labels"]] == [class_table(9).names[c] for c in best]


def test_the_commands_it_shows_exist(tmp_path: Path) -> None:
    text = card(tmp_path / "m", linear(1))
    (shown,) = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    assert [line.split()[:2] for line in shown.splitlines()] == [["labelgrove", "predict"], ["labelgrove", "export"]]
