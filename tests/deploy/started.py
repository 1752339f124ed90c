"""Commands of the files in deploy/ as plain processes of this machine."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.deploy.compose import ROOT
from tests.systems.harness import WAIT, environment

CONFIG = """\
name = "{name}"
[data]
path = "{data}"
[[encode]]
name = "pq"
kind = "pq"
subquantizers = 8
bits = 4
[[train]]
name = "ovr"
kind = "ovr"
rounds = 2
[[train]]
name = "ovr-pq"
kind = "ovr"
rows = "pq"
rounds = 2
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def replaced(words: Sequence[str], changes: Mapping[str, str]) -> list[str]:
    """Words of a command for this machine: texts in them replaced, in the order given."""
    found = []
    for word in words:
        for old, new in changes.items():
            word = word.replace(old, new)
        found.append(word)
    return found


def own_environment(**more: str) -> dict[str, str]:
    """With this Python's commands first on the path, and Dask's settings as the image has them."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return environment(**{"PATH": path, "DASK_CONFIG": str(ROOT / "deploy" / "dask.yaml"), **more})


def answers(port: int, path: str) -> bool:
    """What an HTTP probe sees."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@dataclass
class Processes:
    """Processes in groups of their own, whose output goes to files of a folder."""

    folder: Path
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, name: str, words: Sequence[str], env: Mapping[str, str]) -> subprocess.Popen[bytes]:
        with open(self.folder / f"{name}.log", "wb") as log:
            process = subprocess.Popen(
                list(words), cwd=self.folder, env=dict(env), stdout=log, stderr=log, start_new_session=True
            )
        self.running.append(process)
        return process

    def said(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")


@contextmanager
def processes(folder: Path) -> Iterator[Processes]:
    """All that are started within it end with it."""
    found = Processes(folder)
    try:
        yield found
    finally:
        for process in found.running:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        for process in found.running:
            process.wait(WAIT)
