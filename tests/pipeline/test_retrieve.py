"""`[[retrieve]]` in a run, and `labelgrove retrieve`: what is ranked, what is left behind, what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from pipeline.stages.retrieve import shown_at, split_blocks
from pipeline.store import RunFolder, read_manifest
from tasks.retrieval.neighbours import read_neighbours
from tests.naive import retrieval as naive
from tests.pipeline.cli_caller import assert_refused, gaussian, labelgrove, make_run, metrics, succeeds

CONFIG = """\
name = "t"
[data]
path = "d.zarr"
[[encode]]
name = "pq"
kind = "pq"
bits = 3
[[encode]]
name = "codes"
kind = "dwta"
hashes = 45
[[encode]]
name = "of-pq"
kind = "wta"
rows = "pq"
hashes = 8
[[retrieve]]
name = "near"
rows = "codes"
top = 4
[[retrieve]]
name = "curve"
rows = "of-pq"
top = 0
queries = "validation"
"""
ROWS, Y = gaussian(120, 6, 5)
ROWS[np.abs(ROWS) < 2] = 0  # many samples are empty
ROWS[[3, 40, 80]] = 0
NAMES = [f"n{y}" for y in Y]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run in runs/t of this folder; read only."""
    folder = tmp_path_factory.mktemp("retrieve")
    make_run(folder, ROWS, NAMES, "--block-rows", 16, config=CONFIG)
    return folder


@pytest.fixture
def made(finished: Path, tmp_path: Path) -> Path:
    """The same as one's own."""
    shutil.copytree(finished, tmp_path / "own")
    return tmp_path / "own"


def step(folder: Path, name: str) -> tuple[Path, Any]:
    """Folder and DONE.json of a step of the run."""
    run = RunFolder(folder / "runs" / "t")
    print_ = read_manifest(run)["steps"][name]["fingerprint"]
    done = run.done(name, print_)
    assert done is not None
    return run.step_folder(name, print_), done


def splits(folder: Path) -> dict[str, list[int]]:
    """The source rows of each part of the dataset, in stored order."""
    from tasks.io import read_row_ids, read_split

    split, rows = read_split(str(folder / "d.zarr"), 0, 120), read_row_ids(str(folder / "d.zarr"), 0, 120)
    return {name: rows[split == i].tolist() for i, name in enumerate(("train", "validation", "test"))}


def codes_of(folder: Path, encoding: str) -> dict[int, np.ndarray]:
    """Source row -> codes."""
    from tasks.io import blocks_of, load_rows, read_row_ids
    from tasks.rows import OneHot

    blocks = [load_rows(block) for block in blocks_of(str(step(folder, f"encode_{encoding}")[0] / "rows.zarr"))]
    codes = np.concatenate([rows.codes for rows in blocks if isinstance(rows, OneHot)])
    return dict(zip(read_row_ids(str(folder / "d.zarr"), 0, 120).tolist(), codes, strict=True))


def assert_neighbours(
    path: Path, codes: dict[int, np.ndarray], queries: list[int], train: list[int], top: int, present: bool = False
) -> None:
    """Row by row against the definition; ties go to the row stored first."""
    found = read_neighbours(path)
    assert found.row.tolist() == queries
    asked, among = np.array([codes[q] for q in queries]), np.array([codes[r] for r in train])
    distances = naive.present_distances(asked, among, 255) if present else naive.distances(asked, among)
    best = [naive.nearest(of_query, list(range(len(train))), top) for of_query in distances]
    assert found.distances.tolist() == [[distance for distance, _ in of_query] for of_query in best]
    assert found.neighbours.tolist() == [[train[place] for _, place in of_query] for of_query in best]
    assert found.neighbour_labels.tolist() == [[int(Y[train[place]]) for _, place in of_query] for of_query in best]


