"""How fast a call gets on."""

from __future__ import annotations

import time

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
