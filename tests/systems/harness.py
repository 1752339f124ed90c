"""Runs for the tests: in this process, or as the process of a user, which can be killed, starved and asked again."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow.parquet as pq

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
FORKED = "multiprocessing.forkserver"  # in the command line of a server of workers, and of what it forks
PROGRAM = "from pipeline.cli import main; main()"
ROOT = Path(__file__).resolve().parents[2]
WAIT = 240.0  # seconds that anything may take on a busy machine before the test gives up


def environment(**more: str) -> dict[str, str]:
    """A user's: no thread counts set, unlike in the test process, so that what we set ourselves is what counts."""
    own = {key: value for key, value in os.environ.items() if key not in THREADS}
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**own, "PYTHONPATH": path, **more}


def run_here(
    config: Path, scheduler: str = "serial", threads: int = 1, runs: Path | None = None, **changes: Any
) -> Path:
    """Run a config in this process; returns the run folder. changes: of `Profile`; `overrides`, `force`."""
    from pipeline.config import load_config
    from pipeline.connection.profile import Profile
    from pipeline.runner import run_config

    overrides, force = tuple(changes.pop("overrides", ())), bool(changes.pop("force", False))
    where = Profile(scheduler, threads, dashboard="127.0.0.1:0", **changes)
    return run_config(load_config(config, overrides), where, runs, force).folder.path


def assert_raw_rows_rank_as_in_the_run(run: Path, model: str, rows: np.ndarray, folder: Path) -> None:
    """A model carries its encoders: `predict` of raw rows ranks the classes as the run did; files go into `folder`."""
    from pipeline.commands import predict

    source, output = folder / "rows.npy", folder / f"{model}.parquet"
    np.save(source, rows)
    predict(run / "models" / model, str(source), output)
    raw = {row["row"]: row["classes"] for row in pq.read_table(output).to_pylist()}
    predicted = pq.read_table(run / "predictions" / f"{model}.parquet").to_pylist()
    assert len(predicted) > 100
    assert all(raw[row["row"]] == row["classes"] for row in predicted)


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


def command(*arguments: str | Path, patch: str = "") -> list[str]:
    """A labelgrove command line; `patch` is Python that runs before it, in the client only."""
    return [sys.executable, "-c", f"{patch}\n{PROGRAM}", *map(str, arguments)]


def labelgrove(*arguments: str | Path, patch: str = "", **env: str) -> Ended:
    """Run a command to its end."""
    done = subprocess.run(
        command(*arguments, patch=patch),
        capture_output=True,
        text=True,
        env=environment(**env),
        timeout=WAIT,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


class Started:
    """A command that is running, in its own process group."""

    def __init__(
        self,
        *arguments: str | Path,
        log: Path,
        patch: str = "",
        env: Mapping[str, str] | None = None,
        before: Sequence[str] = (),
    ) -> None:
        """env: more variables; before: words of the command line that start the process in some way of their own."""
        self.log = log
        words = [*before, *command(*arguments, patch=patch)]
        own = environment(**(env or {}))
        with open(log, "ab") as file:
            self.process = subprocess.Popen(words, stdout=file, stderr=file, env=own, start_new_session=True)

    @property
    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def workers(self) -> list[psutil.Process]:
        """Its worker processes alive now."""
        return worker_processes(self.process.pid)

    def wait(self, limit: float = WAIT) -> int:
        """The exit code; AssertionError after so many seconds."""
        try:
            return self.process.wait(limit)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {limit:.0f} s:\n{self.text}") from None

    def until(self, happened: Callable[[], Any], what: str, limit: float = WAIT) -> None:
        """Wait for something to be seen while the command runs."""
        wait_until(lambda: happened() or self.process.poll() is not None, what, limit)
        assert happened(), f"ended with {self.process.poll()} before {what}:\n{self.text}"

    def send(self, sign: signal.Signals, to_group: bool = False) -> None:
        """A signal to the client alone, or to all of its process group, as Ctrl-C in a terminal does."""
        if to_group:
            os.killpg(self.process.pid, sign)
        else:
            self.process.send_signal(sign)

    def stop(self) -> None:
        """End what is left of it, whatever the test has come to."""
        left = [self.process, *_children(self.process.pid)]
        for process in left:
            try:
                process.kill()
            except (psutil.Error, ProcessLookupError):
                continue
        self.process.wait(WAIT)


@contextmanager
def started(
    *arguments: str | Path, log: Path, patch: str = "", env: Mapping[str, str] | None = None, before: Sequence[str] = ()
) -> Iterator[Started]:
    """A running command that does not outlive the test; see `Started`."""
    found = Started(*arguments, log=log, patch=patch, env=env, before=before)
    try:
        yield found
    finally:
        found.stop()


def _children(pid: int) -> list[psutil.Process]:
    try:
        return list(psutil.Process(pid).children(recursive=True))
    except psutil.Error:
        return []


def worker_processes(pid: int) -> list[psutil.Process]:
    """Dask workers below a process: spawned by it, or forked from its server; neither that nor the resource tracker."""
    found = []
    for process in _children(pid):
        try:
            parent = process.parent()
            forked = parent is not None and all(FORKED in " ".join(one.cmdline()) for one in (process, parent))
            if forked or "spawn_main" in " ".join(process.cmdline()):
                found.append(process)
        except psutil.Error:
            continue
    return found


def wait_until(happened: Callable[[], Any], what: str, limit: float = WAIT) -> None:
    """Poll; AssertionError when it does not come to pass."""
    end = time.monotonic() + limit
    while not happened():
        assert time.monotonic() < end, f"waited {limit:.0f} s for {what}"
        time.sleep(0.02)


def alive(processes: Sequence[psutil.Process]) -> list[psutil.Process]:
    """Those that still run: a zombie does not."""
    found = []
    for process in processes:
        try:
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


class WorkerKiller(threading.Thread):
    """kill -9 of random workers below a process at random moments, as long as it is entered; none before `ready`."""

    def __init__(
        self,
        pid: int,
        seed: int,
        pauses: tuple[float, float],
        most: int,
        ready: Callable[[], bool] = lambda: True,
    ) -> None:
        super().__init__(name="worker-killer", daemon=True)
        self.pid, self.random, self.pauses, self.most = pid, random.Random(seed), pauses, most
        self.killed: list[int] = []
        self.ready = ready
        self._stop_asked = threading.Event()

    def run(self) -> None:
        """Until asked to stop, or enough are killed."""
        while len(self.killed) < self.most and not self._stop_asked.wait(self.random.uniform(*self.pauses)):
            found = worker_processes(self.pid)
            if found and self.ready():
                chosen = found[self.random.randrange(len(found))]
                try:
                    chosen.send_signal(signal.SIGKILL)
                    self.killed.append(chosen.pid)
                except psutil.Error:
                    continue

    def __enter__(self) -> WorkerKiller:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop_asked.set()
        self.join()


def events_of(run: Path) -> list[dict[str, Any]]:
    """The events of a run folder so far."""
    from pipeline.store import RunFolder

    return RunFolder(run).events()


def plan_of(config: Path, *arguments: str) -> dict[str, dict[str, Any]]:
    """step -> what `plan --json` says of it."""
    ended = labelgrove("plan", config, "--json", "--scheduler", "serial", *arguments)
    assert ended.code == 0, ended.err
    return {step["step"]: step for step in json.loads(ended.out)["steps"]}


def general(path: str) -> str:
    """The name of a place with numbers and random parts left out: places of one kind have one name."""
    return re.sub(r"\d+", "N", re.sub(r"\b[0-9a-f]{8,}\b", "H", path))
