"""Kills, interruptions, two runs at once, full disks, too little memory, schedulers that are gone: always resumable."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import distributed
import numpy as np
import psutil
import pyarrow as pa
import pytest

from pipeline.config import load_config
from pipeline.connection.cluster import ClusterWatch
from pipeline.connection.profile import ProfileError, load_profile
from pipeline.connection.timeouts import Timeouts
from pipeline.errors import ClusterLost
from pipeline.ingest import ingest
from pipeline.lock import locked
from pipeline.plan import make_plan
from pipeline.pool import SerialPool
from pipeline.resources import DiskTooSmall
from pipeline.store import UNFINISHED, RunFolder
from tasks.calls import publish
from tasks.errors import ArtefactError
from tasks.files import DiskFull, beside
from tasks.models.parquet import read_table, write_table
from tasks.worker import WorkerSettings
from tests.systems.clusters import cluster
from tests.systems.conftest import planted, write_config
from tests.systems.digests import assert_same, digests_of
from tests.systems.harness import (
    WAIT,
    alive,
    environment,
    events_of,
    labelgrove,
    run_here,
    started,
    wait_until,
)

SEED = int(os.environ.get("LABELGROVE_KILL_SEED", "0"))
RUN = Path("runs") / "small"
# The client waits before a step until a file is there, so that a test can act while the run is known to be alive.
PAUSED = """
import time
from pathlib import Path
from pipeline.stages.train import SgdStage
run_stage = SgdStage.run
def run(stage, work):
    while stage.learner.name == "heshing" and not Path({gate!r}).exists():
        time.sleep(0.02)
    return run_stage(stage, work)
