"""Workers of our own that freeze while they start, or die while they are stopped."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import psutil
import pytest

from pipeline.connection import cluster
from pipeline.connection.cluster import connected
from pipeline.connection.own_workers import _refuse_full_disk, closing_well
from pipeline.connection.profile import Profile
from pipeline.connection.timeouts import Timeouts
from tasks.files import DiskFull
from tests.systems.harness import alive, wait_until

# Loaded by every worker when it starts: the first one stops itself.
FREEZES = """
import os, signal
def dask_setup(worker):
    try:
        handle = os.open({mark!r}, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    except FileExistsError:
        return
    os.write(handle, str(os.getpid()).encode())
    os.kill(os.getpid(), signal.SIGSTOP)
"""


@pytest.mark.slow
def test_a_worker_that_freezes_while_it_starts_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = tmp_path / "frozen"
    (tmp_path / "freezes.py").write_text(FREEZES.format(mark=str(mark)))
    preload = [*cluster.DASK_CONFIG["distributed.worker.preload"], str(tmp_path / "freezes.py")]
    monkeypatch.setitem(cluster.DASK_CONFIG, "distributed.worker.preload", preload)
    profile = Profile("local:1", dashboard="127.0.0.1:0", timeouts=Timeouts(starting=25.0))
    with connected(profile) as client:
        assert client.submit(len, [1, 2, 3]).result(timeout=60) == 3
    pid = int(mark.read_text())
    wait_until(lambda: not psutil.pid_exists(pid) or not alive([psutil.Process(pid)]), "the frozen worker to end", 30)


class Closes:
    """A cluster whose closing fails, as when a worker dies just then."""

    asked = 0.0
    status = None

    def close(self, timeout: float) -> None:
        self.asked = timeout
        raise AssertionError("Status.starting")


def test_what_goes_wrong_while_it_is_closed_spoils_nothing() -> None:
    opened = Closes()
    with closing_well(opened, Profile(timeouts=Timeouts(connect=7.0))) as found:
        assert found is opened
    assert opened.asked == 7.0
    with pytest.raises(KeyError, match="the work's own"), closing_well(Closes(), Profile()):
        raise KeyError("the work's own")


def test_no_room_for_a_workers_folder_is_a_full_disk(tmp_path: Path) -> None:
    """Dask says that its nanny failed, by the way of other errors."""
    place = tmp_path / "dask-scratch-space" / "worker-1"
    error = RuntimeError("Nanny failed to start.")
    error.__cause__ = RuntimeError("Worker failed to start.")
    error.__cause__.__cause__ = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(place))
    with pytest.raises(DiskFull) as caught:
        _refuse_full_disk(error)
    assert caught.value.where == str(place)
    for other in (RuntimeError("killed"), OSError(errno.EACCES, "denied"), None):
        _refuse_full_disk(other)
