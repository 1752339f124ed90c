"""Which pair of a path is kept, what is doubtful of it, and what an interrupted path is taken up from."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from pipeline.config import TraceNorm
from pipeline.oracles import keep
from pipeline.stages.trace import findings_of, rows_of
from pipeline.trace_oracle import PoolRisk
from pipeline.trace_path import PathState, TracePath, best_of, load_state, save_state
from tasks.trace.point import Basis, Point
from tasks.trace.solution import Factors


def learner(**more: Any) -> TraceNorm:
    return TraceNorm.model_validate({"name": "t", "kind": "trace-norm", **more})


def pairs(*said: tuple[float, float], **more: Any) -> list[dict[str, Any]]:
    """Records of (top1, log-loss)."""
    usual = {"rows": 10, "row": 0, "converged": True, "rank": 2, "lambda1": 0.1, "iterations": 3}
    numbers = {"relative_gap": 0.1, "c1": 0.0, "c2": 0.0}
    return [{"top1": top1, "log_loss": loss, **usual, **numbers, **more} for top1, loss in said]


def test_the_best_pair_by_either_measure() -> None:
    records = pairs((0.5, 2.0), (0.7, 1.5), (0.7, 1.0), (0.6, 0.9), (0.6, 0.9))
    assert best_of(records, "top1") == 2
    assert best_of(records, "log-loss") == 3
    assert best_of(pairs((0, 0), (0, 0), rows=0), "top1") == 1


def test_a_row_is_over_after_patience_pairs_that_are_no_better() -> None:
    def over(patience: int, *losses: float) -> bool:
        walked = TracePath(*[cast(Any, None)] * 6, "log-loss", patience, Path(), print)
        return walked.over(pairs(*((0.5, loss) for loss in losses)))

    assert not over(2)
    assert not over(2, 3, 2, 2.1)
    assert over(2, 3, 2, 2.1, 2)
    assert over(1, 3, 3)
    assert not over(0, 1, 2, 3, 4)


def test_rows_of_a_grid_fall_in_lambda1_for_each_lambda2() -> None:
    rows = rows_of(learner(lambda1_steps=2, lambda2_steps=2, alpha=0.25), 4.0)
    assert [[(pair.lambda1, pair.lambda2) for pair in row] for row in rows] == [
        [(1.0, 16.0), (0.25, 16.0)],
        [(1.0, 4.0), (0.25, 4.0)],
    ]
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


class OneFit:
    """What `load_state` asks of a risk."""

    def __init__(self, fit: str) -> None:
        self.fit, self.n_features = fit, 3


def risk_of(fit: str) -> PoolRisk:
    return cast(PoolRisk, OneFit(fit))


def test_a_state_is_read_again_and_only_by_its_own_fit(tmp_path: Path) -> None:
    factors = Factors(np.ones((3, 1)), np.ones(1), np.ones((2, 1)))
    point = Point(Basis(3), np.zeros((0, 2)), np.arange(2.0))
    state = PathState("top1", pairs((0.5, 2.0)), [[{"gap": 0.5}]], point, factors, np.zeros(2))
    save_state(tmp_path / "s.npz", state, "a")
    again = load_state(tmp_path / "s.npz", risk_of("a"), "top1")
    assert (again.records, again.history) == (state.records, state.history)
    assert again.point is not None
    assert (again.point.bias == point.bias).all()
    assert again.factors is not None
    assert (again.factors.u == factors.u).all()
    assert load_state(tmp_path / "s.npz", risk_of("b"), "top1").records == []


def test_what_is_no_state_is_none(tmp_path: Path) -> None:
    assert load_state(tmp_path / "none.npz", risk_of("a"), "top1").records == []
    keep(tmp_path / "answer.npz", {"question": np.array("?")})
    assert load_state(tmp_path / "answer.npz", risk_of("a"), "top1").records == []
    (tmp_path / "torn.npz").write_bytes(b"x")
    assert load_state(tmp_path / "torn.npz", risk_of("a"), "top1") == PathState("top1")
