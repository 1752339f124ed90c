"""`compare`: runs of the same rows, of others, and what is no run; by small runs, made once."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from pipeline.comparing.rows import Paired
from tests.pipeline.cli_caller import assert_refused, gaussian, labelgrove, metrics, snapshot, succeeds, write_source

N_CLASSES = 5
CONFIG = """\
name = "{name}"
seed = {seed}
[data]
path = "{data}.zarr"
[[train]]
name = "ovr"
kind = "ovr"
rounds = {rounds}
[[train]]
name = "means"
kind = "nearest-class-mean"
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs a and b of one dataset, c of the same rows with other features, d of other rows, g without test rows, n of
    the rows and features of c with classes numbered the other way round."""
    folder = tmp_path_factory.mktemp("compare")
    rows, labels = gaussian(150, 3, N_CLASSES, seed=4)
    rows = rows + np.random.default_rng(1).standard_normal(rows.shape).astype(np.float32) * 2
    names = [f"n{y}" for y in labels]
    (folder / "turned.txt").write_text("".join(f"n{y}\n" for y in reversed(range(N_CLASSES))))
    made_of = {"d": (rows, 0), "e": (rows[:, :2], 0), "f": (rows, 1), "g": (rows, 0), "n": (rows[:, :2], 0)}
    more = {"g": ("--split", "0.8,0.2,0"), "n": ("--classes", folder / "turned.txt")}
    for data, (values, seed) in made_of.items():
        source, marks = write_source(folder / data, values, names)
        options = ("--labels", marks, "--seed", seed, *more.get(data, ()))
        succeeds("ingest", source, folder / f"{data}.zarr", *options)
    for name, data in {"a": "d", "b": "d", "c": "e", "d": "f", "g": "g", "n": "n"}.items():
        text = CONFIG.format(name=name, seed=7, data=data, rounds=2 if name == "b" else 1)
        (folder / f"{name}.toml").write_text(text)
        succeeds("run", folder / f"{name}.toml", "--scheduler", "serial")
    return folder


def right(made: Path, run: str, model: str) -> dict[int, bool]:
    """Row -> whether it is right, by the published predictions."""
    table = pq.read_table(made / "runs" / run / "predictions" / f"{model}.parquet").to_pylist()
    return {line["row"]: line["classes"][0] == line["label"] for line in table}


def best_of(made: Path, run: str) -> str:
    """Its most accurate model; of equals the first."""
    return max(("ovr", "means"), key=lambda name: metrics(made, run)["models"][name]["top1"])


def compared(made: Path, *runs: str) -> dict:
    said = succeeds("compare", *(made / "runs" / run for run in runs), "-o", made / "out/x.html", "--json", "--force")
    found: dict = json.loads(said.out)
    return found


def test_runs_of_one_dataset(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    said = succeeds("compare", made / "runs/a", made / "b.toml")
    assert "warning: these runs" not in said.err
    for name in ("a/ovr", "a/means", "b/ovr", "b/means"):
        assert name in said.out
    assert f"{100 * metrics(made, 'b')['models']['ovr']['top1']:.1f} %" in said.out
    assert "train ovr: rounds" in said.out
    assert said.out.splitlines()[-1].startswith("take ")
    page = (tmp_path / "compare.html").read_text()
    for word in (
        "a/ovr",
        "b/means",
        "Which model?",
        "Row by row",
        "What differs between the runs",
        "train ovr: rounds",
    ):
        assert word in page
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org", "")
    with open(tmp_path / "compare-figures/differences.csv", newline="") as file:
        assert [line["what"] for line in csv.DictReader(file)] == ["train ovr: rounds"]


def test_row_by_row_is_what_the_predictions_say(made: Path) -> None:
    found = compared(made, "a", "b")
    (pair,) = found["row_by_row"]
    one, other = (right(made, *pair[key].split("/")) for key in ("first", "second"))
    assert one.keys() == other.keys()
    counts = [0, 0, 0, 0]
    for row, hit in one.items():
        counts[(0 if other[row] else 1) if hit else (2 if other[row] else 3)] += 1
    assert [pair[key] for key in ("both", "only_first", "only_second", "neither")] == counts
    best = [best_of(made, run) for run in "ab"]
    values = [metrics(made, run)["models"][name]["top1"] for run, name in zip("ab", best, strict=True)]
    assert pair["difference"] == pytest.approx(values[0] - values[1])
    assert found["comparable"]
    assert found["models"]["a/ovr"] == metrics(made, "a")["models"]["ovr"]
    by_class = {line["name"]: line for line in found["classes"]}
    assert sum(line["rows"] for line in by_class.values()) == len(one)
    assert sum(line["right"][pair["first"]] for line in by_class.values()) == sum(one.values())


def test_the_same_rows_with_other_features_compare_and_are_said(made: Path) -> None:
    found = compared(made, "a", "c")
    assert found["comparable"]
    assert any("taken for the same rows with other features" in text for text in found["warnings"])
    assert len(found["row_by_row"]) == 1
    assert {"dataset (digest)", "features"} <= {line["what"] for line in found["differences"]}
    by_class = {line["name"]: (line["rows"], line["right"]["a/" + best_of(made, "a")]) for line in found["classes"]}
    turned = compared(made, "a", "n")
    assert turned["comparable"]
    assert [one["name"] for one in turned["classes"]] != [f"n{y}" for y in range(N_CLASSES)]  # by difference
    best = f"n/{best_of(made, 'n')}"
    label = pq.read_table(made / f"runs/n/predictions/{best[2:]}.parquet").to_pylist()
    hits = right(made, "n", best[2:])
    for line in turned["classes"]:
        assert (line["rows"], line["right"]["a/" + best_of(made, "a")]) == by_class[line["name"]]
        mine = [one["row"] for one in label if f"n{N_CLASSES - 1 - one['label']}" == line["name"]]
        assert (line["rows"], line["right"][best]) == (len(mine), sum(hits[row] for row in mine))
    page = (made / "out/x.html").read_text()
    assert "Where they differ most" in page


def found_lines(found: dict) -> list[list[str]]:
    """How what else to know of each set of rows begins."""
    return [[line[:30] for line in one["advice"]["lines"][1:]] for one in found["advice_by_rows"]]


def test_other_rows_do_not_compare_and_that_comes_first(made: Path, tmp_path: Path) -> None:
    said = succeeds("compare", made / "runs/a", made / "runs/b", made / "runs/d", "-o", tmp_path / "x.html")
    assert "their accuracies do not compare: a, b; d" in said.err
    main = said.out.split("\n\n")[0]
    assert "b/ovr" in main
    assert "d/ovr" not in main
    assert "d/ovr" in said.out
    first, second = said.out.splitlines()[-2:]  # what to take, of each set of rows
    assert first.startswith("of a, b: take ")
    assert second.startswith("of d: take d/")
    page = (tmp_path / "x.html").read_text()
    assert page.index("do not compare") < page.index("Which model?") < page.index("<h2>Models</h2>")
    others = found_lines(compared(made, "a", "b", "d"))
    assert others[0]
    assert "<h1>Comparison of a, b and d</h1>" in page
    words = ["Which model?", "Of a, b: take ", *others[0], "Of d: take d/", *others[1], "<figure>"]
    spaced = page.replace("\N{NO-BREAK SPACE}", " ")  # a line with a number in it, by the times that were measured
    assert sorted(words, key=spaced.index) == words
    found = compared(made, "a", "b", "d")
    assert not found["comparable"]
    assert [(one["first"][0], one["second"][0]) for one in found["row_by_row"]] == [("a", "b")]
    assert "d/ovr" in found["models"]
    assert found["advice"] is None  # none for all of them
    takes = {tuple(one["runs"]): one["advice"]["take"].split("/")[0] for one in found["advice_by_rows"]}
    assert takes.keys() == {("a", "b"), ("d",)}
    assert takes[("d",)] == "d"


def test_a_run_without_test_rows_is_called_so(made: Path, tmp_path: Path) -> None:
    said = succeeds("compare", made / "runs/a", made / "runs/g", "-o", tmp_path / "x.html")
    assert "g has no test rows, so its models have no accuracy to compare" in said.err
    assert "different rows" not in said.err
    assert said.out.splitlines()[-1].startswith("take a/")
    assert "Not tested: there is no accuracy to compare." in said.out
    assert "no two of these runs do" in said.out  # why no class is told
    page = (tmp_path / "x.html").read_text()
    assert page.index("g has no test rows") < page.index("Which model?")
    found = compared(made, "g", "a")
    assert (found["comparable"], found["advice"]["take"][:2]) == (False, "a/")


def test_names_tell_folders_of_one_name_apart(made: Path, tmp_path: Path) -> None:
    for place in ("one", "two"):
        shutil.copytree(made / "runs/a", tmp_path / place / "a")
    succeeds("verify", tmp_path / "one/a")
    said = succeeds("compare", tmp_path / "one/a", tmp_path / "two/a", "-o", tmp_path / "x.html")
    assert "one/a/ovr" in said.out
    assert "two/a/means" in said.out
    assert "What differs" not in (tmp_path / "x.html").read_text()


def test_what_is_no_run_is_named(made: Path, tmp_path: Path) -> None:
    page = ("-o", tmp_path / "x.html")
    a = made / "runs/a"
    assert_refused(tmp_path, 2, "RunMissing", "no such file", by=("compare", a, tmp_path / "nowhere", *page))
    assert_refused(tmp_path, 2, "RunMissing", "this is a dataset", by=("compare", a, made / "d.zarr", *page))
    assert_refused(tmp_path, 2, "UsageError", "the same run as", by=("compare", a, made / "a.toml", *page))
    assert_refused(tmp_path, 2, "UsageError", "at least two", by=("compare", a, *page))
    assert_refused(tmp_path, 2, "UsageError", ".html", by=("compare", a, made / "runs/b", "-o", tmp_path / "x.txt"))
    inside = ("compare", a, made / "runs/b", "-o", a / "report.html")
    assert_refused(made, 2, "PlaceTaken", "report.html", by=inside)


@pytest.mark.parametrize("harm", ["no metrics", "torn", "other form", "newer"])
def test_unfinished_and_damaged_runs_are_named(made: Path, tmp_path: Path, harm: str) -> None:
    run = tmp_path / "runs/a"
    shutil.copytree(made / "runs/a", run)
    place = run / "metrics.json"
    if harm == "no metrics":
        place.unlink()
    elif harm == "torn":
        place.write_text(place.read_text()[:-20])
    elif harm == "other form":
        place.write_text(json.dumps({"models": {}}))
    else:
        manifest = json.loads((run / "manifest.json").read_text())
        (run / "manifest.json").write_text(json.dumps({**manifest, "version": 99}))
    code, error = (2, "RunMissing") if harm == "no metrics" else (4, "RunFormat")
    by = ("compare", made / "runs/b", run, "-o", tmp_path / "x.html")
    assert_refused(tmp_path, code, error, str(run), by=by)


def test_predictions_that_are_gone_are_a_note(made: Path, tmp_path: Path) -> None:
    run = tmp_path / "gone"
    shutil.copytree(made / "runs/a", run)
    shutil.rmtree(run / "predictions")
    said = succeeds("compare", made / "runs/b", run, "-o", tmp_path / "x.html")
    assert "is not compared row by row: the file is missing" in said.err
    assert "gone/ovr" in said.out


def test_a_page_that_is_there_stays_and_the_table_comes_first(made: Path, tmp_path: Path) -> None:
    page = tmp_path / "x.html"
    page.write_text("mine")
    said = labelgrove("compare", made / "runs/a", made / "runs/b", "-o", page)
    assert said.code == 2
    assert "OutputExists: " in said.err
    assert "b/ovr" in said.out
    assert page.read_text() == "mine"
    assert not (tmp_path / "x-figures").exists()
    succeeds("compare", made / "runs/a", made / "runs/b", "-o", page, "--force")
    first = page.read_bytes()
    succeeds("compare", made / "runs/a", made / "runs/b", "-o", page, "--force")
    assert page.read_bytes() == first
    page.unlink()
    said = labelgrove("compare", made / "runs/a", made / "runs/b", "-o", page)
    assert f"the folder of the page's CSV is there already [{tmp_path / 'x-figures'}]" in said.err
    (tmp_path / "x-figures/notes.txt").write_text("mine")  # so it is no folder of compare's alone
    before = snapshot(tmp_path)
    said = labelgrove("compare", made / "runs/a", made / "runs/b", "-o", page, "--force")
    assert f"compare has not made is in the way [{tmp_path / 'x-figures'}]" in said.err
    assert said.code == 2
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("ended", ["row-by-row.csv", "accuracy-cost.csv", "x-figures", "x.html"])
def test_after_a_kill_the_page_is_whole_or_absent(made: Path, tmp_path: Path, ended: str) -> None:
    """Killed while a CSV is written, before the folder of all is moved, or before the page is."""
    by = ("compare", made / "runs/a", made / "runs/b", "-o", tmp_path / "x.html", "--force")
    page = tmp_path / "x.html"
    page.write_text("an earlier one")
    (tmp_path / "x-figures").mkdir()
    (tmp_path / "x-figures/differences.csv").write_text("an earlier one")
    (tmp_path / "x-figures/of-another-run.csv").write_text("an earlier one")
    before = snapshot(tmp_path)

    def dying(move: Callable[..., None]) -> Callable[..., None]:
        def moved(spare: Path, place: Path) -> None:
            if Path(place) == tmp_path / ended or (ended.endswith(".csv") and Path(place).name == ended):
                os.kill(os.getpid(), signal.SIGKILL)
            move(spare, place)

        return moved

    child = os.fork()
    if not child:
        os.rename, os.replace = dying(os.rename), dying(os.replace)
        labelgrove(*by)
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    left = f".x.html.partial-{child}"
    found = {name: told for name, told in snapshot(tmp_path).items() if not name.startswith(left)}
    assert (tmp_path / left).is_dir()
    if ended.endswith(".csv"):
        assert found == before
    else:
        assert not page.exists()  # an earlier page would stand beside the numbers of this one
    succeeds(*by)
    assert page.read_text("utf-8").rstrip().endswith("</html>")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x-figures", "x.html"]
    assert not (tmp_path / "x-figures/of-another-run.csv").exists()


@pytest.mark.parametrize(("b", "c", "p"), [(0, 0, 1.0), (3, 1, 0.625), (10, 0, 2 / 1024), (5, 5, 1.0), (0, 1, 1.0)])
def test_exact_p_values(b: int, c: int, p: float) -> None:
    """By hand: twice the tail of the binomial of one half."""
    assert Paired("x", "y", 7, b, c, 2).p_value == pytest.approx(p)
