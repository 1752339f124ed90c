"""Training stage of trace-norm regularised multinomial logistic regression: a path of penalties, the best one kept."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self

from pipeline.config import OWN_ROWS, TraceNorm
from pipeline.stage import Estimate, Facts, Made, Work, encode_step
from pipeline.stages.problems import class_counts, parameter_bytes
from pipeline.stages.train import (
    MEGABYTE,
    PAIR_SECONDS,
    PATH,
    TRAIN_SECONDS,
    TrainStage,
    check_rows,
    model_facts,
    save,
    saved_bytes,
)
from pipeline.store import PROGRESS, SOLVED, plain
from pipeline.trace_choice import SAMPLED_ROWS, PairChoice, stride_of
from pipeline.trace_oracle import LOG_BYTES, SAMPLE_BYTES, PoolRisk, TrainingRows
from pipeline.trace_pairs import PairStore
from pipeline.trace_path import PathState, TracePath, Validator
from tasks.digest import digest_text
from tasks.io import Block
from tasks.models.base import Model
from tasks.models.certificate import NUMBERS
from tasks.models.factored import trace_norm_model
from tasks.sums import FAN_IN
from tasks.trace.atom_descent import DescentParams, atom_descent
from tasks.trace.certificate import lambda1_max
from tasks.trace.core_newton import most_bytes as newton_bytes
from tasks.trace.reg_path import geometric, grid
from tasks.trace.risk import SLICE_CELLS
from tasks.trace.solution import Factors, Penalty, Solver, SolverParams
from tasks.trace.subspace import subspace_descent

FLOAT, DOUBLE = 4, 8  # bytes
SAMPLED_BYTES = 2 * FLOAT * SAMPLED_ROWS  # of a pair: of each of these validation rows, two numbers
PAPER = DescentParams(atoms_per_pass=1, restricted_every=1, proximal=False)
SOLVERS: dict[str, Solver] = {
    "subspace": subspace_descent,
    "r1d": atom_descent,
    "r1d-paper": partial(atom_descent, how=PAPER),
}
RIDGE = 0.01  # of lambda1_max squared: the largest lambda2 of a grid without numbers, measured (TRACE_NORM.md)
DRIVER_COPIES = (
    24  # of the weights in float64, that a solver holds at most: gradient, basis and their products, measured
)
MOST_RECORDS = 2000  # of iterations that DONE.json keeps of all pairs; beyond that only the chosen pair's


@dataclass(frozen=True)
class TraceNormStage(TrainStage):
    """Solve every pair of penalties, from strong to weak, and keep the weights that the validation rows like best."""

    version: ClassVar[int] = 4

    learner: TraceNorm
    chain: tuple[str, ...]
    n_features: int
    row_floats: int  # bytes of a stored row over 4
    twins: tuple[str, ...] = ()  # other learners of the config whose pairs are the same: whoever is first solves them

    @classmethod
    def of(cls, learner: TraceNorm, facts: Facts, chain: tuple[str, ...] = (), twins: tuple[str, ...] = ()) -> Self:
        """Raises NoTrainingRows."""
        check_rows(learner, facts.dataset)
        rows = facts.rows[learner.rows]
        row_floats = max(1, rows.block_bytes // (FLOAT * facts.dataset.block_rows))
        return cls(learner, chain, rows.n_features, row_floats, twins)

    def estimate(self, facts: Facts) -> Estimate:
        """Projections are not counted: they take their room from the rows that a worker keeps."""
        weights = parameter_bytes(self.learner, facts)
        rows = max(facts.rows[name].block_bytes for name in (self.learner.rows, self.learner.tested_on))
        summed = 2 * weights  # float64
        batch = 3 * FLOAT * SLICE_CELLS + FLOAT * 1024 * facts.rows[self.learner.rows].row_floats
        task = 2 * rows + 3 * summed + 2 * weights + batch + 64 * MEGABYTE
        peak = max(task, (FAN_IN + 2) * summed + 64 * MEGABYTE)
        learner, sampled = self.learner, self.learner.n_pairs * SAMPLED_BYTES
        few = min(2, learner.n_pairs)  # the last and the best one
        pair = pair_bytes(facts.rows[learner.rows].n_features, facts.dataset.n_classes)
        pairs = pair * (learner.n_pairs if learner.standard_errors or self.twins else few)
        spare = LOG_BYTES + 4 * weights + 2 * sampled + (0 if self.twins else pairs)
        kept = saved_bytes(learner, weights, facts) + (pairs if self.twins else 0)
        shape = facts.rows[learner.rows].n_features, facts.dataset.n_classes
        searched = newton_bytes(facts.dataset.split_counts["train"], *shape)
        driver = DRIVER_COPIES * summed + 2 * SAMPLE_BYTES + 2 * sampled + searched
        return Estimate(peak, kept, 100 * learner.n_pairs, spare, driver)

    def run(self, work: Work) -> Made:
        started = time.perf_counter()
        learner = self.learner
        risk = self._risk(work)
        risk.log.begin("largest")
        largest = lambda1_max(risk, learner.bias)
        blocks = validation_blocks(work, learner.tested_on)
        stride = stride_of(work.dataset.split_counts["validation"])
        validate = Validator(work.pool, blocks, work.dataset.path, learner.name, stride)
        params = SolverParams(learner.gap, learner.epsilon, learner.max_iterations)
        path = TracePath(
            risk,
            PairStore(risk, bool(self.twins)),
            validate,
            rows_of(learner, largest),
            params,
            SOLVERS[learner.solver],
            learner.bias,
            PairChoice(learner.choose, learner.standard_errors),
            learner.patience,
            work.folder / PROGRESS,
            work.event,
            None if learner.solver == "r1d-paper" else risk.few(),
        )
        walked = path.walk()
        factors = walked.chosen.factors
        certificate = certificate_of(walked.state, factors, largest, learner)
        model = trace_norm_model(factors.u, factors.theta, factors.v, walked.chosen.bias, certificate)
        made = self._made(work, walked.state, model, certificate)
        seconds = time.perf_counter() - started
        return replace(made, measured=made.measured | {"seconds": seconds, TRAIN_SECONDS: seconds + walked.seconds})

    def _risk(self, work: Work) -> PoolRisk:
        dataset, learner = work.dataset, self.learner
        blocks, counts = work.train_blocks(learner.rows), class_counts(dataset)
        rows = TrainingRows(blocks, dataset.path, counts, self.n_features, self.row_floats, learner.name)
        if not self.twins:
            return PoolRisk(work.pool, rows, digest_text(work.folder.name, dataset.digest), work.folder / PROGRESS)
        read = "" if learner.rows == OWN_ROWS else work.inputs[encode_step(learner.rows)].digest
        fit = digest_text(str(self.version), repr(alike(learner)), str(work.seed), dataset.digest, read)
        return PoolRisk(work.pool, rows, fit, work.folder.parent.parent / SOLVED / fit[:12])

    def _made(self, work: Work, state: PathState, model: Model, certificate: dict[str, Any]) -> Made:
        record, pairs = state.records[state.chosen], state.path()
        said = {key: certificate[key] for key in ("lambda1", "lambda2", "relative_gap", "solver")}
        digest = save(self, work, model, said | ({PATH: told_of(pairs)} if len(pairs) > 1 else {}))
        rows = work.dataset.split_counts["train"]
        facts = model_facts(model, rows * train_operations(state, self.n_features, work.dataset.n_classes), rows)
        numbers = {key: value for key, value in certificate.items() if key not in ("spectrum", "solver", "epsilon")}
        results = {
            **facts,
            **numbers,
            "iterations": record["iterations"],
            "restricted": record["restricted"],
            "findings": findings_of(self.learner, state, certificate["lambda1_max"]),
            "spectrum": certificate["spectrum"],
            PATH: pairs,
            "history": history_of(state),
        }
        return Made(digest, results, {PAIR_SECONDS: state.seconds})


def pair_bytes(n_features: int, n_classes: int) -> int:
    """Of a solved pair's file and the columns of its basis, at most."""
    rank = min(n_features, n_classes)
    basis = min(n_features, 4 * rank)
    return DOUBLE * (rank * (n_features + n_classes + 1) + basis * n_classes) + FLOAT * n_features * basis


