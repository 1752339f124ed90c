"""A kernel is compiled by one process of a machine at a time: the others wait, and take what it has put into the cache.

Workers meet the same kernels at the same time; without this each would compile all of them. Nothing depends on the
lock but time: who cannot have it compiles without. What else makes compiling take less time stands here, too.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import os
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import IO, Any

PATIENCE = 60.0  # seconds that the compiling of one kernel is waited for
PAUSE = 0.02


class SharedCache:
    """numba's cache of one kernel, with a lock from the look that finds nothing until what was compiled is kept."""

    def __init__(self, cache: Any) -> None:
        self._cache = cache
        self._file: IO[str] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)

    def load_overload(self, signature: Any, context: Any) -> Any:
        """What is compiled for a signature, by whichever process; None: this one is to do it."""
        found = self._cache.load_overload(signature, context)
        if found is None and self._file is None:
            self._lock()
            found = self._cache.load_overload(signature, context)  # another may have kept it since the first look
        return found

    def released_after(self, compile_for: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """`compile` of a dispatcher, which looks here first; then others may, whether it has failed or not."""

        def compiled(signature: Any) -> Any:
            try:
                return compile_for(signature)
            finally:
                self._release()

        return compiled

    def _lock(self) -> None:
        """Take the lock, or wait for it in vain."""
        with contextlib.suppress(OSError, AttributeError):  # a cache that cannot be written, or of another numba
            cache = self._cache
            path = os.path.join(cache.cache_path, f"{cache._impl.filename_base}.lock")
            os.makedirs(cache.cache_path, exist_ok=True)
            self._file = open(path, "a")  # noqa: SIM115  closed by `_release`
            until = time.monotonic() + PATIENCE
            while time.monotonic() < until:
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return
                time.sleep(PAUSE)

    def _release(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):
                os.unlink(file.name)
            file.close()


def pause_collector() -> None:
    """From now on Python looks for no garbage while numba compiles.

    A compiler makes many small objects that all stay, and among the many that are there already each look takes long:
    a tenth of the time, and more.
    """
    event = import_module("numba.core.event")

    class Pause(event.Listener):  # type: ignore[name-defined, misc]
        """Compilations may be nested, all of them in the thread that has numba's lock."""

        def __init__(self) -> None:
            self.depth, self.was_on = 0, False

        def on_start(self, _: Any) -> None:
            if self.depth == 0:
                self.was_on = gc.isenabled()
                gc.disable()
            self.depth += 1

        def on_end(self, _: Any) -> None:
            self.depth -= 1
            if self.depth == 0 and self.was_on:
                gc.enable()

    event.register("numba:compile", Pause())


def without_literals(resolve: Callable[..., Any]) -> Callable[..., Any]:
    """`get_call_template` of a dispatcher, for which a number that stands in a call of a kernel has a type, no value.

    numba would compile the kernel once more for every such place and number.
    """
    types = import_module("numba.core.types")
    values = types.IntegerLiteral, types.BooleanLiteral

    def plain(kind: Any) -> Any:
        return types.unliteral(kind) if isinstance(kind, values) else kind

    def resolved(args: Sequence[Any], kws: Mapping[str, Any]) -> Any:
        return resolve(tuple(map(plain, args)), {name: plain(kind) for name, kind in kws.items()})

    return resolved
