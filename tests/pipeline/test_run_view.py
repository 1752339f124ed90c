"""`Run`: what a finished run says in Python is what stands in its folder, and what is missing has a name."""

from __future__ import annotations

import json
import os
import shutil
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

from pipeline import commands
from pipeline.commands.looking import RunMissing
from pipeline.commands.starting import write_tiny
from pipeline.last_resort import FileAccess
from pipeline.run_view import Run, RunFigure, figures_of
from pipeline.store import RunFormat
from tasks.errors import UsageError
from tasks.models.errors import PredictionsDamaged
from tests.pipeline.cli_caller import labelgrove

CONFIG = """
name = "tiny"
[data]
path = "tiny.zarr"
[[train]]
name = "tree"
kind = "label-tree"
[[train]]
name = "means"
kind = "nearest-class-mean"
[predict]
top = 3
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with tiny.toml and its finished run."""
    folder = tmp_path_factory.mktemp("view")
    write_tiny(folder, n_groups=2, per_group=3, n_rows=240, n_features=8)
    files = {"labels": str(folder / "labels.txt"), "taxonomy": str(folder / "taxonomy.tsv")}
    commands.ingest(str(folder / "rows.npy"), folder / "tiny.zarr", split="0.6,0.2,0.2", **files)
    (folder / "tiny.toml").write_text(CONFIG)
    commands.run(folder / "tiny.toml", commands.profile_of(None, "serial"))
    return folder


@pytest.fixture(scope="module")
def run(made: Path) -> Run:
    return Run(made / "runs" / "tiny")


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    """The run folder once more, to be damaged."""
    return Path(shutil.copytree(made / "runs" / "tiny", tmp_path / "tiny"))


def test_numbers_are_those_of_metrics_json(run: Run) -> None:
    assert run.metrics == json.loads((run.path / "metrics.json").read_text())
    assert run.models == ["tree", "means"]  # in the config's order
    assert run.table("top1") == [{"model": n, "top1": run.metrics["models"][n]["top1"]} for n in ("tree", "means")]
    assert run.table()[1] == {"model": "means", **run.metrics["models"]["means"]}


def test_a_number_that_one_model_lacks_is_none_and_one_that_none_has_is_refused(run: Run) -> None:
    only = next(key for key in run.table()[0] if key not in run.table()[1])
    assert run.table(only)[1] == {"model": "means", only: None}
    with pytest.raises(UsageError, match="no model of this run has a number 'top7'") as caught:
        run.table("top1", "top7")
    assert "top1" in caught.value.hint


@pytest.mark.parametrize("model", ["tree", "means"])
def test_predictions_come_to_the_accuracy(run: Run, model: str) -> None:
    found = run.predictions(model)
    n_rows = run.metrics["run"]["test_rows"]
    assert found["row"].shape == found["label"].shape == (n_rows,)
    assert found["classes"].shape == found["scores"].shape == (n_rows, 3)
    assert ("path" in found) == (model == "tree")
    assert np.mean(found["label"] == found["classes"][:, 0]) == pytest.approx(run.metrics["models"][model]["top1"])


def test_classes_are_names_by_number(run: Run) -> None:
    assert len(run.classes) == run.metrics["run"]["n_classes"] == 6
    assert set(run.classes) == {f"group{group}-class{member}" for group in range(2) for member in range(3)}


def test_what_the_run_has_not_is_refused_with_what_it_has(run: Run) -> None:
    with pytest.raises(UsageError, match="no model 'ovr'") as caught:
        run.predictions("ovr")
    assert "tree, means" in caught.value.hint
    with pytest.raises(UsageError, match="no figure 'none'") as caught:
        run.figure("none")
    assert "accuracy-cost" in caught.value.hint


def test_every_figure_of_the_page_stands_alone(run: Run) -> None:
    text = run.report.read_text()
    assert len(run.figures) == text.count("<figcaption>") >= 4
    assert all((run.path / "report-figures" / f"{name}.csv").is_file() for name in run.figures)
    for name in run.figures:
        svg = run.figure(name)._repr_svg_()
        root = ElementTree.fromstring(svg)
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert "var(" not in svg
        ground = root.find("{http://www.w3.org/2000/svg}rect")
        assert ground is not None
        assert ground.get("fill") == "#fff"


def test_titles_and_captions_are_text_again() -> None:
    page = (
        ":root { --paper: #fff; --ink: #123456; }\n"
        '<figure class="broad"><div><svg a="1"><path stroke="var(--ink)"/></svg></div>\n'
        '<figcaption><b>A &amp; B.</b> 1 &lt; 2. <a href="report-figures/a-b.csv">CSV</a></figcaption></figure>'
    )
    found = figures_of(page)["a-b"]
    assert found == RunFigure("a-b", "A & B", "1 < 2.", found.svg)
    assert 'stroke="#123456"' in found.svg


