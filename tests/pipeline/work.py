"""Functions that the pool tests submit; importable by a worker, as everything that travels must be."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tasks.errors import InputError


@dataclass(frozen=True)
class Piece:
    """An item with rows and a number, as blocks are."""

    index: int
    n_rows: int = 3


def scaled(item: Piece, array: np.ndarray, factor: float) -> np.ndarray:
    """A float32 result whose sum depends on the order of additions."""
    return (np.asarray(array) * np.float32(factor) / np.float32(item.index + 1)).astype(np.float32)


def is_mapped(item: Piece, array: Any) -> tuple[int, bool, bool]:  # noqa: ARG001
    return os.getpid(), isinstance(array, np.memmap), bool(array.flags.writeable)


def halves(item: int) -> int:
    return item // 2


def refuses(item: Piece) -> int:
    if item.index == 2:
        raise InputError("row 7 is bad", "somewhere", "mend it")
    return item.index


def naps(item: Piece) -> int:
    """A task that takes as long as a small node."""
    time.sleep(0.05)
    return item.index


def breaks(item: Piece) -> float:
    return 1 / (item.index - 1)


def dies_once(item: Piece, folder: str) -> int:
    """Kills its own worker the first time, as the kernel does when memory is out."""
    mark = Path(folder) / f"died-{item.index}"
    if item.index == 1 and not mark.exists():
        mark.write_text("")
        os.kill(os.getpid(), signal.SIGKILL)
    return item.index
