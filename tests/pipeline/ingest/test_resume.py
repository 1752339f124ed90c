"""An ingest that is killed or interrupted goes on where it was when the same is asked for, to the same dataset."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.datasets import dump_svmlight_file

from pipeline.dataset import Dataset
from pipeline.ingest import ingest
from pipeline.ingest.errors import NonFiniteFeature
from pipeline.ingest.request import request_of
from tests.systems.harness import WAIT, environment, labelgrove, wait_until

BLOCK_ROWS, N_ROWS, N_BLOCKS = 8, 90, 12
KILLED = """
import importlib, os, signal, sys
place, calls, before = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "before"
module, name = place.split(":")
module = importlib.import_module(module)
real, left = getattr(module, name), [calls]
def dying(*given, **named):
    left[0] -= 1
    if before and left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    found = real(*given, **named)
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return found
setattr(module, name, dying)
from pipeline.ingest import ingest
ingest("x.npy", "d", labels="y.npy", block_rows=8)
"""
KILLS = [  # where, at which call, before it or when it is done; how many blocks are noted then
    ("pipeline.ingest.build:Parts", 1, "before", 0),
    ("pipeline.ingest.scan:scan", 1, "done", 0),
    ("pipeline.ingest.writer:_create", 1, "done", 0),
    ("pipeline.ingest.writer:_write_rows", 3, "done", 2),  # the third block is not noted
    ("pipeline.ingest.writer:_write_block", 4, "before", 5),
    ("pipeline.ingest.writer:_attributes", 1, "done", N_BLOCKS),
]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """x.npy, x.npz, x.svm and y.npy: 90 rows of 4 classes, some values 0."""
    rng = np.random.default_rng(11)
    values = (rng.standard_normal((N_ROWS, 6)) * (rng.random((N_ROWS, 6)) < 0.6)).astype(np.float32)
    labels = np.arange(N_ROWS) % 4
    np.save(tmp_path / "x.npy", values)
    np.save(tmp_path / "y.npy", labels)
    scipy.sparse.save_npz(tmp_path / "x.npz", scipy.sparse.csr_matrix(values))
    dump_svmlight_file(values, labels, str(tmp_path / "x.svm"), zero_based=True)
    return tmp_path


def make(files: Path, name: str = "d", source: str = "x.npy", **options: Any) -> Dataset:
    options = {"labels": files / "y.npy", "block_rows": BLOCK_ROWS} | options
    return ingest(files / source, files / name, **options)


def partials(folder: Path, name: str = "d") -> list[Path]:
    return sorted(folder.glob(f"{name}.partial-*"))


def chunks(dataset: Path) -> dict[str, tuple[int, int]]:
    """Of the rows of each block that is noted as written (of a whole dataset: of all): when, and to which file."""
    notes = dataset / "kept.partial"
    found = {}
    for path in sorted((dataset / "X" / "c").rglob("0")):
        if path.is_file() and (not notes.exists() or (notes / f"block-{int(path.parent.name):05d}.json").exists()):
            found[str(path.relative_to(dataset))] = (path.stat().st_mtime_ns, path.stat().st_ino)
    return found


def interrupted_at(count: int) -> Any:
    """A progress callback that is interrupted at its n-th call."""
    left = [count]

    def progress(*_: int) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt

    return progress


# ---- kill -9 -------------------------------------------------------------------------------------------------------


def kill(folder: Path, place: str, calls: int, when: str) -> None:
    """An ingest in a process of its own, which ends itself with SIGKILL."""
    child = [sys.executable, "-c", KILLED, place, str(calls), when]
    ended = subprocess.run(child, cwd=folder, env=environment(), capture_output=True, text=True, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr


def test_a_killed_ingest_goes_on_to_the_same_dataset(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGKILL at one place after the other, each later than the one before; no block is written twice."""
    monkeypatch.chdir(files)
    expected, before = make(files, "whole").digest, dict[str, tuple[int, int]]()
    for place, calls, when, blocks in KILLS:
        kill(files, place, calls, when)
        assert not (files / "d").exists()
        (left,) = partials(files)
        now = chunks(left)
        assert len(now) == blocks, place
        assert before.items() <= now.items(), place
        before = now
    said: list[str] = []
    made = ingest("x.npy", "d", labels="y.npy", block_rows=BLOCK_ROWS, say=said.append)
    assert made.digest == expected
    assert said == [f"continuing after {N_BLOCKS} blocks"]
    assert chunks(files / "d") == before
    assert not partials(files)


