"""`labelgrove reproduce`: what it lists and refuses, and figures made whole on small data."""

from __future__ import annotations

import csv
import errno
import io
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pipeline import runner
from pipeline.interrupts import INTERRUPTED
from pipeline.reproduce.catalogue import catalogue, needs_text
from pipeline.reproduce.figure import FAILS, HOLDS, UNKNOWN, Verdict
from pipeline.reproduce.found import Found
from pipeline.reproduce.page import MadeFigure
from tasks.errors import ResourceError
from tests.pipeline.cli_caller import Said, assert_refused, labelgrove, succeeds
from tests.systems.harness import environment

SERIAL = ("--scheduler", "serial")
STATES = {HOLDS, FAILS, UNKNOWN}
SPARSE = ("chen-figure-4", "chen-figure-5", "chen-figure-6")
WITHOUT = [name for name, figure in catalogue().items() if not figure.needs_data]
OF_DATA = [name for name, figure in catalogue().items() if figure.needs_data]


def data_for(stores: Path, name: str) -> Path:
    return stores / ("sparse.zarr" if name in SPARSE else "dense.zarr")


def made(stores: Path, name: str, folder: Path, *options: object) -> Said:
    return succeeds("reproduce", name, "--data", data_for(stores, name), "-o", folder, *SERIAL, *options)


def lines_of(folder: Path, name: str) -> list[dict[str, str]]:
    text = (folder / f"reproduce-{name}.csv").read_text("utf-8")
    return list(csv.DictReader(io.StringIO(text)))


def verdicts_of(folder: Path, name: str) -> dict[str, str]:
    """Claim -> verdict, as the CSV has them."""
    rows = lines_of(folder, name)
    return {row["row"]: row["value"] for row in rows if row["table"] == "claims" and row["column"] == "verdict"}


# ---- lists and refusals --------------------------------------------------------------------------------------------


def test_the_list_has_a_line_for_every_figure_and_one_figure_is_told_in_full() -> None:
    out = succeeds("reproduce", "--list").out
    assert succeeds("reproduce").out == out
    for name, figure in catalogue().items():
        line = next(line for line in out.splitlines() if line.split()[:1] == [name])
        assert all(text in line for text in (figure.shows, needs_text(figure), figure.takes))
    assert len(catalogue()) >= 23
    told = " ".join(succeeds("reproduce", "zhao-xing-table-2", "--list").out.split())
    for word in ("a taxonomy", "hashing", "section 4.2", "HESHING outperforms FlatHash", "170,016"):
        assert word in told