NOT_SOLVED = {"name", "test_rows", "choose", "standard_errors", "patience"}  # keys that no solved pair depends on


def alike(learner: TraceNorm) -> dict[str, Any]:
    """The settings that make two learners' pairs the same."""
    return {key: value for key, value in learner.model_dump(mode="json").items() if key not in NOT_SOLVED}


def rows_of(learner: TraceNorm, largest: float) -> list[list[Penalty]]:
    """All pairs in the order they are solved: lambda1 falls within each lambda2, which is a row (SPECS 3.6).

    largest  lambda1 from which on W = 0
    """
    first = largest * learner.alpha if learner.lambda1 == "auto" else learner.lambda1
    lambdas1 = geometric(first, learner.alpha, learner.n_lambda1)
    if learner.lambda2 == "auto":
        lambdas2 = [*geometric(RIDGE * largest**2, learner.alpha, learner.lambda2_steps - 1), 0.0]
    else:
        lambdas2 = geometric(learner.lambda2, learner.alpha, learner.lambda2_steps)
    return [grid(lambdas1, [lambda2]) for lambda2 in lambdas2]


def validation_blocks(work: Work, rows: str) -> list[Block]:
    """The blocks that hold validation rows: ingest puts these between training and test rows."""
    first = work.dataset.split_counts["train"]
    last = first + work.dataset.split_counts["validation"]
    return [block for block in work.blocks(rows) if block.stop > first and block.start < last]


