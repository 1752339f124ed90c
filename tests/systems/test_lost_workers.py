"""Who hears of workers that have gone."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from pipeline.connection.cluster import connected
from pipeline.connection.lost_workers import lost_text, lost_workers_told
from pipeline.connection.profile import Profile
from tests.systems.clusters import cluster
from tests.systems.harness import WAIT, wait_until


@pytest.mark.slow
def test_a_killed_worker_is_told_by_its_name_and_one_that_is_asked_to_go_is_not(tmp_path: Path) -> None:
    told: list[tuple[str, int]] = []
    with cluster(tmp_path / "one", workers=3) as found, connected(Profile(found.address)) as client:
        client.wait_for_workers(3, timeout=WAIT)
        with lost_workers_told(client, WAIT, lambda name, tasks: told.append((name, tasks))):
            pid_of = {str(name): pid for pid, name in client.run(_who).values()}
            asked, killed, _ = sorted(pid_of)
            client.retire_workers(names=[asked])
            os.kill(pid_of[killed], signal.SIGKILL)
            wait_until(lambda: told, "what is told")
    assert told == [(killed, 0)]


def _who(dask_worker: Any) -> tuple[int, str]:
    return os.getpid(), str(dask_worker.name)


def test_what_is_said_counts_tasks() -> None:
    assert lost_text("w1", 0) == "worker w1 is gone"
    assert lost_text("w1", 1) == "worker w1 is gone; the task that it had in hand begins again"
    assert lost_text("w1", 3) == "worker w1 is gone; 3 tasks that it had in hand begin again"
