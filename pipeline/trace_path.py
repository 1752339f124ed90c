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

from pipeline.pool import Pool
from pipeline.store import StepDamaged
from pipeline.trace_choice import PairChoice, with_errors
from pipeline.trace_oracle import PoolRisk
from pipeline.trace_pairs import PairStore, Place, SolvedPair
from tasks.fit.checkpoint import keep, load_kept
from tasks.fit.targets import VALIDATION, SplitTargets
from tasks.io import Block
from tasks.rows.base import Array
from tasks.trace.reg_path import path
from tasks.trace.solution import Factors, Penalty, Record, Solver, SolverParams
from tasks.trace.validation import Validation, validate_block

Event = Callable[..., None]
PairRecord = dict[str, Any]


@dataclass
class PathState:
    """Where a path stands.

    records   of the pairs that are behind, in order: penalties, certificate, what the validation rows say
    history   of each pair, one record an iteration
    choose    what picks the pair
    samples   of each pair, the validation rows that are looked at one by one: (m, 2) float32
    seconds   that each pair took
    """

    choose: PairChoice = field(default_factory=PairChoice)
    records: list[PairRecord] = field(default_factory=list)
    history: list[list[Record]] = field(default_factory=list)
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

    def places(self) -> list[Place]:
        """Of each record, its row and its number there."""
        seen: dict[int, int] = {}
        found = []
        for record in self.records:
            row = int(record["row"])
            found.append((row, seen.setdefault(row, 0)))
            seen[row] += 1
        return found

    def may_be_chosen(self) -> list[Place]:
        """The pairs whose models are kept while the path is walked: all where a later best one tells."""
        places = self.places()
        return places if self.choose.errors or not places else [places[self.best]]

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

    def __call__(self, factors: Factors, bias: Array | None) -> Validation:
        if not self.blocks:
            return Validation(0, 0, 0.0)
        model = {"u": factors.u.astype(np.float32), "core": (factors.theta[:, None] * factors.v.T).astype(np.float32)}
        model |= {} if bias is None else {"bias": bias.astype(np.float32)}
        targets = SplitTargets(self.dataset, VALIDATION)
        found: Validation = self.pool.sum(
            validate_block, self.blocks, model, targets, self.stride, name=f"validate_{self.name}"
        )
        return found


@dataclass(frozen=True)
class Walked:
    """A path's end: its state, the pair that is kept, and seconds of pairs that were taken over."""

    state: PathState
    chosen: SolvedPair
    seconds: float


@dataclass(frozen=True)
class TracePath:
    """A path to walk: penalties in order, a row for each lambda2, how each is solved, and who hears of it.

    few       the risk over fewer rows, on which each pair is solved first; None: on all at once
    choose    what picks the pair; patience: pairs of a row that are no better, after which the row is over
    folder    for what is known of the pairs, the models of which lie in the store
    """

    risk: PoolRisk
    store: PairStore
    validate: Validator
    rows: Sequence[Sequence[Penalty]]
    params: SolverParams
    solver: Solver
    bias: bool
    choose: PairChoice
    patience: int
    folder: Path
    event: Event
    few: PoolRisk | None = None

    def walk(self) -> Walked:
        """Row by row; pairs that an interrupted attempt, or another path, has solved are not solved again."""
        state = load_state(self.folder / STATE, self.store, self.choose)
        watch = _Watch(self)
        for number, penalties in enumerate(self.rows):
            self._row(number, penalties, state, watch)
        chosen = self.store.get(state.places()[state.chosen])
        if chosen is None:
            raise StepDamaged("a solved pair is not what was written", str(self.risk.folder), "type the command again")
        return Walked(state, chosen, sum(state.seconds) - watch.worked)

    def _row(self, number: int, penalties: Sequence[Penalty], state: PathState, watch: _Watch) -> None:
        """From strong to weak, until the pairs have got no better for `patience` of them."""
        done = [record for record in state.records if record["row"] == number]
        while not self.over(done, penalties) and (pair := self.store.get((number, len(done)))) is not None:
            self._keep(number, done, state, pair)
        if self.over(done, penalties):
            return
        behind = len(done)
        start = self.store.end((number, behind - 1)) if behind else None
        watch.begin((number, behind), len(state.records) + 1, penalties[behind])
        args = (self.risk, penalties, self.params, self.bias, self.solver, watch)
        skip = behind if start is not None else 0
        for place, penalty, solution in path(*args, skip=skip, start=start, few=self.few):
            if place < behind:
                continue  # where it ended is damaged: the row is solved anew, to the same bits
            pair = self.store.put((number, place), penalty, solution, watch.end())
            self._keep(number, done, state, pair)
            self.risk.log.forget()
            if self.few is not None:
                self.few.forget_columns(())
            if self.over(done, penalties):
                break
            watch.begin((number, place + 1), len(state.records) + 1, penalties[place + 1])

    def over(self, done: Sequence[PairRecord], penalties: Sequence[Penalty]) -> bool:
        """Whether a row is at its end, or its last `patience` pairs are no better than the one before them.

        Pairs so strong that all weights are 0 say nothing of what weaker ones come to.
        """
        first = next((place for place, record in enumerate(done) if record["rank"]), len(done))
        tried = done[first:]
        return len(done) == len(penalties) or (bool(tried) and 0 < self.patience < len(tried) - self.choose.best(tried))

    def _keep(self, row: int, done: list[PairRecord], state: PathState, pair: SolvedPair) -> None:
        """One more pair is behind: it is on disk, now it counts, then what nobody needs is removed."""
        found = self.validate(pair.factors, pair.bias)
        done.append({"row": row, **pair.record, **said_by(found)})
        state.records.append(done[-1])
        state.history.append(pair.history)
        state.samples.append(found.sample())
        state.seconds.append(pair.seconds)
        save_state(self.folder / STATE, state, self.risk.fit)
        self.store.forget([*state.may_be_chosen(), (row, len(done) - 1)])
        seconds, number = round(pair.seconds, 3), len(state.records)
        self.event("pair", model=self.risk.name, pair=number, **done[-1], seconds=seconds)


