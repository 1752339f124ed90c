"""A command that is watched: what it and all its children hold, second by second, and what its steps took.

Memory is the proportional set size (`Pss` of Linux): pages that several processes share are counted once in all, files
that are mapped and in memory are counted, too.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from pipeline.byte_sizes import human_bytes

SECONDS = 2.0  # between two looks
LABELGROVE = ("-m", "pipeline.cli")  # the command line


@dataclass
class Watched:
    """How a command went: samples of (Unix time, bytes of all its processes); exit code, None where it was killed."""

    seconds: float
    code: int | None
    samples: list[tuple[float, int]] = field(default_factory=list)

    @property
    def peak(self) -> int:
        return max((nbytes for _, nbytes in self.samples), default=0)

    def peak_between(self, start: float, stop: float) -> int:
        """The most that a sample between two times says."""
        return max((nbytes for when, nbytes in self.samples if start <= when <= stop), default=0)


def held(process: psutil.Process) -> int:
    """Bytes of a process and of all below it."""
    total = 0
    for one in [process, *process.children(recursive=True)]:
        try:
            total += one.memory_full_info().pss
        except psutil.Error:  # it has ended
            continue
    return total


def watched(arguments: Sequence[str], log: Path, kill_after: float | None = None) -> Watched:
    """Run Python with these arguments; its output goes to `log`.

    kill_after   seconds after which SIGKILL ends it and all its children at once, so that none can tidy up
    Exits with the log's end when the command fails.
    """
    began = time.time()
    with log.open("ab") as out:
        running = subprocess.Popen(
            [sys.executable, *arguments], stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
        samples, code = [], None
        while code is None:
            try:
                code = running.wait(SECONDS)
            except subprocess.TimeoutExpired:
                samples.append((time.time(), held(psutil.Process(running.pid))))
            if code is None and kill_after is not None and time.time() - began > kill_after:
                os.killpg(running.pid, signal.SIGKILL)
                running.wait()
                return Watched(time.time() - began, None, samples)
    if code:
        sys.exit("\n".join([f"{' '.join(arguments)}: exit {code}", log.read_text()[-4000:]]))
    return Watched(time.time() - began, code, samples)


@dataclass(frozen=True)
class Step:
    """A finished step of a run: `tasks` were `inside` for so many seconds in all."""

    name: str
    start: float
    stop: float
    seconds: float
    tasks: int
    inside: float
    worker_peak: int


def steps_of(run: Path) -> list[Step]:
    """The steps of a run in the order in which they ended; seconds add up over attempts that were killed."""
    begun: dict[str, list[float]] = {}
    ended: dict[str, float] = {}
    spent: dict[str, float] = {}
    last = 0.0
    for line in (run / "events.jsonl").read_text().splitlines():
        event = json.loads(line)
        if event["event"] == "run":  # what was under way was killed at the last event before
            for name in begun.keys() - ended.keys():
                spent[name] = spent.get(name, 0.0) + max(0.0, last - begun[name][-1])
        if event["event"] == "step":
            begun.setdefault(event["step"], []).append(event["time"])
        if event["event"] == "done":
            ended[event["step"]] = event["time"]
            spent[event["step"]] = spent.get(event["step"], 0.0) + event["seconds"]
        last = event["time"]
    found = []
    for path in run.glob("steps/*/DONE.json"):
        done = json.loads(path.read_text())
        name, measured = done["step"], done["measured"]
        if name in ended:
            tasks, inside = int(measured.get("tasks", 0)), float(measured.get("task_seconds", 0.0))
            worker_peak = int(measured.get("peak_bytes", 0))
            found.append(Step(name, begun[name][0], ended[name], spent[name], tasks, inside, worker_peak))
    return sorted(found, key=lambda step: step.stop)


def table(run: Path, attempts: Sequence[Watched]) -> list[dict[str, object]]:
    """Print what every step of a run took, and return it; memory is that of all processes together."""
    rows: list[dict[str, object]] = []
    print(f"{'step':28} {'seconds':>9} {'in tasks':>9} {'tasks':>7} {'all hold':>10} {'a worker':>10}")
    for step in steps_of(run):
        peak = max(attempt.peak_between(step.start, step.stop) for attempt in attempts)
        workers, worker = human_bytes(peak), human_bytes(step.worker_peak)
        print(f"{step.name:28} {step.seconds:9.1f} {step.inside:9.1f} {step.tasks:7,} {workers:>10} {worker:>10}")
        times = {"seconds": step.seconds, "task_seconds": step.inside, "tasks": step.tasks}
        rows.append({"step": step.name, **times, "peak_bytes": peak, "worker_peak_bytes": step.worker_peak})
    return rows


def run_twice(words: Sequence[str], log: Path, kill_after: float | None) -> list[Watched]:
    """A command, and the same again where it was killed."""
    attempts = [watched(words, log, kill_after)]
    if attempts[0].code is None:
        print(f"killed after {attempts[0].seconds:.0f} s, typed again", flush=True)
        attempts.append(watched(words, log))
    return attempts
