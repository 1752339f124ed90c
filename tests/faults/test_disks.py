"""Disks that are full beside the run folder: the scratch folder, Dask's folders, and limits that are no full disk."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tasks.files import DiskFull, disk_room
from tests.faults.stage import RUN, small_config
from tests.systems.digests import assert_same, digests_of
from tests.systems.harness import command, environment, labelgrove, run_here


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A config whose hashed learner has parameters that tasks share as files, and the digests of a run of it."""
    folder = tmp_path_factory.mktemp("made")
    config = small_config(folder)
    config.write_text(config.read_text().replace("bits = 8", "bits = 15"))
    return config, digests_of(run_here(config, runs=folder / "first"))


@pytest.fixture
def mounted() -> Iterator[Callable[[Path, str], Path]]:
    """mounted(place, "64k") puts a disk of that size there, or gives it another size."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root may mount a disk of its own")
    places: list[Path] = []

    def sized(place: Path, size: str) -> Path:
        place.mkdir(parents=True, exist_ok=True)
        options = f"remount,size={size}" if place in places else f"size={size}"
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], capture_output=True, check=False)
        if done.returncode and place not in places:
            pytest.skip(f"cannot mount a tmpfs here: {done.stderr.decode().strip()}")
        assert done.returncode == 0
        places.append(place)
        return place

    yield sized
    for place in dict.fromkeys(places):
        subprocess.run(["umount", "-l", place], check=True)


@pytest.mark.parametrize("scheduler", ["serial", pytest.param("local:2", marks=pytest.mark.slow)])
def test_a_full_scratch_folder_exits_5_and_more_room_continues(
    made: tuple[Path, dict[str, str]], tmp_path: Path, mounted: Callable[[Path, str], Path], scheduler: str
) -> None:
    """What tasks share is written there; the run folder itself has all the room that it needs."""
    config, expected = made
    scratch = mounted(tmp_path / RUN / "scratch", "4k")
    ended = labelgrove("run", config, "--runs", tmp_path, "--scheduler", scheduler)
    assert ended.code == 5, ended.err
    for words in ("DiskFull", "no space left", "bytes were to be written", "are free", str(scratch)):
        assert words in ended.err
    mounted(scratch, "20m")
    again = labelgrove("run", config, "--runs", tmp_path, "--scheduler", scheduler)
    assert again.code == 0, again.err
    assert_same(expected, tmp_path / RUN)


def test_a_full_disk_for_dasks_own_folders_exits_5_and_more_room_continues(
    made: tuple[Path, dict[str, str]], tmp_path: Path, mounted: Callable[[Path, str], Path]
) -> None:
    """Where workers have their folders (and would spill): `temporary-directory` of Dask."""
    config, expected = made
    place = mounted(tmp_path / "dask", "1m,nr_inodes=2")
    typed = ("run", config, "--runs", tmp_path, "--scheduler", "local:1")
    ended = labelgrove(*typed, DASK_TEMPORARY_DIRECTORY=str(place))
    assert ended.code == 5, ended.err
    for words in ("DiskFull", "no space left", "are free", str(place)):
        assert words in ended.err
    assert "Traceback" not in ended.err
    mounted(place, "20m,nr_inodes=1000")
    again = labelgrove(*typed, DASK_TEMPORARY_DIRECTORY=str(place))
    assert again.code == 0, again.err
    assert_same(expected, tmp_path / RUN)


@pytest.mark.parametrize("size", [5 << 10, *(pytest.param(n, marks=pytest.mark.slow) for n in (0, 1 << 10, 30 << 10))])
def test_files_that_may_not_be_so_large(made: tuple[Path, dict[str, str]], tmp_path: Path, size: int) -> None:
    """`ulimit -f`, as batch systems set it: one named error, whoever writes; without the limit it goes on."""
    config, expected = made

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    typed = command("run", config, "--runs", tmp_path, "--scheduler", "serial")
    ended = subprocess.run(
        typed, capture_output=True, text=True, env=environment(), preexec_fn=limited, timeout=240, check=False
    )
    assert ended.returncode == 5, ended.stderr
    assert "DiskFull" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert_same(expected, run_here(config, runs=tmp_path))


@pytest.mark.parametrize(
    ("number", "said"),
    [(errno.ENOSPC, "no space left"), (errno.EDQUOT, "quota"), (errno.EFBIG, "a file may not become so large")],
)
def test_every_way_to_have_no_room_is_named(tmp_path: Path, number: int, said: str) -> None:
    place = tmp_path / "file"
    with pytest.raises(DiskFull, match=said) as caught, disk_room(str(place), 1234):
        raise OSError(number, os.strerror(number))
    assert caught.value.exit_code == 5
    assert caught.value.where == str(place)
    assert "1,234 bytes were to be written" in caught.value.what
    with pytest.raises(OSError, match="denied"), disk_room(str(place), 1):
        raise OSError(errno.EACCES, "denied")
