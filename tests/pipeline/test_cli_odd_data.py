"""Odd data end to end: hostile names, tiny and degenerate matrices, all through ingest, check, run, predict, verify."""

from __future__ import annotations

import html.parser
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.sparse

from pipeline.dataset import Dataset
from tests.pipeline.cli_caller import CONFIG, gaussian, make_run, metrics, succeeds, write_source
from tests.strategies import NASTY_NAMES

ROOT = Path(__file__).resolve().parents[2]
X, Y = gaussian(60, 4, 5)


def assert_all_answer(folder: Path, tested: bool = True) -> dict[str, Any]:
    """Every model is measured within bounds and predicts from its folder what the run predicted; every digest holds."""
    found = metrics(folder)
    for name, model in found["models"].items():
        if tested:
            assert 0 <= model["top1"] <= model["top5"] <= 1, name
            assert np.isfinite(model.get("hier_err", 0)), name
        output = folder / f"{name}.parquet"
        succeeds("predict", folder / "runs" / "t" / "models" / name, folder / "d.zarr", "-o", output, "--force")
        assert pq.read_metadata(output).num_rows == found["run"]["n_rows"]
        if tested:
            by_run = pq.read_table(folder / "runs" / "t" / "predictions" / f"{name}.parquet")
            top = by_run.schema.field("classes").type.list_size
            assert last_rows(output, by_run.num_rows, top) == by_run["classes"].to_pylist()
    for place in (folder / "d.zarr", folder / "runs" / "t"):
        assert "every digest holds" in succeeds("verify", place).out
    assert "nothing stands in the way" in succeeds("check", folder / "c.toml").out
    return found


def last_rows(path: Path, count: int, top: int) -> list[list[int]]:
    """The best `top` classes of the last rows of a dataset: those of its test part."""
    classes: list[list[int]] = pq.read_table(path)["classes"].to_pylist()[-count:]
    return [row[:top] for row in classes]


# ---- names -------------------------------------------------------------------------------------------------------


class Page(html.parser.HTMLParser):
    """Tags that occur, and the text between them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert not any(name.startswith("on") for name, _ in attrs)

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run over classes, taxonomy nodes and a report title with hostile names."""
    folder = tmp_path_factory.mktemp("names")
    rows, labels = gaussian(8 * len(NASTY_NAMES), 6, len(NASTY_NAMES))
    inner = ["[/x]", "..", "<img src=x onerror=alert(1)>", "a/b"]
    nodes: list[dict[str, Any]] = [{"id": "root", "name": "<b>[bold]", "parent": None}]
    nodes += [{"id": f"inner {i}", "name": name, "parent": "root"} for i, name in enumerate(inner)]
    nodes += [{"id": f"leaf {c}", "name": name, "parent": f"inner {c % 4}"} for c, name in enumerate(NASTY_NAMES)]
    tree = {"nodes": nodes, "leaves": [f"leaf {c}" for c in range(len(NASTY_NAMES))]}
    config = CONFIG + "[report]\ntitle = \"<script>alert('title')</script> [/x] \\u001b[31m\"\nworst_classes = 99\n"
    make_run(
        folder, rows, labels, "--classes", "{folder}/classes.json", "--taxonomy", "{folder}/tree.json",
        config=config, classes_json=json.dumps(NASTY_NAMES), tree_json=json.dumps(tree),
    )  # fmt: skip
    return folder


def test_hostile_names_survive_ingest_run_and_predict(named: Path) -> None:
    assert Dataset.open(named / "d.zarr").classes.names == tuple(NASTY_NAMES)
    assert_all_answer(named)
    classes = pq.read_table(named / "runs" / "t" / "models" / "ovr" / "classes.parquet")
    assert classes["name"].to_pylist() == NASTY_NAMES


def test_no_file_is_called_by_a_name(named: Path) -> None:
    made = {path.name for path in named.rglob("*")}
    assert not made & set(NASTY_NAMES) - {"zarr.json"}
    assert all(re.fullmatch(r"[\w.-]+", name) for name in made)