def test_a_run_ranks_the_training_rows_and_tells_the_curve(finished: Path) -> None:
    parts, codes = splits(finished), codes_of(finished, "codes")
    published = finished / "runs" / "t" / "neighbours" / "near.parquet"
    assert_neighbours(published, codes, parts["test"], parts["train"], 4)
    assert not (published.parent / "curve.parquet").exists()
    folder, done = step(finished, "retrieve_near")
    assert sorted(path.name for path in folder.iterdir()) == ["DONE.json", "curve.parquet", "neighbours.parquet"]
    found = naive.distances(np.array([codes[q] for q in parts["test"]]), np.array([codes[r] for r in parts["train"]]))
    labels = [[int(Y[row]) for row in parts[name]] for name in ("test", "train")]
    expected = naive.curve(found, *labels, 45)
    assert done.results["curve"] == pq.read_table(folder / "curve.parquet").to_pydict() | {
        name: pytest.approx(values) for name, values in expected.items()
    }
    average = [
        naive.average_precision(of_query, [y == label for y in labels[1]])
        for of_query, label in zip(found, labels[0], strict=True)
    ]
    numbers = metrics(finished)["retrievals"]["near"]
    assert numbers["mean_average_precision"] == pytest.approx(naive.mean([x for x in average if x is not None]))
    assert (numbers["queries"], numbers["candidates"]) == (len(parts["test"]), len(parts["train"]))
    assert set(done.results["precision_at_k"]) == {"1", "2", "4"}


def test_the_curve_alone_of_validation_rows(finished: Path) -> None:
    folder, done = step(finished, "retrieve_curve")
    assert sorted(path.name for path in folder.iterdir()) == ["DONE.json", "curve.parquet"]
    assert done.results["queries"] == len(splits(finished)["validation"])
    assert done.results["precision_at_k"] == {}
    assert done.results["curve"]["threshold"] == list(range(9))
    assert done.results["curve"]["recall"][-1] == 1.0


def test_the_command_ranks_as_the_run_has_ranked(made: Path) -> None:
    said = succeeds("retrieve", made / "runs" / "t", "codes", "-o", made / "n.parquet", "--top", 4)
    published = read_neighbours(made / "runs" / "t" / "neighbours" / "near.parquet")
    assert read_neighbours(made / "n.parquet").digest() == published.digest()
    numbers = json.loads((made / "n.metrics.json").read_text())
    done = step(made, "retrieve_near")[1]
    assert numbers["format"] == "labelgrove.retrieval"
    assert numbers["metrics"]["test"]["mean_average_precision"] == done.results["mean_average_precision"]
    assert numbers["curve"] == done.results["curve"]
    assert said.out.splitlines()[0].split("  ")[-1] == "precision at 4"
    assert said.out.splitlines()[1].startswith("test")


def test_an_encoder_that_is_not_what_was_written_codes_nothing(made: Path) -> None:
    np.save(made / "q.npy", ROWS[:3])
    place = step(made, "encode_codes")[0] / "encoder" / "encoder.safetensors"
    content = bytearray(place.read_bytes())
    content[-3] ^= 1  # of the same size
    place.write_bytes(bytes(content))
    by = ("retrieve", made / "runs" / "t", "codes", "-o", made / "n.parquet", "--queries", made / "q.npy")
    assert_refused(made, 4, "StepDamaged", "encoder/encoder.safetensors has other content", by=by)


def test_a_run_with_overridden_sweeps_is_found_again(made: Path) -> None:
    text = (
        (made / "c.toml")
        .read_text()
        .replace(
            'name = "codes"\nkind = "dwta"\nhashes = 45',
            'name = "codes-{hashes}"\nkind = "dwta"\nsweep = { hashes = [5, 9] }',
        )
    )
    (made / "s.toml").write_text(text.replace('name = "t"', 'name = "s"').replace('rows = "codes"', 'rows = "codes-9"'))
    succeeds("run", made / "s.toml", "-s", "codes-9.window=3", "-s", "codes-{hashes}.seed=4", "--scheduler", "serial")
    succeeds("retrieve", made / "runs" / "s", "codes-9", "-o", made / "n.parquet")
    assert read_neighbours(made / "n.parquet").row.tolist() == splits(made)["test"]


def test_codes_that_neither_row_has_may_be_left_out(made: Path) -> None:
    """of-pq are codes of wta: an empty sample has none."""
    codes, of = codes_of(made, "of-pq"), splits(made)
    succeeds("retrieve", made / "runs" / "t", "of-pq", "-o", made / "n.parquet", "--top", 5, "--distance", "present")
    assert_neighbours(made / "n.parquet", codes, of["test"], of["train"], 5, present=True)
    config = (made / "c.toml").read_text().replace("top = 0", 'top = 5\ndistance = "present"')
    (made / "c.toml").write_text(config)
    succeeds("run", made / "c.toml", "--scheduler", "serial")
    assert_neighbours(
        made / "runs" / "t" / "neighbours" / "curve.parquet", codes, of["validation"], of["train"], 5, present=True
    )
    refused = ("retrieve", made / "runs" / "t", "codes", "-o", made / "o.parquet", "--distance", "manhattan")
    assert_refused(made, 2, "UsageError", "--distance", "hamming, present", by=refused)


