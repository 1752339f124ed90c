"""Places that commands write: made beside, moved when whole, by one writer at a time; what a kill leaves is swept."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline.ingest.place import scratch_beside
from pipeline.outputs import OutputExists, move_folder_in, put_in_place
from pipeline.placing import made_beside
from tasks.files import DiskFull


def dead_process() -> int:
    """The number of a process that has ended."""
    done = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    return int(done.stdout)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("force", [False, True])
def test_another_process_that_writes_it_is_in_the_way(tmp_path: Path, force: bool) -> None:
    (tmp_path / f".x.partial-{os.getppid()}").mkdir()
    with (
        pytest.raises(OutputExists, match=f"process {os.getppid()} is writing it"),
        made_beside(tmp_path / "x", force=force),
    ):
        pass
    assert names(tmp_path) == [f".x.partial-{os.getppid()}"]


def test_so_is_another_thread_unless_both_write_the_same(tmp_path: Path) -> None:
    with made_beside(tmp_path / "x") as local:
        local.write_text("first")
        for alone in (True, False):
            with (
                pytest.raises(OutputExists, match="is writing it"),
                made_beside(tmp_path / "x", force=True, alone=alone),
            ):
                pass
        assert local.read_text() == "first"
    assert (tmp_path / "x").read_text() == "first"
    (tmp_path / f".x.partial-{os.getppid()}").mkdir()
    with made_beside(tmp_path / "x", force=True, alone=False) as local:
        local.write_text("second")
    assert (tmp_path / "x").read_text() == "second"


def without_links(*_: Any) -> None:
    raise OSError(errno.EPERM, "no links on this file system")


@pytest.mark.parametrize("links", [True, False], ids=["links", "no links"])
def test_what_appears_meanwhile_is_replaced_only_by_force(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    if not links:
        monkeypatch.setattr(os, "link", without_links)
    place = tmp_path / "x"

    def made_slowly(force: bool) -> None:
        with made_beside(place, force=force) as local:
            local.write_text("slower")
            place.write_text("faster")

    with pytest.raises(OutputExists, match="meanwhile"):
        made_slowly(force=False)
    assert place.read_text() == "faster"
    made_slowly(force=True)
    assert place.read_text() == "slower"
    with made_beside(tmp_path / "new" / "y") as local:
        local.write_text("y")
    assert (names(tmp_path), names(tmp_path / "new")) == (["new", "x"], ["y"])


@pytest.mark.parametrize("appeared", ["p.parquet", "p.metrics.json"])
def test_a_table_and_its_numbers_are_of_one_command(tmp_path: Path, appeared: str) -> None:
    output = tmp_path / "p.parquet"
    (tmp_path / appeared).write_text("faster")
    for name in ("joined", "numbers"):
        (tmp_path / name).write_text(name)
    with pytest.raises(OutputExists, match="meanwhile"):
        put_in_place(tmp_path / "joined", tmp_path / "numbers", output, force=False)
    assert names(tmp_path) == sorted([appeared, "joined", "numbers"])
    put_in_place(tmp_path / "joined", tmp_path / "numbers", output, force=True)
    assert (output.read_text(), (tmp_path / "p.metrics.json").read_text()) == ("joined", "numbers")


@pytest.mark.parametrize("there", ["folder", "file", "nothing", "empty"])
def test_folders_are_replaced_as_a_whole(tmp_path: Path, there: str) -> None:
    place, made = tmp_path / "x", tmp_path / "made"
    made.mkdir()
    (made / "a").write_text("new")
    if there in ("folder", "empty"):
        place.mkdir()
    if there == "folder":
        (place / "b").write_text("old")
    elif there == "file":
        place.write_text("old")
    if there in ("folder", "file"):
        with pytest.raises(OutputExists, match="meanwhile"):
            move_folder_in(made, place, "a", force=False)
        assert (place / "b" if place.is_dir() else place).read_text() == "old"
    move_folder_in(made, place, "a", force=there in ("folder", "file"))
    assert (names(tmp_path), names(place)) == (["x"], ["a"])


@pytest.mark.parametrize("meanwhile", [True, False])
def test_what_a_killed_process_was_replacing_comes_back(tmp_path: Path, meanwhile: bool) -> None:
    """Unless something else stands there by now."""
    left = tmp_path / f".x.partial-{dead_process()}"
    (left / "x-old").mkdir(parents=True)
    (left / "x-old" / "model").write_text("old")
    if meanwhile:
        (tmp_path / "x").write_text("new")
    with scratch_beside(tmp_path / "x"):
        assert (tmp_path / "x").is_dir() != meanwhile
    assert names(tmp_path) == ["x"]
    assert (tmp_path / "x" if meanwhile else tmp_path / "x" / "model").read_text() == ("new" if meanwhile else "old")


def test_what_fails_leaves_nothing_and_is_named_as_it_was_asked_for(
    tmp_path: Path, small_disk: Callable[[str], Path]
) -> None:
    with pytest.raises(KeyboardInterrupt), made_beside(tmp_path / "new" / "deep" / "x"):
        raise KeyboardInterrupt
    assert not (tmp_path / "new").exists()
    place = small_disk("64k") / "x"
    with pytest.raises(DiskFull) as full, made_beside(place, 100_000) as local:
        local.write_bytes(b"x" * 100_000)
    assert (full.value.where, list(place.parent.iterdir())) == (str(place), [])
    with pytest.raises(FileNotFoundError) as lost, made_beside(place) as local:
        local.read_bytes()
    assert lost.value.filename == str(place)