def test_names_are_escaped_in_the_page(named: Path) -> None:
    text = (named / "runs" / "t" / "report.html").read_text(encoding="utf-8")
    page = Page(text)
    assert not page.tags & {"script", "img"}
    assert "\x1b" not in text
    assert "<script>alert('title')</script> [/x]" in page.text
    for name in ("[/x]", "a/b", "<script>alert(1)</script>", "éa", "日本語", "[red]crane", "'\"", "%s{}"):
        assert name in page.text, name


def test_names_do_not_reach_the_terminal_as_commands(named: Path) -> None:
    for command in (("check", named / "c.toml"), ("report", named / "runs" / "t"), ("status", named / "runs" / "t")):
        said = succeeds(*command)
        assert "\x1b" not in said.out + said.err


def test_names_as_labels_in_a_text_file(tmp_path: Path) -> None:
    names = [name for name in NASTY_NAMES if name.strip() and "\t" not in name]
    rows, labels = gaussian(6 * len(names), 6, len(names))
    make_run(tmp_path, rows, [names[label] for label in labels])
    assert sorted(Dataset.open(tmp_path / "d.zarr").classes.names) == sorted(names)
    assert_all_answer(tmp_path)


def test_a_terminal_with_colours_and_bars_shows_odd_paths(tmp_path: Path) -> None:
    """On a terminal rich draws bars and tables: a folder and a title in its markup must not break it."""
    folder = tmp_path / "[/x] é"
    source, marks = write_source(folder, X, Y)
    (folder / "c.toml").write_text(CONFIG + '[report]\ntitle = "[/x] [bold]"\n', encoding="utf-8")
    succeeds("ingest", source, folder / "d.zarr", "--labels", marks)
    primary, secondary = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | {"TERM": "xterm"}
    words = [sys.executable, "-m", "pipeline.cli", "run", str(folder / "c.toml"), "--scheduler", "serial"]
    with subprocess.Popen(words, stdout=secondary, stderr=secondary, cwd=ROOT, env=environment) as child:
        os.close(secondary)
        shown = b""
        while chunk := read_terminal(primary):
            shown += chunk
        assert child.wait(timeout=60) == 0, shown
    os.close(primary)
    text = shown.decode("utf-8", "replace")
    assert "Traceback" not in text
    assert "\x1b[" in text
    assert "[/x] é" in text.replace("\r\n", "")


def read_terminal(handle: int) -> bytes:
    try:
        return os.read(handle, 1 << 16)
    except OSError:  # the other end is closed
        return b""


# ---- tiny and degenerate data ------------------------------------------------------------------------------------

SPARSE = scipy.sparse.csr_matrix(np.where(np.random.default_rng(0).random(X.shape) < 0.5, X, 0))
EMPTY_ROWS = scipy.sparse.csr_matrix(SPARSE.toarray() * (np.arange(60)[:, None] % 7 > 1))


@pytest.mark.parametrize(
    ("rows", "labels", "options"),
    [
        pytest.param(*gaussian(40, 4, 2), [], id="two classes"),
        pytest.param(*gaussian(40, 1, 2), [], id="one feature"),
        pytest.param(*gaussian(15, 4, 5), [], id="three rows a class"),
        pytest.param(*gaussian(12, 3, 2), ["--block-rows", "1"], id="blocks of one row"),
        pytest.param(X, Y, ["--block-rows", "7"], id="uneven last block"),
        pytest.param(X, Y, ["--validation", "0"], id="no validation rows"),
        pytest.param(X * 0, Y, [], id="zero rows"),
        pytest.param(X * 0 + 1, Y, ["--block-rows", "9"], id="all rows alike"),
        pytest.param(np.repeat(X[:6], 10, axis=0), np.repeat(np.arange(3), 20), [], id="duplicate rows"),
        pytest.param(X.astype(np.float16), Y, ["--block-rows", "16"], id="float16"),
        pytest.param(np.asfortranarray(X.astype(">f8")), Y, [], id="big-endian columns"),
        pytest.param(X * np.float32(1e17), Y, [], id="huge values"),
        pytest.param(SPARSE, Y, [], id="sparse"),
        pytest.param(EMPTY_ROWS, Y, ["--block-rows", "4"], id="sparse with empty rows"),
        pytest.param(X, np.repeat(np.arange(5), 12), ["--block-rows", "12"], id="sorted by class"),
    ],
)
def test_small_and_odd_matrices(tmp_path: Path, rows: Any, labels: Any, options: list[str]) -> None:
    make_run(tmp_path, rows, labels, *options)
    assert_all_answer(tmp_path)