def test_the_list_fits_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    out = succeeds("reproduce", "--list").out
    assert max(map(len, out.splitlines())) <= 80
    assert max(map(len, succeeds("reproduce", "gao-koller-figure-3", "--list").out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("states", "said"),
    [
        ([HOLDS, HOLDS, FAILS], "of 3 claims 2 hold, 1 does not hold"),
        ([FAILS], "of 1 claim 1 does not hold"),
        ([HOLDS], "of 1 claim 1 holds"),
        ([UNKNOWN, FAILS, FAILS], "of 3 claims none holds, 2 do not hold, 1 cannot be told here"),
    ],
    ids=["mixed", "one-fails", "one-holds", "none"],
)
def test_claims_are_counted_in_plain_words(states: list[str], said: str) -> None:
    figure: Any = next(iter(catalogue().values()))
    shown: Any = None
    verdicts: Any = [(None, Verdict(state, "")) for state in states]
    assert MadeFigure(figure, Found(), shown, verdicts, "", "", {}).counted == said


def test_an_unknown_figure_is_refused_with_the_nearest_names(tmp_path: Path) -> None:
    assert_refused(tmp_path, 2, "UsageError", "zhao-xing-table-2", by=("reproduce", "zhao-xing-tabel-2", "--list"))
    assert_refused(tmp_path, 2, "UsageError", "which one", "ingest", by=("reproduce", "deng-table-1"))


@pytest.mark.parametrize(
    ("name", "store", "words"),
    [
        ("zhao-xing-table-2", "flat.zarr", "needs a taxonomy"),
        ("chen-figure-5", "dense.zarr", "of sparse rows"),
        ("harchaoui-figure-3", "sparse.zarr", "of dense rows"),
    ],
)
def test_data_that_do_not_fit_are_refused_before_anything(
    stores: Path, tmp_path: Path, name: str, store: str, words: str
) -> None:
    by = ("reproduce", name, "--data", stores / store, "-o", tmp_path / "again", *SERIAL)
    said = assert_refused(tmp_path, 2, "FigureUnfit", name, words, "this dataset allows", by=by)
    listed = succeeds("reproduce", "--data", stores / store).out.splitlines()
    lines = {line.split()[0]: line for line in listed if line.startswith("  ")}
    allowed = said.err.split("this dataset allows ")[1].strip().split(", ")
    assert allowed == [one for one in OF_DATA if "not of this dataset" not in lines[one]]
    assert words in lines[name]
    assert words in succeeds("reproduce", name, "--list", "--data", stores / store).out.replace("\n    ", " ")


@pytest.mark.parametrize(
    ("mark", "error", "words"),
    [
        ("", "DatasetMissing", "there is no dataset"),
        ("manifest.json", "UsageError", "this is a run folder"),
        ("model.json", "UsageError", "this is a model folder"),
        ("x.npy", "UsageError", "this is no dataset"),
    ],
    ids=["nothing", "run", "model", "files"],
)
def test_what_is_no_dataset_is_called_what_it_is(tmp_path: Path, mark: str, error: str, words: str) -> None:
    if mark:
        (tmp_path / "given").mkdir()
        (tmp_path / "given" / mark).touch()
    by = ("reproduce", "deng-table-1", "--data", tmp_path / "given", "-o", tmp_path / "again", *SERIAL)
    assert_refused(tmp_path, 2, error, words, by=by)


# ---- the place -----------------------------------------------------------------------------------------------------

PAGE = "reproduce-deng-table-1.html"
TAKEN = {  # what is there -> the folder that is asked for, the error and its words
    "zarr.json": ("given", "PlaceTaken", "within the dataset"),
    "model.json": ("given/again", "PlaceTaken", "within the model folder"),
    "manifest.json": ("given", "PlaceTaken", "this is a run folder"),
    "file": ("given/file/again", "FileAccess", "this is no folder"),
    "runs": ("given", "FileAccess", "this is no folder"),
    PAGE: ("given", "OutputExists", "a file of another kind"),
    PAGE.replace(".html", ".csv"): ("given", "OutputExists", "a file of another kind"),
}


@pytest.mark.parametrize("there", TAKEN)
@pytest.mark.parametrize("name", ["deng-table-1", "chen-figure-1"])
def test_a_place_that_is_taken_is_refused_before_data_are_read(tmp_path: Path, there: str, name: str) -> None:
    place, error, words = TAKEN[there]
    there = there.replace("deng-table-1", name)
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / there).touch()
    by = ("reproduce", name, "--data", tmp_path / "none.zarr", "-o", tmp_path / place, *SERIAL)
    assert_refused(tmp_path, 2, error, words, by=by)


def test_a_place_that_cannot_be_written_is_refused_before_data_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(**_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", refused)  # root may write anywhere
    by = ("reproduce", "deng-table-1", "--data", tmp_path / "none.zarr", "-o", tmp_path / "a" / "b", *SERIAL)
    assert_refused(tmp_path, 2, "FileAccess", "cannot be written: Permission denied", str(tmp_path), by=by)


def test_a_page_in_the_place_of_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "reproduce-chen-figure-1.html").mkdir()
    assert_refused(tmp_path, 2, "OutputExists", "no regular file", by=("reproduce", "chen-figure-1", "-o", tmp_path))


