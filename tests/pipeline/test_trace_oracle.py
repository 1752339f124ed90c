"""The risk over the pool: the same numbers as in memory, answers that are kept, projections that are made again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipeline.pool import SerialPool
from pipeline.trace_oracle import AnswerLog, PoolRisk, TrainingRows
from tasks.io import Block
from tasks.rows.base import Array
from tasks.rows.dense import Dense
from tasks.trace import blocks as travelling
from tasks.trace.kept import KEPT
from tasks.trace.point import Basis, Direction, Point
from tasks.trace.risk import LocalRisk
from tasks.worker import WorkerSettings
from tests.stores import store_columns, store_dense

N_TRAIN, N_ROWS, WIDTH, CLASSES, BLOCK = 50, 60, 6, 4, 16


@pytest.fixture
def data() -> tuple[Array, Array]:
    """(rows, labels) of one seed."""
    rng = np.random.default_rng(3)
    return rng.standard_normal((N_ROWS, WIDTH)).astype(np.float32), rng.integers(0, CLASSES, N_ROWS).astype(np.int32)


@pytest.fixture
def dataset(data: tuple[Array, Array], tmp_path: Path) -> tuple[str, list[Block]]:
    """(path, training blocks) of a store with labels and split; the last rows are no training rows."""
    rows, labels = data
    path = str(tmp_path / "d.zarr")
    found = store_dense(path, rows, BLOCK)
    store_columns(path, BLOCK, y=labels, split=(np.arange(N_ROWS) >= N_TRAIN).astype(np.uint8))
    return path, [block for block in found if block.start < N_TRAIN]


@pytest.fixture
def risk(dataset: tuple[str, list[Block]], data: tuple[Array, Array], tmp_path: Path) -> PoolRisk:
    return risk_of(dataset, data, tmp_path / "progress")


def risk_of(dataset: tuple[str, list[Block]], data: tuple[Array, Array], folder: Path, fit: str = "a") -> PoolRisk:
    pool = SerialPool(folder / "scratch", WorkerSettings())
    counts = np.bincount(data[1][:N_TRAIN], minlength=CLASSES)
    return PoolRisk(pool, TrainingRows(dataset[1], dataset[0], counts, WIDTH, WIDTH, "m"), fit, folder)


def point_on(risk: PoolRisk | LocalRisk, bias: bool = True) -> Point:
    """The same point whoever is asked: two groups, of which a column is left out."""
    rng = np.random.default_rng(8)
    first, second = rng.standard_normal((WIDTH, 2)), rng.standard_normal((WIDTH, 3))
    basis = Basis(WIDTH).with_group(risk.group(first)).with_group(risk.group(second)).only([0, 1, 2, 4])
    return Point(basis, rng.standard_normal((4, CLASSES)), rng.standard_normal(CLASSES) if bias else None)


@pytest.mark.parametrize("bias", [True, False])
def test_pool_and_memory_agree(risk: PoolRisk, data: tuple[Array, Array], bias: bool) -> None:
    rows, labels = data
    local = LocalRisk(Dense(rows[:N_TRAIN]), labels[:N_TRAIN], CLASSES)
    here, there = point_on(local, bias), point_on(risk, bias)
    direction = Direction(here.core[::-1].copy(), None if here.bias is None else here.bias[::-1].copy())
    scale = np.array([1.0, 0.5, 0.0, 0.25])
    for mine, other in (
        (local.evaluate(here), risk.evaluate(there)),
        (local.gradient(here), risk.gradient(there)),
        (local.gradient(here, scale), risk.gradient(there, scale)),
    ):
        assert mine.rows == other.rows == N_TRAIN
        np.testing.assert_allclose(other.loss, mine.loss, rtol=1e-6)
        np.testing.assert_allclose(other.gradient, mine.gradient, atol=2e-6)
        np.testing.assert_allclose(other.bias, mine.bias, atol=2e-6)
        np.testing.assert_allclose(other.entropies, mine.entropies, atol=1e-6)
    np.testing.assert_allclose(
        risk.losses(there, direction, [0.0, 0.5]), local.losses(here, direction, [0, 0.5]), rtol=1e-6
    )
    np.testing.assert_allclose(risk.confusion(there), local.confusion(here), atol=1e-6)
    np.testing.assert_allclose(risk.mean(), local.mean(), atol=1e-6)
    assert (risk.counts == local.counts).all()


def test_the_sample_is_the_first_training_rows(risk: PoolRisk, data: tuple[Array, Array]) -> None:
    rows, labels = data
    for size in (1, 20, N_TRAIN, 1000):
        found = risk.sample(size)
        assert found.n_rows == min(size, N_TRAIN)
        assert (found.rows.to_array() == rows[: found.n_rows]).all()
        assert (found.labels == labels[: found.n_rows]).all()


def test_all_rows_where_they_are_few(
    risk: PoolRisk, data: tuple[Array, Array], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as little:
        little.setattr("pipeline.trace_oracle.SAMPLE_BYTES", 1)
        assert risk.whole() is None
    whole = risk.whole()
    assert whole is not None
    assert (whole.rows.to_array() == data[0][:N_TRAIN]).all()
    assert risk.whole() is whole


def test_a_second_attempt_gets_the_answers_of_the_first(
    dataset: tuple[str, list[Block]], data: tuple[Array, Array], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = risk_of(dataset, data, tmp_path / "p")
    point = point_on(first)
    answers = [first.gradient(point), first.evaluate(point)]
    losses = first.losses(point, Direction(point.core), [0.25])
    again = risk_of(dataset, data, tmp_path / "p")
    monkeypatch.setattr(travelling, "read_rows", lambda _: pytest.fail("rows were read"))
    monkeypatch.setattr(again.pool, "sum", lambda *_, **__: pytest.fail("the pool was asked"))
    point = point_on(again)
    for kept, answer in zip([again.gradient(point), again.evaluate(point)], answers, strict=True):
        assert (kept.gradient == answer.gradient).all()
        assert (kept.loss, kept.rows) == (answer.loss, answer.rows)
    assert (again.losses(point, Direction(point.core), [0.25]) == losses).all()


def test_an_answer_to_another_question_is_none(
    dataset: tuple[str, list[Block]], data: tuple[Array, Array], tmp_path: Path
) -> None:
    first = risk_of(dataset, data, tmp_path / "p")
    first.evaluate(point_on(first))
    again = risk_of(dataset, data, tmp_path / "p")
    other = Point(point_on(again).basis, point_on(again).core * 2)
    expected = risk_of(dataset, data, tmp_path / "q").evaluate(other)
    assert again.evaluate(other).loss == expected.loss


def test_the_log_keeps_no_more_than_it_may(tmp_path: Path) -> None:
    log = AnswerLog(tmp_path, most_bytes=100)
    for number in range(5):
        log.ask(str(number), lambda: {"a": np.zeros(5)})
    assert len(list(tmp_path.glob("*.npz"))) == 2
    log.begin("another")
    log.ask("0", lambda: {"a": np.zeros(1)})
    log.begin("")
    log.forget()
    assert [path.name for path in tmp_path.iterdir()] == ["another"]


def test_projections_are_kept_and_made_again_to_the_same_bits(risk: PoolRisk) -> None:
    KEPT.clear()
    point = point_on(risk)
    before = KEPT.made
    first = risk.evaluate(point)
    made = KEPT.made - before
    assert made == 2 * len(risk.blocks)  # two groups
    moved = point.moved(Direction(point.core), 0.5)
    risk.evaluate(moved)
    assert KEPT.made - before == made
    KEPT.clear()
    risk.log.forget()
    again = risk.evaluate(point)
    assert KEPT.made - before == 2 * made
    assert (again.gradient == first.gradient).all()


def test_without_room_projections_are_made_every_time(risk: PoolRisk, monkeypatch: pytest.MonkeyPatch) -> None:
    KEPT.clear()
    point = point_on(risk)
    expected = risk.evaluate(point)
    KEPT.clear()
    risk.log.forget()
    monkeypatch.setattr(KEPT.budget, "total", 0)
    before = KEPT.made
    for _ in range(2):
        risk.log.forget()
        assert (risk.evaluate(point).gradient == expected.gradient).all()
    assert KEPT.made - before == 4 * len(risk.blocks)
    assert KEPT.budget.used == 0


def test_columns_lie_in_the_folder_until_no_basis_names_them(risk: PoolRisk) -> None:
    point = point_on(risk)
    assert len(list((risk.folder / "columns").iterdir())) == 2
    kept = point.basis.only([0, 1])
    risk.forget_columns({kept.groups[0].token})
    assert [str(path) for path in (risk.folder / "columns").iterdir()] == [kept.groups[0].source]
    known = risk.known_group(kept.groups[0].token, 2)
    assert known is not None
    assert (known.columns == kept.groups[0].columns).all()
    known_columns = np.array(known.columns)
    for damage in (b"damaged", Path(str(known.source)).read_bytes()[:-1], b""):
        Path(str(known.source)).write_bytes(damage)
        assert risk.known_group(known.token, 2) is None
        again = risk.group(known_columns)
        assert again.token == known.token
        assert (again.columns == known_columns).all()
