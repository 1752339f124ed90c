"""Folders of temporary files: those of processes that were killed are removed by the next one, those of living stay."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline import AveragedSGDClassifier
from pipeline.estimators import temporary
from pipeline.estimators.temporary import OWNER, PREFIX, owned_folder, sweep
from tests.pipeline.estimators.small import problem

# A fit that stops where its folder holds a dataset, says so, and waits to be killed.
FIT = """
import sys
import numpy as np
from pipeline import AveragedSGDClassifier
from pipeline.estimators import fitting
def stop(*_):
    print("fitting", flush=True)
    sys.stdin.read()
fitting.train_only = stop
AveragedSGDClassifier(folder=sys.argv[1]).fit(np.eye(4), [0, 1, 0, 1])
"""


# The same without all that a fit imports, so that it starts at once.
FOLDER = """
import runpy, sys
made = runpy.run_path(sys.argv[2])
with made["owned_folder"](sys.argv[1]) as folder:
    (folder / "dataset.zarr").mkdir()
    print("fitting", flush=True)
    sys.stdin.read()
"""


def folders(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir())


@pytest.mark.parametrize("code", [FOLDER, pytest.param(FIT, marks=pytest.mark.slow)], ids=["folder", "fit"])
def test_the_folder_of_a_killed_fit_is_removed_by_the_next(code: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", code, str(tmp_path), temporary.__file__]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "fitting\n"
        (left,) = folders(tmp_path)
        assert left.startswith(PREFIX)
        assert {OWNER, "dataset.zarr"} <= set(folders(tmp_path / left))
        rows, labels = problem(40, 4)
        model = AveragedSGDClassifier(rounds=1, least_rows=500, folder=str(tmp_path))
        model.fit(rows, labels)
        assert folders(tmp_path) == [left]  # it lives
        child.kill()
        child.wait()
    assert folders(tmp_path) == [left]
    model.fit(rows, labels)
    assert folders(tmp_path) == []


def test_only_what_nobody_holds_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def made(name: str, host: str | None) -> Path:
        place = tmp_path / name
        place.mkdir()
        if host is not None:
            (place / OWNER).write_text(host)
        return place

    here = temporary.socket.gethostname()
    other, bare, dead = made(f"{PREFIX}other", "another-host"), made(f"{PREFIX}bare", None), made(f"{PREFIX}dead", here)
    strange, link = made("somebody", here), tmp_path / f"{PREFIX}link"
    (dead / "deep").mkdir()
    (dead / "deep" / "file").write_text("x")
    link.symlink_to(strange)
    with owned_folder(str(tmp_path), ["absent"]) as mine:
        assert not dead.exists()
        assert sweep(str(tmp_path)) == []
        assert all(path.exists() for path in (mine, other, bare, strange, link))
    assert not mine.exists()
    os.utime(bare, (0, 0))
    full = made(f"{PREFIX}full", None)
    (full / "file").write_text("of a version without locks")
    os.utime(full, (0, 0))  # somebody writes in it
    assert sweep(str(tmp_path)) == [str(bare)]
    (full / "deep").mkdir()
    for path in (full / "file", full / "deep", full):
        os.utime(path, (0, 0))
    assert sweep(str(tmp_path)) == [str(full)]
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    (other / OWNER).write_text(here)
    assert sweep(str(tmp_path)) == []


@pytest.mark.parametrize("moment", ["before-the-lock-file", "before-the-lock", "while-it-is-locked"])
def test_a_folder_that_is_swept_while_it_is_made_is_made_again(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process's sweep comes between two steps of the making; it is played by this one."""
    held, swept = temporary._held, list[Any]()
    lock = temporary._locked

    def late(folder: str) -> Any:
        if not swept:
            os.utime(folder, (0, 0))
            swept.extend(sweep(str(tmp_path)))
        return held(folder)

    def locked(handle: int) -> bool:
        if swept:
            return lock(handle)
        swept.append(handle)
        if moment == "before-the-lock":
            (folder,) = tmp_path.iterdir()
            assert temporary._removed(str(folder))
            return lock(handle)
        other = os.open(f"/proc/self/fd/{handle}", os.O_RDWR)
        fcntl.flock(other, fcntl.LOCK_EX)
        try:
            return lock(handle)
        finally:
            os.close(other)

    if moment == "before-the-lock-file":
        monkeypatch.setattr(temporary, "_held", late)
    else:
        monkeypatch.setattr(temporary, "_locked", locked)
    with owned_folder(str(tmp_path)) as folder:
        assert swept
        assert (folder / OWNER).read_text()
        others = [str(path) for path in tmp_path.iterdir() if path != folder]
        assert sweep(str(tmp_path)) == others
        assert folder.exists()


def test_what_cannot_be_removed_now_is_swept_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when workers of a killed process still write, or a process is killed while it removes."""
    with monkeypatch.context() as patch, owned_folder(str(tmp_path)) as folder:
        (folder / "deep").mkdir()
        (folder / "file").write_text("x")
        patch.setattr(temporary, "remove_all", lambda *_, **__: None)
    assert folders(folder) == ["deep", "file", OWNER]
    assert sweep(str(tmp_path)) == [str(folder)]
    assert folders(tmp_path) == []


def test_a_fit_goes_on_where_files_cannot_be_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: Any) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(temporary.fcntl, "flock", none)
    with owned_folder(str(tmp_path)) as folder, owned_folder(str(tmp_path)) as other:
        assert folder.exists()
        assert other.exists()
        np.save(folder / "x.npy", np.zeros(1))
    assert folders(tmp_path) == []
