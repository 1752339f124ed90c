"""A submission that no worker has taken yet: it is seen and cancelled, and nobody begins one that is taken back."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import distributed
import numpy as np
import pytest

from pipeline.commands import cancel, run, status, submit
from pipeline.connection.profile import Profile
from pipeline.connection.timeouts import Timeouts
from pipeline.errors import ClusterLost, RunLocked
from pipeline.interrupts import INTERRUPTED
from pipeline.lock import holder
from pipeline.state import NOT_BEGUN, SUBMITTED, SUBMITTING, look, phase_of
from pipeline.stop_request import read_request, request_stop
from pipeline.store import RunFolder
from pipeline.submitted import handing_over
from pipeline.submitted.awaiting import Awaiting
from pipeline.submitted.driver_task import Ended, drive
from pipeline.submitted.handing_over import HandedOver, hand_over
from pipeline.submitted.submission import (
    ASKING,
    ENDED,
    Order,
    Submission,
    log_of,
    new_token,
    read_submission,
    write_submission,
)
from tests.pipeline.cli_caller import gaussian, succeeds
from tests.systems.harness import WAIT, wait_until

TIMES = Timeouts(connect=5, answer=5)


@pytest.fixture(scope="module")
def client() -> Iterator[distributed.Client]:
    """Of a scheduler without workers, in this process."""
    with client_of_cluster(0) as client:
        yield client


@contextmanager
def client_of_cluster(n_workers: int) -> Iterator[distributed.Client]:
    options = {"n_workers": n_workers, "processes": False, "dashboard_address": "127.0.0.1:0"}
    with (
        distributed.LocalCluster(host="127.0.0.1", protocol="tcp://", **options) as found,
        distributed.Client(found, set_as_default=False) as client,
    ):
        yield client


def order_of(folder: RunFolder) -> Order:
    return Order("t1", "me", str(folder.path), "c.toml", "", (), "", (), (), False, asdict(Profile()))


def tasks_of(client: distributed.Client) -> list[str]:
    return list(client.run_on_scheduler(lambda dask_scheduler: [str(key) for key in dask_scheduler.tasks]))


def interrupted(*asked: Any) -> HandedOver:
    del asked
    raise KeyboardInterrupt


def test_a_submission_that_is_interrupted_while_it_waits_leaves_nothing_behind(
    client: distributed.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RunFolder(tmp_path / "r")
    seen = []

    def waits_until_interrupted(*asked: Any) -> HandedOver:
        wait_until(lambda: tasks_of(client), "the task")
        seen.append(phase_of(folder))
        return interrupted(*asked)

    monkeypatch.setattr(handing_over, "_until_begun", waits_until_interrupted)
    with pytest.raises(KeyboardInterrupt):
        hand_over(client, order_of(folder), folder, {}, TIMES)
    assert seen == [SUBMITTED]
    assert tasks_of(client) == []  # a worker that comes later finds nothing to take
    record = read_submission(folder)
    assert record is not None
    assert (record.state, record.code) == (ENDED, INTERRUPTED)
    assert read_request(folder) == {}
    assert phase_of(folder) == NOT_BEGUN


def test_a_driver_that_begins_just_then_is_asked_to_stop(
    client: distributed.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RunFolder(tmp_path / "r")
    monkeypatch.setattr(handing_over, "_until_begun", interrupted)
    monkeypatch.setattr(handing_over, "TAKEN", ("", "no-worker", "queued"))
    with pytest.raises(KeyboardInterrupt):
        hand_over(client, order_of(folder), folder, {}, TIMES)
    assert read_request(folder)["submission"] == "t1"


def test_an_order_that_has_ended_is_not_begun_by_a_worker_that_still_gets_it(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "r")
    order = order_of(folder)
    write_submission(folder, Submission(order.token, "me", "tcp://x", 1.0, state=ENDED, code=4, told="taken back"))
    with client_of_cluster(1) as client:
        assert client.submit(drive, order).result(timeout=30) == Ended(order.token, 4, "taken back")
    assert not log_of(folder, order.token).exists()  # no driver was started


# ---- while a first worker is waited for --------------------------------------------------------------------------


def test_a_submission_that_waits_for_its_first_worker_is_seen_refuses_others_and_is_cancelled(
    client: distributed.Client, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows, labels = gaussian(60, 4, 3)
    np.save(tmp_path / "rows.npy", rows)
    (tmp_path / "labels.txt").write_text("".join(f"{label}\n" for label in labels))
    succeeds("ingest", tmp_path / "rows.npy", tmp_path / "d.zarr", "--labels", tmp_path / "labels.txt")
    config, folder = tmp_path / "c.toml", RunFolder(tmp_path / "runs" / "t")
    config.write_text('name = "t"\n[data]\npath = "d.zarr"\n[[train]]\nname = "ovr"\nkind = "ovr"\n')
    address, told = str(client.scheduler.address), []

    def meanwhile() -> None:
        wait_until(lambda: phase_of(folder) == SUBMITTING, "the submission")
        try:
            told.append(status(config)["state"])
            with pytest.raises(RunLocked) as refused:
                run(config, Profile("serial"))
            told.append(refused.value.hint)
        finally:
            told.append(cancel(config, seconds=WAIT))

    thread = threading.Thread(target=meanwhile)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            submit(config, Profile(address, insecure=True, timeouts=TIMES))
    finally:
        thread.join(WAIT)
    state, hint, ended = told
    assert state == SUBMITTING
    assert f"`labelgrove cancel {folder.path}` stops it" in hint
    assert ended.startswith("interrupted (cancelled by ")
    assert tasks_of(client) == []
    assert (holder(folder.path), read_request(folder), phase_of(folder)) == ("", {}, NOT_BEGUN)
    assert look(folder).exit_code == INTERRUPTED
    said = capsys.readouterr()
    assert f"{folder.path}: submitting, process " in said.out
    assert f"to {address}, which has no worker yet" in said.out
    assert "cancelled by " in said.err


def test_a_wait_that_comes_to_nothing_is_told_and_leaves_no_lock(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "r")
    seen = []

    def in_vain() -> None:
        with Awaiting(folder, order_of(folder), "tcp://x:1") as wait:
            wait.begin("waiting")
            seen.append(phase_of(folder))
            raise ClusterLost("the scheduler has had no worker for 5 s")

    with pytest.raises(ClusterLost):
        in_vain()
    assert seen == [SUBMITTING]
    found = look(folder)
    assert (found.live, found.phase, found.exit_code) == ("", NOT_BEGUN, 6)
    said = succeeds("status", folder.path).out
    assert "not begun, ClusterLost: the scheduler has had no worker for 5 s\n" in said
    assert "no worker has taken it; ended with exit code 6\n" in said


def test_when_a_worker_comes_the_folder_is_free_before_the_cluster_has_the_order(
    client: distributed.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, seen = RunFolder(tmp_path / "r"), []

    def submitted(*asked: Any) -> None:
        del asked
        seen.append((holder(folder.path), phase_of(folder)))

    monkeypatch.setattr(handing_over, "_submit", submitted)
    monkeypatch.setattr(handing_over, "_until_begun", lambda *_: HandedOver("running"))
    with Awaiting(folder, order_of(folder), "tcp://x:1") as wait:
        wait.begin("waiting")
        assert holder(folder.path)
        assert hand_over(client, order_of(folder), folder, {}, TIMES, over=wait.over).state == "running"
    assert seen == [("", SUBMITTED)]


def test_nobody_is_asked_to_stop_when_whoever_waited_was_killed(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    gone = Submission(new_token(), "me", "tcp://x", 1.0, ASKING, told="process 1 on vm is running in this folder")
    write_submission(folder, gone)
    assert request_stop(folder) == ""
    assert read_request(folder) == {}