def test_the_table_of_a_notebook_has_nothing_of_the_machine(run: Run) -> None:
    html = run._repr_html_()
    root = ElementTree.fromstring(f"<div>{html}</div>")
    heading = [cell.text for cell in root.iter("th")]
    assert heading[:2] == ["model", "accuracy"]
    assert not {"training", "predict/row", "peak memory"} & set(heading)
    lines = ["".join(row.itertext()) for row in root.iter("tr")]
    assert [line.lstrip("* ").startswith(name) for name, line in zip(run.models, lines[1:], strict=True)] == [True] * 2


def test_it_is_found_by_its_config_which_may_have_changed(made: Path, tmp_path: Path) -> None:
    assert Run(made / "tiny.toml").path == made / "runs" / "tiny"
    assert Run(made / "tiny.toml").notes == []
    other = tmp_path / "tiny.toml"
    other.write_text(CONFIG.replace("top = 3", "top = 2"))
    changed = Run(other, runs=made / "runs")
    assert "not what this run was asked for" in changed.notes[0]
    assert "not what this run was asked for" in changed._repr_html_()


def test_no_run_and_no_results_have_names(copy: Path, tmp_path: Path) -> None:
    with pytest.raises(RunMissing, match="there is no such file or folder"):
        Run(tmp_path / "nothing")
    for given in (None, 3, b"runs/a", "a\0b"):
        with pytest.raises(RunMissing, match="give a run folder"):
            Run(given)  # type: ignore[arg-type]
    run = Run(copy)
    (copy / "metrics.json").unlink()
    for ask in (lambda: run.models, lambda: run.metrics, lambda: run.report, run.table, run._repr_html_):
        with pytest.raises(RunMissing, match="the run has no results yet"):
            ask()


PLACES = {  # below the folder of a run's config: what is said of the place, and of what to do
    "rows.npy": ("this file is neither of a run nor a config", "give a run folder"),
    "labels.txt": ("this file is neither of a run nor a config", "give a run folder"),
    "tiny.zarr": ("this is a dataset, and a run is expected", "labelgrove inspect"),
    "tiny.zarr/X": ("this is a dataset, and a run is expected", "give a run folder"),
    "tiny.zarr/zarr.json": ("this file is a part of a dataset", "give a run folder"),
    "saved": ("this is a model folder, and a run is expected", "labelgrove inspect"),
    "saved/model.json": ("this file is a part of a model", "give a run folder"),
    "runs/tiny/models/tree": ("this is a part of the run tiny", "give the run: "),
    "runs/tiny/report-figures/accuracy-cost.csv": ("this is a part of the run tiny", "give the run: "),
    "runs": ("this folder is no run, but has runs", "tiny"),
    "": ("this folder is no run, but has runs", "tiny"),
    "configs": ("this is no run folder, but a folder of TOML files", "a.toml, "),
    "empty": ("this folder is empty", "give a run folder"),
    "tiny": ("there is no such file or folder", "is it "),
    "none": ("there is no such file or folder", "give a run folder"),
    "rows.npy/none": ("there is no such file or folder", "give a run folder"),
    "pipe": ("this is neither a file nor a folder", "give a run folder"),
}


@pytest.fixture(scope="module")
def places(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `made` has, and more that is no run."""
    folder = tmp_path_factory.mktemp("places") / "all"
    shutil.copytree(made, folder)
    shutil.copytree(made / "runs" / "tiny" / "models" / "tree", folder / "saved")
    (folder / "empty").mkdir()
    (folder / "configs").mkdir()
    for name in ("a.toml", "b.toml"):
        (folder / "configs" / name).write_text(CONFIG)
    os.mkfifo(folder / "pipe")
    return folder


@pytest.mark.parametrize("place", PLACES)
def test_a_place_that_is_no_run_is_told_apart(places: Path, place: str) -> None:
    what, hint = PLACES[place]
    with pytest.raises(RunMissing, match=what) as caught:
        Run(places / place)
    assert hint in caught.value.hint
    for command in ("status", "logs", "cancel"):
        said = labelgrove(command, places / place)
        assert (said.code, said.out) == (2, "")
        assert f"RunMissing: {what}" in said.err


def test_a_place_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileAccess, match="name too long"):
        Run(tmp_path / ("x" * 300))
    with pytest.raises(RunMissing, match="no such file or folder"):
        Run("memory://bucket/run")


def test_what_is_lost_or_damaged_is_named(copy: Path) -> None:
    run = Run(copy)
    (copy / "predictions" / "tree.parquet").unlink()
    with pytest.raises(PredictionsDamaged, match="missing"):
        run.predictions("tree")
    (copy / "report.html").write_bytes(b"\xff\xfe")
    with pytest.raises(RunFormat, match="not readable"):
        run.figure("accuracy-cost")
    (copy / "report.html").unlink()
    with pytest.raises(RunFormat, match="the page is missing"):
        print(run.report)
    (copy / "metrics.json").write_text("[]")
    with pytest.raises(RunFormat, match=r"no metrics\.json of ours"):
        print(run.models)
    (copy / "manifest.json").unlink()
    with pytest.raises(RunFormat, match="the manifest is missing"):
        Run(copy)


def test_repr_says_where_it_is(run: Run) -> None:
    assert repr(run) == f"Run({str(run.path)!r})"
    assert run.name == "tiny"