def test_a_dataset_that_is_whole_but_for_its_place_is_made_anew(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed before the last rename: nothing is noted any more, so nothing is believed."""
    monkeypatch.chdir(files)
    kill(files, "pipeline.ingest.place:_move_in", 1, "before")
    (left,) = partials(files)
    assert not list(left.glob("*.partial"))
    assert make(files).digest == make(files, "whole").digest
    assert not partials(files)


# ---- interrupted ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["x.npy", "x.npz", "x.svm"])
def test_interrupted_at_every_moment(files: Path, source: str) -> None:
    """Ctrl-C at every call of the progress line in turn, each continued once and then interrupted again."""
    expected = make(files, "whole", source).digest
    moments = 0
    for count in range(1, 40):
        try:
            made = make(files, "d", source, progress=interrupted_at(count))
            break
        except KeyboardInterrupt:
            moments += 1
            assert len(partials(files)) == 1
    assert moments > N_BLOCKS
    assert made.digest == expected
    assert not partials(files)


def test_a_terminal_that_is_interrupted_says_how_to_go_on(files: Path) -> None:
    patch = (
        "import os, signal\nfrom pipeline.ingest import writer\nreal = writer._write_block\n"
        "def late(place, block, *given):\n"
        "    if block.index == 3: os.kill(os.getpid(), signal.SIGINT)\n"
        "    return real(place, block, *given)\n"
        "writer._write_block = late"
    )
    typed = ("ingest", files / "x.npy", files / "d", "--labels", files / "y.npy", "--block-rows", str(BLOCK_ROWS))
    ended = labelgrove(*typed, patch=patch)
    assert ended.code == 130
    assert "interrupted; the same command continues where it stopped" in ended.err
    assert len(partials(files)) == 1
    ended = labelgrove(*typed)
    assert ended.code == 0, ended.err
    assert "continuing after 3 blocks\n" in ended.err
    assert not partials(files)


def test_a_damaged_block_is_written_again(files: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        make(files, progress=interrupted_at(9))
    (left,) = partials(files)
    written = chunks(left)
    first, second, *_ = written
    (left / first).write_bytes(b"torn")
    (left / second).unlink()
    assert make(files).digest == make(files, "whole").digest
    now = chunks(files / "d")
    assert {name for name in written if now[name] != written[name]} == {first, second}


def test_rows_in_memory_are_never_continued(files: Path) -> None:
    rows, labels = np.load(files / "x.npy"), np.load(files / "y.npy")
    with pytest.raises(KeyboardInterrupt):
        ingest(rows, files / "d", labels=labels, block_rows=BLOCK_ROWS, progress=interrupted_at(9))
    assert not partials(files)


def test_bad_input_leaves_nothing_even_where_something_was_left(files: Path) -> None:
    """The labels of the second attempt are those of the first, but the rows were made bad without being touched."""
    state = (files / "x.npy").stat()
    with pytest.raises(KeyboardInterrupt):
        make(files, progress=interrupted_at(1))
    values = np.load(files / "x.npy")
    values[7, 2] = np.nan
    np.save(files / "x.npy", values)
    os.utime(files / "x.npy", ns=(state.st_atime_ns, state.st_mtime_ns))
    (left,) = partials(files)
    for note in (left / "kept.partial").glob("scan-*"):
        note.unlink()
    with pytest.raises(NonFiniteFeature):
        make(files)
    assert not partials(files)
    assert not (files / "d").exists()


# ---- another request -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", ["seed", "labels", "file", "time", "other rows"])
def test_another_request_begins_anew(files: Path, change: str) -> None:
    with pytest.raises(KeyboardInterrupt):
        make(files, progress=interrupted_at(9))
    (left,) = partials(files)
    written, options = chunks(left), dict[str, Any]()
    assert len(written) > 2
    if change == "seed":
        options["seed"] = 4
    elif change == "labels":
        np.save(files / "y.npy", np.load(files / "y.npy")[::-1])
        later(files / "y.npy")
    elif change == "file":
        np.save(files / "x.npy", np.load(files / "x.npy") * 2)
        later(files / "x.npy")
    elif change == "time":
        later(files / "x.npy")
    else:
        options["source"] = "x.npz"
    said: list[str] = []
    made = make(files, say=said.append, **options)
    assert said == []
    assert made.digest == make(files, "whole", **options).digest
    assert not partials(files)


def later(path: Path) -> None:
    """A second later, so that no clock is too coarse for it."""
    state = path.stat()
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns + 10**9))


def test_what_a_request_is() -> None:
    asked = {
        "source": "a.npy",
        "labels": [1, 2],
        "seed": 0,
        "dataset": "d",
        "progress": print,
        "taxonomy": {"r": ["a"]},
    }
    same = asked | {"dataset": "e", "progress": None, "force": True, "max_bytes": 5}
    assert request_of(same) == request_of(asked) is not None
    for other in ({"seed": 1}, {"labels": [1, 3]}, {"source": "b.npy"}, {"new_option": 1}, {"taxonomy": {"r": ["b"]}}):
        assert request_of(asked | other) != request_of(asked)
    for unknown in (np.zeros((2, 2)), scipy.sparse.eye(3), [[1.0]]):
        assert request_of(asked | {"source": unknown}) is None
    assert request_of(asked | {"labels": {"validation": np.arange(3)}}) is None


def test_every_file_of_a_folder_or_pattern_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shards" / "deep").mkdir(parents=True)
    for name in ("shards/a.npy", "shards/b.npy", "shards/deep/c.npy", "t.tsv"):
        (tmp_path / name).write_text("x")
    for source, touched in (
        ("shards", "shards/deep/c.npy"),
        ("shards/*.npy", "shards/b.npy"),
        (["shards/a.npy", "t.tsv"], "t.tsv"),
    ):
        before = request_of({"source": source})
        later(tmp_path / touched)
        assert request_of({"source": source}) != before
        before = request_of({"source": source, "labels": "t.tsv:3"})
        later(tmp_path / "t.tsv")
        assert request_of({"source": source, "labels": "t.tsv:3"}) != before


# ---- two at a time -------------------------------------------------------------------------------------------------


def test_a_living_ingest_of_the_same_is_left_alone(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process has written some blocks and waits: this one begins its own, is faster, and the other says so."""
    monkeypatch.chdir(files)
    script = (
        "import os, sys, time\nfrom pipeline.ingest import ingest\nfrom pipeline.ingest.errors import DatasetExists\n"
        "def wait(done, total):\n"
        "    while done > 60 and not os.path.exists('d'): time.sleep(0.01)\n"
        "try:\n    ingest('x.npy', 'd', labels='y.npy', block_rows=8, progress=wait)\n"
        "except DatasetExists: sys.exit(7)\n"
    )
    other = subprocess.Popen([sys.executable, "-c", script], env=environment())
    try:
        wait_until(lambda: [*files.glob("d.partial-*/kept.partial/block-00003.json")], "the other's blocks")
        said: list[str] = []
        made = ingest("x.npy", "d", labels="y.npy", block_rows=8, say=said.append)
        assert other.wait(WAIT) == 7
    finally:
        other.kill()
        other.wait()
    assert said == []
    assert made.digest == make(files, "whole").digest
    assert not partials(files)
