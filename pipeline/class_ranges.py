"""One-vs-rest of more classes and columns than can be broadcast: ranges of classes over the pool, one task each.

A task reads all training rows, holds the parameters of its range alone, and leaves them in files: nothing large
travels. Ranges are fixed by the sizes of the problem, so the result does not depend on the workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pipeline.pool import Pool
from tasks.fit.blocks import choose_step
from tasks.fit.class_ranges import (
    ClassRange,
    RangeFit,
    RangeReport,
    added_history,
    fit_range,
    parameters_of,
    sample_of_classes,
    undivided,
)
from tasks.fit.fit import FitResult
from tasks.fit.linear import LinearScorer
from tasks.fit.problem import SgdProblem, StepTrial
from tasks.io import Block
from tasks.models.class_ranges import RangedModel

RANGES = "ranges"  # folder of the ranges' parameters, within the progress of the step


@dataclass(frozen=True, eq=False)
class RangesResult:
    """A fit by ranges of classes.

    model    its weights are mapped from the files of the ranges
    result   as of a whole fit, but for the parameters, which are in the model alone
    """

    model: RangedModel
    result: FitResult


def fit_ranges(
    problem: SgdProblem, ranges: Sequence[ClassRange], blocks: Sequence[Block], n_train: int, pool: Pool, folder: Path
) -> RangesResult:
    """Fit all ranges of a linear problem with a separable loss; those that an earlier attempt has left are kept.

    blocks   of one store, those that hold training rows: its first n_train
    Raises as `fit` does, DiskFull.
    """
    name, classes = problem.name, sample_of_classes(ranges)
    common = RangeFit(undivided(problem), blocks[0].store, n_train, str(folder / RANGES))
    trial: StepTrial = pool.map(choose_step, [tuple(blocks)], common.problem(classes), name=f"step_{name}")[0]
    common = common.with_trial(trial, len(classes))
    reports: list[RangeReport] = pool.map(fit_range, list(ranges), common, name=f"fit_{name}")
    history = added_history(reports)
    operations = sum(record["operations"] for record in history)
    return RangesResult(_model(common, ranges), FitResult({}, history, trial, operations))


def _model(common: RangeFit, ranges: Sequence[ClassRange]) -> RangedModel:
    scorer = common.whole.scorer
    assert isinstance(scorer, LinearScorer)
    names = ("weights", "bias") if scorer.bias else ("weights",)
    found = [parameters_of(common.place(part), names) for part in ranges]
    bias = np.concatenate([parameters["bias"] for parameters in found]) if scorer.bias else None
    return RangedModel(tuple(parameters["weights"] for parameters in found), bias)
