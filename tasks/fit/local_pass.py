"""A model's passes over one partition: blocks and rows in a seeded order, from a broadcast start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tasks.errors import Diverged
from tasks.fit.average import ModelSum
from tasks.fit.linear import LinearScorer
from tasks.fit.problem import SgdProblem
from tasks.fit.scaled import ScaledParameters
from tasks.fit.scorer import Parameters
from tasks.fit.sgd import Fused, descend
from tasks.rows.base import Array, Rows
from tasks.seeds import stream


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """Rows in memory, and which of them take part: index (n,) int64 into `rows`, labels (n,) int32."""

    rows: Rows
    index: Array
    labels: Array


class Feed(Protocol):
    """The chunks of one partition, loaded one at a time."""

    def __len__(self) -> int: ...

    def __getitem__(self, position: int, /) -> Chunk: ...


FRESH = 0.9  # of a fit of one pass, in which the step does not fall: what is met there has never been met before


def falling_steps(first: float, begin: float, end: float, count: int, flat: float = 0.0) -> Array:
    """`count` steps between two progresses: `first` up to progress `flat`, then a straight line to zero at 1."""
    progress = begin + (end - begin) * np.arange(count) / max(count, 1)
    return np.asarray(first * np.minimum(1.0, (1.0 - progress) / (1.0 - flat)), np.float64)


def local_passes(
    feed: Feed | Sequence[Chunk], start: Parameters, problem: SgdProblem, round_index: int, partition: int
) -> ModelSum:
    """`params.passes` passes of SGD over a partition.

    start    read only
    returns  the last iterate, weighted by the rows of one pass (by 1 if not `params.weighted`; by 0 without rows)
    Raises Diverged, naming fit, round and step, when a loss or a weight is no longer finite.
    """
    state, params = ScaledParameters(centred(problem, start)), problem.params
    loss, met = 0.0, 0
    passes = problem.settled().passes
    for pass_index in range(passes):
        rng = stream(problem.seed, "sgd", problem.name, round_index, partition, pass_index)
        for position, which in enumerate(rng.permutation(len(feed))):
            chunk = feed[int(which)]
            order = rng.permutation(chunk.index.size)
            done = round_index * passes + pass_index
            begin, end = ((done + (position + extra) / len(feed)) / (params.rounds * passes) for extra in (0, 1))
            loss += _chunk_steps(chunk, order, state, problem, begin, end)
            met += order.size
            if not np.isfinite(loss):
                raise diverged(problem, round_index)
    parameters = centred(problem, state.settle(), back=True)
    if not all(np.isfinite(values).all() for values in parameters.values()):
        raise diverged(problem, round_index)
    rows = met / passes
    weight = rows if params.weighted else float(rows > 0)
    return ModelSum.taking(weight, parameters, loss, met, 2.0 * met * problem.scorer.operations_per_row())


def _chunk_steps(
    chunk: Chunk, order: Array, state: ScaledParameters, problem: SgdProblem, begin: float, end: float
) -> float:
    batch, step = problem.params.batch, problem.settled().step
    count = -(-order.size // batch)
    labels = np.empty(chunk.rows.n_rows, np.int32)
    labels[chunk.index] = chunk.labels
    if problem.constant_step:
        steps, curvature = np.full(count, step), 0.0  # the plain algorithm, as published
    else:
        flat = FRESH if problem.settled().brief and problem.all_passes == 1 else 0.0
        steps, curvature = falling_steps(step, begin, end, count, flat), problem.loss.curvature
    where, centre = chunk.index[order], problem.settled().centre
    if isinstance(problem.scorer, Fused):
        common = labels, where, steps, batch, problem.decay, centre
        return problem.scorer.descend(problem.loss, state, chunk.rows, *common)
    return descend(
        problem.scorer,
        problem.loss,
        state,
        chunk.rows,
        labels,
        where,
        steps,
        batch,
        problem.decay,
        curvature,
        centre,
    )


def centred(problem: SgdProblem, parameters: Parameters, back: bool = False) -> Parameters:
    """Parameters that score centred rows as the given ones score plain rows; `back` = the other way."""
    centre = problem.settled().centre
    if centre is None or not isinstance(problem.scorer, LinearScorer):
        return parameters
    return problem.scorer.centred(parameters, centre, -1.0 if back else 1.0)


def diverged(problem: SgdProblem, round_index: int) -> Diverged:
    """The error of weights that are no longer finite."""
    step = problem.settled().step
    return Diverged(
        f"the loss or the weights of {problem.name} are not finite in round {round_index}, step {step:g}",
        where=problem.name,
        hint='set a smaller `step` (or "auto"), or a larger `regularization`',
    )
