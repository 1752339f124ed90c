"""Tasks and workers that Dask gives up when workers are killed in quick succession."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from distributed import Client, LocalCluster

from pipeline.mending import mend
from tests.systems.harness import wait_until


@pytest.fixture
def client() -> Iterator[Any]:
    """Of a cluster of two workers that are threads of this process: quick to start and to end."""
    with (
        LocalCluster(n_workers=2, processes=False, threads_per_worker=1, dashboard_address="127.0.0.1:0") as own,
        Client(own) as found,
    ):
        yield found


def workers_of(client: Any) -> list[str]:
    return list(client.scheduler_info(n_workers=-1)["workers"])


def end_worker(client: Any, name: int) -> None:
    """As when it was killed, its nanny too, and the lost-worker-timeout has passed."""
    worker = client.cluster.workers.pop(name)
    client.sync(worker.close)


def test_a_task_that_prefers_a_worker_that_is_gone_goes_to_another(client: Any) -> None:
    preferred = workers_of(client)[0]
    for name in (0, 1):
        end_worker(client, name)
    wait_until(lambda: not workers_of(client), "the workers to leave")
    future = client.submit(len, [1, 2, 3], workers=[preferred], allow_other_workers=True)
    wait_until(lambda: client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.unrunnable)), "the task")
    client.cluster.scale(2)
    client.wait_for_workers(2, timeout=60)
    assert future.status == "pending"  # Dask alone leaves it so: once it does not, `letting_go` can go
    mend(client, 10)
    assert future.result(timeout=60) == 3


def test_tasks_that_need_their_worker_are_left_alone(client: Any) -> None:
    future = client.submit(len, [1, 2, 3], workers=["inproc://127.0.0.1/1/1"], allow_other_workers=False)
    wait_until(lambda: client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.unrunnable)), "the task")
    mend(client, 10)
    assert future.status == "pending"


def test_workers_that_are_given_up_are_started_again(client: Any) -> None:
    end_worker(client, 1)
    wait_until(lambda: len(workers_of(client)) == 1, "the worker to leave")
    mend(client, 10)
    client.wait_for_workers(2, timeout=60)
    assert len(workers_of(client)) == 2


def test_a_cluster_that_is_gone_is_no_fault_of_mending(client: Any) -> None:
    client.close()
    mend(client, 1)
    assert client.status == "closed"
