"""How one task runs on a worker: shared values opened from files, the process set up once, the task measured.

Everything the pool submits is `call`, `add_outcomes` or nothing, so a worker imports `tasks` and never `pipeline`.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tasks.files import NO_ROOM, DiskFull, disk_room
from tasks.places import at, open_array, whole_file
from tasks.sums import FieldSums, add_up
from tasks.urls import StoreUnreachable
from tasks.versions import one_look
from tasks.worker import WorkerSettings, configure_worker, peak_bytes, reset_peak

IO_TRIES = 3
IO_WAIT_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Published:
    """An array, or a dict of arrays, that was written to the run's store for all tasks to memory-map."""

    paths: tuple[tuple[str, str], ...]  # (name, file); one entry named "" for a bare array

    def open(self) -> Any:
        arrays = {name: open_array(at(path)) for name, path in self.paths}
        return arrays[""] if list(arrays) == [""] else arrays


def publish(value: Any, stem: Path, smallest: int = 1 << 15) -> Any:
    """Write an array, or a dict of arrays, of more than `smallest` bytes beside `stem`; anything else stays itself."""
    arrays = {"": value} if isinstance(value, np.ndarray) else value
    if not isinstance(arrays, dict) or not arrays or not all(isinstance(a, np.ndarray) for a in arrays.values()):
        return value
    if sum(array.nbytes for array in arrays.values()) <= smallest:
        return value
    paths = []
    for number, (name, array) in enumerate(sorted(arrays.items())):
        path = stem.with_name(f"{stem.name}-{number}.npy")
        write_array(path, array)
        paths.append((name, str(path)))
    return Published(tuple(paths))


def write_array(path: Path, array: np.ndarray) -> None:
    """A .npy file, whole or not at all. Raises DiskFull: `np.save` would not say why it has written less."""
    plain = np.ascontiguousarray(array)
    with disk_room(str(path), plain.nbytes), whole_file(path) as file:
        np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(plain))
        file.write(plain.data)


@dataclass(frozen=True, slots=True)
class Receipt:
    """What one task took. Seconds and bytes; `peak` is the process's resident high-water mark during it, `io_retries`
    how often it was begun again because the store did not answer."""

    name: str
    item: str
    start: float
    seconds: float
    cpu_seconds: float
    resident_before: int
    peak: int
    process: int
    io_retries: int = 0


@dataclass(frozen=True, slots=True)
class Outcome(FieldSums):
    """A task's result with the receipts of all the work inside it; adding outcomes adds the results."""

    result: Any
    receipts: tuple[Receipt, ...]


def call(
    item: Any, name: str, label: str, fn: Callable[..., Any], shared: tuple[Any, ...], settings: WorkerSettings
) -> Outcome:
    """fn(item, *shared) in a configured process, with the receipt of what it took."""
    process = configure_worker(settings)
    before = reset_peak()
    start, clock, cpu = time.time(), time.perf_counter(), time.thread_time()
    with one_look():
        values, opened_again = with_io_retries(opened, shared, ())
        result, again = with_io_retries(fn, item, values)
    seconds, cpu_seconds = time.perf_counter() - clock, time.thread_time() - cpu
    tried_again = opened_again + again
    receipt = Receipt(name, label, start, seconds, cpu_seconds, before, peak_bytes(), process, tried_again)
    return Outcome(result, (receipt,))


def opened(shared: tuple[Any, ...]) -> tuple[Any, ...]:
    """Shared values as a function takes them."""
    return tuple(value.open() if isinstance(value, Published) else value for value in shared)


def with_io_retries(fn: Callable[..., Any], item: Any, values: tuple[Any, ...]) -> tuple[Any, int]:
    """Run, again after a pause when the store hiccups; a full disk is a named error at once.

    Returns what fn returns, and how often it was begun again.
    """
    for attempt in range(1, IO_TRIES + 1):
        try:
            return fn(item, *values), attempt - 1
        except OSError as error:
            if error.errno in NO_ROOM:
                raise DiskFull(
                    f"{NO_ROOM[error.errno]}: while writing {error.filename or 'a file'}",
                    where=str(item),
                    hint="free space, then type the same `labelgrove run` again: finished work is kept",
                ) from None
            if attempt == IO_TRIES or error.errno in (errno.ENOENT, errno.EACCES, errno.EROFS):
                raise
        except StoreUnreachable:
            if attempt == IO_TRIES:
                raise
        time.sleep(IO_WAIT_SECONDS * attempt)
    raise AssertionError("unreachable: the last attempt returns or raises")


def add_outcomes(parts: Sequence[Outcome]) -> Outcome:
    """Left to right, so that float sums have one value."""
    outcome: Outcome = add_up(parts)
    return outcome
