"""The memory of workers that others have started: what is planned with it, and workers that Dask has paused."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.config import load_config
from pipeline.connection.cluster import GONE, HELD_UP, NO_WORKER, PAUSED, ClusterWatch, has_running
from pipeline.connection.profile import Profile
from pipeline.connection.timeouts import Timeouts
from pipeline.connection.worker_memory import PAUSE, WorkerRoom, is_stuck, pause_share, paused, rooms
from pipeline.errors import TaskKilled
from pipeline.plan import SAFE_SHARE, MemoryPlan, Plan, make_plan, memory_plan
from pipeline.resources import MemoryTooSmall, check_worker_memory
from tasks import cache
from tasks.worker import make_room
from tests.systems.conftest import make_dataset, write_config
from tests.systems.harness import wait_until

GIB = 1 << 30
FOREIGN = Profile("tcp://127.0.0.1:1", threads=1)


def worker(name: str, status: str = "running", executing: int = 0, ready: int = 0, **more: Any) -> dict[str, Any]:
    counts = {"executing": executing, "ready": ready}
    return {"name": name, "status": status, "metrics": {"task_counts": counts}, **more}


def test_rooms_of_workers_by_name_without_those_that_have_left() -> None:
    infos = {
        "b": worker("w2", memory_limit=2 * GIB, nthreads=1),
        "a": worker("w1", memory_limit=None, nthreads=4),
        "c": worker("w3", memory_limit=GIB, nthreads=1),
    }
    answers = {"a": 1.0, "b": 0.47, "c": OSError("gone")}
    found = rooms(infos, {pause_share: answers}.__getitem__)
    assert found == [WorkerRoom("w1", 0, 4, 1.0), WorkerRoom("w2", 2 * GIB, 1, 0.47)]
    assert [room.usable for room in found] == [0, GIB]  # half of what ours are allowed, of twice as much
    assert WorkerRoom("w", GIB, 1, PAUSE).usable == GIB
    assert WorkerRoom("w", GIB, 1, 1.0).usable == GIB


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    folder = tmp_path_factory.mktemp("planned")
    make_dataset(folder)
    return make_plan(load_config(write_config(folder, folder / "dense-0-128.zarr")))


def test_the_tightest_worker_is_planned_for(plan: Plan) -> None:
    wide, many = WorkerRoom("wide", 4 * GIB, 1, PAUSE), WorkerRoom("many", 4 * GIB, 4, PAUSE)
    free = WorkerRoom("free", 0, 64, 1.0)
    made = memory_plan(plan, FOREIGN, [free, wide, many])
    assert (made.tightest, made.limit, made.threads) == (many, 4 * GIB, 4)
    assert made.peak <= SAFE_SHARE * made.limit
    assert (
        memory_plan(plan, FOREIGN, [free])
        == memory_plan(plan, FOREIGN)
        == MemoryPlan(0, GIB, plan.task_bytes, 1, 0, True)
    )


def test_a_worker_that_is_too_small_is_named_with_what_to_do(plan: Plan) -> None:
    small = WorkerRoom("w1", 500 << 20, 2, 0.8)
    with pytest.raises(MemoryTooSmall) as raised:
        check_worker_memory(plan, memory_plan(plan, FOREIGN, [WorkerRoom("w0", GIB, 1, 0.8), small]))
    assert "would not fit into a worker of 500.0 MiB (worker w1, 2 threads, paused above 80%)" in raised.value.what
    hint = raised.value.hint
    assert "--memory-limit" in hint
    assert "DASK_DISTRIBUTED__WORKER__MEMORY__PAUSE=0.94" in hint
    assert "--memory " not in hint  # that is of workers of ours
    check_worker_memory(plan, memory_plan(plan, FOREIGN, [WorkerRoom("w0", 4 * GIB, 1, 0.8)]))


@pytest.mark.parametrize(
    ("infos", "held_up", "stuck"),
    [
        ([], [], False),
        ([worker("a"), worker("b", ready=3)], [], False),
        ([worker("a", "paused", executing=1, ready=3)], [], False),  # its end may free it
        ([worker("a", "paused")], ["a"], True),
        ([worker("a", "paused"), worker("b")], ["a"], False),  # the other does what is to be done
        ([worker("a", "paused", ready=1), worker("b", executing=1)], ["a"], True),
        ([{"name": "a", "status": "paused"}], ["a"], True),  # it has just come
    ],
)
def test_paused_workers_that_keep_the_work_from_going_on(
    infos: list[dict[str, Any]], held_up: list[str], stuck: bool
) -> None:
    found = {str(place): info for place, info in enumerate(infos)}
    assert ([*paused(found).values()], is_stuck(found)) == (held_up, stuck)
    assert has_running(found) == any(info["status"] == "running" for info in infos)


@dataclass
class Paused:
    """A client of a scheduler whose workers are these, again and again; `freed` are those asked for room."""

    infos: dict[str, Any]
    status: str = "running"
    freed: list[str] = field(default_factory=list)
    cancelled: int = 0
    scheduler: Any = field(default_factory=lambda: SimpleNamespace(identity="identity"))

    def sync(self, function: Any, *asked: Any, **options: Any) -> Any:
        del function
        if asked and asked[0] is make_room:
            self.freed += options["workers"]
        return {"workers": self.infos}

    def _run(self) -> None: ...

    def cancel(self, futures: list[Any], force: bool) -> None:
        del futures, force
        self.cancelled += 1


def test_a_paused_worker_is_told_once_and_asked_for_room_at_every_look() -> None:
    client, told = Paused({"a": worker("w1", "paused"), "b": worker("w2")}), list[tuple[str, str]]()
    watch = ClusterWatch(client, Timeouts(), lambda kind, name: told.append((kind, name)))
    assert [watch._trouble() for _ in range(3)] == ["", "", ""]
    assert (told, client.freed) == (
        [(HELD_UP, "w1")],
        ["a"] * 3,
    )
    client.infos = {"a": worker("w1", "paused")}
    assert watch._trouble() == PAUSED
    assert told[1:] == [(GONE, "w2")]
    client.infos = {}
    assert watch._trouble() == NO_WORKER


def cancelled(client: Paused) -> None:
    """Of a future that is waited for, once the watch cancels it."""
    wait_until(lambda: client.cancelled, "the watch gives up")
    raise RuntimeError("the future was cancelled")


def test_work_that_stands_still_for_lack_of_memory_ends_with_what_to_do() -> None:
    client = Paused({"a": worker("w1", "paused", ready=2)})
    watch = ClusterWatch(client, Timeouts(poll=0.01, no_workers=0.05))
    with pytest.raises(TaskKilled, match="paused for lack of memory") as raised, watch.guard("sums"):
        cancelled(client)
    assert (raised.value.where, raised.value.exit_code) == ("sums", 5)
    assert "PAUSE=0.94" in raised.value.hint


def test_room_is_made_by_dropping_what_can_be_read_again() -> None:
    cache.ROWS.fetch("key", 1, lambda: b"12345678", len)
    assert len(cache.ROWS) > 0
    make_room()
    assert (len(cache.ROWS), cache.ROWS.nbytes) == (0, 0)
