"""A scheduler and workers of somebody else: processes of their own, as a user would start them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.systems.harness import WAIT, environment, wait_until


@dataclass
class Cluster:
    """Processes of a cluster on the loopback; `file` is the scheduler file."""

    file: Path
    scheduler: subprocess.Popen[bytes]
    workers: list[subprocess.Popen[bytes]]

    @property
    def address(self) -> str:
        return str(json.loads(self.file.read_text())["address"])


@contextmanager
def cluster(folder: Path, workers: int = 2, memory: str = "", **env: str) -> Iterator[Cluster]:
    """Running until the block ends. memory: of a worker; env: more variables of the processes' environment."""
    folder.mkdir(parents=True)
    file = folder / "scheduler.json"
    with open(folder / "log", "wb") as log:
        options = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file)]
        found = Cluster(file, _start("dask_scheduler", options, log, env), [])
        try:
            wait_until(lambda: file.exists() and file.read_text().endswith("}"), "the scheduler")
            options = ["--host", "127.0.0.1", "--nthreads", "1", "--no-dashboard", "--local-directory", str(folder)]
            options += ["--memory-limit", memory] if memory else []
            found.workers = [_start("dask_worker", [found.address, *options], log, env) for _ in range(workers)]
            yield found
        finally:
            _stop([found.scheduler, *found.workers])


def _start(module: str, options: list[str], log: object, env: dict[str, str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", f"distributed.cli.{module}", *options]
    return subprocess.Popen(command, stdout=log, stderr=log, env=environment(**env), start_new_session=True)  # type: ignore[call-overload,no-any-return]


def _stop(processes: list[subprocess.Popen[bytes]]) -> None:
    """Each with its own process group: a worker's nanny has the worker below it."""
    for process in processes:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    for process in processes:
        process.wait(WAIT)
