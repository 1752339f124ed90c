"""Workers that do not see what the driver sees, or may not write where it writes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from distributed import Client, LocalCluster

from pipeline.connection.cluster import ClusterWatch
from pipeline.connection.shared_places import OWNER, PathNotShared, _namer, check_shared, unseen, unwritten
from pipeline.connection.timeouts import Timeouts
from pipeline.errors import ClusterLost


def here(function: Callable[..., Any], *values: Any) -> dict[str, Any]:
    """One worker, which is this process, and one that has gone meanwhile."""
    return {"tcp://a:1": function(*values), "tcp://b:1": ConnectionError("closed")}


class Wrong:
    """A cluster whose worker of this name and address sees other files than the driver; a name may be an exception."""

    def __init__(self, name: Any) -> None:
        self.name, self.address = name, "tcp://a:1"

    def __call__(self, function: Callable[..., Any], *values: Any) -> dict[str, Any]:
        if function is unseen:
            return {self.address: unseen(dict.fromkeys(values[0], "0"))}
        if isinstance(self.name, Exception):
            return {self.address: self.name}
        return {self.address: function(*values, dask_worker=self)}


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
        check_shared(Wrong(""), tmp_path / "r", {})
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("w2", "worker w2, tcp://a:1"),
        (2, "worker 2, tcp://a:1"),
        ("tcp://a:1", "worker tcp://a:1"),  # Dask's own name of a worker that was given none
        (ImportError("no module"), "worker tcp://a:1"),
        (ConnectionError("closed"), "worker tcp://a:1"),
    ],
)
def test_a_worker_is_told_by_the_name_that_status_tells(tmp_path: Path, name: Any, told: str) -> None:
    with pytest.raises(PathNotShared) as caught:
        check_shared(Wrong(name), tmp_path / "r", {})
    assert caught.value.where == told


def test_whoever_is_asked_for_names_and_does_not_answer_hides_nothing(tmp_path: Path) -> None:
    def falls_silent(function: Callable[..., Any], *values: Any) -> dict[str, Any]:
        if function is not unseen:
            raise ClusterLost("the cluster does not answer")
        return Wrong("w2")(function, *values)

    with pytest.raises(PathNotShared, match="worker tcp://a:1"):
        check_shared(falls_silent, tmp_path / "r", {})


def test_a_real_worker_tells_its_name() -> None:
    options: dict[str, Any] = {"processes": False, "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(n_workers=1, threads_per_worker=1, **options) as cluster, Client(cluster) as client:
        assert list(client.run(_namer()).values()) == ["0"]


def test_a_worker_that_may_not_write_is_told_before_any_work(tmp_path: Path) -> None:
    def reads_only(function: Callable[..., Any], *values: Any) -> dict[str, Any]:
        return {"tcp://a:1": {values[0]: unwritten("/proc")["/proc"]} if function is unwritten else function(*values)}

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
