"""Workers of other versions, of another checkout, of other packages of our names: refused at connect and when they come
later; workers of a cluster that nobody runs on any more are nobody's business.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import distributed
import numpy as np
import pytest

from pipeline.connection import cluster as module
from pipeline.connection.agreement import facts_here
from pipeline.connection.cluster import connected
from pipeline.connection.profile import Profile
from pipeline.connection.timeouts import Timeouts
from pipeline.errors import ClusterLost, ClusterMismatch
from tests.systems.clusters import Cluster, cluster
from tests.systems.harness import ROOT, WAIT, environment, wait_until


def checkout(folder: Path, changed: str) -> Path:
    """Another copy of our packages, with a comment more in one module."""
    for name in ("tasks", "pipeline"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    with open(folder / changed, "a", encoding="utf-8") as file:
        file.write("# another version\n")
    return folder


@contextmanager
def worker(found: Cluster, name: str, folder: Path, packages: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A worker that imports from `packages` first; its log is <name>.log."""
    options = ["--name", name, "--host", "127.0.0.1", "--nthreads", "1", "--no-dashboard"]
    words = [sys.executable, "-m", "distributed.cli.dask_worker", found.address, *options]
    with open(folder / f"{name}.log", "wb") as log:
        process = subprocess.Popen(
            [*words, "--local-directory", str(folder)],
            cwd=folder,
            env=environment(PYTHONPATH=str(packages)),
            stdout=log,
            stderr=log,
        )
        try:
            yield process
        finally:
            process.terminate()
            process.wait(WAIT)


def refusal(found: Cluster) -> ClusterMismatch:
    """What `connected` says."""
    with pytest.raises(ClusterMismatch) as caught, connected(Profile(found.address)):
        pass
    return caught.value


def heard(said: list[str]) -> list[str]:
    """What was said but that a worker is waited for."""
    return [text for text in said if not text.startswith("waiting for a worker")]


def place(_: int) -> str:
    """Where a task's worker has our `tasks` from."""
    import tasks

    time.sleep(0.02)
    return os.path.dirname(os.path.dirname(str(tasks.__file__)))


def plugins(dask_scheduler: distributed.Scheduler) -> list[str]:
    return [name for name in (*dask_scheduler.worker_plugins, *dask_scheduler.plugins) if "labelgrove-v" in name]


def test_a_worker_that_comes_later_with_another_checkout_is_sent_away(tmp_path: Path) -> None:
    other, said = checkout(tmp_path / "other", "tasks/sums.py"), list[str]()
    with cluster(tmp_path / "one", workers=1) as found:
        with connected(Profile(found.address), said.append) as client, worker(found, "late", tmp_path, other) as late:
            while late.poll() is None:  # tasks wait all the time, so it would take some if it could
                futures = client.map(place, range(20), pure=False)
                assert set(client.gather(futures)) == {str(ROOT)}
            assert late.wait(WAIT) == 0
            wait_until(lambda: heard(said), "what is said")
            assert client.run_on_scheduler(plugins) != []
        with distributed.Client(found.address) as client:
            wait_until(lambda: client.run_on_scheduler(plugins) == [], "nobody's plugins")
            with worker(found, "later", tmp_path, other):
                client.wait_for_workers(2, timeout=WAIT)
    (text,) = heard(said)
    assert text.startswith("worker late is refused")
    assert str(other / "tasks") in text
    assert f"tasks at  {ROOT}/tasks" in " ".join(text.split()).replace("tasks at ", "tasks at  ")
    assert "numpy" not in text


@pytest.mark.slow
def test_a_worker_of_another_checkout_is_refused_at_connect(tmp_path: Path) -> None:
    other = checkout(tmp_path / "other", "pipeline/plan.py")
    with cluster(tmp_path / "one", workers=1) as found, worker(found, "stranger", tmp_path, other):
        with distributed.Client(found.address) as client:
            client.wait_for_workers(2, timeout=WAIT)
        error = refusal(found)
    assert error.where == "stranger"
    rows = [line.split()[0] for line in error.what.splitlines()[2:] if line.strip()]
    assert rows == ["pipeline", "pipeline"]  # digest and place, and nothing that agrees
    assert str(other / "pipeline") in error.what


def test_workers_with_other_packages_of_our_names_are_refused(tmp_path: Path) -> None:
    other = tmp_path / "other"
    for name in ("tasks", "pipeline"):
        (other / name).mkdir(parents=True)
        (other / name / "__init__.py").write_text("")
    with cluster(tmp_path / "one", workers=0) as found, worker(found, "stranger", tmp_path, other):
        error = refusal(found)
    assert error.exit_code == 6
    assert str(other / "tasks") in error.what


def test_another_numpy_is_told_with_both_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = {**facts_here(), "numpy": "0.0"}
    monkeypatch.setattr("pipeline.connection.cluster.facts_here", lambda: here)
    with cluster(tmp_path / "one", workers=2) as found:
        error = refusal(found)
    (line,) = [line for line in error.what.splitlines() if "numpy" in line]
    assert line.split() == ["numpy", "0.0", np.__version__]  # scheduler and workers agree: one column


@pytest.mark.slow
def test_a_worker_on_another_processor_is_named_and_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, said = {**facts_here(), "BLAS kernels": "Other"}, list[str]()
    monkeypatch.setattr("pipeline.connection.cluster.facts_here", lambda: here)
    with cluster(tmp_path / "one", workers=1) as found, connected(Profile(found.address), said.append) as client:
        assert client.submit(len, "abc").result() == 3
    (text,) = heard(said)
    assert "last bits" in text
    assert "Other" in text


@pytest.mark.slow
@pytest.mark.parametrize("point", ["ask_parts", "watch_newcomers"])
@pytest.mark.parametrize("victim", ["worker", "scheduler"])
def test_a_part_that_is_killed_while_it_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str, victim: str
) -> None:
    with cluster(tmp_path / "one") as found:
        with distributed.Client(found.address) as client:
            client.wait_for_workers(2, timeout=WAIT)
        process, asked, seen = found.workers[0] if victim == "worker" else found.scheduler, getattr(module, point), []

        def killed_first(*args: Any) -> Any:
            if not seen:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(WAIT)
            seen.append(point)
            return asked(*args)

        monkeypatch.setattr(module, point, killed_first)
        profile = Profile(found.address, timeouts=Timeouts(connect=20, answer=3))
        if victim == "worker":
            with connected(profile) as client:
                assert client.submit(len, "abc").result(WAIT) == 3
        else:
            with pytest.raises(ClusterLost) as caught, connected(profile):
                pass
            assert caught.value.exit_code == 6
    assert seen