def test_too_many_rows_for_kernels_and_features_for_a_spectrum_are_refused(
    stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.reproduce.needs.within_reach", lambda *_: False)
    by = ("reproduce", "harchaoui-figure-1", "--data", stores / "dense.zarr", "-o", tmp_path / "again", *SERIAL)
    assert_refused(tmp_path, 2, "FigureUnfit", "16 features x 16 classes", by=by)
    monkeypatch.setattr("pipeline.reproduce.needs.left_out", lambda part, _: f"{part.key} is too large")
    by = ("reproduce", "gao-koller-figure-4", *by[2:])
    assert_refused(tmp_path, 2, "FigureUnfit", "kernel is too large", by=by)


def test_a_wrong_value_is_refused_before_a_config_is_written(stores: Path, tmp_path: Path) -> None:
    by = ("reproduce", "deng-table-1", "--data", stores / "dense.zarr", "-o", tmp_path / "again")
    assert_refused(tmp_path, 2, "ConfigError", "rounds", by=(*by, "-s", "label-2.rounds=0"))


def test_a_dry_run_writes_the_config_alone(stores: Path, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    said = made(stores, "zhao-xing-table-2", folder, "--dry-run", "--seed", 3)
    assert "train_heshing-per-level" in said.out
    assert [path.name for path in folder.iterdir()] == ["hashing-dense-seed3.toml"]
    assert "\nseed = 3\n" in (folder / "hashing-dense-seed3.toml").read_text()


@pytest.mark.usefixtures("quick")
def test_the_folder_is_made_beside_the_dataset(stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path from the folder to the dataset leads through the folder itself."""
    shutil.copytree(stores / "sparse.zarr", tmp_path / "sparse.zarr")
    monkeypatch.chdir(tmp_path)
    succeeds("reproduce", "chen-figure-4", "--data", "sparse.zarr", *SERIAL)
    assert (tmp_path / "reproduce" / "reproduce-chen-figure-4.html").is_file()


def test_what_cannot_be_planned_leaves_no_folder(stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.commands.reproducing.refusals", lambda *_: [ResourceError("too large", "here", "x")])
    place = tmp_path / "new" / "again"
    by = ("reproduce", "zhao-xing-table-2", "--data", stores / "dense.zarr", "-o", place, *SERIAL)
    assert_refused(tmp_path, 5, "ResourceError", "too large", by=by)


# ---- figures without data ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WITHOUT)
def test_the_papers_own_examples_come_out_as_printed(tmp_path: Path, name: str) -> None:
    said = succeeds("reproduce", name, "-o", tmp_path)
    verdicts = verdicts_of(tmp_path, name)
    assert set(verdicts.values()) == {HOLDS}
    assert len(verdicts) == len(catalogue()[name].claims)
    assert f"{len(verdicts)} hold" in said.out
    assert succeeds("reproduce", name, "-o", tmp_path).out == said.out  # a page of ours is replaced
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"reproduce-{name}.csv", f"reproduce-{name}.html"]


# ---- figures of data -----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("quick")
def test_table_2_sets_ours_beside_the_printed_errors(stores: Path, tmp_path: Path) -> None:
    said = made(stores, "zhao-xing-table-2", tmp_path)
    page = (tmp_path / "reproduce-zhao-xing-table-2.html").read_text("utf-8")
    for word in ("0.61 0.50", "SUN", "What differs", "runs/hashing-dense/report.html", "--paper: #fff", "16 classes"):
        assert word in page
    assert "http" not in page.split("</style>")[1].replace("http://www.w3.org", "")
    rows = {(row["row"], row["column"]): row["value"] for row in lines_of(tmp_path, "zhao-xing-table-2")}
    assert 0 <= float(rows["HESHING, flat", "here"]) < 0.9
    assert rows["OVR, hie", "SUN"] == "1.62"
    assert set(verdicts_of(tmp_path, "zhao-xing-table-2").values()) <= STATES
    assert said.out.count("\n  holds:") + said.out.count("\n  does not hold:") == 4
    again = made(stores, "zhao-xing-figure-3", tmp_path)  # of the same run
    assert "0 of 26 steps run" in again.err


KILLED = """\
import contextlib, os, signal, sys
from pipeline.cli import main
from pipeline.reproduce import page

@contextlib.contextmanager
def torn(path, real=page.whole_path):
    with real(path) as spare:
        yield spare
        if path.suffix == ".html":
            os.truncate(spare, 1000)
            os.kill(os.getpid(), signal.SIGKILL)

page.whole_path = torn
main(sys.argv[1:])
"""


def test_an_interrupted_and_then_killed_figure_goes_on(
    stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGINT within the run, SIGKILL within the page: no step is done twice, and the page is whole or absent."""
    by = ("reproduce", "chen-figure-4", "--data", stores / "sparse.zarr", "-o", tmp_path, *SERIAL)
    page, begun, real = tmp_path / "reproduce-chen-figure-4.html", [0], runner._run_step

    def struck(*given: Any) -> Any:
        begun[0] += 1
        if begun[0] == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return real(*given)

    with monkeypatch.context() as patched:
        patched.setattr(runner, "_run_step", struck)
        said = labelgrove(*by)
    assert said.code == INTERRUPTED
    assert "the same command continues" in said.err
    assert not page.exists()
    succeeds("reproduce", "chen-figure-1", "-o", tmp_path)
    shutil.copy(tmp_path / "reproduce-chen-figure-1.html", page)  # of an earlier time
    page.write_text(page.read_text("utf-8").replace("chen-figure-1", "chen-figure-4"), "utf-8")
    child = [sys.executable, "-c", KILLED, *map(str, by)]
    ended = subprocess.run(child, env=environment(), capture_output=True, text=True, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    count, steps = re.findall(r"total: (\d+) of (\d+) steps run, 1 reused", ended.stderr)[0]
    assert int(count) == int(steps) - 1
    assert not page.exists()
    assert f"0 of {steps} steps run" in succeeds(*by).err
    assert page.read_text("utf-8").endswith("</html>")
    assert not list(tmp_path.glob(".*partial*"))
    rows = {(row["row"], row["column"]): row["value"] for row in lines_of(tmp_path, "chen-figure-4")}
    own = next(name for name, _ in rows if name.startswith("this dataset"))
    zeros, empty = float(rows[own, "zeros in rows"]), float(rows[own, "empty codes"])
    assert 0.5 < zeros < 1
    assert empty == pytest.approx(float(rows[own, "expected"]), abs=0.05)
    assert rows["VOC2010, 1,000 words", "zeros in rows"] == "68.63 %"


@pytest.mark.usefixtures("quick")
def test_a_spectrum_is_of_one_vs_rest_and_the_trace_norm(stores: Path, tmp_path: Path) -> None:
    made(stores, "harchaoui-figure-1", tmp_path)
    rows = {(row["row"], row["column"]): row["value"] for row in lines_of(tmp_path, "harchaoui-figure-1")}
    shares = [float(rows[f"first {part} % of the singular values", "ovr"]) for part in (5, 10, 25, 50)]
    assert shares == sorted(shares)
    assert 0 < shares[0] < shares[-1] <= 1


@pytest.mark.usefixtures("quick")
def test_nodes_of_a_relaxed_hierarchy_need_one_model(stores: Path, tmp_path: Path) -> None:
    said = made(stores, "gao-koller-figure-1", tmp_path)
    assert "relaxed-0.5-0.0" in said.out
    assert [path.name for path in (tmp_path / "runs" / "relaxed-dense" / "models").iterdir()] == ["relaxed-0.5-0.0"]
    assert HOLDS in verdicts_of(tmp_path, "gao-koller-figure-1").values()


@pytest.mark.usefixtures("quick")
def test_trees_stand_beside_bengios_and_the_printed_ones(stores: Path, tmp_path: Path) -> None:
    made(stores, "deng-table-1", tmp_path)
    rows = {(row["row"], row["column"]): row["value"] for row in lines_of(tmp_path, "deng-table-1")}
    assert float(rows["T(4,2), Deng, here", "S_te"]) > 1
    assert rows["T(32,2), Deng, paper", "S_te"] == "10.3"
    for name in ("deng-table-2", "deng-figure-1", "deng-figure-2"):
        assert "0 of" in made(stores, name, tmp_path).err
        assert HOLDS in verdicts_of(tmp_path, name).values() or FAILS in verdicts_of(tmp_path, name).values()


def test_products_with_codes_are_counted_and_timed(stores: Path, tmp_path: Path) -> None:
    made(stores, "harchaoui-timings", tmp_path)
    rows = {(row["row"], row["column"]): row["value"] for row in lines_of(tmp_path, "harchaoui-timings")}
    n_rows, n_features, m = 640, 16, 128
    assert float(rows["multiply-adds, full matrix", "AX here"]) == n_rows * n_features * m
    assert float(rows["random accesses, compressed", "XB here"]) == n_rows * 1 * m
    assert all(
        float(rows[f"{name} matrix", f"{key} here"]) > 0 for name in ("full", "compressed") for key in ("AX", "XB")
    )


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("name", OF_DATA)
def test_every_figure_is_made_whole(stores: Path, again: Path, name: str) -> None:
    made(stores, name, again)
    verdicts = verdicts_of(again, name)
    assert len(verdicts) == len({claim.text for claim in catalogue()[name].claims})
    assert set(verdicts.values()) <= STATES
    page = (again / f"reproduce-{name}.html").read_text("utf-8")
    assert catalogue()[name].place in page
    assert not re.search(r"\bnan\b", page.split("</style>")[1])
    steps = re.findall(r"(\d+) of \d+ steps run", made(stores, name, again).err)
    assert set(steps) <= {"0"}