SgdStage.run = run
"""


@pytest.fixture(scope="module")
def dataset(data_folder: Path) -> Path:
    return data_folder / "dense-0-128.zarr"


@pytest.fixture(scope="module")
def expected(finished_runs: dict[str, Path]) -> dict[str, str]:
    return digests_of(finished_runs["dense"])


def has_begun(run: Path, step: str) -> Callable[[], bool]:
    return lambda: any(event["event"] == "step" and event.get("step") == step for event in events_of(run))


# ---- kills at every change of the disk ---------------------------------------------------------------------------


def assert_kills_do_no_harm(folder: Path, count: int) -> None:
    """See `kill_points`: over a dataset so small that a run takes a second."""
    rows, labels, taxonomy = planted(400, 16, "dense", 0, shape=(2, 2, 2))
    ingest(rows, folder / "d.zarr", labels=labels, taxonomy=taxonomy, block_rows=64)
    config = write_config(folder, folder / "d.zarr", ("subquantizers = 8", "subquantizers = 4"))
    head, *sections = config.read_text().split("[[")
    kept = [
        part for part in sections if any(f'name = "{name}"' in part for name in ("pq", "ovr", "tree-pq", "heshing"))
    ]
    config.write_text("[[".join([head, *kept]))
    command = [
        sys.executable,
        "-m",
        "tests.systems.kill_points",
        str(config),
        str(folder / "runs"),
        str(SEED),
        str(count),
    ]
    ended = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
    assert ended.returncode == 0, ended.stderr
    found = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [point for point in found if point["wrong"]] == []
    assert len(found) == count or (not count and len(found) > 300)


def test_killed_at_any_change_of_the_disk_the_next_run_ends_the_same(tmp_path: Path) -> None:
    print(f"LABELGROVE_KILL_SEED={SEED}")
    assert_kills_do_no_harm(tmp_path, 8)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_long_killed_at_every_change_of_the_disk(tmp_path: Path) -> None:
    assert_kills_do_no_harm(tmp_path, 0)


# ---- interruptions, and two runs at once -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scheduler", "sign", "to_group"),
    [
        ("serial", signal.SIGTERM, False),
        ("local:2", signal.SIGINT, True),
        pytest.param("local:2", signal.SIGTERM, False, marks=pytest.mark.slow),
    ],
)
def test_interrupted_exits_130_and_continues(
    dataset: Path, expected: dict[str, str], tmp_path: Path, scheduler: str, sign: signal.Signals, to_group: bool
) -> None:
    """Ctrl-C reaches the workers too, which share the terminal; a scheduler of batch jobs tells the client alone."""
    config = write_config(tmp_path, dataset)
    with started("run", config, "--scheduler", scheduler, log=tmp_path / "log") as client:
        client.until(has_begun(tmp_path / RUN, "train_ovr"), "train_ovr")
        client.send(sign, to_group)
        left = client.workers()
        assert client.wait() == 130, client.text
        wait_until(lambda: not alive(left), "the workers to end")
    assert "continues where it stopped" in client.text
    assert "Traceback" not in client.text
    assert events_of(tmp_path / RUN)[-1]["event"] == "interrupted"
    assert not (tmp_path / RUN / "lock.json").exists()
    assert_same(expected, run_here(config))


def test_two_runs_at_once_the_second_exits_8(dataset: Path, expected: dict[str, str], tmp_path: Path) -> None:
    config, gate = write_config(tmp_path, dataset), tmp_path / "gate"
    arguments = ("run", config, "--scheduler", "serial")
    with started(*arguments, log=tmp_path / "log", patch=PAUSED.format(gate=str(gate))) as first:
        first.until(has_begun(tmp_path / RUN, "train_heshing"), "train_heshing")
        told = len(events_of(tmp_path / RUN))
        second = labelgrove(*arguments)
        assert second.code == 8, second.err
        assert f"process {first.process.pid}" in second.err
        assert len(events_of(tmp_path / RUN)) == told
        gate.touch()
        assert first.wait() == 0, first.text
    assert_same(expected, tmp_path / RUN)


def _take_at_once(folder: Path, barrier: Any, held: Any, results: Any) -> None:
    """Take the lock when all are there; say so; keep it until all have tried."""
    barrier.wait()
    try:
        with locked(folder):
            results.put("held")
            held.wait(WAIT)
    except Exception as error:
        results.put(type(error).__name__)


def test_of_many_that_take_over_a_lock_left_behind_one_wins(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    gone = {"host": socket.gethostname(), "pid": 2**22 + 1, "created": 0.0, "heartbeat": 0.0}
    for _ in range(10):
        (tmp_path / "lock.json").write_text(json.dumps(gone))
        barrier, held, results = context.Barrier(6), context.Event(), context.Queue()
        takers = [context.Process(target=_take_at_once, args=(tmp_path, barrier, held, results)) for _ in range(6)]
        for taker in takers:
            taker.start()
        outcomes = sorted(results.get(timeout=WAIT) for _ in takers)
        held.set()
        for taker in takers:
            taker.join(WAIT)
        assert outcomes == ["RunLocked"] * 5 + ["held"]
        assert not (tmp_path / "lock.json").exists()


def test_what_a_killed_client_leaves_ends_by_itself_and_disturbs_nobody(
    dataset: Path, expected: dict[str, str], tmp_path: Path
) -> None:
    """Workers and ports of a client that is killed: gone; the next run of the same folder starts at once."""
    config, gate = write_config(tmp_path, dataset), tmp_path / "gate"
    arguments = ("run", config, "--scheduler", "local:2")
    with started(*arguments, log=tmp_path / "log", patch=PAUSED.format(gate=str(gate))) as first:
        first.until(has_begun(tmp_path / RUN, "train_heshing"), "train_heshing")
        processes = [psutil.Process(first.process.pid), *psutil.Process(first.process.pid).children(recursive=True)]
        ports = {port for process in processes for port in listening(process)}
        first.send(signal.SIGKILL)
        first.process.wait()
        again = labelgrove(*arguments)
        assert again.code == 0, again.err
        assert "which is gone, was taken over" in again.err
        assert "dashboard: http://127.0.0.1:" in again.err
        wait_until(lambda: not alive(processes[1:]), "workers, nannies' helpers and resource tracker to end")
    assert len(ports) > 3
    gone = {process.pid for process in processes}
    busy = [c for c in psutil.net_connections("tcp") if c.status == psutil.CONN_LISTEN and c.pid in gone]
    assert not busy
    assert_same(expected, tmp_path / RUN)


def listening(process: psutil.Process) -> list[int]:
    try:
        return [c.laddr.port for c in process.net_connections("tcp") if c.status == psutil.CONN_LISTEN]
    except psutil.Error:
        return []


# ---- full disks and too little memory ----------------------------------------------------------------------------


def test_a_full_disk_is_named_and_more_room_continues(
    dataset: Path, expected: dict[str, str], tmp_path: Path, small_disk: Callable[[str], Path]
) -> None:
    """Again and again with a little more room, so that another writer meets the end of the disk every time."""
    config = write_config(tmp_path, dataset)
    for size in (20, 40, 80, 120, 200, 280, 400, 560):
        runs = small_disk(f"{size}k")
        with pytest.raises(DiskFull) as caught:
            run_here(config, runs=runs, force=True)
        for words in ("no space left", "bytes were to be written", "are free", str(runs), "free some space"):
            assert words in str(caught.value), f"{size}k: {caught.value}"
    assert_same(expected, run_here(config, runs=small_disk("40m")))


def test_a_full_disk_exits_5_on_workers_too(
    dataset: Path, expected: dict[str, str], tmp_path: Path, small_disk: Callable[[str], Path]
) -> None:
    config, runs = write_config(tmp_path, dataset), small_disk("300k")
    ended = labelgrove("run", config, "--runs", runs, "--scheduler", "local:2", "--force")
    assert ended.code == 5, ended.err
    assert "no space left" in ended.err
    assert str(runs) in ended.err
    assert "Traceback" not in ended.err
    assert_same(expected, run_here(config, runs=small_disk("40m")))


def test_a_disk_that_is_too_small_is_refused_before_anything_runs(
    dataset: Path, tmp_path: Path, small_disk: Callable[[str], Path]
) -> None:
    config, runs = write_config(tmp_path, dataset), small_disk("1m")
    with pytest.raises(DiskTooSmall, match=r"the run needs about .*are free") as caught:
        run_here(config, runs=runs)
    assert caught.value.exit_code == 5
    assert caught.value.where == str(runs / "small")
    assert list(runs.rglob("*")) == []


def test_a_disk_of_the_size_that_plan_names_is_large_enough(
    dataset: Path, expected: dict[str, str], tmp_path: Path, small_disk: Callable[[str], Path]
) -> None:
    config = write_config(tmp_path, dataset)
    need = make_plan(load_config(config)).disk_bytes
    assert_same(expected, run_here(config, runs=small_disk(str(need + (64 << 10)))))  # and the lock


def test_shared_arrays_that_do_not_fit_are_a_named_error(small_disk: Callable[[str], Path]) -> None:
    """NumPy alone says "123 requested and 45 written", without a place or an error number."""
    place = small_disk("64k")
    with pytest.raises(DiskFull, match="no space left"):
        publish(np.zeros(100_000), place / "shared-0")
    with pytest.raises(DiskFull, match="no space left"):
        SerialPool(place / "scratch", WorkerSettings()).map(len, ["a"], np.zeros(100_000), name="work")


def test_a_worker_that_is_too_small_is_refused_before_anything_runs(dataset: Path, tmp_path: Path) -> None:
    config = write_config(tmp_path, dataset)
    arguments = (config, "--scheduler", "local:2", "--memory", "200 MiB")
    ended = labelgrove("run", *arguments)
    assert ended.code == 5
    for words in ("MemoryTooSmall", "a worker of 200.0 MiB", "encode_pq", "--memory"):
        assert words in ended.err
    assert not (tmp_path / RUN).exists()
    said = labelgrove("plan", *arguments)
    assert (said.code, said.err) == (5, ended.err)


# ---- schedulers that are somebody else's -------------------------------------------------------------------------

IMPATIENT = "[timeouts]\nanswer = 1.0\npoll = 0.2\nscheduler_silent = 1.0\n"


def impatient(folder: Path) -> tuple[str, str]:
    """Options of a command that waits for seconds where others wait for minutes."""
    (folder / "impatient.toml").write_text(IMPATIENT)
    return "--profile", str(folder / "impatient.toml")


def test_a_scheduler_that_is_killed_exits_6_and_another_continues(
    dataset: Path, expected: dict[str, str], tmp_path: Path
) -> None:
    """Between two calls of the pool: later than in a call, since no task is there whose loss would tell."""
    config, gate = write_config(tmp_path, dataset), tmp_path / "gate"
    with cluster(tmp_path / "one") as first:
        arguments = ("run", config, "--scheduler", first.address, *impatient(tmp_path))
        with started(*arguments, log=tmp_path / "log", patch=PAUSED.format(gate=str(gate))) as client:
            client.until(has_begun(tmp_path / RUN, "train_heshing"), "train_heshing")
            first.scheduler.kill()
            gate.touch()
            assert client.wait() == 6, client.text
        assert "finished work is kept" in client.text
        assert "Traceback" not in client.text
    assert events_of(tmp_path / RUN)[-1]["error"] == "ClusterLost"
    with cluster(tmp_path / "two") as second:
        ended = labelgrove("run", config, "--scheduler", second.file)
    assert ended.code == 0, ended.err
    assert "train_ovr: reused" in ended.err
    assert_same(expected, tmp_path / RUN)


def test_a_scheduler_that_is_frozen_exits_6(dataset: Path, tmp_path: Path) -> None:
    """Its connections stay open, so nothing fails: only the silence tells."""
    config, gate = write_config(tmp_path, dataset), tmp_path / "gate"
    with cluster(tmp_path / "one", workers=1) as first:
        arguments = ("run", config, "--scheduler", first.address, *impatient(tmp_path))
        with started(*arguments, log=tmp_path / "log", patch=PAUSED.format(gate=str(gate))) as client:
            client.until(has_begun(tmp_path / RUN, "train_heshing"), "train_heshing")
            first.scheduler.send_signal(signal.SIGSTOP)
            gate.touch()
            assert client.wait() == 6, client.text
    assert "does not answer" in client.text


def test_a_result_that_a_frozen_scheduler_holds_back_is_given_up(tmp_path: Path) -> None:
    """The task has ended, so there is nothing to cancel: the wait is for the answer itself."""
    with cluster(tmp_path / "one", workers=1) as found:
        client = distributed.Client(found.address, set_as_default=False, timeout="30s")
        future = client.submit(len, [1, 2, 3])
        wait_until(future.done, "a result")
        found.scheduler.send_signal(signal.SIGSTOP)
        watch = ClusterWatch(client, Timeouts(answer=1.0, poll=0.2, scheduler_silent=1.0))

        def ask() -> None:
            with watch.guard("length") as hold:
                watch.result(hold([future])[0])

        with pytest.raises(ClusterLost):
            ask()
        found.scheduler.kill()
        client.close(timeout=10)


def test_no_workers_at_all_are_not_waited_for_for_ever(dataset: Path, tmp_path: Path) -> None:
    with cluster(tmp_path / "one", workers=0) as empty, pytest.raises(ClusterLost, match="no worker for 2 s") as caught:
        run_here(write_config(tmp_path, dataset), empty.address, timeouts=Timeouts(no_workers=2.0))
    assert caught.value.exit_code == 6


def test_nobody_there_exits_6_and_an_unknown_form_2(dataset: Path, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    config = write_config(tmp_path, dataset)
    with pytest.raises(ClusterLost, match=address) as caught:
        run_here(config, address, timeouts=Timeouts(connect=1.0))
    assert caught.value.exit_code == 6
    with pytest.raises(ProfileError, match="no-such-file") as unknown:
        load_profile(None, scheduler="no-such-file.json")
    assert unknown.value.exit_code == 2


def test_a_leftover_name_is_told_from_a_name_of_ours(tmp_path: Path) -> None:
    """What a killed writer left is no content; a model may still be called anything."""
    from pipeline.store import files_below, unfinished_below

    hexes = "0123456789abcdef" * 2
    ours = ["model/a.partial-1", "parts/x.partial", f"{hexes}", "model/.hidden", f"codes/{hexes}.partial-x"]
    left = [".a.json.partial-12", f"codes/c/0.{hexes}.partial", ".model.77.partial/w", f"zarr.{hexes}.partial"]
    for name in [*ours, *left]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    assert sorted(files_below(tmp_path)) == sorted(ours)
    found = {path.relative_to(tmp_path).as_posix() for path in unfinished_below(tmp_path)}
    assert found == {*left, ".model.77.partial"} - {".model.77.partial/w"}


def test_a_torn_event_does_not_swallow_the_next(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.event("one")
    with open(tmp_path / "events.jsonl", "a") as file:
        file.write('{"time": 1, "eve')
    folder.event("two")
    folder.event("three")
    assert [event["event"] for event in folder.events()] == ["one", "two", "three"]


def test_writers_of_one_file_never_share_a_temporary_name(tmp_path: Path) -> None:
    """Two workers in containers have the same process id; the sweep tells every such name as a leftover."""
    names = {beside(tmp_path / "part-00001.parquet").name for _ in range(10)}
    assert len(names) == 10
    assert all(UNFINISHED.fullmatch(name) for name in names)


def test_a_folder_with_a_colon_is_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "local:2").mkdir()
    table = pa.table({"a": [1, 2]})
    write_table(Path("local:2/a.parquet"), table)
    assert read_table(Path("local:2/a.parquet"), ArtefactError, "").equals(table)
