"""Workers that do not see what the driver sees, or may not write where it writes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline.connection.cluster import ClusterWatch
from pipeline.connection.shared_places import OWNER, PathNotShared, check_shared, unseen, unwritten
from pipeline.connection.timeouts import Timeouts


def here(function: Callable[..., Any], *values: Any) -> dict[str, Any]:
    """One worker, which is this process, and one that has gone meanwhile."""
    return {"tcp://a:1": function(*values), "tcp://b:1": ConnectionError("closed")}


def test_where_all_is_shared_nothing_is_left_behind(tmp_path: Path) -> None:
    data = tmp_path / "zarr.json"
    data.write_text("{}")
    check_shared(here, tmp_path / "runs" / "small" / "scratch", {"the dataset": data})
    assert list(tmp_path.iterdir()) == [data]
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "other").touch()
    check_shared(here, tmp_path / "runs", {})
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["other"]


def test_a_run_folder_of_another_disk_is_told_with_the_worker(tmp_path: Path) -> None:
    def elsewhere(function: Callable[..., Any], files: Any) -> dict[str, Any]:
        return {"tcp://a:1": function({path + ".not": digest for path, digest in files.items()})}

    (tmp_path / "zarr.json").touch()
    found = elsewhere(unseen, {str(tmp_path / "zarr.json"): "0"})["tcp://a:1"]
    assert list(found.values()) == ["cannot be read there (No such file or directory)"]
    with pytest.raises(PathNotShared, match=r"the run folder, .* has another content there .worker tcp://a:1"):
        check_shared(lambda fn, files: {"tcp://a:1": fn(dict.fromkeys(files, "0"))}, tmp_path / "r", {})
    assert not (tmp_path / "r").exists()


def test_a_worker_that_may_not_write_is_told_before_any_work(tmp_path: Path) -> None:
    def reads_only(function: Callable[..., Any], value: Any) -> dict[str, Any]:
        return {"tcp://a:1": {value: unwritten("/proc")["/proc"]} if function is unwritten else function(value)}

    with pytest.raises(PathNotShared, match=r"the run folder, .* cannot be written there") as caught:
        check_shared(reads_only, tmp_path / "r", {})
    assert (caught.value.hint, caught.value.exit_code) == (OWNER, 2)
    assert not (tmp_path / "r").exists()


def test_a_worker_that_fails_to_look_is_no_silence(tmp_path: Path) -> None:
    with pytest.raises(PathNotShared, match="cannot look: no module"):
        check_shared(lambda *_: {"tcp://a:1": ImportError("no module")}, tmp_path / "r", {})


def test_a_worker_that_may_not_write_later_is_no_fault_of_ours() -> None:
    error = ClusterWatch(None, Timeouts()).named(PermissionError(13, "Permission denied", "/r/codes"), "encode-1")
    assert isinstance(error, PathNotShared)
    assert (error.exit_code, "/r/codes" in error.what) == (2, True)
