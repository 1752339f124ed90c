"""Both pools: the same results, named errors, published arrays, receipts, and a worker that dies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.connection.cluster import connected
from pipeline.connection.profile import Profile
from pipeline.errors import TaskFailed
from pipeline.pool import DaskPool, Part, SerialPool, label_of, rows_of
from tasks.errors import InputError
from tasks.worker import WorkerSettings
from tests.pipeline import work
from tests.pipeline.work import Piece

PIECES = [Piece(i) for i in range(21)]


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with connected(Profile("local:2", memory_per_worker="1 GiB", dashboard="127.0.0.1:0")) as found:
        yield found


@pytest.fixture(params=["serial", "dask"])
def pool(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "serial":
        return SerialPool(tmp_path / "scratch", WorkerSettings())
    return DaskPool(request.getfixturevalue("client"), tmp_path / "scratch", WorkerSettings())


def test_map_keeps_the_order_and_leaves_receipts(pool: Any) -> None:
    results = pool.map(work.scaled, PIECES, np.ones(2, np.float32), 6.0, name="scale_a")
    assert [float(result[0]) for result in results] == [float(np.float32(6) / np.float32(i + 1)) for i in range(21)]
    assert sorted(receipt.item for receipt in pool.receipts) == sorted(f"{i:05d}" for i in range(21))
    assert all(receipt.name == "scale_a" and receipt.peak > 0 and receipt.seconds >= 0 for receipt in pool.receipts)


def test_a_sum_is_the_same_bits_on_both_pools(client: Any, tmp_path: Path) -> None:
    array = np.random.default_rng(5).normal(size=1000).astype(np.float32)
    sums = [
        pool.sum(work.scaled, PIECES, array, 1.7, name="scale_b")
        for pool in (
            SerialPool(tmp_path / "a", WorkerSettings()),
            DaskPool(client, tmp_path / "b", WorkerSettings()),
        )
    ]
    np.testing.assert_array_equal(sums[0], sums[1])
    assert sums[0].dtype == np.float32


@pytest.mark.parametrize("window", [8, 64])
def test_long_calls_go_to_the_scheduler_in_windows(
    client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: int
) -> None:
    """The same bits, and never more than two windows of tasks with the scheduler."""
    monkeypatch.setattr("pipeline.pool.WINDOW", window)
    items, array = [Piece(i) for i in range(5 * window // 2 + 3)], np.linspace(-1, 1, 500, dtype=np.float32)
    serial = SerialPool(tmp_path / "a", WorkerSettings())
    pool, seen = DaskPool(client, tmp_path / "b", WorkerSettings()), [0]
    pool.progress = lambda *_: seen.append(len(client.futures))
    np.testing.assert_array_equal(
        pool.sum(work.scaled, items, array, 1.7, name="window_s"), serial.sum(work.scaled, items, array, 1.7, name="s")
    )
    assert len(pool.receipts) == len(items)
    seen.clear()
    found = pool.map(work.scaled, items, array, 1.7, name="window_m")
    np.testing.assert_array_equal(found, serial.map(work.scaled, items, array, 1.7, name="m"))
    assert window < max(seen) <= 2 * window


def test_large_arrays_are_mapped_read_only_and_cleared_away(pool: Any) -> None:
    found = pool.map(work.is_mapped, PIECES[:3], np.zeros(100_000), name="map_c")
    assert all(mapped and not writeable for _, mapped, writeable in found)
    assert not list(pool.scratch.iterdir())


def test_unfold_runs_every_item_that_results_give(pool: Any) -> None:
    seen: list[int] = []

    def expand(item: int, result: int) -> list[int]:
        seen.append(item)
        return [result, result] if result else []

    pool.unfold(work.halves, [8], expand, name="tree_d")
    assert sorted(seen) == [1] * 8 + [2] * 4 + [4] * 2 + [8]


def test_driven_items_call_the_pool_while_other_items_are_tasks(pool: Any) -> None:
    seen: dict[int, int] = {}

    def drive(item: int) -> int:
        return sum(pool.map(work.halves, [item, item], name="driven_j")) // 2

    def expand(item: int, result: int) -> list[int]:
        seen[item] = result
        return [result, result - 1] if result > 1 else []

    pool.unfold(work.halves, [20, 13], expand, name="tree_k", drive=drive, is_driven=lambda item: item % 2 == 0)
    assert seen == {item: item // 2 for item in (20, 10, 9, 5, 4, 3, 2, 1, 13, 6)}
    assert {receipt.name for receipt in pool.receipts} == {"driven_j", "tree_k"}
    assert not list(pool.scratch.iterdir())


@pytest.mark.parametrize("failing", ["driven", "task"])
def test_an_error_of_one_item_ends_all_and_leaves_the_pool_fit_for_more(pool: Any, failing: str) -> None:
    def drive(item: Any) -> int:
        return int(pool.map(work.refuses if failing == "driven" else work.naps, [item, item], name="driven_l")[0])

    items = [work.Piece(2), work.Piece(0, 7)]
    with pytest.raises(InputError, match="row 7 is bad"):
        pool.unfold(
            work.naps if failing == "driven" else work.refuses,
            items,
            lambda _, found: [work.Piece(found)] * 2,
            name="tree_m",
            drive=drive,
            is_driven=lambda item: (item.n_rows == 7) != (failing == "driven"),
        )
    assert pool.map(work.halves, [6], name="after_n") == [3]


def test_a_named_error_arrives_as_it_was_raised(pool: Any) -> None:
    with pytest.raises(InputError) as caught:
        pool.map(work.refuses, PIECES[:4], name="refuse_e")
    assert (caught.value.what, caught.value.where, caught.value.hint) == ("row 7 is bad", "somewhere", "mend it")
    assert pool.map(work.refuses, PIECES[:2], name="refuse_f") == [0, 1]  # the pool is fit for more


def test_a_foreign_error_on_a_cluster_names_the_task(client: Any, tmp_path: Path) -> None:
    pool = DaskPool(client, tmp_path, WorkerSettings())
    with pytest.raises(TaskFailed, match=r"ZeroDivisionError.*break_g-00001"):
        pool.map(work.breaks, PIECES[:3], name="break_g")


def test_a_worker_that_dies_costs_nothing(client: Any, tmp_path: Path) -> None:
    pool = DaskPool(client, tmp_path / "scratch", WorkerSettings())
    assert pool.map(work.dies_once, PIECES[:4], str(tmp_path), name="die_h") == [0, 1, 2, 3]
    assert (tmp_path / "died-1").exists()


def test_progress_counts_tasks_and_rows(pool: Any) -> None:
    heard: list[tuple[Any, ...]] = []
    pool.progress = lambda *told: heard.append(told)
    pool.sum(work.scaled, PIECES[:5], np.ones(1, np.float32), 1.0, name="scale_i")
    assert heard[-1] == ("scale_i", 5, 5, 15, 15)
    assert [told[1] for told in heard] == [0, 1, 2, 3, 4, 5]  # also when it begins
    heard.clear()
    for round_index in range(3):
        pool.sum(work.scaled, PIECES[:2], np.ones(1, np.float32), 1.0, name="scale_j", part=Part(round_index, 3))
    assert [told[1] for told in heard] == [0, 1, 2, 2, 3, 4, 4, 5, 6]  # rounds are parts of one whole
    assert {told[2] for told in heard} == {6}
    assert {told[4] for told in heard} == {3 * heard[2][3]}
    assert heard[-1][3] == heard[-1][4]


@pytest.mark.usefixtures("client")
def test_a_cluster_of_our_own_listens_on_the_loopback_only() -> None:
    import psutil

    processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
    listening = [
        connection.laddr.ip
        for process in processes
        for connection in process.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert listening
    assert set(listening) <= {"127.0.0.1", "::1"}


def test_labels_and_rows_of_items() -> None:
    assert label_of(Piece(42)) == "00042"
    assert label_of((Piece(1), Piece(2))) == "00001"
    assert label_of("word") == "word"
    assert rows_of(Piece(0, 9)) == 9
    assert rows_of((Piece(0, 9), Piece(1, 4))) == 13
    assert rows_of("word") == 0
