"""The tree that hierarchical error is measured on, apart from the one that a model learns along."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from tests.pipeline.cli_caller import assert_refused, gaussian, make_run, metrics, succeeds

OWN = "r\ta\nr\tb\na\tc0\na\tc1\nb\tc2\nb\tc3\n"
OTHER = "r\ta\nr\tb\na\tc0\na\tc3\nb\tc1\nb\tc2\n"
DEEPER = "r\ts\ns\ta\ns\tb\na\tc0\na\tc1\nb\tc2\nb\tc3\n"
CONFIG = """\
name = "t"
[data]
path = "d.zarr"
[[train]]
name = "ovr"
kind = "ovr"
rounds = 1
least_rows = 100
[[train]]
name = "heshing"
kind = "heshing"
bits = 6
rounds = 1
least_rows = 100
"""
SERIAL = ("--scheduler", "serial")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run on classes c0 to c3 with the tree OWN."""
    folder = tmp_path_factory.mktemp("made")
    rows, labels = gaussian(240, 3, 4, seed=1)
    rows += np.random.default_rng(2).normal(scale=6, size=rows.shape).astype(np.float32)  # so that there are errors
    names = [f"c{label}" for label in labels]
    make_run(folder, rows, names, "--taxonomy", "{folder}/own.tsv", config=CONFIG, own_tsv=OWN)
    (folder / "other.tsv").write_text(OTHER)
    (folder / "deeper.tsv").write_text(DEEPER)
    (folder / "same.tsv").write_text(OWN)
    return folder


def run_with(folder: Path, *overrides: str) -> dict[str, dict[str, float]]:
    typed = [word for override in overrides for word in ("-s", override)]
    succeeds("run", folder / "c.toml", *typed, *SERIAL)
    found: dict[str, dict[str, float]] = metrics(folder)["models"]
    return found


def test_error_is_measured_on_the_tree_that_the_config_names(made: Path) -> None:
    own = run_with(made)
    deeper = run_with(made, "evaluate.taxonomy=deeper.tsv")
    other = run_with(made, "evaluate.taxonomy=other.tsv")
    for name in own:
        assert own[name]["top1"] == deeper[name]["top1"] == other[name]["top1"] < 1
        assert other[name]["hier_err"] != own[name]["hier_err"]
        # an inner node with one child above both groups: errors between groups stand one level higher only in the
        # tree, not in height, so the height of their lowest common ancestor stays
        assert deeper[name]["hier_err"] == own[name]["hier_err"]


def test_a_file_of_the_same_tree_measures_the_same(made: Path) -> None:
    assert run_with(made, "evaluate.taxonomy=same.tsv") == {
        name: {**numbers, "train_seconds": pytest.approx(numbers["train_seconds"])}
        for name, numbers in run_with(made).items()
    }


def test_training_is_reused_when_only_the_measure_changes(made: Path) -> None:
    run_with(made)
    said = succeeds("plan", made / "c.toml", "-s", "evaluate.taxonomy=other.tsv", "--json").out
    assert '"train_ovr"' in said
    run_with(made, "evaluate.taxonomy=other.tsv")
    again = succeeds("run", made / "c.toml", "-s", "evaluate.taxonomy=other.tsv", *SERIAL)
    assert "0 of 7 steps run" in again.err


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        (None, "TaxonomyFormat", ("there is no such file", "bad.tsv")),
        ("r\tc0\nr\tc1\nr\tc2\n", "TaxonomyMissingClass", ("c3",)),
        (OWN + "b\tc0\n", "TaxonomyMultiParent", ("c0",)),
    ],
)
@pytest.mark.parametrize("command", ["run", "check", "plan"])
def test_a_tree_that_does_not_fit_the_classes_is_refused(
    made: Path, command: str, text: str | None, error: str, words: tuple[str, ...]
) -> None:
    bad = made / "bad.tsv"
    bad.unlink(missing_ok=True)
    if text is not None:
        bad.write_text(text)
    by = (command, made / "c.toml", "-s", "evaluate.taxonomy=bad.tsv", *SERIAL)
    said = assert_refused(made, 3, error, *words, by=by)
    assert "[evaluate]" in said.err + said.out


def test_siblings_on_the_page_are_those_of_the_tree_that_the_config_names(made: Path) -> None:
    run_with(made, "evaluate.taxonomy=other.tsv")
    with open(made / "runs" / "t" / "report-figures" / "classes.csv", encoding="utf-8") as file:
        parents = {line["name"]: line["parent"] for line in csv.DictReader(file)}
    assert parents == dict(reversed(line.split("\t")) for line in OTHER.splitlines() if "\tc" in line)
