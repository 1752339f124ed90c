"""A small run of several systems, and what a dashboard serves of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.pipeline.cli_caller import gaussian, succeeds, write_source

CONFIG = """\
name = "watched"
[data]
path = "d.zarr"
[[encode]]
name = "pq"
kind = "pq"
bits = 4
[[train]]
name = "ovr"
kind = "ovr"
[[train]]
name = "tree"
kind = "label-tree"
[[train]]
name = "trace"
kind = "trace-norm"
lambda1_steps = 3
"""
STEPS = ("encode_pq", "train_ovr", "train_tree", "train_trace", "report")
SECONDS = 240.0  # anything is waited for so long


def make_config(folder: Path) -> Path:
    """A dataset and a config of three systems and an encoding."""
    rows, labels = gaussian(3000, 24, 20)
    source, marks = write_source(folder, rows, labels)
    succeeds("ingest", source, folder / "d.zarr", "--labels", marks, "--split", "0.8,0.1,0.1")
    (folder / "c.toml").write_text(CONFIG)
    return folder / "c.toml"


@contextmanager
def running(config: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """`labelgrove run` in a process of its own, ended with the context."""
    command = [sys.executable, "-c", "from pipeline.cli import main; main()", "run", str(config), *options]
    output = open(config.with_suffix(".log"), "w")  # noqa: SIM115 - a pipe that nobody reads would stop it
    process = subprocess.Popen(command, cwd=config.parent, stdout=output, stderr=output, text=True, env=os.environ)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        output.close()


def fetched(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=30) as answer:
        content: bytes = answer.read()
    return content


def state_at(dashboard: str) -> dict[str, Any]:
    """`dashboard` is http://127.0.0.1:8787"""
    found: dict[str, Any] = json.loads(fetched(f"{dashboard}/labelgrove/state.json"))
    return found


def waited_for(what: str, look: Callable[[], Any]) -> Any:
    """The first true value of `look`."""
    limit = time.monotonic() + SECONDS
    while time.monotonic() < limit:
        if found := look():
            return found
        time.sleep(0.1)
    raise AssertionError(f"waited {SECONDS:.0f} s for {what}")
