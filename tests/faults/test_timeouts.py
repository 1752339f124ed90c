"""The table of time-outs in REFERENCE.md says what the code does; a profile changes them, and nothing else does."""

from __future__ import annotations

import dataclasses
import fcntl
import os
import re
import socket
from pathlib import Path

import pytest

from pipeline import lock
from pipeline.connection.dask_settings import dask_timeouts
from pipeline.connection.profile import ProfileError, load_profile
from pipeline.connection.timeouts import Timeouts
from pipeline.errors import RunLocked
from tests.systems.harness import ROOT

FIXED = {
    "heartbeat of the lock": "HEARTBEAT_SECONDS",
    "a lock of another machine": "STALE_SECONDS",
    "a process about to take the lock": "TAKING_SECONDS",
}
OF_STORES = "a request to an object store"  # its row is held to the code by tests/remote/test_errors.py


def table() -> dict[str, tuple[float, str, str]]:
    """Time-out -> (seconds, what happens, exit code) as REFERENCE.md has them."""
    text = (ROOT / "REFERENCE.md").read_text().partition("\n## Time-outs")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"][2:]
    return {name.strip("`"): (float(seconds), what, code) for name, seconds, what, code in rows}


def test_the_table_is_true() -> None:
    said, usual = table(), dataclasses.asdict(Timeouts())
    assert len(usual) == 9
    assert {name: said[name][0] for name in usual} == usual
    assert {name: said[name][0] for name in FIXED} == {name: getattr(lock, found) for name, found in FIXED.items()}
    assert [name for name in said if name != OF_STORES] == [*usual, *FIXED]
    assert re.search(r"within (\d+) s", said["scheduler_silent"][1])[1] == f"{Timeouts().noticed():.0f}"  # type: ignore[index]


def test_a_profile_changes_them_and_dask_hears_of_it(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text("[timeouts]\nworker_silent = 7\nno_workers = 1.5\n")
    found = load_profile(str(path)).timeouts
    assert found == dataclasses.replace(Timeouts(), worker_silent=7.0, no_workers=1.5)
    assert dask_timeouts(found)["distributed.scheduler.worker-ttl"] == "7.0s"
    assert dask_timeouts(found)["distributed.scheduler.no-workers-timeout"] == "1.5s"


@pytest.mark.parametrize("line", ["worker_silent = 0", "poll = true", 'answer = "10 s"', "hurry = 1", "connect = inf"])
def test_a_time_out_that_is_none_is_refused(tmp_path: Path, line: str) -> None:
    path = tmp_path / "p.toml"
    path.write_text(f"[timeouts]\n{line}\n")
    with pytest.raises(ProfileError, match=line.split()[0]) as caught:
        load_profile(str(path))
    assert caught.value.exit_code == 2


def test_a_process_that_was_stopped_while_it_took_the_lock_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "TAKING_SECONDS", 0.2)
    handle = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    with pytest.raises(RunLocked, match="about to take this folder"), lock.locked(tmp_path):
        pass
    os.close(handle)
    with lock.locked(tmp_path) as message:
        assert message == ""


@pytest.mark.parametrize("finished", [False, True], ids=["it goes on", "it has finished"])
def test_who_was_asleep_while_another_host_took_over_writes_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, finished: bool
) -> None:
    monkeypatch.setattr(lock, "HEARTBEAT_SECONDS", 0.02)
    told: list[str] = []
    here = socket.gethostname()

    def asleep() -> None:
        with lock.locked(tmp_path, told.append):
            lock.refuse_lost(tmp_path)
            if finished:
                (tmp_path / "lock.json").unlink()
            else:
                monkeypatch.setattr(socket, "gethostname", lambda: "elsewhere")
                (tmp_path / "lock.json").write_text(lock.json.dumps(lock._mine()))
                monkeypatch.setattr(socket, "gethostname", lambda: here)
            while not told:
                os.sched_yield()
            with pytest.raises(RunLocked, match="another process has taken over"):
                lock.refuse_lost(tmp_path)
            raise FileNotFoundError(2, "swept away by the other")

    with pytest.raises(RunLocked, match="asleep for long"):
        asleep()
    assert (tmp_path / "lock.json").exists() == (not finished)
