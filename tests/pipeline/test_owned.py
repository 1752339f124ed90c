"""Where no command writes files of its own: within a dataset, a model folder, what a run has made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipeline.owned import FILES_OF_A_RUN, OF_A_RUN, PlaceTaken, refuse_owned


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A dataset, a zarr folder of format 2, a model and a run, by the files that they are known by."""
    for name in ("d.zarr/zarr.json", "old.zarr/.zgroup", "model/model.json", "torn/SHA256SUMS", "run/manifest.json"):
        path = tmp_path / name
        path.parent.mkdir()
        path.write_text("{}")
    (tmp_path / "plain/steps").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "model")
    return tmp_path


TAKEN = [
    "d.zarr/p.csv",
    "d.zarr/a/b/p.csv",
    "old.zarr/x.html",
    "model/p.parquet",
    "torn/p.parquet",
    "link/p.parquet",
    "plain/../model/p.parquet",
    *(f"run/{name}/x/p.csv" for name in OF_A_RUN),
    *(f"run/{name}" for name in FILES_OF_A_RUN),
]


@pytest.mark.parametrize("place", TAKEN)
def test_refused(folder: Path, place: str) -> None:
    with pytest.raises(PlaceTaken) as caught:
        refuse_owned(folder / place)
    assert caught.value.exit_code == 2
    assert "name a place outside" in caught.value.hint


@pytest.mark.parametrize(
    "place", ["p.csv", "new/p.csv", "d.zarr", "model", "run/p.csv", "run/notes/report.html", "plain/steps/p.csv", "run"]
)
def test_allowed(folder: Path, place: str) -> None:
    """Beside them, or in the place of one as a whole, which whoever writes it refuses or replaces."""
    before = sorted(folder.rglob("*"))
    refuse_owned(folder / place)
    assert sorted(folder.rglob("*")) == before


def test_relative_paths_and_urls(folder: Path, monkeypatch: pytest.MonkeyPatch, memory: Any) -> None:
    monkeypatch.chdir(folder / "model")
    with pytest.raises(PlaceTaken):
        refuse_owned("p.parquet")
    refuse_owned("../p.parquet")
    memory.pipe_file("/owned/data.zarr/zarr.json", b"{}")
    with pytest.raises(PlaceTaken):
        refuse_owned("memory://owned/data.zarr/c/p.csv")
    refuse_owned("memory://owned/p.csv")
