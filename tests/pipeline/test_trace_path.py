"""Which pair of a path is kept, what is doubtful of it, and what an interrupted path is taken up from."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from pipeline.config import RunConfig, TraceNorm
from pipeline.stages.trace import alike, findings_of, rows_of
from pipeline.systems import twins_of
from pipeline.trace_choice import SAMPLED_ROWS, PairChoice, stride_of, with_errors
from pipeline.trace_oracle import PoolRisk
from pipeline.trace_pairs import PairStore
from pipeline.trace_path import PathState, TracePath, load_state, save_state
from tasks.fit.checkpoint import keep
from tasks.trace.point import Basis, Group, Point
from tasks.trace.solution import Certificate, Factors, Penalty, Solution
from tests.naive import report as naive


def learner(**more: Any) -> TraceNorm:
    return TraceNorm.model_validate({"name": "t", "kind": "trace-norm", **more})


def pairs(*said: tuple[float, float], **more: Any) -> list[dict[str, Any]]:
    """Records of (top1, log-loss)."""
    usual = {"rows": 10, "row": 0, "converged": True, "rank": 2, "lambda1": 0.1, "iterations": 3}
    numbers = {"relative_gap": 0.1, "c1": 0.0, "c2": 0.0}
    return [{"top1": top1, "log_loss": loss, **usual, **numbers, **more} for top1, loss in said]


def test_the_best_pair_by_either_measure() -> None:
    records = pairs((0.5, 2.0), (0.7, 1.5), (0.7, 1.0), (0.6, 0.9), (0.6, 0.9))
    assert PairChoice("top1").best(records) == 2
    assert PairChoice("log-loss").best(records) == 3
    assert PairChoice("top1").best(pairs((0, 0), (0, 0), rows=0)) == 1
    assert PairChoice("log-loss", 1.0).chosen(pairs((0, 0), (0, 0), rows=0), []) == 1


def measured(samples: list[np.ndarray], ranks: list[int]) -> list[dict[str, Any]]:
    """The records of pairs, from (rows, 2) of each row's mistake and loss."""
    said = [(1 - sample[:, 0].mean(), sample[:, 1].mean()) for sample in samples]
    return [{**one, "rank": rank, "rows": len(samples[0])} for one, rank in zip(pairs(*said), ranks, strict=True)]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("errors", [0.5, 1.0, 3.0])
def test_of_pairs_as_good_as_the_best_the_one_of_least_rank(seed: int, errors: float) -> None:
    random = np.random.default_rng(seed)
    base = random.exponential(size=40)
    samples = []
    for place in range(5):
        loss = base + random.normal(0.02 * (5 - place), 0.3, 40)
        samples.append(np.stack([random.random(40) < 0.3 + 0.02 * place, loss], axis=1).astype(np.float32))
    records = measured(samples, [1, 2, 2, 6, 9])
    for column, measure in enumerate(("top1", "log-loss")):
        losses = [[float(value) for value in sample[:, column]] for sample in samples]
        expected = naive.simplest(records, losses, errors, 40)
        assert PairChoice(measure, errors).chosen(records, samples) == expected
    assert PairChoice("top1").chosen(records, samples) == PairChoice("top1").best(records)


def test_the_error_is_of_the_difference_and_of_all_rows() -> None:
    """Hard rows are hard for every pair; a sample of half the rows tells about as much of the mean of all."""
    random = np.random.default_rng(3)
    hard = random.exponential(100, 400)
    samples = [np.stack([hard > 100, hard + shift], axis=1) for shift in (random.normal(0.1, 1, 400), 0)]
    records = measured(samples, [1, 2])
    first, best = with_errors(records, samples)
    assert best["log_loss_error"] == best["top1_error"] == first["top1_error"] == 0
    assert first["log_loss_error"] == pytest.approx(1 / 400**0.5, rel=0.1)
    (half, _) = with_errors(records, [sample[::2] for sample in samples])
    assert half["log_loss_error"] == pytest.approx(first["log_loss_error"], rel=0.1)
    (few, _) = with_errors(records, [sample[:1] for sample in samples])
    assert few["log_loss_error"] == 0
    assert with_errors(pairs((0, 0), rows=0), []) == pairs((0, 0), rows=0)


@pytest.mark.parametrize("rows", [0, 1, SAMPLED_ROWS, SAMPLED_ROWS + 1, 10 * SAMPLED_ROWS - 1])
def test_no_more_rows_are_sampled_than_there_is_room_for(rows: int) -> None:
    assert len(range(0, rows, stride_of(rows))) <= SAMPLED_ROWS
    assert rows <= SAMPLED_ROWS or 2 * len(range(0, rows, stride_of(rows))) >= SAMPLED_ROWS


