"""msvm, hie-svm and tree-svm in runs: the same digests on every pool, any rows, taxonomies of their own, sizes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from pipeline.config import load_config
from pipeline.dataset import Dataset
from pipeline.notes import learner_notes
from pipeline.plan import Plan, make_plan
from pipeline.store import MANIFEST, RunFolder, file_digest, read_json, read_sealed
from tasks.fit.checkpoint import FileCheckpoint
from tasks.models.folder import load_model, verify_model
from tasks.models.linear import LinearModel
from tasks.trees.tree import LabelTree
from tests.pipeline.cli_caller import gaussian, succeeds, write_source
from tests.systems.conftest import make_dataset
from tests.systems.harness import run_here

KINDS = ("msvm", "hie-svm", "tree-svm")
ENCODINGS = """\
[[encode]]
name = "pq"
kind = "pq"
subquantizers = 8
bits = 4
iterations = 3
[[encode]]
name = "wta"
kind = "wta"
hashes = 20
"""


def section(kind: str, rows: str = "x", name: str = "", more: str = "") -> str:
    return f'[[train]]\nname = "{name or kind}-{rows}"\nkind = "{kind}"\nrows = "{rows}"\nrounds = 2\n{more}\n'


def write_config(folder: Path, dataset: Path, *parts: str, name: str = "rivals") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.toml"
    path.write_text(f'name = "{name}"\nseed = 5\n[data]\npath = "{dataset}"\n' + "".join(parts), encoding="utf-8")
    return path


@pytest.fixture(scope="module", params=["dense", "csr"])
def finished(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The config of a finished serial run of all kinds on own, quantised and one-hot rows; the run is beside it."""
    folder = tmp_path_factory.mktemp(str(request.param))
    dataset = make_dataset(folder, str(request.param))
    parts = [section(kind, rows) for kind in KINDS for rows in ("x", "pq", "wta")]
    config = write_config(folder, Path(dataset.path), ENCODINGS, *parts)
    run_here(config)
    return config