@pytest.mark.parametrize("encoding", ["codes", "of-pq"])
def test_rows_of_files_are_encoded_as_the_rows_of_the_run(made: Path, encoding: str) -> None:
    """All rows as new ones: those of training find themselves, or an equal row that is stored before."""
    config, out = made / "c.toml", made / "n.parquet"
    given = ("--queries", made / "x.npy", "--labels", made / "y.txt", "--top", 3)
    said = succeeds("retrieve", config, encoding, "-o", out, *given)
    parts, codes = splits(made), codes_of(made, encoding)
    assert_neighbours(out, codes, list(range(120)), parts["train"], 3)
    assert (read_neighbours(out).distances[parts["train"], 0] == 0).all()
    assert said.out.splitlines()[1].split()[:3] == ["all", "rows", "120"]
    succeeds("retrieve", config, encoding, "-o", out, "--queries", made / "x.npy", "--top", 3, "--force")
    assert set(read_neighbours(out).label.tolist()) == {-1}
    assert not (made / "n.metrics.json").exists()


def test_fewer_training_rows_than_asked(made: Path) -> None:
    succeeds("retrieve", made / "c.toml", "codes", "-o", made / "n.parquet", "--top", 500, "--split", "validation")
    parts = splits(made)
    assert_neighbours(made / "n.parquet", codes_of(made, "codes"), parts["validation"], parts["train"], 500)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--top", "0"), ("--top 0",)),
        (("--split", "train"), ("--split 'train'", "validation, test")),
        (("--labels", "y.txt"), ("--labels has no meaning", "--queries")),
        (("--format", "npy"), ("--format has no meaning",)),
        (("--queries", "x.npy", "--split", "test"), ("--split has no meaning for rows of files",)),
    ],
)
def test_options_without_effect_are_refused(made: Path, options: tuple[str, ...], words: tuple[str, ...]) -> None:
    by = ("retrieve", made / "c.toml", "codes", "-o", made / "n.parquet", *options)
    assert_refused(made, 2, "UsageError", *words, by=by)


def test_codes_that_are_not_there_are_refused(made: Path) -> None:
    for rows in ("pq", "x", "nothing"):
        by = ("retrieve", made / "c.toml", rows, "-o", made / "n.parquet")
        assert_refused(made, 2, "UsageError", repr(rows), "'codes', 'of-pq'", "labelgrove run", by=by)
    (made / "c.toml").write_text(CONFIG.replace('name = "t"', 'name = "other"', 1))
    by = ("retrieve", made / "c.toml", "codes", "-o", made / "n.parquet")
    assert_refused(made, 2, "RunMissing", "labelgrove run", by=by)
    by = ("retrieve", made / "d.zarr", "codes", "-o", made / "n.parquet")
    assert_refused(made, 2, "RunMissing", by=by)


def test_queries_of_numbers_among_rows_that_are_codes(tmp_path: Path) -> None:
    """A dataset of codes has no numbers left; its queries are encoded with its codebooks first."""
    config = CONFIG.partition("[[encode]]")[0] + '[[encode]]\nname = "codes"\nkind = "dwta"\nhashes = 45\n'
    options = ("--encode", "pq", "--bits", 3, "--subquantizers", 3, "--block-rows", 16)
    make_run(tmp_path, ROWS, NAMES, *options, config=config)
    out, given = tmp_path / "n.parquet", ("--queries", tmp_path / "x.npy", "--top", 2)
    succeeds("retrieve", tmp_path / "c.toml", "codes", "-o", out, *given)
    parts = splits(tmp_path)
    assert_neighbours(out, codes_of(tmp_path, "codes"), list(range(120)), parts["train"], 2)
    assert (read_neighbours(out).distances[parts["train"], 0] == 0).all()


def test_queries_of_another_width_and_unknown_labels_are_refused(made: Path) -> None:
    np.save(made / "wide.npy", np.ones((2, 7), np.float32))
    np.save(made / "bad.npy", np.full((2, 6), np.nan, np.float32))
    (made / "l.txt").write_text("n0\nn9\n")
    np.save(made / "two.npy", ROWS[:2])
    start = ("retrieve", made / "c.toml", "codes", "-o", made / "n.parquet", "--queries")
    assert_refused(made, 3, "ColumnMismatch", by=(*start, made / "wide.npy"))
    assert_refused(made, 3, "NonFiniteFeature", by=(*start, made / "bad.npy"))
    assert_refused(made, 3, "LabelOutOfRange", "n9", by=(*start, made / "two.npy", "--labels", made / "l.txt"))
    assert_refused(made, 3, "SourceMissing", by=(*start, made / "none.npy"))


