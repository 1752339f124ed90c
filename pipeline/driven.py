"""Items of a call that are worked in this process: threads that ask the pool for sums while its other tasks go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

THREADS = 4  # each holds the parameters of one item, and leaves workers idle only between its own rounds
POLL_SECONDS, LONGEST_POLL = 0.02, 0.32  # between two looks for what tasks have ended: the longer nothing does

Item = Any
Drive = Callable[[Item], Any]


class Driven:
    """Items under way in threads; `drive` does one of them and gives its result."""

    def __init__(self, drive: Drive, executor: ThreadPoolExecutor) -> None:
        self._drive, self._executor = drive, executor
        self._open: dict[Future[Any], Item] = {}

    def __len__(self) -> int:
        return len(self._open)

    def start(self, items: Sequence[Item]) -> None:
        """Begin as soon as a thread is free, in this order."""
        self._open |= {self._executor.submit(self._drive, item): item for item in items}

    def ended(self, seconds: float = 0.0) -> list[tuple[Item, Any]]:
        """(item, result) of those that have ended, waiting so long for one; raises what a thread has raised."""
        done = wait(self._open, timeout=seconds, return_when=FIRST_COMPLETED).done
        first = [future for future in self._open if future in done]
        return [(self._open.pop(future), future.result()) for future in first]


@contextmanager
def driven(drive: Drive, stop: Callable[[], None]) -> Iterator[Driven]:
    """Within it items may be driven. On any way out but the good one `stop` must make the threads end: they are waited
    for, so that nothing is submitted any more when the error is seen."""
    with ThreadPoolExecutor(THREADS, thread_name_prefix="drive") as executor:
        try:
            yield Driven(drive, executor)
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            stop()
            raise
