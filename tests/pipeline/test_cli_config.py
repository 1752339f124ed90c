"""A wrong config as a user meets it: every finding at once, before any row is read, and nothing written."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

from tests.pipeline.cli_caller import CONFIG, assert_refused, gaussian, labelgrove, snapshot, succeeds, write_source


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("config")
    source, marks = write_source(folder, *gaussian(160, 130, 4))
    succeeds("ingest", source, folder / "d.zarr", "--labels", marks)
    return folder


def config(folder: Path, old: str = "", new: str = "") -> Path:
    path = folder / "c.toml"
    path.write_text(CONFIG.replace(old, new, 1) if old else CONFIG, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("bits = 1", "bitts = 1", ["line 7", "encode[0].bitts", "did you mean 'bits'"]),
        ('kind = "label-tree"', 'kind = "label-tre"', ["train[2].kind", "did you mean 'label-tree'"]),
        ('rows = "pq"', 'rows = "qp"', ["'tree'", "'qp'", "['pq', 'x']"]),
        ('kind = "ovr"', 'kind = "ovr"\nepsilon = 3', ["train[0].epsilon", "no such key"]),
        (
            'kind = "ovr"',
            'kind = "ovr"\nregularization = "no"',
            ["1 finding\n", "line 11: train[0].regularization: Input should be a valid number or 'auto' (it is 'no')"],
        ),
        ("bits = 6", "bits = 6.5", ["train[1].bits", "integer", "6.5"]),
        ('name = "t"', 'nmae = "t"', ["nmae", "did you mean 'name'"]),
        ("[data]", "[dta]", ["dta", "did you mean 'data'"]),
        ("[[train]]", "[[trian]]", ["trian", "did you mean 'train'"]),
        ('name = "t"', 'name = "../t"', ["name", "'../t'"]),
        ('name = "ovr"', 'name = "a/b"', ["train[0].name", "'a/b'"]),
        ('name = "t"', "name = ", ["not a TOML file", "line 1"]),
        ('path = "d.zarr"', "", ["data.path", "required"]),
    ],
)
@pytest.mark.parametrize("command", ["check", "plan", "run"])
def test_findings_have_line_and_nearest_key(made: Path, command: str, old: str, new: str, words: list[str]) -> None:
    assert_refused(made, 2, "ConfigError", *words, by=(command, config(made, old, new)))


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("pq.nqs=8", ["encode[0].nqs", "no such key"]),
        ("pq.bit=8", ["did you mean 'bits'"]),
        ("tre.depth=3", ["'tre' names no part", "tree"]),
        ("tree.depth", ["expected path=value"]),
        ("tree.depth=deep", ["train[2].depth", "'deep'"]),
        ("data=3", ["data", "it is 3"]),
        ("train=3", ["train", "it is 3"]),
        ("a.b.c.d=1", ["'a' names no part"]),
    ],
)
def test_overrides_that_name_nothing(made: Path, override: str, words: list[str]) -> None:
    assert_refused(made, 2, "ConfigError", *words, by=("run", config(made), "-s", override))


def test_overrides_over_what_is_no_section(made: Path) -> None:
    path = made / "odd.toml"
    path.write_text('name = "t"\ndata = 3\nencode = 4\ntrain = "x"\n')
    assert_refused(made, 2, "ConfigError", "data is 3", by=("plan", path, "-s", "data.path=d.zarr"))
    assert_refused(made, 2, "ConfigError", "encode", "train", by=("plan", path, "-s", "seed=3"))


@pytest.mark.parametrize("name", ["nothing.toml", "folder", "d.zarr/X/zarr.json", "deep.toml"])
def test_files_that_are_no_config(made: Path, name: str) -> None:
    (made / "folder").mkdir(exist_ok=True)
    (made / "deep.toml").write_text("a = " + "[" * 100_000)
    for command in ("check", "plan", "run"):
        assert_refused(made, 2, "ConfigError", name, by=(command, made / name))


def test_a_dataset_that_is_not_there_names_the_command_that_makes_it(made: Path) -> None:
    path = config(made, "d.zarr", "none.zarr")
    for command in ("check", "plan", "run"):
        assert_refused(made, 2, "DatasetMissing", "none.zarr", "labelgrove ingest", by=(command, path))
    assert_refused(made, 4, "DatasetFormat", "ingest", by=("run", config(made, "d.zarr", "d.zarr/y")))


def test_subquantizers_that_do_not_divide_are_found_before_rows_are_read(made: Path, tmp_path: Path) -> None:
    """130 features, 8 subquantizers: the valid values are named although the rows cannot be read at all."""
    dataset = shutil.copytree(made / "d.zarr", tmp_path / "d.zarr")
    shutil.rmtree(dataset / "X" / "c")
    path = config(tmp_path, "bits = 1", "subquantizers = 8")
    for command in ("plan", "run"):
        said = assert_refused(tmp_path, 2, "PQShape", "130", "5, 10, 13", by=(command, path))
        assert "MissingChunk" not in said.err
    said = assert_refused(tmp_path, 4, "PQShape", "MissingChunk", "5, 10, 13", by=("check", path))


def test_fewer_rows_than_centroids_names_the_bits_that_fit(made: Path) -> None:
    by = ("run", config(made), "-s", "pq.bits=8")
    assert_refused(made, 3, "PQTooFewRows", "112", "256", "6", by=by)
    assert_refused(made, 3, "PQTooFewRows", "112", "256", by=("check", config(made), "-s", "pq.bits=8"))


@pytest.mark.parametrize(
    ("override", "error"),
    [
        ("tree.branching=50", "TreeShape"),
        ("ovr.step=-1", "ParamError"),
        ("ovr.regularization=-1", "ParamError"),
        ("ovr.regularization=1e400", "ParamError"),
        ("heshing.step=nan", "ParamError"),
    ],
)
@pytest.mark.parametrize("command", ["run", "plan", "check"])
def test_values_that_cannot_be(made: Path, command: str, override: str, error: str) -> None:
    model, key = override.partition("=")[0].split(".")
    assert_refused(made, 2, error, f"[train {model}, {key}]", "expected", by=(command, config(made), "-s", override))


def test_check_lists_everything_at_once(made: Path, tmp_path: Path) -> None:
    dataset = shutil.copytree(made / "d.zarr", tmp_path / "d.zarr")
    victim = next(path for path in (dataset / "y" / "c").rglob("*") if path.is_file())
    victim.write_bytes(victim.read_bytes()[:-1] + b"\x00")
    by = ("check", config(tmp_path), "-s", "pq.subquantizers=8", "-s", "tree.branching=50", "-s", "ovr.step=-1")
    said = assert_refused(tmp_path, 4, "DamagedChunk", by=by)
    assert "PQShape" in said.out
    assert "[encode pq, pq.subquantizers]" in said.out
    assert "[train tree, branching]" in said.out
    assert "[train ovr, step]" in said.out
    assert "4 findings: " in said.out
    listed = labelgrove(*by, "--json")
    assert {error["code"] for error in json.loads(listed.out)["errors"]} >= {"PQShape", "TreeShape", "ParamError"}
    assert listed.code == 4


def test_sparse_rows_that_cannot_be_cut_are_learnt_from_as_they_are(tmp_path: Path) -> None:
    rows = scipy.sparse.csr_matrix(np.eye(7, dtype=np.float32)[np.arange(40) % 7])
    scipy.sparse.save_npz(tmp_path / "x.npz", rows)
    np.save(tmp_path / "y.npy", np.arange(40) % 7)
    succeeds("ingest", tmp_path / "x.npz", tmp_path / "d.zarr", "--labels", tmp_path / "y.npy")
    text = '[[encode]]\nname = "pq"\nkind = "pq"\nsubquantizers = 2\nbits = 2\n'
    text += '[[train]]\nname = "a"\nkind = "ovr"\nrows = "pq"\n'
    (tmp_path / "c.toml").write_text('name = "c"\n[data]\npath = "d.zarr"\n' + text)
    assert_refused(tmp_path, 2, "PQShape", "the rows are sparse", 'rows = "x"', by=("check", tmp_path / "c.toml"))


def test_check_looks_at_the_data_of_a_config_that_is_wrong_elsewhere(made: Path) -> None:
    path = config(made, "bits = 6", "bitts = 6\ndepht = 3")
    said = assert_refused(made, 2, "ConfigError", "2 findings", by=("check", path))
    assert "nothing stands in the way" not in said.out
    assert_refused(made, 2, "ConfigError", "DatasetMissing", by=("check", path, "-s", "data.path=none"))


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--scheduler", "moon"], "ProfileError"),
        (["--scheduler", "local:0"], "ProfileError"),
        (["--scheduler", "local:many"], "ProfileError"),
        (["--threads", "0"], "ProfileError"),
        (["--memory", "lots"], "ProfileError"),
        (["--memory", "1.5.2 GiB"], "ProfileError"),
        (["--scheduler", "tls://127.0.0.1:1"], "ProfileError"),
        (["--profile", "none.toml"], "ProfileError"),
        (["--runs", "{folder}/x.npy"], "FileAccess"),
    ],
    ids=" ".join,
)
def test_where_a_run_cannot_happen(made: Path, options: list[str], error: str) -> None:
    placed = [option.replace("{folder}", str(made)) for option in options]
    assert_refused(made, 2, error, by=("run", config(made), *placed))


def test_profiles_are_checked_key_by_key(made: Path) -> None:
    path, profile = config(made), made / "profile.toml"
    tls = "scheduler = 'tls://127.0.0.1:1'\ntls_ca = 'none.pem'"
    for text in ("schedular = 'serial'", "threads = 'two'", "threads = ", "cache = 3", tls):
        profile.write_text(text)
        assert_refused(made, 2, "ProfileError", by=("run", path, "--profile", profile))
    profile.write_text('scheduler = "serial"\ncache = "32 MiB"\n')
    before = snapshot(made)
    assert "cached rows 32.0 MiB" in succeeds("plan", path, "--profile", profile).out
    assert snapshot(made) == before
