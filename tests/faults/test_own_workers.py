"""Workers of our own that freeze while they start, or die while they are stopped."""

from __future__ import annotations

import errno
import os
from itertools import pairwise
from pathlib import Path

import dask
import distributed  # noqa: F401  its defaults come with it
import psutil
import pytest

from pipeline.connection import dask_settings
from pipeline.connection.cluster import connected
from pipeline.connection.own_workers import KEPT, MORE_ROOM, _refuse_full_disk, closing_well, plain_dask, told_of_start
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
    preload = [*dask_settings.DASK_CONFIG["distributed.worker.preload"], str(tmp_path / "freezes.py")]
    monkeypatch.setitem(dask_settings.DASK_CONFIG, "distributed.worker.preload", preload)
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


# As a user's environment or ~/.config/dask may say: for a cluster with TLS, or for another machine than this one.
FOREIGN = {
    "distributed.comm.require-encryption": True,
    "distributed.comm.default-scheme": "tls",
    "distributed.comm.tls.ca-file": "/nosuch/ca.pem",
    "distributed.nanny.preload": ["nosuch"],
    "distributed.client.preload": ["nosuch"],
    "distributed.worker.preload": ["nosuch"],
    "distributed.worker.http.routes": ["nosuch"],
    "distributed.worker.memory.terminate": 0.01,
    "distributed.worker.lifetime.duration": "1s",
    "distributed.scheduler.allowed-failures": 0,
    "distributed.scheduler.preload": ["nosuch"],
    "distributed.admin.event-loop": "nosuch",
    "distributed.admin.log-length": "nosuch",
}


def test_settings_for_another_cluster_do_not_reach_workers_of_our_own() -> None:
    profile = Profile("local:1", dashboard="127.0.0.1:0")
    with dask.config.set(FOREIGN), connected(profile) as client:
        assert client.scheduler.address.startswith("tcp://127.0.0.1:")
        assert client.submit(len, [1, 2, 3]).result(timeout=60) == 3
        there = client.submit(dask.config.get, "distributed.worker.memory").result(timeout=60)
    assert (there["terminate"], there["pause"]) == (0.95, dask_settings.DASK_CONFIG["distributed.worker.memory.pause"])


def test_dask_is_plain_but_for_what_a_run_sets() -> None:
    usual = dask.config.merge(*dask.config.defaults)["distributed"]
    ours = {**dask_settings.DASK_CONFIG, **dask_settings.dask_timeouts(Timeouts())}
    with dask.config.set(FOREIGN):
        with dask.config.set(ours), plain_dask():
            found = {name: dask.config.get(name) for name in {*FOREIGN, *ours}}
        assert dask.config.get("distributed.comm.default-scheme") == "tls"  # as it was, for other clusters
    assert {name: found[name] for name in ours} == ours
    with dask.config.set(distributed=usual):
        wanted = {name: dask.config.get(name) for name in FOREIGN.keys() - ours.keys()}
    assert {name: found[name] for name in wanted} == wanted
    assert {*KEPT} == {*ours, "distributed.dashboard"}


def caused(*errors: BaseException) -> BaseException:
    """The first of these, which comes from the second, and so on."""
    for error, cause in pairwise(errors):
        error.__cause__ = cause
    return errors[0]


BEGUN = RuntimeError("Cluster failed to start: Nanny failed to start.")


@pytest.mark.parametrize(
    ("error", "what", "memory"),
    [
        (caused(BEGUN, TypeError("TLS expects an `ssl_context`")), "TypeError: TLS expects an `ssl_context`", False),
        (caused(RuntimeError("a"), RuntimeError("b"), ModuleNotFoundError("c\nd")), "ModuleNotFoundError: c", False),
        (caused(RuntimeError("a"), RuntimeError("Nanny failed to start worker process")), "worker process", True),
        (caused(RuntimeError("no worker within 20 s"), TimeoutError()), "no worker within 20 s", True),
        (caused(RuntimeError("a"), OSError(errno.ENOMEM, "Cannot allocate memory")), "Cannot allocate memory", True),
        (caused(RuntimeError("a"), MemoryError()), "a", True),
        (TimeoutError(), "TimeoutError", True),
    ],
)
def test_workers_that_do_not_start_are_told_with_the_innermost_cause(
    error: BaseException, what: str, memory: bool
) -> None:
    said, hint = told_of_start(error)
    assert what in said
    assert (hint == MORE_ROOM) is memory


def test_a_folder_of_workers_that_is_not_there_is_named(tmp_path: Path) -> None:
    place = str(tmp_path / "nosuch")
    with dask.config.set({"temporary-directory": place}):
        said, hint = told_of_start(caused(RuntimeError("a"), FileNotFoundError(2, "No such file or directory", place)))
    assert (place in said, "temporary-directory" in hint, place in hint) == (True, True, True)