def test_models_that_may_yet_be_chosen() -> None:
    records = pairs((0.5, 2.0), (0.5, 1.0), (0.5, 1.5))
    records += pairs((0.5, 1.2), row=2)
    assert PathState(records=records).may_be_chosen() == [(0, 1)]
    assert PathState(PairChoice(errors=1.0), records).may_be_chosen() == [(0, 0), (0, 1), (0, 2), (2, 0)]
    assert PathState().may_be_chosen() == []


def test_a_row_is_over_after_patience_pairs_that_are_no_better() -> None:
    def ranked(zeros: int, *losses: float) -> list[dict[str, Any]]:
        found = pairs(*((0.5, loss) for loss in losses))
        return [{**pair, "rank": 0 if place < zeros else 3} for place, pair in enumerate(found)]

    def over(patience: int, *losses: float, zeros: int = 0) -> bool:
        walked = TracePath(*[cast(Any, None)] * 7, PairChoice(), patience, Path(), print)
        return walked.over(ranked(zeros, *losses), [Penalty(0.5)] * 5)

    assert not over(2)
    assert not over(2, 3, 2, 2.1)
    assert over(2, 3, 2, 2.1, 2)
    assert over(1, 3, 3)
    assert not over(2, 3, 3, 3, zeros=3)
    assert not over(1, 3, 3, 3, zeros=2)
    assert over(1, 3, 3, 3, zeros=1)
    assert not over(0, 1, 2, 3, 4)
    assert over(0, 1, 2, 3, 4, 5)


def test_rows_of_a_grid_fall_in_lambda1_for_each_lambda2() -> None:
    rows = rows_of(learner(lambda1_steps=2, lambda2_steps=2, alpha=0.25), 4.0)
    assert [[(pair.lambda1, pair.lambda2) for pair in row] for row in rows] == [
        [(1.0, 0.16), (0.25, 0.16)],
        [(1.0, 0.0), (0.25, 0.0)],
    ]
    more = rows_of(learner(lambda1_steps=1, lambda2_steps=3), 10.0)
    assert [row[0].lambda2 for row in more] == [1.0, 0.5, 0.0]
    given = rows_of(learner(lambda1_steps=1, lambda2_steps=3, lambda2=0.8), 10.0)
    assert [row[0].lambda2 for row in given] == [0.8, 0.4, 0.2]
    assert [len(row) for row in rows_of(learner(), 1.0)] == [14]
    assert rows_of(learner(lambda1=0.5), 1.0)[0][0].lambda2 == 0


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, "PathEnd"),
        ({"converged": False}, "NotConverged"),
        ({"rank": 0}, "ZeroWeights"),
        ({"converged": False, "iterations": 200}, "max_iterations"),
    ],
)
def test_findings(more: dict[str, Any], expected: str) -> None:
    state = PathState(records=pairs((0.5, 2.0), (0.5, 1.0), **more))
    assert any(expected in text for text in findings_of(learner(lambda1_steps=2), state, 0.05))


def test_nothing_is_doubtful_of_a_pair_within_the_path() -> None:
    state = PathState(records=pairs((0.5, 2.0), (0.5, 1.0), (0.5, 1.5)))
    assert findings_of(learner(lambda1_steps=3), state, 0.5) == []


# ---- pairs that are taken over -----------------------------------------------------------------------------------


class OneFit:
    """What a store asks of a risk: columns under their token, and which fit it is."""

    def __init__(self, folder: Path, fit: str = "a") -> None:
        self.folder, self.fit, self.n_features = folder, fit, 3
        self.columns: dict[str, np.ndarray] = {}
        self.kept: set[str] = set()

    def known_group(self, token: str, size: int) -> Group | None:
        return Group(token, self.columns[token], size) if token in self.columns else None

    def forget_columns(self, besides: Collection[str]) -> None:
        self.kept = set(besides)


def store_of(folder: Path, fit: str = "a", shared: bool = False) -> PairStore:
    return PairStore(cast(PoolRisk, OneFit(folder, fit)), shared)


def solution(seed: int, bias: bool = True) -> Solution:
    random = np.random.default_rng(seed)
    columns = random.random((3, 2)).astype(np.float32)
    offset = random.random(2) if bias else None
    point = Point(Basis(3).with_group(Group(f"token{seed}", columns, 2)), random.random((2, 2)), offset)
    factors = Factors(random.random((3, 1)), random.random(1), random.random((2, 1)))
    certificate = Certificate(1.0, 0.5, 2.0, 0.1, 0.1, 0.0, 0.0, 1)
    return Solution(point, factors, offset, certificate, [{"gap": 0.5}], 3, 2, 7, True)