def test_a_dataset_elsewhere_and_another_dataset_in_its_place(made: Path) -> None:
    moved, by = made / "far" / "away", ("-o", made / "n.parquet")
    moved.parent.mkdir()
    shutil.move(made / "runs", moved)
    assert_refused(made, 2, "UsageError", "dataset is not there", by=("retrieve", moved / "t", "codes", *by))
    succeeds("retrieve", made / "c.toml", "codes", *by, "--runs", moved)
    shutil.move(moved, made / "runs")
    succeeds("ingest", made / "x.npy", made / "d.zarr", "--labels", made / "y.txt", "--seed", 5, "--force")
    again = ("retrieve", made / "runs" / "t", "codes", *by, "--force")
    assert_refused(made, 7, "OtherRun", "another dataset", by=again)


def test_what_is_there_is_replaced_only_when_asked_and_ours(made: Path) -> None:
    start = ("retrieve", made / "runs" / "t", "codes", "-o", made / "n.parquet")
    succeeds(*start)
    assert_refused(made, 2, "OutputExists", "--force", by=start)
    succeeds(*start, "--force")
    (made / "n.metrics.json").write_text("{}")
    assert_refused(made, 2, "OutputExists", "another kind", by=(*start, "--force"))


def test_a_lost_chunk_of_codes_is_named(made: Path) -> None:
    (step(made, "encode_codes")[0] / "rows.zarr" / "codes" / "c" / "0" / "0").unlink()
    by = ("retrieve", made / "runs" / "t", "codes", "-o", made / "n.parquet")
    assert_refused(made, 4, "StepDamaged", "is missing", by=by)


@pytest.mark.parametrize(
    ("old", "new", "error", "word"),
    [
        ('rows = "codes"', 'rows = "pq"', "ConfigError", "pq"),
        ("top = 4", "top = -1", "ConfigError", "top"),
        ('queries = "validation"', 'queries = "train"', "ConfigError", "queries"),
    ],
)
def test_sections_that_cannot_be(made: Path, old: str, new: str, error: str, word: str) -> None:
    assert old in CONFIG
    (made / "c.toml").write_text(CONFIG.replace(old, new))
    assert_refused(made, 2, error, word, by=("plan", made / "c.toml", "--scheduler", "serial"))


def test_a_split_without_rows_is_refused(made: Path) -> None:
    ingest = ("ingest", made / "x.npy", made / "d2.zarr", "--labels", made / "y.txt", "--validation", "0")
    succeeds(*ingest)
    (made / "c.toml").write_text(CONFIG.replace("d.zarr", "d2.zarr").replace('"t"', '"u"'))
    by = ("plan", made / "c.toml", "--scheduler", "serial")
    assert_refused(made, 2, "NoRowsToRetrieve", "retrieve curve", "no validation rows", by=by)


def test_another_top_runs_the_retrieval_alone(made: Path) -> None:
    (made / "c.toml").write_text(CONFIG.replace("top = 4", "top = 5"))
    said = succeeds("plan", made / "c.toml", "--scheduler", "serial", "--json")
    runs = {found["step"] for found in json.loads(said.out)["steps"] if found["action"] == "run"}
    assert runs == {"retrieve_near", "report"}


def test_blocks_that_hold_rows_of_a_split(finished: Path) -> None:
    from pipeline.dataset import Dataset

    dataset = Dataset.open(finished / "d.zarr")
    found = {name: split_blocks(dataset, dataset.blocks(), name) for name in ("train", "validation", "test")}
    counts = dataset.split_counts
    assert [block.index for block in found["train"]] == list(range(-(-counts["train"] // 16)))
    assert found["validation"][0].start <= counts["train"] < found["validation"][0].stop
    assert found["test"][-1].stop == 120
    assert found["test"][0].start <= counts["train"] + counts["validation"] < found["test"][0].stop


@pytest.mark.parametrize(
    ("top", "expected"), [(0, []), (1, [1]), (4, [1, 2, 4]), (10, [1, 2, 5, 10]), (60, [1, 2, 5, 10, 20, 50, 60])]
)
def test_where_precision_is_shown(top: int, expected: list[int]) -> None:
    assert shown_at(top) == expected


def test_the_help_names_the_command() -> None:
    assert "retrieve" in labelgrove("--help").out