@pytest.mark.parametrize("validation", ["0", "0.2"])
def test_no_test_rows(tmp_path: Path, validation: str) -> None:
    said = make_run(tmp_path, X, Y, "--test", "0", "--validation", validation)
    assert "warning: EmptySplit" in succeeds("check", tmp_path / "c.toml").out
    assert [line.split()[1:3] for line in said.out.splitlines() if " ovr " in line] == [["-", "-"]]
    found = assert_all_answer(tmp_path, tested=False)
    assert "top1" not in found["models"]["ovr"]
    assert not (tmp_path / "runs" / "t" / "predictions").exists()


@pytest.mark.parametrize(
    ("levels", "edges"),
    [
        (2, [("root", c) for c in range(5)]),
        (4, [("root", "a"), ("a", "b"), *(("b", c) for c in range(5))]),
        (5, [("root", 4), ("root", "a"), ("a", 0), ("a", "b"), ("b", 1), ("b", "c"), ("c", 2), ("c", 3)]),
    ],
    ids=["depth one", "a chain", "leaves at different depths"],
)
def test_taxonomies_of_odd_shapes(tmp_path: Path, levels: int, edges: list[tuple[str, Any]]) -> None:
    tree = "".join(f"{parent}\t{child}\n" for parent, child in edges)
    make_run(tmp_path, X, Y, "--taxonomy", "{folder}/tree.tsv", tree_tsv=tree)
    taxonomy = Dataset.open(tmp_path / "d.zarr").taxonomy
    assert taxonomy is not None
    assert taxonomy.n_levels == levels
    assert_all_answer(tmp_path)


def test_more_classes_asked_for_than_there_are(tmp_path: Path) -> None:
    make_run(tmp_path, X, Y, config=CONFIG + "[predict]\ntop = 1000\n")
    predictions = pq.read_table(tmp_path / "runs" / "t" / "predictions" / "ovr.parquet")
    assert predictions.schema.field("classes").type.list_size == 5
    assert_all_answer(tmp_path)


@pytest.mark.parametrize("rows", [X, SPARSE], ids=["dense", "sparse"])
def test_every_learner_on_every_kind_of_rows(tmp_path: Path, rows: Any) -> None:
    config = 'name = "t"\n[data]\npath = "d.zarr"\n[[encode]]\nname = "pq"\nkind = "pq"\nbits = 3\n'
    for kind, more in (("ovr", ""), ("heshing", "bits = 7\n"), ("flat-hash", "bits = 7\n"), ("label-tree", "")):
        for learnt, tested in (("x", "x"), ("pq", "pq"), ("pq", "x")):
            name = f'name = "{kind}-{learnt}-{tested}"'
            config += f'[[train]]\n{name}\nkind = "{kind}"\nrows = "{learnt}"\ntest_rows = "{tested}"\n{more}'
    make_run(tmp_path, rows, Y, config=config)
    assert len(assert_all_answer(tmp_path)["models"]) == 12


def test_rows_that_come_sorted_by_class_are_learnt_as_well_as_shuffled_ones(tmp_path: Path) -> None:
    rows, labels = gaussian(1000, 20, 20)
    order = np.argsort(labels, kind="stable")
    config = 'name = "t"\n[data]\npath = "d.zarr"\n[[train]]\nname = "ovr"\nkind = "ovr"\n'
    found = []
    for name, index in (("shuffled", np.arange(1000)), ("sorted", order)):
        make_run(tmp_path / name, rows[index], labels[index], "--block-rows", "40", config=config)
        found.append(metrics(tmp_path / name)["models"]["ovr"]["top1"])
    assert min(found) > 0.95
