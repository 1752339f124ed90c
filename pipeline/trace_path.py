"""The regularisation path of a trace-norm learner over the pool: one pair of penalties after another, each kept.

What is kept is all that the rest of the path needs: the records of the pairs that are behind, where the next one
starts, and the best model so far. An interrupted path goes on from there, to the same bits.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.oracles import keep, load_kept
from pipeline.pool import Pool
from pipeline.trace_oracle import PoolRisk
from tasks.fit.targets import VALIDATION, SplitTargets
from tasks.io import Block
from tasks.rows.base import Array
from tasks.trace.blocks import Validation, validate_block
from tasks.trace.point import Basis, Point
from tasks.trace.reg_path import path
from tasks.trace.solution import Factors, Penalty, Record, Solution, Solver, SolverParams

Event = Callable[..., None]
PairRecord = dict[str, Any]


@dataclass
class PathState:
    """Where a path stands.

    records   of the pairs that are behind, in order: penalties, certificate, what the validation rows say
    history   of each pair, one record an iteration
    choose    what picks the pair: "top1" or "log-loss"
    point     where the last pair ended
    factors, bias  of the best pair
    """

    choose: str = "log-loss"
    records: list[PairRecord] = field(default_factory=list)
    history: list[list[Record]] = field(default_factory=list)
    point: Point | None = None
    factors: Factors | None = None
    bias: Array | None = None

    @property
    def best(self) -> int:
        """Of all pairs, see `best_of`."""
        return best_of(self.records, self.choose)


def best_of(records: Sequence[PairRecord], choose: str) -> int:
    """Most validation rows right, or least log-loss, ties by the other; without such rows the last."""
    scored = [(record["top1"], -record["log_loss"], -i) for i, record in enumerate(records) if record["rows"]]
    if choose == "log-loss":
        scored = [(loss, top1, place) for top1, loss, place in scored]
    return -max(scored)[2] if scored else len(records) - 1


@dataclass(frozen=True)
class Validator:
    """The validation rows, as the model is tested on."""

    pool: Pool
    blocks: Sequence[Block]
    dataset: str
    name: str

    def __call__(self, solution: Solution) -> Validation:
        if not self.blocks:
            return Validation(0, 0, 0.0)
        factors, bias = solution.factors, solution.bias
        model = {"u": factors.u.astype(np.float32), "core": (factors.theta[:, None] * factors.v.T).astype(np.float32)}
        model |= {} if bias is None else {"bias": bias.astype(np.float32)}
        targets = SplitTargets(self.dataset, VALIDATION)
        found: Validation = self.pool.sum(validate_block, self.blocks, model, targets, name=f"validate_{self.name}")
        return found


@dataclass(frozen=True)
class TracePath:
    """A path to walk: penalties in order, a row for each lambda2, how each is solved, and who hears of it."""

    risk: PoolRisk
    validate: Validator
    rows: Sequence[Sequence[Penalty]]
    params: SolverParams
    solver: Solver
    bias: bool
    choose: str
    patience: int
    folder: Path
    event: Event

    def walk(self) -> PathState:
        """Row by row; pairs that an interrupted attempt has finished are not solved again."""
        state = load_state(self.folder / STATE, self.risk, self.choose)
        watch = _Watch(self)
        for number, penalties in enumerate(self.rows):
            self._row(number, penalties, state, watch)
        return state

    def _row(self, number: int, penalties: Sequence[Penalty], state: PathState, watch: _Watch) -> None:
        """From strong to weak, until the pairs have got no better for `patience` of them."""
        done = [record for record in state.records if record["row"] == number]
        if self.over(done):
            return
        watch.begin(len(state.records))
        args = (self.risk, penalties, self.params, self.bias, self.solver, watch)
        for _, penalty, solution in path(*args, skip=len(done), start=state.point if done else None):
            done.append({"row": number, **record_of(penalty, solution, self.validate(solution))})
            self._keep(state, done[-1], solution)
            watch.begin(len(state.records))
            if self.over(done):
                break

    def over(self, done: Sequence[PairRecord]) -> bool:
        """Whether the last `patience` pairs of a row are no better than the one before them."""
        return 0 < self.patience < len(done) - best_of(done, self.choose)

    def _keep(self, state: PathState, record: PairRecord, solution: Solution) -> None:
        """One more pair is behind."""
        state.records.append(record)
        state.history.append(solution.history)
        state.point = solution.point
        if state.best == len(state.records) - 1:
            state.factors, state.bias = solution.factors, solution.bias
        save_state(self.folder / STATE, state, self.risk.fit)
        self.risk.log.forget()
        self.risk.forget_columns(solution.point.basis)
        self.event("pair", model=self.risk.name, pair=len(state.records) - 1, **record)


class _Watch:
    """Tells of every iteration: in events.jsonl, and in the names that the dashboard shows."""

    def __init__(self, walked: TracePath) -> None:
        self.walked, self.pair, self.started = walked, 0, time.perf_counter()

    def begin(self, pair: int) -> None:
        """The next iterations are of this pair."""
        self.pair, self.started = pair, time.perf_counter()
        self.walked.risk.log.begin(f"pair-{pair}")
        self._say(f"pair{pair:02d}")

    def __call__(self, record: Record) -> None:
        seconds = round(time.perf_counter() - self.started, 3)
        self.walked.event("iteration", model=self.walked.risk.name, pair=self.pair, **record, seconds=seconds)
        relative = record["gap"] / max(record["objective"], 1e-300)
        self._say(f"pair{self.pair:02d}_relgap{relative:.6f}_rank{int(record['rank'])}")

    def _say(self, text: str) -> None:
        self.walked.risk.said = f"_{text}"


def record_of(penalty: Penalty, solution: Solution, found: Validation) -> PairRecord:
    """A pair's line of the path."""
    certificate = solution.certificate.as_json()
    return {
        "lambda1": penalty.lambda1,
        "lambda2": penalty.lambda2,
        **certificate,
        "atoms": solution.point.basis.rank,
        "iterations": solution.iterations,
        "restricted": solution.restricted,
        "evaluations": solution.evaluations,
        "converged": solution.converged,
        "rows": found.rows,
        "top1": found.hits / found.rows if found.rows else None,
        "log_loss": found.loss / found.rows if found.rows else None,
    }