TOLD = ("lambda1", "lambda2", "objective", "relative_gap", "rank", "top1", "top1_error", "log_loss", "log_loss_error")
TOLD_OF_PAIR = (*TOLD, "iterations", "evaluations", "converged", "chosen")


def told_of(pairs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What the model says of each pair, as JSON takes it."""
    told: list[dict[str, Any]] = plain([{key: pair[key] for key in TOLD_OF_PAIR if key in pair} for pair in pairs])
    return told


def certificate_of(state: PathState, factors: Factors, largest: float, learner: TraceNorm) -> dict[str, Any]:
    """What the model says of how good its weights are."""
    record = state.records[state.chosen]
    return {
        **{key: record[key] for key in NUMBERS if key in record},
        "lambda1_max": largest,
        "epsilon": max(record["c1"], record["c2"]),
        "spectrum": factors.theta.tolist(),
        "solver": learner.solver,
    }


def train_operations(state: PathState, n_features: int, n_classes: int) -> float:
    """Vector operations per training row over the whole path, in dot products of n_features numbers.

    A pass is a gradient (n_classes), scores from projections, and new projections of at most the basis; an evaluation
    on projections is rank n_classes / n_features, twice.
    """
    total = 0.0
    for record in state.records:
        core = record["atoms"] * n_classes / max(1, n_features)
        total += record["iterations"] * (n_classes + core) + record["evaluations"] * 2 * core + record["atoms"]
    return total


def history_of(state: PathState) -> list[dict[str, Any]]:
    """One record an iteration, with the pair it belongs to."""
    every = [{"pair": pair, **record} for pair, records in enumerate(state.history, 1) for record in records]
    if len(every) <= MOST_RECORDS:
        return every
    return [record for record in every if record["pair"] == state.chosen + 1][:MOST_RECORDS]


FLOATS_END = "the last digits of float32: weak penalties and columns far from zero (encode by pca to centre) need more"


def findings_of(learner: TraceNorm, state: PathState, largest: float) -> list[str]:
    """What is doubtful of the pair that was chosen, for whoever reads the results."""
    found, best = [], state.records[state.best]
    record = state.records[state.chosen]
    done = record["converged"]
    if not done:
        asked = f"gap {learner.gap:g}" if learner.epsilon is None else f"epsilon {learner.epsilon:g}"
        why = "max_iterations" if record["iterations"] >= learner.max_iterations else FLOATS_END
        reached = f"relative gap {record['relative_gap']:.3g}, C1 {record['c1']:.3g}, C2 {record['c2']:.3g}"
        found.append(f"NotConverged: {learner.name}: {asked} was not reached: {reached}; ended by {why}")
    row = [entry for entry in state.records if entry["row"] == best["row"]]
    if done and not record["rank"]:
        least = f"lambda1 {record['lambda1']:.3g}, and no weights are best from {largest:.3g} on"
        found.append(f"ZeroWeights: {learner.name}: all weights are 0: {least}")
    elif record is best and best["rows"] and len(row) == learner.n_lambda1 > 1 and row[-1] is best:
        found.append(
            f"PathEnd: {learner.name}: the last lambda1 of the path was best: more lambda1_steps may be better"
        )
    return found
