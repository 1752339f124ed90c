"""What this process has read lately: a least-recently-used cache with a byte cap.

Everything in it can be read again from its store, so dropping it costs time and nothing else. What comes out is shared
by every caller of the process: treat it as read-only.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, TypeVar

T = TypeVar("T")

ROWS_BYTES = 256 * 2**20
SMALL_BYTES = 32 * 2**20


class ByteCache:
    """key -> (version, value); an entry of another version is no hit, so a rewritten file is read afresh."""

    def __init__(self, cap: int) -> None:
        self.cap = cap
        self.nbytes = 0
        self.hits = 0
        self.misses = 0
        self._entries: OrderedDict[Hashable, tuple[Hashable, Any, int]] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def fetch(self, key: Hashable, version: Hashable, load: Callable[[], T], nbytes: Callable[[T], int]) -> T:
        """The cached value of `key` if it has this `version`, else `load()`, kept when it fits.

        Two threads that miss at once both load, so loading never holds the lock.
        """
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None and entry[0] == version:
                self.hits += 1
                self._entries.move_to_end(key)
                value: T = entry[1]
                return value
            self.misses += 1
        loaded = load()
        self._keep(key, version, loaded, nbytes(loaded))
        return loaded

    def _keep(self, key: Hashable, version: Hashable, value: Any, size: int) -> None:
        with self._lock:
            old = self._entries.pop(key, None)
            self.nbytes -= old[2] if old else 0
            if size <= self.cap:
                self._entries[key] = (version, value, size)
                self.nbytes += size
            self._shrink()

    def _shrink(self) -> None:
        while self.nbytes > self.cap:
            _, (_, _, size) = self._entries.popitem(last=False)
            self.nbytes -= size

    def set_cap(self, cap: int) -> None:
        with self._lock:
            self.cap = cap
            self._shrink()

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
            self.nbytes = 0


ROWS = ByteCache(ROWS_BYTES)  # blocks of rows
SMALL = ByteCache(SMALL_BYTES)  # labels, splits, row ids, codebooks


class Budget:
    """Bytes that this process may keep in all between tasks: products of rows that a fit asks for first, then rows."""

    def __init__(self, total: int, rest: ByteCache) -> None:
        self.total, self.rest, self.used = total, rest, 0
        self._lock = Lock()

    def resize(self, total: int) -> None:
        """Allow so many bytes from now on; what is in use stays."""
        with self._lock:
            self.total = total
            self.rest.set_cap(max(0, self.total - self.used))

    def take(self, nbytes: int) -> bool:
        """Whether so many more (fewer, when negative) bytes may be kept; rows give way to them."""
        with self._lock:
            if nbytes > 0 and self.used + nbytes > self.total:
                return False
            self.used += nbytes
            self.rest.set_cap(max(0, self.total - self.used))
            return True


BUDGET = Budget(ROWS_BYTES, ROWS)


def set_cache_bytes(cap: int) -> None:
    """How many bytes of rows and products of rows this process may keep; 0 keeps none."""
    BUDGET.resize(cap)
