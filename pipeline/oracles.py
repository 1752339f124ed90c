"""Oracles: the outer loops of `tasks.fit` ask them for sums, they ask the pool. And progress kept between rounds."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.pool import Part, Pool
from tasks.fit.average import ModelSum
from tasks.fit.blocks import choose_step, make_partitions, sgd_partition
from tasks.fit.problem import SgdProblem, StepTrial
from tasks.fit.scorer import Parameters
from tasks.io import Block


class PoolOracle:
    """Rounds of parallel SGD over the blocks of a rows store; `name` is what the dashboard shows."""

    def __init__(self, pool: Pool, blocks: Sequence[Block], name: str) -> None:
        self.pool, self.blocks, self.name = pool, list(blocks), name

    def trial(self, problem: SgdProblem) -> StepTrial:
        found: StepTrial = self.pool.map(choose_step, [tuple(self.blocks)], problem, name=f"step_{self.name}")[0]
        return found

    def round(self, problem: SgdProblem, parameters: Parameters, round_index: int) -> ModelSum:
        partitions = make_partitions(self.blocks, problem.params.partitions)
        part = Part(round_index, problem.params.rounds)
        shared = (parameters, problem, round_index)
        total: ModelSum = self.pool.sum(sgd_partition, partitions, *shared, name=f"sgd_{self.name}", part=part)
        return total
