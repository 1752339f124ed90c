"""One-vs-rest fits too large to be broadcast: the classes in ranges, each fitted apart by one task, to the end.

A loss that is a sum over classes (squared hinge, hinge, logistic) learns every class by itself, so a range of classes
can be fitted like a whole: rows of other classes are "none of these". Rows are met in the same order in every range,
with one step and one regularization for all, so that on sparse rows the weights are those of the whole fit, bit by bit.

The whole fit here is that of one partition: a task goes through all rows of a round by itself, so there is nothing to
average. With thousands of classes that counts: the few rows of a class stand in one partition or two, and an average
over four takes most of what was learnt from them away again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeGuard

import numpy as np

from tasks.calls import write_array
from tasks.digest import digest_arrays
from tasks.files import disk_room
from tasks.fit.average import ModelSum
from tasks.fit.blocks import choose_step, make_partitions, sgd_partition
from tasks.fit.checkpoint import FileCheckpoint, SparingCheckpoint, keep, load_kept
from tasks.fit.fit import Record, fit
from tasks.fit.linear import LinearScorer
from tasks.fit.problem import SgdProblem, StepTrial
from tasks.fit.scorer import Parameters
from tasks.io import Block, blocks_of
from tasks.losses.hinge import OneVsRestHinge
from tasks.losses.logistic import OneVsRestLogistic
from tasks.losses.some_classes import SomeClasses
from tasks.places import at, open_array
from tasks.rows.base import Array
from tasks.sums import sum_stream

WHOLE_BYTES = 256 << 20  # of float32 parameters: what is not larger is fitted as a whole
RANGE_BYTES = 128 << 20  # of the parameters of a range, at most
RANGE_CLASSES = 8192  # of a range, at most: a sample of rows is scored at once
DONE = "range.json"  # written last
SAVED_EVERY = 60.0  # seconds between two checkpoints of a range, at least
ROWS_PER_CLASS, MOST_ROWS = 4, 32_768  # of the sample on which the step is chosen: it should hold rows of most classes


@dataclass(frozen=True, slots=True)
class ClassRange:
    """Classes start .. stop - 1, the index-th range of its fit."""

    index: int
    start: int
    stop: int

    @property
    def n_classes(self) -> int:
        return self.stop - self.start


def class_ranges(n_features: int, n_classes: int) -> list[ClassRange]:
    """Ranges of nearly equal size, by the sizes alone; one when all fits."""
    nbytes = parameter_bytes(n_features, n_classes)
    if nbytes <= WHOLE_BYTES:
        return [ClassRange(0, 0, n_classes)]
    count = min(n_classes, max(-(-nbytes // RANGE_BYTES), -(-n_classes // RANGE_CLASSES)))
    bounds = [n_classes * i // count for i in range(count + 1)]
    return [ClassRange(i, bounds[i], bounds[i + 1]) for i in range(count)]


def parameter_bytes(n_features: int, n_classes: int) -> int:
    return 4 * (n_features + 1) * n_classes


def sample_of_classes(ranges: Sequence[ClassRange]) -> Array:
    """(n,) int64: every len(ranges)-th class, as many as a range has: on them the step for all is chosen."""
    return np.arange(len(ranges) // 2, ranges[-1].stop, len(ranges))


def undivided(problem: SgdProblem) -> SgdProblem:
    """The problem as ranges fit it: one partition, and a sample for the step that grows with the classes."""
    rows = min(ROWS_PER_CLASS * problem.scorer.n_outputs, MOST_ROWS)
    params = replace(problem.params, partitions=1, trial_rows=max(problem.params.trial_rows, rows))
    return replace(problem, params=params)


@dataclass(frozen=True, slots=True, eq=False)
class RangeFit:
    """What all ranges of a fit have in common: it travels with each.

    whole          the problem of all classes: linear scores, a separable loss
    store          path of the rows store, whose first n_train rows hold all that take part
    folder         where ranges leave their parameters and progress
    trial          made for trial_classes of the classes; None before
    """

    whole: SgdProblem
    store: str
    n_train: int
    folder: str
    trial: StepTrial | None = None
    trial_classes: int = 0

    def problem(self, classes: Array) -> SgdProblem:
        """The problem of some classes (n,), without a trial. Raises TypeError where classes cannot be fitted apart."""
        scorer, loss = self.whole.scorer, self.whole.loss
        if not isinstance(scorer, LinearScorer) or not is_separable(loss):
            raise TypeError(f"classes of {self.whole.name} cannot be fitted apart")
        part = SomeClasses.of(loss, classes, scorer.n_outputs)
        return replace(self.whole, scorer=replace(scorer, n_outputs=len(classes)), loss=part)

    def with_trial(self, trial: StepTrial, n_classes: int) -> RangeFit:
        """The same with the step chosen, on n_classes of the classes."""
        return replace(self, trial=trial, trial_classes=n_classes)

    def of_range(self, part: ClassRange) -> SgdProblem:
        """The problem of a range, with the step of all; scores of 0 lose in proportion to the number of classes."""
        if self.trial is None:
            raise ValueError(f"the step of {self.whole.name} has not been chosen")
        share = part.n_classes / self.trial_classes
        trial = replace(self.trial, blank_loss=share * self.trial.blank_loss)
        return self.problem(np.arange(part.start, part.stop)).with_trial(trial)

    def place(self, part: ClassRange) -> Path:
        return at(self.folder) / f"{part.index:05d}"


def is_separable(loss: object) -> TypeGuard[OneVsRestHinge | OneVsRestLogistic]:
    """Whether a loss learns every class from its own scores alone."""
    return isinstance(loss, OneVsRestHinge | OneVsRestLogistic)


@dataclass(frozen=True, slots=True)
class RangeReport:
    """What a fitted range says of itself; its parameters are in files.

    digest   of its parameters
    history  one record per round, as `FitResult` has them
    """

    index: int
    digest: str
    history: list[Record]

    @property
    def step(self) -> float:
        return self.history[-1]["step"]


class BlockOracle:
    """Rounds over blocks of a store in this process, one partition after another."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self.blocks = blocks

    def trial(self, problem: SgdProblem) -> StepTrial:
        """See `Oracle.trial`."""
        return choose_step(self.blocks, problem)

    def round(self, problem: SgdProblem, parameters: Parameters, round_index: int) -> ModelSum:
        """See `Oracle.round`; the bits of a pool's."""
        partitions = make_partitions(self.blocks, problem.params.partitions)
        models = (sgd_partition(part, parameters, problem, round_index) for part in partitions)
        total: ModelSum = sum_stream(models, ModelSum.absorb)
        return total


