"""Fits of rows that are in memory: small tree nodes, samples, tests."""

from __future__ import annotations

import numpy as np

from tasks.fit.average import ModelSum
from tasks.fit.local_pass import Chunk, local_passes
from tasks.fit.problem import SgdProblem, StepTrial
from tasks.fit.scorer import Parameters
from tasks.fit.step_trial import try_steps
from tasks.rows.base import Array, Rows
from tasks.sums import tree_sum


class LocalOracle:
    """An oracle for rows in memory, cut into `params.partitions` runs of rows as stores are.

    rows    any body; labels (n_rows,) int32 as the loss means them
    """

    def __init__(self, rows: Rows, labels: Array, problem: SgdProblem) -> None:
        self.rows, self.labels = rows, np.asarray(labels, np.int32)
        n = max(1, min(problem.params.partitions, rows.n_rows))
        self.parts = np.array_split(np.arange(rows.n_rows), n)

    def trial(self, problem: SgdProblem) -> StepTrial:
        """See `Oracle.trial`."""
        index = np.arange(self.rows.n_rows)[: problem.params.trial_rows]
        return try_steps([Chunk(self.rows, index, self.labels[index])], problem, self.rows.n_rows)

    def round(self, problem: SgdProblem, parameters: Parameters, round_index: int) -> ModelSum:
        """See `Oracle.round`."""
        chunks = [Chunk(self.rows, part, self.labels[part]) for part in self.parts]
        total: ModelSum = tree_sum(
            [local_passes([chunk], parameters, problem, round_index, i) for i, chunk in enumerate(chunks)]
        )
        return total
