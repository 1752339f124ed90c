"""Train a nearest-class-mean: sums of the training rows by class, in ranges of classes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from pipeline.class_ranges import RANGES
from pipeline.config import NearestClassMean
from pipeline.stage import CARD_BYTES, FILE_BYTES, Estimate, Facts, Made, Work
from pipeline.stages.problems import class_counts, parameter_bytes, ranges_of
from pipeline.stages.train import MEGABYTE, TrainStage, check_rows, model_facts, save, saved_bytes
from pipeline.store import PROGRESS
from tasks.class_means import DOUBLE, MANY, MeansOf, class_sums, leave_range, parts_for, sum_parts, sum_ranges
from tasks.features.statistics import SLICE_BYTES
from tasks.fit.class_ranges import WHOLE_BYTES, ClassRange, parameters_of
from tasks.fit.targets import SplitTargets
from tasks.models.class_ranges import RangedModel
from tasks.models.linear import LinearModel
from tasks.rows.base import Array
from tasks.sums import FAN_IN


@dataclass(frozen=True)
class ClassMeansStage(TrainStage):
    """Sums of rows by class, in ranges; those that are done are kept for an attempt that is interrupted."""

    learner: NearestClassMean
    chain: tuple[str, ...]
    n_features: int

    @classmethod
    def of(cls, learner: NearestClassMean, facts: Facts, chain: tuple[str, ...] = ()) -> Self:
        """Raises NoTrainingRows when there is nothing to learn from."""
        check_rows(learner, facts.dataset)
        return cls(learner, chain, facts.rows[learner.rows].n_features)

    def estimate(self, facts: Facts) -> Estimate:
        rows, dataset = facts.rows[self.learner.rows], facts.dataset
        ranges = sum_ranges(self.n_features, dataset.n_classes)
        widest = max(part.n_classes for part in ranges)
        summed = DOUBLE * self.n_features * widest
        parts = sum_parts(self.n_features, widest, dataset.split_counts["train"])
        reading = 2 * rows.block_bytes + 2 * SLICE_BYTES + DOUBLE * rows.row_floats
        adding = (min(parts, 2 * FAN_IN) + 2) * summed
        if len(ranges) >= MANY:  # means of sums are taken in the task
            reading, adding, parts = reading + 3 * summed, 0, 1
        model = parameter_bytes(self.learner, facts)
        kept = saved_bytes(self.learner, model, facts)
        spare = model + CARD_BYTES + FILE_BYTES * 4 * len(ranges)
        driver = 3 * summed + 2 * min(model, WHOLE_BYTES)
        return Estimate(max(reading + summed, adding) + 64 * MEGABYTE, kept, len(ranges) * parts, spare, driver)

    def run(self, work: Work) -> Made:
        started = time.perf_counter()
        counts = class_counts(work.dataset)
        ranges = sum_ranges(self.n_features, counts.size)
        model = self._model(self._left(work, ranges, counts), counts)
        digest = save(self, work, model, {"metric": self.learner.metric})
        n_rows = int(counts.sum())
        facts = model_facts(model, n_rows, n_rows)  # a row is added to one sum
        if isinstance(model, RangedModel):
            facts["class_ranges"] = len(ranges)
        return Made(digest, facts, {"seconds": time.perf_counter() - started})

    def _left(self, work: Work, ranges: Sequence[ClassRange], counts: Array) -> list[Path]:
        """The folders where weights and bias of each range are."""
        learner, blocks = self.learner, work.train_blocks(self.learner.rows)
        targets, folder = SplitTargets(work.dataset.path), str(work.folder / PROGRESS / RANGES)
        n_train = work.dataset.split_counts["train"]
        common = MeansOf(blocks[0].store, n_train, self.n_features, targets, learner.metric, folder)
        if len(ranges) >= MANY:
            work.pool.map(leave_range, ranges, common, counts, name=f"means_{learner.name}")
        else:
            for part in ranges:
                if not common.is_left(part):
                    parts = parts_for(blocks, part, self.n_features)
                    sums: Array = work.pool.sum(class_sums, parts, part, common, name=f"means_{learner.name}")
                    common.leave(part, sums, counts)
        return [common.place(part) for part in ranges]

    def _model(self, folders: Sequence[Path], counts: Array) -> LinearModel | RangedModel:
        """Of angles without a bias, unless that keeps a class without rows from winning."""
        found = [parameters_of(folder, ("weights", "bias")) for folder in folders]
        weights = tuple(parameters["weights"] for parameters in found)
        needed = self.learner.metric == "euclidean" or bool((counts == 0).any())
        bias = np.concatenate([parameters["bias"] for parameters in found]) if needed else None
        if ranges_of(self.learner, self.n_features, counts.size):
            return RangedModel(weights, bias, self.learner.kind)
        return LinearModel(np.concatenate(weights, axis=1), bias, self.learner.kind)