def models_of(config: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = read_json(config.parent / "runs" / config.stem / "metrics.json")["models"]
    return found


def digests_of(run: Path) -> dict[str, Any]:
    """Content and results of every step, and every model read again."""
    folder, found = RunFolder(run), {}
    for name, step in read_sealed(run / MANIFEST)["steps"].items():
        done = folder.done(name, step["fingerprint"])
        assert done is not None, name
        found[f"step {name}"], found[f"results of {name}"] = done.digest, done.results
    for model in sorted((run / "models").iterdir()):
        found[f"model {model.name}"] = verify_model(model), file_digest(model / "weights.safetensors")
    return found


def test_workers_give_the_digests_of_the_serial_pool(finished: Path, tmp_path: Path) -> None:
    run = run_here(finished, "local:2", runs=tmp_path)
    expected = digests_of(finished.parent / "runs" / "rivals")
    assert len([name for name in expected if name.startswith("model ")]) == 9
    assert digests_of(run) == expected


def test_they_learn_from_any_rows(finished: Path) -> None:
    top1 = {name: metrics["top1"] for name, metrics in models_of(finished).items()}
    least = {"x": 0.4, "pq": 0.35, "wta": 0.3}  # of 31 classes
    assert not {name: value for name, value in top1.items() if value < least[name.rsplit("-", 1)[1]]}


def test_bytes_held_in_training_are_those_of_the_definition(finished: Path) -> None:
    """SPECS 1.12: k d, the scored nodes times d, the children of branching nodes times d; and a bias where there is."""
    taxonomy = Dataset.open(load_config(finished).dataset_path).taxonomy
    assert taxonomy is not None
    assert (taxonomy.n_classes, taxonomy.n_nodes) == (31, 41)  # 3 below the root, 6 below these, 30 and a lonely leaf
    metrics = models_of(finished)
    expected = {"msvm-x": 31 * 49, "hie-svm-x": 40 * 48, "tree-svm-x": 40 * 49}
    assert {name: metrics[name]["training_bytes"] for name in expected} == {
        name: 4 * numbers for name, numbers in expected.items()
    }
    assert metrics["hie-svm-x"]["model_bytes"] == 4 * 31 * 48  # one vector per class is kept


def test_plan_bounds_what_they_hold_and_write(finished: Path) -> None:
    plan = make_plan(load_config(finished))
    metrics = models_of(finished)
    for step in plan.steps:
        if step.name.startswith("train_"):
            name = step.name.removeprefix("train_")
            folder = finished.parent / "runs" / "rivals" / "models" / name
            written = sum(path.stat().st_size for path in folder.iterdir())
            assert written <= step.estimate.disk_bytes
            assert step.estimate.spare_bytes >= 3 * metrics[name]["training_bytes"]
            assert step.estimate.task_bytes >= 3 * metrics[name]["training_bytes"]


def test_predictions_of_a_tree_have_a_path_and_as_many_classes_as_asked(finished: Path) -> None:
    table = pq.read_table(finished.parent / "runs" / "rivals" / "predictions" / "tree-svm-x.parquet")
    assert "path" in table.column_names
    classes = np.array(table["classes"].to_pylist())
    assert classes.shape[1] == 5
    assert (classes >= 0).all()
    model = load_model(finished.parent / "runs" / "rivals" / "models" / "tree-svm-x").model
    assert isinstance(model, LabelTree)
    assert (model.kind, int(model.depth_of.max())) == ("tree-svm", 3)
    assert {"loss_depth_0", "ambiguity_depth_1", "top5", "hier_err"} <= models_of(finished)["tree-svm-x"].keys()
    vectors = load_model(finished.parent / "runs" / "rivals" / "models" / "hie-svm-x").model
    assert isinstance(vectors, LinearModel)
    assert (vectors.kind, vectors.bias, vectors.weights.shape) == ("hie-svm", None, (48, 31))


class Stopped(Exception):
    """An interruption."""


@pytest.fixture
def stops_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The first fit that saves its first round does not come further."""
    saved, count = FileCheckpoint.save, []

    def save(self: FileCheckpoint, *progress: Any) -> None:
        saved(self, *progress)
        count.append(1)
        if len(count) == 1:
            raise Stopped

    monkeypatch.setattr(FileCheckpoint, "save", save)
    yield
    assert len(count) > 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("stops_once")
def test_a_fit_is_continued_after_its_last_round(finished: Path, tmp_path: Path, kind: str) -> None:
    dataset = load_config(finished).dataset_path
    config = write_config(tmp_path, dataset, section(kind))
    with pytest.raises(Stopped):
        run_here(config)
    run = run_here(config)
    found, expected = digests_of(run), digests_of(finished.parent / "runs" / "rivals")
    assert found[f"model {kind}-x"] == expected[f"model {kind}-x"]
    assert found[f"results of train_{kind}-x"] == expected[f"results of train_{kind}-x"]


# ---- taxonomies ---------------------------------------------------------------------------------------------------

TREE = "root\ta\nroot\tb\na\t0\na\t1\nb\t2\nb\t3\n"
OTHER = "top\tc\ntop\td\nc\t0\nc\t2\nc\t3\nd\te\ne\t1\n"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with with.zarr and without.zarr, 4 classes with and without a taxonomy, and two taxonomy files."""
    folder = tmp_path_factory.mktemp("small")
    source, marks = write_source(folder, *gaussian(120, 8, 4))
    for name, text in (("tree.tsv", TREE), ("other.tsv", OTHER)):
        (folder / name).write_text(text, encoding="utf-8")
    succeeds("ingest", source, folder / "with.zarr", "--labels", marks, "--taxonomy", folder / "tree.tsv")
    succeeds("ingest", source, folder / "without.zarr", "--labels", marks)
    return folder


def planned(config: Path) -> Plan:
    return make_plan(load_config(config))


@pytest.mark.parametrize("kind", ["hie-svm", "tree-svm", "heshing"])
def test_a_taxonomy_of_its_own_counts_by_its_tree(small: Path, tmp_path: Path, kind: str) -> None:
    shutil.copy(small / "other.tsv", small / "copy.tsv")
    more = "bits = 6\n" if kind == "heshing" else ""

    def config(taxonomy: str) -> Path:
        named = f'taxonomy = "{small / taxonomy}"\n' if taxonomy else ""
        return write_config(tmp_path, small / "with.zarr", section(kind, more=more + named))

    run = run_here(config("other.tsv"))
    assert [step.name for step in planned(config("copy.tsv")).to_run] == []  # the same tree in another file
    assert "taxonomy" not in {key for step in planned(config("")).steps[:1] for key in step.stage.settings()}
    assert [step.runs for step in planned(config("")).steps] == [True] * 4
    header = json.loads((run / "models" / f"{kind}-x" / "model.json").read_text(encoding="utf-8"))
    model = load_model(run / "models" / f"{kind}-x").model
    if isinstance(model, LabelTree):
        assert model.n_nodes == 6  # d, e and the leaf of 1 make no choice: one node
        assert model.label_set(1).tolist() == [0, 2, 3]
        assert model.label_set(2).tolist() == [1]
    elif isinstance(model, LinearModel):
        assert read_json(run / "metrics.json")["models"][f"{kind}-x"]["training_bytes"] == 4 * 8 * 7
    else:
        assert header["tensors"]["parent"]["shape"] == [8]


@pytest.mark.parametrize("kind", ["hie-svm", "tree-svm"])
def test_without_a_taxonomy_they_are_flat_and_say_so(small: Path, tmp_path: Path, kind: str) -> None:
    named = section(kind, name="own", more=f'taxonomy = "{small / "tree.tsv"}"')
    config = write_config(tmp_path, small / "without.zarr", section("msvm"), section(kind), named)
    notes = learner_notes(load_config(config).run.train, Dataset.open(small / "without.zarr"))
    assert len(notes) == 1
    assert f"{kind}-x " in notes[0].text
    assert notes[0].code in succeeds("check", config).out
    assert "own-x" not in notes[0].text
    metrics = read_json(run_here(config) / "metrics.json")["models"]
    flat = 4 * 4 * (8 + (kind == "tree-svm"))
    assert metrics[f"{kind}-x"]["training_bytes"] == flat
    assert metrics["own-x"]["training_bytes"] == flat * 6 / 4
    assert metrics[f"{kind}-x"]["top1"] == metrics["msvm-x"]["top1"] == 1.0


def test_notes_are_for_those_without_a_taxonomy(small: Path, tmp_path: Path) -> None:
    config = write_config(tmp_path, small / "with.zarr", *(section(kind) for kind in KINDS))
    assert learner_notes(load_config(config).run.train, Dataset.open(small / "with.zarr")) == []
