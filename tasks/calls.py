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

from tasks.files import DiskFull, disk_room
from tasks.sums import FieldSums, add_up
from tasks.worker import WorkerSettings, configure_worker, peak_bytes, reset_peak

IO_TRIES = 3
IO_WAIT_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Published:
    """An array, or a dict of arrays, that was written to the run's store for all tasks to memory-map."""

    paths: tuple[tuple[str, str], ...]  # (name, file); one entry named "" for a bare array

    def open(self) -> Any:
        arrays = {name: np.load(path, mmap_mode="r", allow_pickle=False) for name, path in self.paths}
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
    """A .npy file. Raises DiskFull: `np.save` alone would not say why it has written less than it should."""
    plain = np.ascontiguousarray(array)
    with disk_room(str(path), plain.nbytes), open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(plain))
        file.write(plain.data)


@dataclass(frozen=True, slots=True)
class Receipt:
    """What one task took. Seconds and bytes; `peak` is the process's resident high-water mark during it."""

    name: str
    item: str
    start: float
    seconds: float
    cpu_seconds: float
    resident_before: int
    peak: int
    process: int


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
    values = tuple(value.open() if isinstance(value, Published) else value for value in shared)
    result = with_io_retries(fn, item, values)
    receipt = Receipt(
        name, label, start, time.perf_counter() - clock, time.thread_time() - cpu, before, peak_bytes(), process
    )
    return Outcome(result, (receipt,))


def with_io_retries(fn: Callable[..., Any], item: Any, values: tuple[Any, ...]) -> Any:
    """Run, again after a pause when the store hiccups; a full disk is a named error at once."""
    for attempt in range(1, IO_TRIES + 1):
        try:
            return fn(item, *values)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise DiskFull(
                    f"no space left while writing {error.filename or 'a file'}",
                    where=str(item),
                    hint="free space, then type the same `labelgrove run` again: finished work is kept",
                ) from None
            if attempt == IO_TRIES or error.errno in (errno.ENOENT, errno.EACCES, errno.EROFS):
                raise
            time.sleep(IO_WAIT_SECONDS * attempt)
    raise AssertionError("unreachable: the last attempt returns or raises")


def add_outcomes(parts: Sequence[Outcome]) -> Outcome:
    """Left to right, so that float sums have one value."""
    outcome: Outcome = add_up(parts)
    return outcome
