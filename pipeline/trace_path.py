"""The regularisation path of a trace-norm learner over the pool: one pair of penalties after another, each kept.

What is kept is all that the rest of the path needs: the records of the pairs that are behind, where the next one
starts, and the models that may yet be chosen. An interrupted path goes on from there, to the same bits.
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
from pipeline.store import StepDamaged
from pipeline.trace_choice import PairChoice, with_errors
from pipeline.trace_oracle import PoolRisk
from tasks.fit.targets import VALIDATION, SplitTargets
from tasks.io import Block
from tasks.rows.base import Array
from tasks.trace.point import Basis, Point
from tasks.trace.reg_path import path
from tasks.trace.solution import Factors, Penalty, Record, Solution, Solver, SolverParams
from tasks.trace.validation import Validation, validate_block

Event = Callable[..., None]
PairRecord = dict[str, Any]


@dataclass
class PathState:
    """Where a path stands.

    records   of the pairs that are behind, in order: penalties, certificate, what the validation rows say
    history   of each pair, one record an iteration
    choose    what picks the pair
    point     where the last pair ended
    samples   of each pair, the validation rows that are looked at one by one: (m, 2) float32
    seconds   that each pair took
    """

    choose: PairChoice = field(default_factory=PairChoice)
    records: list[PairRecord] = field(default_factory=list)
    history: list[list[Record]] = field(default_factory=list)
    point: Point | None = None
    samples: list[Array] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    @property
    def best(self) -> int:
        """Of all pairs the one that the validation rows like best."""
        return self.choose.best(self.records)

    @property
    def chosen(self) -> int:
        """Of all pairs the one that is kept."""
        return self.choose.chosen(self.records, self.samples)

    def may_be_chosen(self) -> list[int]:
        """The pairs whose models are kept while the path is walked: all where a later best one tells."""
        return list(range(len(self.records))) if self.choose.errors else [self.best]

    def path(self) -> list[PairRecord]:
        """The records, and what can be said of the pairs when all are known."""
        chosen = self.chosen
        found = with_errors(self.records, self.samples)
        return [{**record, "chosen": place == chosen} for place, record in enumerate(found)]


@dataclass(frozen=True)
class Validator:
    """The validation rows, as the model is tested on."""

    pool: Pool
    blocks: Sequence[Block]
    dataset: str
    name: str
    stride: int

    def __call__(self, solution: Solution) -> Validation:
        if not self.blocks:
            return Validation(0, 0, 0.0)
        factors, bias = solution.factors, solution.bias
        model = {"u": factors.u.astype(np.float32), "core": (factors.theta[:, None] * factors.v.T).astype(np.float32)}
        model |= {} if bias is None else {"bias": bias.astype(np.float32)}
        targets = SplitTargets(self.dataset, VALIDATION)
        found: Validation = self.pool.sum(
            validate_block, self.blocks, model, targets, self.stride, name=f"validate_{self.name}"
        )
        return found


@dataclass(frozen=True)
class TracePath:
    """A path to walk: penalties in order, a row for each lambda2, how each is solved, and who hears of it.

    choose    what picks the pair; patience: pairs of a row that are no better, after which the row is over
    """

    risk: PoolRisk
    validate: Validator
    rows: Sequence[Sequence[Penalty]]
    params: SolverParams
    solver: Solver
    bias: bool
    choose: PairChoice
    patience: int
    folder: Path
    event: Event

    def walk(self) -> tuple[PathState, Factors, Array | None]:
        """Row by row; pairs that an interrupted attempt has finished are not solved again.

        Returns where it ended, and the factors and the bias of the pair that is chosen.
        """
        state = load_state(self.folder / STATE, self.risk, self.choose)
        watch = _Watch(self)
        for number, penalties in enumerate(self.rows):
            self._row(number, penalties, state, watch)
        place = self._model(state.chosen)
        kept = load_kept(place)
        if kept is None:
            raise StepDamaged("it is not what was written", str(place), "type the same command again")
        return state, Factors(kept["u"], kept["theta"], kept["v"]), kept.get("bias")

    def _row(self, number: int, penalties: Sequence[Penalty], state: PathState, watch: _Watch) -> None:
        """From strong to weak, until the pairs have got no better for `patience` of them."""
        done = [record for record in state.records if record["row"] == number]
        if len(done) == len(penalties) or self.over(done):
            return
        watch.begin(len(state.records), penalties[len(done)])
        args = (self.risk, penalties, self.params, self.bias, self.solver, watch)
        for _, penalty, solution in path(*args, skip=len(done), start=state.point if done else None):
            found = self.validate(solution)
            done.append({"row": number, **record_of(penalty, solution, found)})
            self._keep(state, done[-1], solution, found.sample(), watch.seconds())
            if len(done) == len(penalties) or self.over(done):
                break
            watch.begin(len(state.records), penalties[len(done)])

    def over(self, done: Sequence[PairRecord]) -> bool:
        """Whether the last `patience` pairs of a row are no better than the one before them."""
        return 0 < self.patience < len(done) - self.choose.best(done)

    def _keep(self, state: PathState, record: PairRecord, solution: Solution, sample: Array, seconds: float) -> None:
        """One more pair is behind: first its model is on disk, then it counts, then what nobody needs is removed."""
        state.records.append(record)
        state.history.append(solution.history)
        state.point = solution.point
        state.samples.append(sample)
        state.seconds.append(seconds)
        place, kept = len(state.records) - 1, state.may_be_chosen()
        if place in kept:
            factors, bias = solution.factors, {} if solution.bias is None else {"bias": solution.bias}
            keep(self._model(place), {"u": factors.u, "theta": factors.theta, "v": factors.v, **bias})
        save_state(self.folder / STATE, state, self.risk.fit)
        for earlier in set(range(place)).difference(kept):
            self._model(earlier).unlink(missing_ok=True)
        self.risk.log.forget()
        self.risk.forget_columns(solution.point.basis)
        self.event("pair", model=self.risk.name, pair=place, **record, seconds=round(seconds, 3))

    def _model(self, place: int) -> Path:
        return model_file(self.folder, place)


class _Watch:
    """Tells of every iteration: in events.jsonl, and in the names that the dashboard shows."""

    def __init__(self, walked: TracePath) -> None:
        self.walked, self.pair, self.started = walked, 0, time.perf_counter()

    def begin(self, pair: int, penalty: Penalty) -> None:
        """The next iterations are of this pair."""
        self.pair, self.started = pair, time.perf_counter()
        self.walked.risk.log.begin(f"pair-{pair}")
        self._say(f"pair{pair:02d}")
        at = {"lambda1": penalty.lambda1, "lambda2": penalty.lambda2}
        pairs = sum(len(row) for row in self.walked.rows)
        self.walked.event("solving", model=self.walked.risk.name, pair=pair, pairs=pairs, **at)

    def __call__(self, record: Record) -> None:
        seconds = round(self.seconds(), 3)
        self.walked.event("iteration", model=self.walked.risk.name, pair=self.pair, **record, seconds=seconds)
        relative = record["gap"] / max(record["objective"], 1e-300)
        self._say(f"pair{self.pair:02d}_relgap{relative:.6f}_rank{int(record['rank'])}")

    def seconds(self) -> float:
        """Since the pair was begun, in this attempt."""
        return time.perf_counter() - self.started

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


def model_file(folder: Path, place: int) -> Path:
    """Of the pair at a place, its factors and its bias."""
    return folder / f"pair-{place}.npz"


def save_state(file: Path, state: PathState, fit: str) -> None:
    """One file, whole or not at all; the columns of the point's basis lie beside it."""
    point = state.point
    arrays: dict[str, Array] = {}
    groups: list[list[Any]] = []
    if point is not None:
        groups = [[g.token, g.size, list(kept)] for g, kept in zip(point.basis.groups, point.basis.kept, strict=True)]
        arrays |= {"core": point.core} | ({} if point.bias is None else {"point_bias": point.bias})
    said = {"fit": fit, "records": state.records, "history": state.history, "groups": groups, "seconds": state.seconds}
    keep(file, {**arrays, "samples": np.array(state.samples), "state": np.array(json.dumps(said))})


def load_state(file: Path, risk: PoolRisk, choose: PairChoice) -> PathState:
    """Empty when there is none of this fit, or when it, a column's or a model's file is not what was written."""
    kept = load_kept(file)
    said = json.loads(str(kept["state"])) if kept is not None and "state" in kept else {}
    if kept is None or said.get("fit") != risk.fit:
        return PathState(choose)
    groups = [(risk.known_group(token, size), tuple(columns)) for token, size, columns in said["groups"]]
    found = [group for group, _ in groups if group is not None]
    if len(found) < len(groups):
        return PathState(choose)
    basis = Basis(risk.n_features, tuple(found), tuple(columns for _, columns in groups))
    point = Point(basis, kept["core"], kept.get("point_bias"))
    state = PathState(choose, said["records"], said["history"], point, list(kept["samples"]), said["seconds"])
    models = [load_kept(model_file(file.parent, place)) for place in state.may_be_chosen()]
    return PathState(choose) if any(model is None for model in models) else state