def fit_range(part: ClassRange, common: RangeFit) -> RangeReport:
    """Fit the classes of a range in all rounds, and leave their parameters in `common.place(part)`.

    A checkpoint after a round, but not oftener than every SAVED_EVERY seconds: a range is a unit of progress itself.

    A range that is there already, whole, is not fitted again. Raises as `fit` does, DiskFull.
    """
    place = common.place(part)
    done = finished(place, part.index)
    if done is not None:
        return done
    blocks = [block for block in blocks_of(common.store) if block.start < common.n_train]
    result = fit(common.of_range(part), BlockOracle(blocks), checkpoint=SparingCheckpoint(place, SAVED_EVERY))
    report = leave(place, part.index, result.parameters, result.history)
    FileCheckpoint(place).path.unlink(missing_ok=True)
    return report


def leave(place: Path, index: int, parameters: Parameters, history: list[Record]) -> RangeReport:
    """Write what a range has come to, where `finished` and `parameters_of` find it. Raises DiskFull."""
    with disk_room(str(place), 0):
        place.mkdir(parents=True, exist_ok=True)
    for name, values in parameters.items():
        write_array(place / f"{name}.npy", values)
    report = RangeReport(index, _digest(parameters), history)
    said = json.dumps({"digest": report.digest, "history": report.history, "names": sorted(parameters)})
    keep(place / DONE, {"said": np.array(said)})
    return report


def finished(place: Path, index: int) -> RangeReport | None:
    """What a range that is there says; None when it is not, or not as it was written."""
    kept = load_kept(place / DONE)
    if kept is None:
        return None
    said = json.loads(str(kept["said"]))
    try:
        whole = _digest(parameters_of(place, said["names"])) == said["digest"]
    except (OSError, ValueError):
        return None
    return RangeReport(index, said["digest"], said["history"]) if whole else None


def parameters_of(place: Path, names: Sequence[str]) -> Parameters:
    """The parameters that a range has left, memory-mapped. Raises OSError, ValueError."""
    return {name: open_array(place / f"{name}.npy") for name in names}


def _digest(parameters: Parameters) -> str:
    return digest_arrays(*(parameters[name] for name in sorted(parameters)))


def added_history(reports: Sequence[RangeReport]) -> list[Record]:
    """One record per round for all classes: losses and operations of the ranges added; the shortest step."""
    return [
        {
            **records[0],
            "loss": sum(record["loss"] for record in records),
            "operations": sum(record["operations"] for record in records),
            "step": min(record["step"] for record in records),
        }
        for records in zip(*(report.history for report in reports), strict=True)
    ]
