"""A submission that is interrupted before a worker has taken it: nothing of it stays, and none begins it later."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import distributed
import pytest

from pipeline.connection.profile import Profile
from pipeline.connection.timeouts import Timeouts
from pipeline.interrupts import INTERRUPTED
from pipeline.state import NOT_BEGUN, SUBMITTED, phase_of
from pipeline.stop_request import read_request
from pipeline.store import RunFolder
from pipeline.submitted import handing_over
from pipeline.submitted.driver_task import Ended, drive
from pipeline.submitted.handing_over import HandedOver, hand_over
from pipeline.submitted.submission import ENDED, Order, Submission, log_of, read_submission, write_submission
from tests.systems.harness import wait_until

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
