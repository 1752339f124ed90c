"""How fast a call gets on."""

from __future__ import annotations

import math
import time

ETA_TASKS, ETA_SHARE = 3, 0.03  # of a call's tasks must have ended before a remaining time is guessed
STEADY = 0.5  # share of the time so far for which no further tasks have turned up, before it is


class Going:
    """Counts of a call that is made again and again, as by a solver that ends when it has converged, go on."""

    def __init__(self) -> None:
        self._calls: dict[str, tuple[int, int]] = {}

    def __call__(self, name: str, done: int, total: int) -> tuple[int, int]:
        """(done, total), with what earlier calls of this name have done."""
        before, latest = self._calls.get(name, (0, 0))
        if done == 0:
            before += latest
        self._calls[name] = before, done
        return before + done, before + total


class Pace:
    """Rows per second and remaining seconds of the call in hand, from when its first task ended."""

    def __init__(self) -> None:
        self.name, self.start = "", 0.0
        self.done, self.rows = 0, 0  # when the clock was started
        self.total, self.grown = 0, -math.inf  # tasks, and when there were last more than before

    def __call__(self, name: str, done: int, total: int, rows: int) -> tuple[float, float | None]:
        now = time.monotonic()
        if name != self.name:
            self.grown = -math.inf
        elif total != self.total:
            self.grown = now
        self.total = total
        if name != self.name or done <= 1:
            self.name, self.start, self.done, self.rows = name, now, done, rows
            return 0.0, None
        elapsed, ended = max(now - self.start, 1e-9), done - self.done
        eta = elapsed * (total - done) / max(ended, 1)
        enough = ended >= max(ETA_TASKS - 1, ETA_SHARE * total - 1)
        steady = now - self.grown >= STEADY * elapsed  # of a tree that grows, nobody knows how much is to come
        return (rows - self.rows) / elapsed, eta if enough and steady else None
