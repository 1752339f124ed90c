"""What a run shows while it works: bars in a terminal, one plain line now and then elsewhere. All on stderr."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from pipeline.plan import PlannedStep
from pipeline.runner import View

PLAIN_SECONDS = 30.0  # between two plain lines of one call
ETA_TASKS, ETA_SHARE = 3, 0.03  # of a call's tasks must have ended before a remaining time is guessed


class Pace:
    """Rows per second and remaining seconds of the call in hand."""

    def __init__(self) -> None:
        self.name, self.start = "", 0.0

    def __call__(self, name: str, done: int, total: int, rows: int) -> tuple[float, float | None]:
        now = time.monotonic()
        if name != self.name or done <= 1:
            self.name, self.start = name, now
            return 0.0, None
        elapsed = max(now - self.start, 1e-9)
        eta = elapsed * (total - done) / max(done - 1, 1)
        enough = done >= max(ETA_TASKS, ETA_SHARE * total)
        return rows * (done - 1) / done / elapsed, eta if enough else None


def duration(seconds: float) -> str:
    """75 s -> 1:15."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def pace_text(rate: float, eta: float | None) -> str:
    """12,345 rows/s, 0:20 left."""
    parts = [f"{rate:,.0f} rows/s"] if rate else []
    return ", ".join([*parts, *([f"{duration(eta)} left"] if eta is not None else [])])


class PlainView(View):
    """Lines without control codes, for logs and pipes."""

    def __init__(self) -> None:
        self.pace, self.last = Pace(), 0.0

    def say(self, text: str) -> None:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()

    def step(self, step: PlannedStep, number: int, count: int) -> None:
        self.last = time.monotonic()
        self.say(f"[{number}/{count}] {step.name}: {step.reason if step.runs else 'reused'}")

    def progress(self, name: str, done: int, total: int, rows: int, rows_total: int) -> None:  # noqa: ARG002
        rate, eta = self.pace(name, done, total, rows)
        if time.monotonic() - self.last >= PLAIN_SECONDS:
            self.last = time.monotonic()
            self.say(f"  {name}: {done}/{total} {pace_text(rate, eta)}".rstrip())


class BarView(View):
    """One live line for the call in hand, above it the steps that are behind."""

    def __init__(self, bars: Progress) -> None:
        self.bars, self.pace = bars, Pace()
        self.task: Any = None
        self.name = ""

    def say(self, text: str) -> None:
        self.bars.console.print(escape(text), highlight=False)

    def step(self, step: PlannedStep, number: int, count: int) -> None:
        self.say(f"[{number}/{count}] {step.name}: {step.reason if step.runs else 'reused'}")

    def progress(self, name: str, done: int, total: int, rows: int, rows_total: int) -> None:  # noqa: ARG002
        if name != self.name or done <= 1:
            if self.task is not None:
                self.bars.remove_task(self.task)
            self.task, self.name = self.bars.add_task(escape(name), total=total, pace=""), name
        rate, eta = self.pace(name, done, total, rows)
        self.bars.update(self.task, completed=done, total=total, pace=pace_text(rate, eta))


@contextmanager
def view_for_terminal(quiet: bool = False) -> Iterator[View]:
    """The view that fits stderr."""
    if quiet:
        yield View()
    elif sys.stderr.isatty() and not os.environ.get("NO_COLOR"):
        console = Console(file=sys.stderr)
        columns = (TextColumn("  {task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, TextColumn("{task.fields[pace]}"), console=console, transient=True) as bars:
            yield BarView(bars)
    else:
        yield PlainView()
