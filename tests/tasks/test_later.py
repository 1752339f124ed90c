"""What is loaded, made and compiled later: kernels as they would be, and each compiled once on a machine."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest
from numba.core import event

from tasks.later import numba

KERNELS = """
import numpy as np
from tasks.later import numba

def halved(x):
    return x / 2

@numba.overload(halved)
def _halved(x):
    return lambda x: x / 2

@numba.njit(cache=True, nogil=True)
def times(x, n):
    return x * n

@numba.njit(cache=True, nogil=True)
def double(x):
    return times(x, 2) + times(x, 3) - times(x, int(x) * 0 + 3)

@numba.njit(cache=True, nogil=True)
def total(values):
    found = 0.0
    for i in range(values.size):
        found += halved(double(values[i]))
    return found
"""
WORK = """
import sys, time
import numpy as np
import kernels
assert "numba" not in sys.modules
assert kernels.total.__name__ == "total" and kernels.total.__wrapped__(np.ones(3)) == 3.0
print(kernels.total(np.arange(4.0)), sum(kernels.total.stats.cache_misses.values()) if WATCHED else 0)
assert not WATCHED or len(kernels.times.signatures) <= 1, kernels.times.signatures  # whatever number is in a call
"""


def environment_of(place: Path) -> dict[str, str]:
    """Of a process that finds `kernels` in a folder, and keeps there what it compiles."""
    (place / "kernels.py").write_text(KERNELS)
    here = str(Path(__file__).parents[2])
    return {**os.environ, "PYTHONPATH": f"{place}{os.pathsep}{here}", "NUMBA_CACHE_DIR": str(place / "kept")}


def started(place: Path, **more: str) -> subprocess.Popen[str]:
    """A process that runs WORK."""
    environ = environment_of(place) | more
    code = WORK.replace("WATCHED", str("NUMBA_DISABLE_JIT" not in more))
    return subprocess.Popen([sys.executable, "-c", code], env=environ, stdout=subprocess.PIPE, text=True)


@pytest.mark.skipif(bool(os.environ.get("NUMBA_DISABLE_JIT")), reason="nothing is compiled")
def test_processes_that_need_one_kernel_compile_it_once(tmp_path: Path) -> None:
    both = [started(tmp_path), started(tmp_path)]
    said = [one.communicate(timeout=120)[0].split() for one in both]
    assert [one.returncode for one in both] == [0, 0]
    assert sorted(said) == [["6.0", "0"], ["6.0", "1"]]  # result, and how often it was compiled here
    assert not list((tmp_path / "kept").rglob("*.lock"))
    assert len(list((tmp_path / "kept").rglob("*total*.nbc"))) == 1
    again = started(tmp_path).communicate(timeout=120)[0].split()
    assert again == ["6.0", "0"]


FAILS = """
import sys, time
import kernels
try:
    kernels.total("no array")
except Exception as error:
    assert "TypingError" in type(error).__name__, error
else:
    raise AssertionError("compiled")
print("failed", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(bool(os.environ.get("NUMBA_DISABLE_JIT")), reason="nothing is compiled")
def test_whoever_fails_to_compile_a_kernel_lets_others_try(tmp_path: Path) -> None:
    environ = environment_of(tmp_path)
    failed = subprocess.Popen(
        [sys.executable, "-c", FAILS], env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert failed.stdout is not None
    assert failed.stdout.readline() == "failed\n"
    assert not list((tmp_path / "kept").rglob("*.lock"))  # while it lives
    failed.communicate("", timeout=120)
    assert failed.returncode == 0


def test_threads_wait_for_a_module_that_another_loads(tmp_path: Path) -> None:
    (tmp_path / "slow_module.py").write_text("import time\ntime.sleep(0.3)\nanswer = 42\n")
    code = """if True:
        import threading
        from concurrent.futures import ThreadPoolExecutor
        from tasks.later import later
        module, begin = later("slow_module"), threading.Barrier(4)
        def ask(_):
            begin.wait()
            return module.answer
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(ask, range(4))) == [42] * 4
    """
    assert subprocess.run([sys.executable, "-c", code], env=environment_of(tmp_path)).returncode == 0


def test_a_kernel_that_is_not_compiled_is_the_function(tmp_path: Path) -> None:
    assert started(tmp_path, NUMBA_DISABLE_JIT="1").communicate(timeout=120)[0].split() == ["6.0", "0"]


@pytest.mark.parametrize("on", [True, False])
def test_no_garbage_is_looked_for_while_a_kernel_is_compiled(on: bool) -> None:
    numba.load()
    was_on = gc.isenabled()
    try:
        gc.enable() if on else gc.disable()
        with event.trigger_event("numba:compile"):
            with event.trigger_event("numba:compile"):  # of a kernel that it calls
                assert not gc.isenabled()
            assert not gc.isenabled()
        assert gc.isenabled() == on
    finally:
        gc.enable() if was_on else gc.disable()
