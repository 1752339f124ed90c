"""Cancelling: a run hears a request that names it, and no other."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from pipeline.commands import cancel
from pipeline.errors import RunLocked
from pipeline.interrupts import interrupt
from pipeline.lock import locked
from pipeline.state import look
from pipeline.stop_request import STOP, Stop, read_request, request_stop, stoppable
from pipeline.store import RunFolder, write_json
from pipeline.submitted.submission import SUBMITTED, Submission, write_submission
from tests.pipeline.cli_caller import labelgrove
from tests.systems.harness import WAIT, environment, wait_until

HELD = """
import sys, time
from pathlib import Path
from pipeline.lock import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def me() -> dict[str, Any]:
    return {"host": socket.gethostname(), "pid": os.getpid(), "created": psutil.Process().create_time()}


@contextmanager
def while_waiting(work: Callable[[], object]) -> Iterator[None]:
    """`work` in a thread while the block waits for an interruption."""
    failed: list[BaseException] = []

    def guarded() -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=guarded)
    thread.start()
    try:
        yield
    finally:
        thread.join(WAIT)
        assert not failed


def wait() -> None:
    """As a run waits for its tasks: in a lock, which a signal must get through."""
    threading.Event().wait(60)
    raise AssertionError("nobody has interrupted")


def ask_and_wait(ask: Callable[[], object]) -> None:
    ask()
    wait()


def test_a_request_interrupts_the_holder_of_the_lock_and_says_who_asked(tmp_path: Path) -> None:
    folder, stop = RunFolder(tmp_path), Stop()
    with (
        pytest.raises(KeyboardInterrupt),
        locked(tmp_path),
        stoppable(folder, stop),
        while_waiting(lambda: request_stop(folder)),
    ):
        wait()
    assert stop.reason.startswith("cancelled by ")
    assert stop.said() == {"why": stop.reason}
    assert not (tmp_path / STOP).exists()
    assert not (tmp_path / "lock.json").exists()


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.default_int_handler, interrupt])
def test_it_needs_no_signal_of_the_terminal(tmp_path: Path, handler: Any) -> None:
    """In the background of a shell SIGINT is ignored."""
    before = signal.signal(signal.SIGINT, handler)
    folder = RunFolder(tmp_path)
    try:
        with pytest.raises(KeyboardInterrupt), locked(tmp_path), stoppable(folder, Stop()):
            ask_and_wait(lambda: request_stop(folder))
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("changed", [{"pid": 1}, {"host": "elsewhere"}, {"created": 12.5}, None, {"created": "x"}])
def test_a_request_for_another_process_stops_nothing(tmp_path: Path, changed: dict[str, Any] | None) -> None:
    folder, stop = RunFolder(tmp_path), Stop()
    holder = None if changed is None else me() | changed
    write_json(tmp_path / STOP, {"by": "them", "holder": holder, "submission": ""})
    with stoppable(folder, stop):
        assert stop.reason == ""
    assert not (tmp_path / STOP).exists()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"holder": [1]}', '"x"'])
def test_a_damaged_request_stops_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / STOP).write_text(text)
    stop = Stop("token")
    with stoppable(RunFolder(tmp_path), stop):
        assert stop.reason == ""


def test_a_request_for_a_submission_is_for_every_driver_of_it_and_for_no_other(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    write_submission(folder, Submission("token-1", "me@here", "tcp://s:1", 1.0, SUBMITTED))
    assert request_stop(folder)
    other = Stop("token-2")
    with stoppable(folder, other):
        assert other.reason == ""
    for _ in range(2):
        mine = Stop("token-1")
        with pytest.raises(KeyboardInterrupt), stoppable(folder, mine):
            raise AssertionError("it was asked to stop before it began")
        assert mine.reason.startswith("cancelled by ")
    assert read_request(folder)["submission"] == "token-1"


def test_asked_twice_the_first_reason_counts_and_nothing_comes_after_the_end(tmp_path: Path) -> None:
    stop = Stop()
    with pytest.raises(KeyboardInterrupt), stoppable(RunFolder(tmp_path), stop):
        ask_and_wait(lambda: stop.ask("one"))
    stop.ask("two")
    assert stop.reason == "one"
    late = Stop()
    with stoppable(RunFolder(tmp_path), late):
        pass
    late.ask("too late")  # would end the process by SIGUSR1
    assert signal.getsignal(signal.SIGUSR1) == signal.SIG_IGN


def test_a_run_in_another_thread_is_left_alone(tmp_path: Path) -> None:
    folder, ended = RunFolder(tmp_path), []

    def run() -> None:
        with locked(tmp_path), stoppable(folder, Stop()):
            request_stop(folder)
        ended.append(True)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(WAIT)
    assert ended == [True]


def finished_run(folder: Path) -> Path:
    """A run folder as `status` reads it."""
    from pipeline.store import FORMAT, MANIFEST, VERSION, write_sealed

    run = RunFolder(folder)
    folder.mkdir()
    run.event("run", steps=[])
    run.event("finished")
    write_sealed(folder / MANIFEST, {"format": FORMAT, "version": VERSION, "identity": {}, "steps": {}})
    return folder


def test_cancel_where_nothing_runs_says_so(tmp_path: Path) -> None:
    run = finished_run(tmp_path / "run")
    said = labelgrove("cancel", run)
    assert said.code == 0
    assert f"nothing runs in {run}: finished" in said.err
    assert not (run / STOP).exists()
    nowhere = labelgrove("cancel", tmp_path / "nowhere")
    assert (nowhere.code, "RunMissing" in nowhere.err) == (2, True)
    config = tmp_path / "c.toml"
    config.write_text('name = "t"')
    never = labelgrove("cancel", config)
    assert (never.code, f"nothing runs: {config} has not been run yet" in never.err) == (0, True)


def test_cancel_of_what_does_not_hear_is_an_error_in_time(tmp_path: Path) -> None:
    run = finished_run(tmp_path / "run")
    command = [sys.executable, "-c", HELD, str(run)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment()) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"held\n"
            with pytest.raises(RunLocked, match="has not within 1 s"):
                cancel(run, seconds=1.0)
            assert read_request(RunFolder(run))["holder"]["pid"] == process.pid
            process.kill()
            process.wait(WAIT)
            assert cancel(run) == ""
        finally:
            process.kill()


def test_cancel_waits_for_the_end_and_tells_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = finished_run(tmp_path / "run")
    script = HELD.replace("time.sleep(600)", "").replace("print(", "stop = Stop()\n    print(")
    script = f"from pipeline.stop_request import Stop, stoppable\nfrom pipeline.store import RunFolder\n{script}" + (
        "    folder = RunFolder(Path(sys.argv[1]))\n    folder.event('run', steps=[])\n    try:\n"
        "        with stoppable(folder, stop): time.sleep(600)\n"
        "    except KeyboardInterrupt: folder.event('interrupted', **stop.said())\n"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(run)], env=environment()) as process:
        try:
            wait_until(lambda: (run / "lock.json").exists() and len(RunFolder(run).events()) == 3, "the run")
            told = cancel(run, seconds=WAIT)
            assert process.wait(WAIT) == 0
        finally:
            process.kill()
    assert told.startswith("interrupted (cancelled by ")
    assert told in capsys.readouterr().out
    assert look(RunFolder(run)).last_end == told
    assert json.loads(labelgrove("status", run, "--json").out)["why"].startswith("cancelled by ")
