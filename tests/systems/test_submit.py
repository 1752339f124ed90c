"""Runs that are handed to a cluster: they outlive clients, workers and drivers, are cancelled, and end as any other."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from pipeline.commands.submitting import files_of
from pipeline.config import load_config
from pipeline.connection.cluster import ask_workers, connected
from pipeline.connection.profile import load_profile
from pipeline.connection.shared_places import PathNotShared, check_shared
from pipeline.state import phase_of
from pipeline.store import RunFolder
from pipeline.submitted.submission import ENDED, WORKER_GONE, read_submission
from tests.pipeline.cli_caller import Said, labelgrove, succeeds
from tests.systems.clusters import Cluster, cluster
from tests.systems.conftest import write_config
from tests.systems.digests import assert_same, digests_of
from tests.systems.harness import WAIT, events_of, wait_until


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("submit") / "cluster") as found:
        wait_until(lambda: len(_worker_names(found)) == 2, "two workers")
        yield found


@pytest.fixture
def config(data_folder: Path, tmp_path: Path) -> Path:
    return write_config(tmp_path, data_folder / "dense-0-128.zarr")


def submit(config: Path, on: Cluster, *more: str) -> Said:
    return labelgrove("submit", config, "--scheduler", on.file, *more)


def driver_of(run: Path) -> psutil.Process:
    """The process that drives a run, as its lock says."""
    return psutil.Process(json.loads((run / "lock.json").read_text())["pid"])


def done_steps(run: Path) -> list[str]:
    return [event["step"] for event in events_of(run) if event["event"] == "done"]


def ended(run: Path) -> bool:
    record = read_submission(RunFolder(run))
    return record is not None and record.state == ENDED


def test_a_run_survives_its_client_and_its_worker_and_is_cancelled(
    two_workers: Cluster, config: Path, finished_runs: dict[str, Path]
) -> None:
    run = config.parent / "runs" / "small"
    said = submit(config, two_workers)
    assert said.code == 0, said.err
    assert said.out == f"{run}\n"
    assert f"labelgrove logs {run} --follow" in said.err
    again = submit(config, two_workers)
    assert (again.code, "RunLocked" in again.err) == (8, True)
    by_hand = labelgrove("run", config, "--scheduler", "serial")
    assert by_hand.code == 8
    wait_until(lambda: done_steps(run), "a finished step")
    first = driver_of(run)
    worker = first.parent()
    assert worker is not None
    worker.send_signal(signal.SIGKILL)
    wait_until(lambda: (run / "lock.json").exists() and driver_of(run).pid != first.pid, "another driver")
    wait_until(lambda: not first.is_running() or first.status() == psutil.STATUS_ZOMBIE, "the end of the first driver")
    record = read_submission(RunFolder(run))
    assert record is not None
    assert record.attempt == 2
    cancelled = succeeds("cancel", run)
    assert f"{run}: interrupted (cancelled by " in cancelled.out
    wait_until(lambda: ended(run), "the end of the task")
    assert phase_of(RunFolder(run)) == "interrupted"
    assert not (run / "lock.json").exists()
    assert [event["why"] for event in events_of(run) if event["event"] == "interrupted"][:1] == [WORKER_GONE]
    kept = done_steps(run)
    succeeds("run", config, "--scheduler", "serial")
    assert sorted(done_steps(run)) == sorted(set(done_steps(run))) != sorted(kept)  # no step was made twice
    assert_same(digests_of(finished_runs["dense"]), run)


@pytest.mark.slow
def test_a_run_whose_scheduler_dies_says_so_and_goes_on_when_it_is_typed_again(
    tmp_path: Path, config: Path, finished_runs: dict[str, Path]
) -> None:
    run = config.parent / "runs" / "small"
    with cluster(tmp_path / "cluster") as found:
        assert submit(config, found).code == 0
        wait_until(lambda: done_steps(run), "a finished step")
        os.killpg(found.scheduler.pid, signal.SIGKILL)
        follower = labelgrove("logs", run, "--follow")
        assert follower.code == 6, follower.out
        status = succeeds("status", run)
        assert "its scheduler has gone" in status.out + status.err
        assert "submit" in status.out + status.err
        wait_until(lambda: ended(run), "the end of the task")
    succeeds("run", config, "--scheduler", "serial")
    assert_same(digests_of(finished_runs["dense"]), run)


def test_files_that_a_worker_does_not_see_are_named_before_anything_is_submitted(
    two_workers: Cluster, config: Path
) -> None:
    place = config.parent / "runs" / "small" / "logs"
    with connected(load_profile(None, scheduler=str(two_workers.file))) as client:
        ask = partial(ask_workers, client, WAIT)
        other = {"the dataset": Path("/proc/self/stat")}  # every process has its own
        with pytest.raises(
            PathNotShared, match=r"the dataset, /proc/self/stat, has another content there .worker tcp:"
        ):
            check_shared(ask, place, other)
        gone = {"taxonomy t": Path(f"/proc/self/task/{psutil.Process().pid}/stat")}
        with pytest.raises(PathNotShared, match=r"taxonomy t, .* cannot be read there .No such file"):
            check_shared(ask, place, gone)
        check_shared(ask, place, files_of(load_config(config)))
        assert not place.parent.parent.exists()


def test_refused_as_run_would(two_workers: Cluster, config: Path, tmp_path: Path) -> None:
    run = tmp_path / "runs"
    odd: list[tuple[int, tuple[Any, ...], str]] = [
        (2, ("-s", "train.ovr.rounds=no"), "ConfigError"),
        (2, ("-s", "data.path=nowhere.zarr"), "DatasetMissing"),
        (2, ("--only", "no-such-model"), "UsageError"),
        (2, ("--where", "no-such-worker"), "no worker is called"),
    ]
    for code, options, name in odd:
        said = submit(config, two_workers, *options)
        assert (said.code, name in said.err) == (code, True), said
        assert not run.exists()
    nobody = labelgrove("submit", config, "--scheduler", tmp_path / "no-file.json")
    assert nobody.code == 2


@pytest.mark.slow
def test_a_run_finishes_by_itself_whatever_dies(
    two_workers: Cluster, config: Path, finished_runs: dict[str, Path]
) -> None:
    """Its worker, then its driver alone, then all is left to itself; beside the worker that was asked for."""
    run = config.parent / "runs" / "small"
    names = sorted(str(worker) for worker in _worker_names(two_workers))
    assert submit(config, two_workers, "--where", names[1]).code == 0
    record = read_submission(RunFolder(run))
    assert record is not None
    assert record.worker == names[1]
    wait_until(lambda: done_steps(run), "a finished step")
    first = driver_of(run)
    worker = first.parent()
    assert worker is not None
    worker.kill()
    wait_until(lambda: (run / "lock.json").exists() and driver_of(run).pid != first.pid, "another driver")
    second = driver_of(run)
    wait_until(lambda: len(done_steps(run)) > 2, "more steps")
    second.kill()
    followed = succeeds("logs", run, "--follow")
    assert followed.err.endswith(": finished\n")
    assert "killed by signal 9 (SIGKILL)" in followed.out
    wait_until(lambda: ended(run), "the end of the task")
    assert sorted(done_steps(run)) == sorted(set(done_steps(run)))
    assert_same(digests_of(finished_runs["dense"]), run)
    over = submit(config, two_workers)
    assert over.code == 0
    assert "nothing left to do" in over.err or "runs on the cluster" in over.err


def _worker_names(on: Cluster) -> list[str]:
    with connected(load_profile(None, scheduler=str(on.file))) as client:
        return [str(info["name"]) for info in client.scheduler_info(n_workers=-1)["workers"].values()]
