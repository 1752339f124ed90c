"""Modules that take long to load, loaded when something of theirs is used first: numba, scipy, zarr, pyarrow.

Most commands compute nothing, and what these load costs two seconds of processor time; so a module that names one at
its top writes `zarr = later("zarr")`. Kernels, overloads and intrinsics are made by the `numba` of this module, which
hands them to numba itself when the first kernel is called.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from importlib import import_module
from typing import Any

from tasks.compiling import SharedCache, pause_collector, without_literals


class Later:
    """A module by its name; what is asked of it is asked of the module, which is loaded then."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):  # of those who look at every object: copies, doctest
            raise AttributeError(attribute)
        return getattr(import_module(self._name), attribute)  # waits for a thread that is loading it


def later(name: str) -> Any:
    """The module of that name (`scipy.sparse`), loaded when something of it is used."""
    return Later(name)


class Kernel:
    """A function that numba compiles: its dispatcher is made at the first call."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        self._function, self._options = function, options
        self._dispatcher: Any = None
        self.__name__, self.__qualname__ = function.__name__, function.__qualname__
        self.__module__, self.__doc__ = function.__module__, function.__doc__
        self.__wrapped__ = function

    def __call__(self, *values: Any) -> Any:
        made = self._dispatcher
        return (self.dispatcher() if made is None else made)(*values)

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        return getattr(self.dispatcher(), attribute)

    def __reduce__(self) -> str:
        return self.__qualname__  # as a function, by its name

    def dispatcher(self) -> Any:
        """What numba makes of the function: itself where compiling is switched off."""
        module = _numba.load()
        with _numba.lock:
            if self._dispatcher is None:
                # C's way to call it, which nobody takes, would be one more copy to optimise.
                made = module.njit(no_cfunc_wrapper=True, **self._options)(self._function)
                if hasattr(made, "get_call_template"):
                    made.get_call_template = without_literals(made.get_call_template)
                if self._options.get("cache") and hasattr(made, "_cache"):
                    made._cache = SharedCache(made._cache)
                    made.compile = made._cache.released_after(made.compile)
                self._dispatcher = made
        return self._dispatcher


class Intrinsic:
    """An intrinsic of numba, which kernels alone may call."""


class _Numba(Later):
    """numba, but for what modules do with it while they are imported."""

    def __init__(self) -> None:
        super().__init__("numba")
        self.lock = threading.RLock()
        self._module: Any = None
        self._waiting: list[Callable[[], object]] = []  # what numba is told once it is loaded

    def njit(self, **options: Any) -> Callable[[Callable[..., Any]], Any]:
        """As `numba.njit`, of functions without keywords."""
        return lambda function: Kernel(function, options)

    def overload(self, function: Callable[..., Any]) -> Callable[[Callable[..., Any]], Any]:
        """As `numba.extending.overload`."""

        def decorate(typed: Callable[..., Any]) -> Callable[..., Any]:
            self._tell(lambda: import_module("numba.extending").overload(function)(typed))
            return typed

        return decorate

    def intrinsic(self, typed: Callable[..., Any]) -> Intrinsic:
        """As `numba.extending.intrinsic`."""
        made = Intrinsic()

        def tell() -> None:
            known = import_module("numba.core.typing.templates").builtin_registry
            import_module("numba.extending").intrinsic(typed)
            known.register_global(made, known.globals[-1][1])  # a second name of what was made just now

        self._tell(tell)
        return made

    def _tell(self, news: Callable[[], object]) -> None:
        with self.lock:
            self._waiting.append(news)
            if self._module is not None:
                self._tell_all()

    def _tell_all(self) -> None:
        while self._waiting:
            self._waiting.pop(0)()

    def load(self) -> Any:
        """numba itself, which knows from then on what is called by kernels."""
        if self._module is None:
            module = import_module("numba")  # outside our lock: imports have locks of their own
            typeof = import_module("numba.extending").typeof_impl
            with self.lock:
                if self._module is None:
                    typeof.register(Kernel)(lambda kernel, context: typeof(kernel.dispatcher(), context))
                    pause_collector()
                    self._tell_all()
                    self._module = module
        return self._module


_numba = _Numba()
numba: Any = _numba


def compiles() -> bool:
    """Whether numba compiles kernels, or runs them as they are (NUMBA_DISABLE_JIT)."""
    switched_off = getattr(sys.modules.get("numba.core.config"), "DISABLE_JIT", None)  # it may be half loaded
    if switched_off is not None:
        return not switched_off
    return os.environ.get("NUMBA_DISABLE_JIT", "") in ("", "0")
