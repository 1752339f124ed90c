"""The place of a dataset: who may replace it, and what a process leaves there that dies or fails."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
import zarr

from pipeline.dataset import Dataset
from pipeline.ingest import ingest
from pipeline.ingest.errors import ColumnMismatch, DatasetExists
from tasks import io
from tasks.files import DiskFull


def test_an_existing_dataset_is_replaced_only_by_force(tmp_path, small):
    matrix, labels = small
    first = ingest(matrix, tmp_path / "d", labels=labels)
    with pytest.raises(DatasetExists) as caught:
        ingest(matrix[:, :2], tmp_path / "d", labels=labels)
    assert caught.value.exit_code == 2
    assert Dataset.open(tmp_path / "d") == first
    assert ingest(matrix[:, :2], tmp_path / "d", labels=labels, force=True).n_features == 2
    assert [path.name for path in tmp_path.iterdir()] == ["d"]


def test_of_two_processes_the_faster_one_wins(tmp_path, small):
    """The dataset appears while another ingest is at work: it stays, and the slower one says so."""
    other = ingest(small[0][:, :2], tmp_path / "other", labels=small[1])

    def appear(done, total):
        if done == total and not (tmp_path / "d").exists():
            shutil.copytree(tmp_path / "other", tmp_path / "d")

    with pytest.raises(DatasetExists, match="meanwhile"):
        ingest(small[0], tmp_path / "d", labels=small[1], progress=appear)
    assert Dataset.open(tmp_path / "d").digest == other.digest
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d", "other"]


@pytest.mark.parametrize("kind", ["folder", "file", "store"])
def test_force_replaces_nothing_but_datasets(tmp_path, small, kind):
    place = tmp_path / "precious"
    if kind == "file":
        place.write_text("thesis")
    elif kind == "folder":
        place.mkdir()
        (place / "thesis.txt").write_text("thesis")
    else:
        io.create_group(str(place), {"labelgrove": "pq"})
    with pytest.raises(DatasetExists, match="no dataset"):
        ingest(small[0], place, labels=small[1], force=True)
    assert place.exists()


def test_a_failed_replacement_leaves_the_old_dataset(tmp_path, small):
    first = ingest(small[0], tmp_path / "d", labels=small[1])
    with pytest.raises(ColumnMismatch):
        ingest(small[0], tmp_path / "d", labels=small[1], test_source=small[0][:, :2], test_labels=small[1], force=True)
    first.verify()
    assert [path.name for path in tmp_path.iterdir()] == ["d"]


def test_leftovers_of_dead_processes_are_swept_and_those_of_living_ones_kept(tmp_path, small):
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    gone, alive = tmp_path / f"d.partial-{int(dead.stdout)}", tmp_path / f"d.partial-{os.getppid()}"
    elsewhere = tmp_path / f"d.partial-{int(dead.stdout) + 1}"
    for folder in (gone, alive, elsewhere, tmp_path / "d.partial-notes"):
        folder.mkdir()
    (elsewhere / "owner.partial").write_text("another machine")
    ingest(small[0], tmp_path / "d", labels=small[1])
    assert not gone.exists()
    assert alive.exists()
    assert elsewhere.exists()
    assert (tmp_path / "d.partial-notes").exists()


def test_a_dataset_moved_aside_by_a_killed_replacement_comes_back(tmp_path, small):
    made = ingest(small[0], tmp_path / "d", labels=small[1])
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    os.rename(tmp_path / "d", tmp_path / f"d.partial-{int(dead.stdout)}-old")
    with pytest.raises(DatasetExists):
        ingest(small[0], tmp_path / "d", labels=small[1])
    assert Dataset.open(tmp_path / "d") == made


def test_a_killed_ingest_leaves_nothing_visible_and_the_next_one_nothing_at_all(tmp_path, small):
    """SIGKILL after the third block: no dataset; then the same command makes the same dataset."""
    np.save(tmp_path / "x.npy", small[0])
    np.save(tmp_path / "y.npy", small[1])
    script = """
import os, signal
from pipeline.ingest import ingest
def die(done, total):
    if done > total * 0.7:
        os.kill(os.getpid(), signal.SIGKILL)
ingest("x.npy", "d", labels="y.npy", block_rows=4, progress=die)
"""
    assert subprocess.run([sys.executable, "-c", script], cwd=tmp_path).returncode == -9
    assert not (tmp_path / "d").exists()
    assert len(list(tmp_path.glob("d.partial-*"))) == 1
    made = ingest(tmp_path / "x.npy", tmp_path / "d", labels=tmp_path / "y.npy", block_rows=4)
    assert made.digest == ingest(small[0], tmp_path / "e", labels=small[1], block_rows=4).digest
    assert not list(tmp_path.glob("*partial*"))


def test_a_disk_that_fills_up_at_any_write(tmp_path, small, monkeypatch):
    """For every n: the n-th chunk finds no space; the error names the place, and nothing is left but what was there."""
    real = zarr.Array.__setitem__
    for n in range(100):
        room = iter(range(n))

        def write(array, place, values, room=room):
            if next(room, None) is None:
                raise OSError(errno.ENOSPC, "No space left on device")
            real(array, place, values)

        monkeypatch.setattr(zarr.Array, "__setitem__", write)
        try:
            ingest(small[0], tmp_path / "d", labels=small[1], block_rows=16)
        except DiskFull:
            assert list(tmp_path.iterdir()) == []
        else:
            break
    assert n == 3 * 4
