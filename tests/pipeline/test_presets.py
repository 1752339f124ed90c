"""Presets: the papers' experiments on a dataset, by one command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.config import CodesEncoding, load_config
from pipeline.dataset import Dataset
from pipeline.image_encodings import LlcEncoding
from pipeline.preset import IMAGES, PRESETS, counts_of_classes, filled, plain_name
from pipeline.report.relaxed_members import Member
from tests.image_files import image_folder
from tests.pipeline.cli_caller import assert_refused, gaussian, labelgrove, succeeds, write_source

TREE = "r\ta\nr\tb\na\tc0\na\tc1\na\tc2\nb\tc3\nb\tc4\nb\tc5\n"
SERIAL = ("--scheduler", "serial")
OF_NUMBERS = [name for name in PRESETS if name not in IMAGES]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a dataset of six classes in two groups, and the current one."""
    rows, labels = gaussian(300, 16, 6)
    source, marks = write_source(tmp_path, rows, [f"c{label}" for label in labels])
    (tmp_path / "tree.tsv").write_text(TREE)
    succeeds("ingest", source, tmp_path / "some data.zarr", "--labels", marks, "--taxonomy", tmp_path / "tree.tsv")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shorter(text: str) -> str:
    """The config with fits of seconds in place of those that real data want."""
    return text.replace("[[train]]\n", "[[train]]\nrounds = 1\nleast_rows = 100\n")