@pytest.mark.parametrize("bias", [True, False])
def test_a_solved_pair_is_read_as_it_was(tmp_path: Path, bias: bool) -> None:
    store, solved = store_of(tmp_path), solution(1, bias)
    put = store.put((0, 4), Penalty(0.5, 0.25), solved, 1.5)
    columns = solved.point.basis.groups[0]
    cast(OneFit, store.risk).columns[columns.token] = np.asarray(columns.columns)
    found, end = store.get((0, 4)), store.end((0, 4))
    assert found is not None
    assert (found.record, found.history, found.seconds) == (put.record, solved.history, 1.5)
    assert (found.record["lambda2"], found.record["rank"], found.record["evaluations"]) == (0.25, 1, 7)
    for name in ("u", "theta", "v"):
        assert (getattr(found.factors, name) == getattr(solved.factors, name)).all()
    assert end is not None
    assert (end.core == solved.point.core).all()
    assert (end.basis.columns == solved.point.basis.columns).all()
    if bias:
        assert (found.bias == solved.bias).all()
        assert (end.bias == solved.point.bias).all()
    else:
        assert found.bias is end.bias is None
    assert store.get((0, 3)) is store.end((0, 3)) is None


def test_what_is_damaged_or_of_another_fit_is_not_taken_over(tmp_path: Path) -> None:
    store = store_of(tmp_path)
    store.put((0, 0), Penalty(0.5), solution(1), 1.0)
    assert store.end((0, 0)) is None  # its columns are gone
    assert store.get((0, 0)) is not None
    assert store_of(tmp_path, "b").get((0, 0)) is None
    (file,) = tmp_path.glob("pair-*.npz")
    file.write_bytes(file.read_bytes()[:-1])
    assert store.get((0, 0)) is None
    keep(file, {"question": np.array("?")})
    assert store.get((0, 0)) is None


@pytest.mark.parametrize("shared", [True, False])
def test_what_is_shared_is_not_forgotten(tmp_path: Path, shared: bool) -> None:
    store = store_of(tmp_path, shared=shared)
    for place in range(3):
        store.put((0, place), Penalty(0.5), solution(place), 1.0)
    store.forget([(0, 1)])
    left = [place for place in range(3) if store.get((0, place)) is not None]
    assert left == ([0, 1, 2] if shared else [1])
    assert cast(OneFit, store.risk).kept == ({"token0", "token1", "token2"} if shared else {"token2"})


def test_a_state_is_read_again_and_only_by_its_own_fit(tmp_path: Path) -> None:
    choose, store = PairChoice("top1"), store_of(tmp_path)
    sample = np.ones((4, 2), np.float32)
    state = PathState(choose, pairs((0.5, 2.0)), [[{"gap": 0.5}]], [sample], [1.5])
    save_state(tmp_path / "s.npz", state, "a")
    assert load_state(tmp_path / "s.npz", store, choose).records == []  # its model is gone
    store.put((0, 0), Penalty(0.5), solution(0), 1.0)
    again = load_state(tmp_path / "s.npz", store, choose)
    assert (again.records, again.history, again.seconds) == (state.records, state.history, state.seconds)
    assert (again.samples[0] == sample).all()
    assert load_state(tmp_path / "s.npz", store_of(tmp_path, "b"), choose).records == []


def test_what_is_no_state_is_none(tmp_path: Path) -> None:
    choose, store = PairChoice("top1"), store_of(tmp_path)
    assert load_state(tmp_path / "none.npz", store, choose).records == []
    keep(tmp_path / "answer.npz", {"question": np.array("?")})
    assert load_state(tmp_path / "answer.npz", store, choose).records == []
    (tmp_path / "torn.npz").write_bytes(b"x")
    assert load_state(tmp_path / "torn.npz", store, choose) == PathState(choose)


def test_who_shares_pairs_with_whom() -> None:
    values = [
        {"name": "pq", "kind": "trace-norm", "rows": "codes"},
        {"name": "semi", "kind": "trace-norm", "rows": "codes", "test_rows": "x", "patience": 1},
        {"name": "simple", "kind": "trace-norm", "rows": "codes", "choose": "top1", "standard_errors": 1.0},
        {"name": "full", "kind": "trace-norm"},
        {"name": "tight", "kind": "trace-norm", "rows": "codes", "gap": 1e-3},
        {"name": "ovr", "kind": "ovr", "rows": "codes"},
    ]
    encode = [{"name": "codes", "kind": "pq"}]
    said = json.dumps({"name": "c", "data": {"path": "d"}, "encode": encode, "train": values})
    config = RunConfig.model_validate_json(said)
    found = {one.name: twins_of(one, config, alike) for one in config.train if isinstance(one, TraceNorm)}
    assert found == {
        "pq": ("semi", "simple"),
        "semi": ("pq", "simple"),
        "simple": ("pq", "semi"),
        "full": (),
        "tight": (),
    }