STATE = "path.npz"


def save_state(file: Path, state: PathState, fit: str) -> None:
    """One file, whole or not at all; the columns of the point's basis lie beside it."""
    point, factors = state.point, state.factors
    arrays: dict[str, Array] = {}
    groups: list[list[Any]] = []
    if point is not None:
        groups = [[g.token, g.size, list(kept)] for g, kept in zip(point.basis.groups, point.basis.kept, strict=True)]
        arrays |= {"core": point.core} | ({} if point.bias is None else {"point_bias": point.bias})
    if factors is not None:
        arrays |= {"u": factors.u, "theta": factors.theta, "v": factors.v}
        arrays |= {} if state.bias is None else {"bias": state.bias}
    said = {"fit": fit, "records": state.records, "history": state.history, "groups": groups}
    keep(file, {**arrays, "state": np.array(json.dumps(said))})


def load_state(file: Path, risk: PoolRisk, choose: str) -> PathState:
    """Empty when there is none of this fit, or when it or a column's file is not what was written."""
    kept = load_kept(file)
    said = json.loads(str(kept["state"])) if kept is not None and "state" in kept else {}
    if kept is None or said.get("fit") != risk.fit:
        return PathState(choose)
    groups = [(risk.known_group(token, size), tuple(columns)) for token, size, columns in said["groups"]]
    found = [group for group, _ in groups if group is not None]
    if len(found) < len(groups):
        return PathState(choose)
    basis = Basis(risk.n_features, tuple(found), tuple(columns for _, columns in groups))
    return PathState(
        choose,
        said["records"],
        said["history"],
        Point(basis, kept["core"], kept.get("point_bias")),
        Factors(kept["u"], kept["theta"], kept["v"]),
        kept.get("bias"),
    )
