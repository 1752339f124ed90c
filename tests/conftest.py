"""One thread per process, set before NumPy loads; failures of property tests print what replays them.

A runner in the background of a shell ignores interruptions, and all it starts would too: they are turned on again.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

signal.signal(signal.SIGINT, signal.default_int_handler)

# The tests start hundreds of processes: where compiled modules may not be kept, each compiles all of ours anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
os.environ.pop("COLUMNS", None)  # pytest-xdist says 80 to its workers: texts of commands would be broken there alone

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import fsspec  # noqa: E402
import pytest  # noqa: E402
from hypothesis import settings  # noqa: E402

settings.register_profile("labelgrove", deadline=None, print_blob=True)  # deadlines would time the JIT and the machine
settings.load_profile("labelgrove")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """small_disk("2m") mounts a folder of that size, or gives it another size."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root may mount a disk of its own")
    place = tmp_path / "disk"
    place.mkdir()
    mounted: list[str] = []

    def sized(size: str) -> Path:
        options = f"remount,size={size}" if mounted else f"size={size}"
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], capture_output=True, check=False)
        if done.returncode and not mounted:
            pytest.skip(f"cannot mount a tmpfs here: {done.stderr.decode().strip()}")
        assert done.returncode == 0
        mounted.append(size)
        return place

    yield sized
    if mounted:
        subprocess.run(["umount", "-l", place], check=True)


@pytest.fixture
def memory() -> Iterator[Any]:
    """An empty file system in memory, memory://; it forgets its folders too, which outlive their files."""
    system = fsspec.filesystem("memory")

    def emptied() -> None:
        system.store.clear()
        system.pseudo_dirs[:] = [""]

    emptied()
    yield system
    emptied()


@pytest.fixture(params=["as chosen", "tails", "levels one by one"])
def lookups(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replicated leaves of a hashed model are looked up in running sums or level by level: both serve every tree."""
    from tasks.hashing import layout

    forced = {"tails": 2**40, "levels one by one": 0}
    if request.param in forced:
        monkeypatch.setattr(layout, "ADDED_PER_LOOKUP", forced[request.param])
