"""What a run shows while it works: bars in a terminal, plain lines elsewhere, at least one every few seconds."""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from pipeline.fields import plain_terminal
from pipeline.kept_kernels import first_run_here
from pipeline.last_resort import clean, say
from pipeline.plan import PlannedStep
from pipeline.report.numbers import seconds as seconds_text
from pipeline.runner import View
from pipeline.watching.pace import Going, Pace

PLAIN_SECONDS = 10.0  # a plain view is never silent for longer
OVERDUE = 1.0  # seconds after which a guess of what is left has proved wrong
COMPILING = "first run here: compiling kernels"
WIDE = 80  # cells of a terminal from which on a bar is drawn


def duration(seconds: float) -> str:
    """75 s -> 1:15."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def pace_text(rate: float, eta: float | None) -> str:
    """12,345 rows/s, 0:20 left."""
    parts = [f"{rate:,.0f} rows/s"] if rate else []
    return ", ".join([*parts, *([f"{duration(eta)} left"] if eta is not None else [])])


class Said:
    """The pace of a call as of when it is written: what is left runs down, and is not told once it has run out.

    first_run  whether kernels have yet to be compiled: why nothing has ended
    """

    def __init__(self, rate: float, eta: float | None, done: int, first_run: bool) -> None:
        self.rate, self.end = rate, None if eta is None else time.monotonic() + eta
        self.compiles = first_run and not done

    def __str__(self) -> str:
        if self.compiles:
            return COMPILING
        left = None if self.end is None else self.end - time.monotonic()
        return pace_text(self.rate, None if left is None or left < -OVERDUE else max(0.0, left))


# what_model_pair04of14_relgap0.028_rank69: what the dashboard shows of a path of penalties, anew for each iteration
_PAIR = re.compile(r"(?P<what>[^_]+)_(?P<model>.+)_pair(?P<pair>\d+)of(?P<pairs>\d+)(?:_relgap[^_]+_rank\d+)?")


def shown_name(name: str) -> str:
    """A call as people read it, "trace-norm pair 4 of at most 14: scores": the same over the iterations of a pair."""
    found = _PAIR.fullmatch(name)
    if not found:
        return name
    return f"{found['model']} pair {int(found['pair'])} of at most {int(found['pairs'])}: {found['what']}"


def step_text(step: PlannedStep, number: int, count: int) -> str:
    return f"[{number}/{count}] {step.name}: {step.reason if step.runs else 'reused'}"


def finished_text(seconds: float) -> str:
    return f"  done in {seconds_text(seconds)}"


class PlainView(View):
    """Lines without control codes, for logs and pipes; a thread of its own says that a silent call is alive."""

    def __init__(self, every: float = PLAIN_SECONDS) -> None:
        self.pace, self.going, self.every = Pace(), Going(), every
        self.last = self.step_start = time.monotonic()
        self.call, self.counts = "looking at what is there", ""
        self.said: Said | str = ""
        self.first_run = first_run_here()
        self._lock, self._stop = threading.Lock(), threading.Event()

    @contextmanager
    def alive(self) -> Iterator[None]:
        """Within it, the thread runs."""
        thread = threading.Thread(target=self._tick, name="progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()

    def _tick(self) -> None:
        while not self._stop.wait(max(0.05, self.last + self.every - time.monotonic())):
            self._life()

    def _life(self) -> None:
        """A line, when there has been none for `every` seconds."""
        now = time.monotonic()
        if now - self.last >= self.every:
            pace = str(self.said)
            self.say(f"  {self.call}{self.counts}{pace and ', '}{pace}, {duration(now - self.step_start)} so far")

    def say(self, text: str) -> None:
        with self._lock:
            self.last = time.monotonic()
            say(text)

    def waits(self, text: str) -> None:
        self.call, self.counts, self.said = text, "", ""
        self.say(text)

    def step(self, step: PlannedStep, number: int, count: int) -> None:
        self.step_start, self.call, self.counts, self.said = time.monotonic(), step.name, "", ""
        self.going = Going()
        self.say(step_text(step, number, count))

    def finished(self, step: PlannedStep, seconds: float) -> None:  # noqa: ARG002
        self.say(finished_text(seconds))

    def progress(self, name: str, done: int, total: int, rows: int, rows_total: int) -> None:  # noqa: ARG002
        name = shown_name(name)
        self.said = Said(*self.pace(name, done, total, rows), done, self.first_run)
        done, total = self.going(name, done, total)
        self.call, self.counts = name, f": {done}/{total} tasks"
        self._life()


class BarView(View):
    """One live line for the call in hand, above it the steps that are behind."""

    def __init__(self, bars: Progress) -> None:
        self.bars, self.pace, self.going = bars, Pace(), Going()
        self.first_run = first_run_here()
        self.task: Any = None
        self.name = ""

    def say(self, text: str) -> None:
        self.bars.console.print(escape(clean(text)), highlight=False)

    def step(self, step: PlannedStep, number: int, count: int) -> None:
        self.going = Going()
        self.say(step_text(step, number, count))

    def finished(self, step: PlannedStep, seconds: float) -> None:  # noqa: ARG002
        self._clear()
        self.say(finished_text(seconds))

    def _clear(self) -> None:
        if self.task is not None:
            self.bars.remove_task(self.task)
        self.task = None

    def progress(self, name: str, done: int, total: int, rows: int, rows_total: int) -> None:  # noqa: ARG002
        name = shown_name(name)
        said = Said(*self.pace(name, done, total, rows), done, self.first_run)
        done, total = self.going(name, done, total)
        if self.task is None or name != self.name:
            self._clear()
            self.task, self.name = self.bars.add_task(escape(name), total=total, pace=""), name
        self.bars.update(self.task, completed=done, total=total, pace=said)


@contextmanager
def view_for_terminal() -> Iterator[View]:
    """The view that fits stderr."""
    if not sys.stderr.isatty() or plain_terminal():
        view = PlainView()
        with view.alive():
            yield view
        return
    console = Console(file=sys.stderr)
    bar = (BarColumn(),) if console.width >= WIDE else ()
    columns = (TextColumn("  {task.description}"), *bar, MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TextColumn("{task.fields[pace]}"), console=console, transient=True) as bars:
        yield BarView(bars)