def test_one_command_compares_heshing_with_every_baseline_of_its_paper(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.preset.filled", lambda *given: shorter(filled(*given)))
    said = succeeds("run", "hashing", "--data", "some data.zarr", *SERIAL)
    names = [line.lstrip("* ").split()[0] for line in said.out.splitlines()[2:10]]
    hashed = ["flat-hash", "heshing", "heshing-per-level"]
    assert names == ["ovr", "msvm", "hie-svm", "tree-svm", "pca-ovr", *hashed]
    found = json.loads((place / "runs" / "hashing-some-data" / "metrics.json").read_text())["models"]
    asked = {"top1", "hier_err", "training_bytes", "peak_bytes", "train_seconds"}
    assert {name: asked <= numbers.keys() for name, numbers in found.items()} == dict.fromkeys(names, True)
    # what is held in training (SPECS 1.12): K d and a bias; scored nodes d; d d' + d + K (d' + 1); m; (T - 1) m
    d, k, nodes, components, m = 16, 6, 8, 8, int(0.1 * 6 * 16 / 2)
    assert {name: numbers["training_bytes"] / 4 for name, numbers in found.items()} == {
        "ovr": k * (d + 1),
        "msvm": k * (d + 1),
        "hie-svm": nodes * d,
        "tree-svm": nodes * (d + 1),
        "pca-ovr": d * components + d + k * (components + 1),
        **dict.fromkeys(hashed, 2 * m),
    }
    again = succeeds("run", "hashing", "--data", "some data.zarr", *SERIAL)
    assert "0 of 26 steps run" in again.err


def test_retrieval_is_averaged_over_seeds(place: Path) -> None:
    said = succeeds("run", "retrieval", "--data", "some data.zarr", *SERIAL)
    lines = [line.split() for line in said.out.splitlines()]
    heads = [lines.index(line) for line in lines if line[:2] in (["codes", "seeds"], ["retrieval", "seeds"])]
    assert len(heads) == 2
    for head in heads:
        told = [" ".join(line) for line in lines[head + 2 : head + 11]]  # below the rule
        for hashes in (64, 256, 512):
            assert sum(f"{hashes} hashes" in line and " 10 " in f"{line} " for line in told) == 3
    assert (place / "runs" / "retrieval-some-data" / "report-figures" / "precision-recall.csv").is_file()


def test_one_command_compares_trees_at_equal_root_ambiguity(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.preset.filled", lambda *given: shorter(filled(*given)))
    succeeds("run", "trees", "--data", "some data.zarr", *SERIAL)
    folder = place / "runs" / "trees-some-data"
    found = json.loads((folder / "metrics.json").read_text())
    beams = [f"kmeans-beam-{beam}" for beam in (1, 2, 4, 8)]
    assert found["run"]["models"] == ["ovr", "bengio-2", "label-2", "bengio-3", "label-3", *beams]
    for levels in (2, 3):
        cap = json.loads((folder / "models" / f"label-{levels}" / "model.json").read_text())["tree"]["ambiguity"]
        assert cap == pytest.approx(found["models"][f"bengio-{levels}"]["root_ambiguity"])
    assert len({found["models"][name]["train_ops_per_row"] for name in beams}) == 1  # one tree, four ways to search it
    assert (folder / "report-figures" / "trees-speedup.csv").read_text().count("kmeans-beam") == 4


@pytest.mark.parametrize("name", OF_NUMBERS)
def test_every_preset_is_planned_for_any_dataset(place: Path, name: str) -> None:
    said = succeeds("run", name, "--data", "some data.zarr", "--dry-run", *SERIAL)
    assert "train_" in said.out or "retrieve_" in said.out
    config = load_config(place / f"{name}-some-data.toml")
    assert config.dataset_path.samefile(place / "some data.zarr")
    assert not (place / "runs").exists()


def test_smaller_numbers_of_classes_are_drawn_five_times_and_all_classes_learnt_once(place: Path) -> None:
    succeeds("run", "relaxed-classes", "--data", "some data.zarr", "--dry-run", *SERIAL)
    learners = load_config(place / "relaxed-classes-some-data.toml").run.train
    for kind in ("ovr", "relaxed-hierarchy", "marszalek", "spectral-tree"):
        drawn = [(one.classes, one.draw) for one in learners if one.kind == kind]
        assert drawn == [(n, draw) for n in (2, 3, 4) for draw in range(5)] + [(6, 0)]
    assert {one.rho for one in learners if one.kind == "relaxed-hierarchy"} == {0.5}
    assert {one.alpha for one in learners if one.kind == "marszalek"} == {0.4}
    only = ("--only", "ovr-[36]-0,marszalek-[36]-0")
    said = succeeds("run", "relaxed-classes", "--data", "some data.zarr", *only, *SERIAL)
    assert "no other model of the same classes is both more accurate" in said.out
    again = succeeds("report", place / "runs" / "relaxed-classes-some-data")
    assert "as many dot products as a model has learnt classes" in again.out
    page = (place / "runs" / "relaxed-classes-some-data" / "report.html").read_text("utf-8")
    assert "Accuracy against classes." in page
    assert "K^1.00 ovr" in page


def test_what_was_not_worth_its_training_is_said_at_the_end_and_on_the_page(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.report.relaxed_findings.DEAR", 0.0)
    monkeypatch.setattr("pipeline.report.relaxed_findings.one_vs_rest_of", lambda *_: [perfect])
    perfect = Member("ovr", "ovr", "linear", "", 6, {"mean_per_class_top1": 1.01})
    said = succeeds("run", "relaxed", "--data", "some data.zarr", "--only", "ovr-svm,spectral-2-0.5", *SERIAL)
    assert "warning: NothingGained: spectral-2-0.5: costs 0." in said.err
    page = (place / "runs" / "relaxed-some-data" / "report.html").read_text("utf-8")
    assert "NothingGained: spectral-2-0.5: costs 0." in page
    assert "more levels make it cheaper" in page


def test_classes_without_training_rows_are_not_counted_among_those_drawn(tmp_path: Path) -> None:
    rows, labels = gaussian(80, 4, 4)
    source, marks = write_source(tmp_path, rows, [f"c{label}" for label in labels])
    (tmp_path / "names.txt").write_text("".join(f"c{i}\n" for i in range(9)))
    succeeds("ingest", source, tmp_path / "d.zarr", "--labels", marks, "--classes", tmp_path / "names.txt")
    dataset = Dataset.open(tmp_path / "d.zarr")
    assert (dataset.n_classes, counts_of_classes(dataset)) == (9, [2, 3, 4])
    filled_in = filled("relaxed-classes", dataset, "r", "d.zarr")
    assert "classes = [4], draw = [0]" in filled_in


def test_two_classes_are_learnt_without_draws(tmp_path: Path) -> None:
    rows, labels = gaussian(40, 4, 2)
    source, marks = write_source(tmp_path, rows, labels)
    succeeds("ingest", source, tmp_path / "d.zarr", "--labels", marks)
    text = filled("relaxed-classes", Dataset.open(tmp_path / "d.zarr"), "r", "d.zarr")
    assert (text.count("[[train]]"), text.count("classes = [2], draw = [0]")) == (4, 4)


@pytest.mark.parametrize("name", OF_NUMBERS)
def test_presets_fit_narrow_rows_and_data_without_test_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    rows, labels = gaussian(90, 3, 3)
    source, marks = write_source(tmp_path, rows, labels)
    succeeds("ingest", source, tmp_path / "n.zarr", "--labels", marks, "--split", "0.7,0.3,0")
    monkeypatch.chdir(tmp_path)
    succeeds("run", name, "--data", "n.zarr", "--dry-run", *SERIAL)
    run = load_config(tmp_path / f"{name}-n.toml").run
    assert all(encoding.window == 3 for encoding in run.encode if isinstance(encoding, CodesEncoding))
    assert all(retrieval.queries == "validation" for retrieval in run.retrieve)
    assert run.encode or run.train


@pytest.mark.parametrize(("side", "pyramid"), [(40, [1, 2]), (150, [1, 2, 4])])
def test_features_of_images_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, side: int, pyramid: list[int]
) -> None:
    image_folder(tmp_path / "pictures", 3, 8, side)
    monkeypatch.chdir(tmp_path)
    succeeds("ingest", "pictures", "p.zarr")
    said = succeeds("run", "images", "--data", "p.zarr", "--dry-run", *SERIAL)
    assert {f"train_{learner}-{rows}" for learner in ("ncm", "ovr") for rows in ("bow", "llc", "fisher")} <= {
        word for line in said.out.splitlines() for word in line.split()
    }
    made = {encoding.name: encoding for encoding in load_config(tmp_path / "images-p.toml").run.encode}
    llc = made["llc"]
    assert isinstance(llc, LlcEncoding)
    assert list(llc.pyramid) == pyramid
    if side == 40:  # so few small images have not a thousand words
        assert 2 <= llc.words < 100
        said = succeeds("run", "images", "--data", "p.zarr", *SERIAL)
        assert "descriptors/image" in said.out


def test_presets_are_of_images_or_of_numbers(place: Path) -> None:
    image_folder(place / "pictures", 2, 3)
    succeeds("ingest", place / "pictures", place / "p.zarr")
    by = ("run", "images", "--data", "some data.zarr", *SERIAL)
    assert_refused(place, 2, "UsageError", "preset images is of images", by=by)
    by = ("run", "trees", "--data", "p.zarr", *SERIAL)
    assert_refused(place, 2, "UsageError", "preset trees is of rows of numbers", by=by)


def test_presets_of_codes_want_two_features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, labels = gaussian(90, 1, 3)
    source, marks = write_source(tmp_path, rows, labels)
    succeeds("ingest", source, tmp_path / "n.zarr", "--labels", marks)
    monkeypatch.chdir(tmp_path)
    assert_refused(tmp_path, 2, "UsageError", "one feature", by=("run", "codes", "--data", "n.zarr", *SERIAL))


def test_a_preset_that_was_edited_is_not_written_over(place: Path) -> None:
    succeeds("run", "hash-bits", "--data", "some data.zarr", "--dry-run", *SERIAL)
    path = place / "hash-bits-some-data.toml"
    path.write_text(path.read_text() + "# mine\n")
    by = ("run", "hash-bits", "--data", "some data.zarr", *SERIAL)
    said = assert_refused(place, 2, "PresetChanged", str(path.name), by=by)
    assert "labelgrove run hash-bits-some-data.toml" in said.err
    succeeds("plan", path, *SERIAL)


def test_what_is_no_preset_or_no_dataset_is_refused(place: Path) -> None:
    said = assert_refused(place, 2, "UsageError", "hash-bits:", by=("run", "hasching", "--data", "some data.zarr"))
    assert "no preset 'hasching'" in said.err
    listed = said.err.split("name one of these\n")[1].splitlines()
    assert [line.split(":")[0].strip() for line in listed] == list(PRESETS)
    assert_refused(place, 2, "UsageError", "--data DATASET", by=("run", "hashing"))
    assert_refused(place, 2, "DatasetMissing", "nothing.zarr", by=("run", "hashing", "--data", "nothing.zarr"))
    assert labelgrove("run", "hashing", "--data", "some data.zarr", "--only", "nobody").code == 2


@pytest.mark.parametrize(
    ("path", "name"),
    [("a/clinc 150.zarr", "clinc-150"), ("été", "t"), ("...", "data"), ("x" * 90, "x" * 40), ("a.b.zarr", "a-b")],
)
def test_names_of_datasets_become_names_of_runs(path: str, name: str) -> None:
    assert plain_name(Path(path)) == name
