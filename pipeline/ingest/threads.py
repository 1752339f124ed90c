"""Work on pieces in threads, results in order: what kernels and NumPy do in one goes on beside the others."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

MOST_THREADS = 16
AHEAD = 1  # pieces that are begun before a thread is free for them


def n_threads() -> int:
    """Threads that encoding uses: one for each core that this process may run on."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(MOST_THREADS, cores)


def in_order(work: Callable[[T], R], items: Iterable[T], threads: int) -> Iterator[R]:
    """work(item) of every item, in the order of the items; few are under way at a time, so memory stays bounded.

    An error comes out in its item's turn, one of the items themselves, too: what came before is not lost. What is
    under way then ends first, and nothing else is begun.
    """
    if threads <= 1:
        yield from map(work, items)
        return
    begun: deque[Future[R]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for one in _begun(pool, work, items):
                begun.append(one)
                if len(begun) >= threads + AHEAD:
                    yield begun.popleft().result()
            while begun:
                yield begun.popleft().result()
        finally:
            for one in begun:
                one.cancel()


def _begun(pool: ThreadPoolExecutor, work: Callable[[T], R], items: Iterable[T]) -> Iterator[Future[R]]:
    """Work on one item after the other; what the items raise is the outcome of the last."""
    try:
        for item in items:
            yield pool.submit(work, item)
    except Exception as error:
        failed = Future[R]()
        failed.set_exception(error)
        yield failed
