"""Same config, seed and input: the same content for any number of workers and threads, whatever is killed on the way.

Every artefact of a run counts (see `digests`). The tree on raw rows grows its root by blocks, the one on codes whole.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from pipeline.config import load_config
from pipeline.stages import grow
from tests.systems.conftest import long_config, write_config
from tests.systems.digests import assert_same, digests_of
from tests.systems.harness import (
    Started,
    WorkerKiller,
    alive,
    events_of,
    run_here,
    started,
    wait_until,
    worker_processes,
)

SEED = int(os.environ.get("LABELGROVE_KILL_SEED", "0"))  # set it to replay, or to look further
LEARNT_BY_BLOCKS = """
from dataclasses import replace
from pipeline.stages import grow
told = grow.tree_params
grow.tree_params = lambda x, *d: replace(told(x, *d), whole_root_bytes=0) if x.name == "tree" else told(x, *d)
"""


@pytest.fixture(scope="module", autouse=True)
def _one_tree_by_blocks() -> Iterator[None]:
    """Rows this few would all be learnt whole, by one task."""
    patch, told = pytest.MonkeyPatch(), grow.tree_params
    patch.setattr(
        grow, "tree_params", lambda x, *d: replace(told(x, *d), whole_root_bytes=0) if x.name == "tree" else told(x, *d)
    )
    yield
    patch.undo()


@pytest.fixture(scope="module")
def configs(data_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("determinism")
    return {body: write_config(folder / body, data_folder / f"{body}-0-128.zarr") for body in ("dense", "csr")}


@pytest.fixture(scope="module")
def expected(configs: dict[str, Path]) -> dict[str, dict[str, str]]:
    """body -> digests of the run of the serial pool."""
    return {body: digests_of(run_here(config)) for body, config in configs.items()}


def test_the_serial_pool_twice(configs: dict[str, Path], expected: dict[str, Any], tmp_path: Path) -> None:
    assert_same(expected["dense"], run_here(configs["dense"], runs=tmp_path))


@pytest.mark.parametrize(
    ("body", "workers", "threads"),
    [("csr", 2, 2), *(pytest.param("dense", *shape, marks=pytest.mark.slow) for shape in ((1, 2), (2, 1), (4, 1)))],
)
def test_workers_and_threads(
    configs: dict[str, Path], expected: dict[str, Any], tmp_path: Path, body: str, workers: int, threads: int
) -> None:
    assert_same(expected[body], run_here(configs[body], f"local:{workers}", threads, tmp_path))


def test_workers_killed_at_random(configs: dict[str, Path], expected: dict[str, Any], tmp_path: Path) -> None:
    print(f"LABELGROVE_KILL_SEED={SEED}")
    with WorkerKiller(os.getpid(), SEED, (0.1, 0.7), 2, partial(cluster_is_up, tmp_path / "small")) as killer:
        run = run_here(configs["dense"], "local:2", runs=tmp_path)
    assert killer.killed
    assert_same(expected["dense"], run)


def cluster_is_up(run: Path) -> bool:
    """Whether the run's workers have all started: one that is lost before that makes Dask give up the whole cluster."""
    return any(event["event"] == "cluster" for event in events_of(run))


def test_a_worker_killed_while_it_starts(configs: dict[str, Path], expected: dict[str, Any], tmp_path: Path) -> None:
    with WorkerKiller(os.getpid(), SEED, (0.0, 0.02), most=1) as killer:
        run = run_here(configs["csr"], "local:1", runs=tmp_path)
    assert killer.killed
    assert_same(expected["csr"], run)
    wait_until(lambda: not worker_processes(os.getpid()), "the workers of both clusters to end")


def test_the_client_killed_at_random(configs: dict[str, Path], expected: dict[str, Any], tmp_path: Path) -> None:
    killed = kill_clients(configs["dense"], tmp_path, SEED, kills=2, scheduler="local:2", patch=LEARNT_BY_BLOCKS)
    assert killed == 2
    assert_same(expected["dense"], run_here(configs["dense"], runs=tmp_path))


def kill_clients(config: Path, runs: Path, seed: int, kills: int, scheduler: str, patch: str = "") -> int:
    """Start a run and kill -9 its client after a random number of finished steps and moments, again and again.

    The next client starts at once, while workers of the last may still be ending. Returns how many were killed.
    """
    print(f"LABELGROVE_KILL_SEED={seed}")
    rng, killed = random.Random(seed), 0
    run = runs / load_config(config).run.name
    for attempt in range(kills):
        log = runs.parent / f"{runs.name}-{attempt}.log"
        arguments = ("run", config, "--runs", runs, "--scheduler", scheduler)
        with started(*arguments, log=log, patch=patch) as client:
            told = len(events_of(run)) + rng.randint(2, 5)  # "run", "cluster", then two for every step
            client.until(partial(_has_told, run, told), f"event {told}")
            pause = rng.uniform(0, 0.5)
            if client.process.poll() is None:
                wait_for_exit(client, pause)
            if client.process.poll() is not None:
                assert client.process.returncode == 0, client.text
                break
            left = client.workers()
            client.send(signal.SIGKILL)
            client.process.wait()
            killed += 1
            # They write whole files by rename only, so the next run need not wait for them; that they end is seen here.
            wait_until(partial(_all_gone, left), "the workers of a killed client to end by themselves")
    return killed


def _has_told(run: Path, count: int) -> bool:
    return len(events_of(run)) >= count


def _all_gone(processes: list[psutil.Process]) -> bool:
    return not alive(processes)


def wait_for_exit(client: Started, seconds: float) -> None:
    """Let a client go on for a while."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        client.process.wait(seconds)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_long_ten_workers_and_ten_clients_killed(tmp_path: Path) -> None:
    """The same on more rows: every shape of cluster, ten workers killed within runs, then ten clients."""
    config = long_config(tmp_path)
    expected = digests_of(run_here(config, runs=tmp_path / "serial"))
    for workers in (1, 2, 4):
        for threads in (1, 2):
            assert_same(
                expected, run_here(config, f"local:{workers}", threads, tmp_path / f"local-{workers}-{threads}")
            )
    killed = 0
    for attempt in range(5):  # until ten are dead, each time a whole run
        runs = tmp_path / f"killed-{attempt}"
        up = partial(cluster_is_up, runs / "small")
        with WorkerKiller(os.getpid(), SEED + attempt, (1.0, 4.0), 10 - killed, up) as killer:
            assert_same(expected, run_here(config, "local:2", runs=runs))
        killed += len(killer.killed)
        if killed == 10:
            break
    assert killed == 10
    clients = kill_clients(config, tmp_path / "clients", SEED, 10, "local:2", LEARNT_BY_BLOCKS)
    assert clients == 10
    assert_same(expected, run_here(config, runs=tmp_path / "clients"))