class _Watch:
    """Tells of every iteration: in events.jsonl, and in the names that the dashboard shows."""

    def __init__(self, walked: TracePath) -> None:
        self.walked, self.name, self.pair, self.started, self.worked = walked, "", 0, time.perf_counter(), 0.0

    def begin(self, place: Place, pair: int, penalty: Penalty) -> None:
        """The next iterations are of this pair, numbered from 1."""
        self.pair, self.started = pair, time.perf_counter()
        self.walked.risk.log.begin(f"pair-{place[0]}-{place[1]}")
        pairs = sum(len(row) for row in self.walked.rows)
        self.name = f"pair{pair:02d}of{pairs:02d}"
        self._say(self.name)
        at = {"lambda1": penalty.lambda1, "lambda2": penalty.lambda2}
        self.walked.event("solving", model=self.walked.risk.name, pair=pair, pairs=pairs, **at)

    def end(self) -> float:
        """Seconds since the pair was begun, in this attempt."""
        seconds = time.perf_counter() - self.started
        self.worked += seconds
        return seconds

    def __call__(self, record: Record) -> None:
        seconds = round(time.perf_counter() - self.started, 3)
        self.walked.event("iteration", model=self.walked.risk.name, pair=self.pair, **record, seconds=seconds)
        relative = record["gap"] / max(record["objective"], 1e-300)
        self._say(f"{self.name}_relgap{relative:.6f}_rank{int(record['rank'])}")

    def _say(self, text: str) -> None:
        for risk in filter(None, (self.walked.risk, self.walked.few)):
            risk.said = f"_{text}"


def said_by(found: Validation) -> PairRecord:
    """What the validation rows add to a pair's line of the path."""
    return {
        "rows": found.rows,
        "top1": found.hits / found.rows if found.rows else None,
        "log_loss": found.loss / found.rows if found.rows else None,
    }


STATE = "path.npz"


def save_state(file: Path, state: PathState, fit: str) -> None:
    """One file, whole or not at all."""
    said = {"fit": fit, "records": state.records, "history": state.history, "seconds": state.seconds}
    keep(file, {"samples": np.array(state.samples), "state": np.array(json.dumps(said))})


def load_state(file: Path, store: PairStore, choose: PairChoice) -> PathState:
    """Empty when there is none of this fit, or when it or the file of a pair that counts is not what was written."""
    kept = load_kept(file)
    said = json.loads(str(kept["state"])) if kept is not None and "state" in kept else {}
    if kept is None or said.get("fit") != store.risk.fit:
        return PathState(choose)
    state = PathState(choose, said["records"], said["history"], list(kept["samples"]), said["seconds"])
    return state if all(store.get(place) is not None for place in state.may_be_chosen()) else PathState(choose)
