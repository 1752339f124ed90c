"""Stochastic gradient descent in minibatches: parameters of every SGD learner, and the steps themselves."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Literal, Protocol, runtime_checkable

from tasks.errors import ParamError
from tasks.fit.scaled import ScaledParameters
from tasks.fit.scorer import Parameters, Scorer
from tasks.fit.sparse_steps import descend_sparse, fits
from tasks.losses.base import Loss
from tasks.rows import Csr, Dense, OneHot
from tasks.rows.base import Array, Rows

AUTO: Literal["auto"] = "auto"
MOST_PASSES = 10  # over a small partition between two averages, unless more are asked for


@dataclass(frozen=True, slots=True)
class SgdParams:
    """What every SGD learner can be told; each value has a default that works without tuning.

    The objective is mean loss + (regularization / 2) |w|^2, or + regularization |w|^2 when `doubled` (Deng et al.).
    """

    regularization: float | Literal["auto"] = AUTO  # "auto" = mean |x|^2 / n_rows: C = 1 on unit rows; / T when hashed
    passes: int = 1  # over a partition between two averages; more over a small one, see `least_rows`
    rounds: int = 10  # averages; 1 with a number for `step` is Zinkevich et al.
    partitions: int = 4  # models trained apart in a round: fixed here, never by the number of workers
    step: float | Literal["auto"] = AUTO  # a number is a constant step; "auto" = chosen on a sample, falling to zero
    batch: int = 16  # rows per step
    bias: bool = True
    doubled: bool = False
    weighted: bool = True  # average the models by the rows they saw, not as equals
    trial_rows: int = 4096  # rows of the sample on which the step is chosen
    least_rows: int = 120_000  # rows a model meets in the whole fit at least, by up to MOST_PASSES passes a round

    def __post_init__(self) -> None:
        for name in ("passes", "rounds", "partitions", "batch", "trial_rows", "least_rows"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ParamError(name, value, "a whole number >= 1", "nothing would be trained")
        if self.regularization != AUTO and not _finite(self.regularization, lowest=0.0):
            raise ParamError("regularization", self.regularization, '"auto" or a number >= 0', "it weighs a penalty")
        if self.step != AUTO and not (_finite(self.step, lowest=0.0) and self.step > 0):
            raise ParamError("step", self.step, '"auto" or a number > 0', "a step must go downhill")


def _finite(value: object, lowest: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value) and value >= lowest


@runtime_checkable
class Fused(Protocol):
    """A scorer that knows its loss: a row need not meet all outputs to know which of them it moves."""

    def descend(
        self,
        loss: Loss,
        state: ScaledParameters,
        rows: Rows,
        labels: Array,
        order: Array,
        steps: Array,
        batch: int,
        decay: float,
        centre: Array | None = None,
    ) -> float:
        """What `descend` does with this scorer, for a loss without curvature."""
        ...

    def sum_of_losses(self, loss: Loss, parameters: Parameters, rows: Rows, labels: Array) -> float:
        """Over rows, labels (n_rows,) int32."""
        ...

    def blank_loss(self, labels: Array) -> float:
        """Sum of the losses of rows whose scores are all 0; of a maximum of several losses, of all of them."""
        ...


def descend(
    scorer: Scorer,
    loss: Loss,
    state: ScaledParameters,
    rows: Rows,
    labels: Array,
    order: Array,
    steps: Array,
    batch: int,
    decay: float,
    curvature: float = 0.0,
    centre: Array | None = None,
) -> float:
    """One step per batch of `order`: w <- (1 - step decay) w - step (mean gradient of the batch, taken before it).

    state    changed in place; where its values lie in another shape afterwards, it restores them when it settles
    labels   (n_rows,) int32, one per row of `rows`
    order    (n,) int64: rows in the order they are met; repeats allowed
    steps    (ceil(n / batch),) float64: one step per batch
    decay    d(penalty)/dw = decay * w: the regularization, or twice that in Deng's convention
    curvature  > 0 shortens the step of each row by 1 + curvature (step / batch) |x|^2, as an implicit step along that
             row would: it can then not overshoot its own minimum, however long the row. It vanishes with the step.
    centre     (n_features,) is taken away from every row, for dense rows: far from zero, they would all pull one way
    returns  the sum of the losses, each row's before its own step
    """
    if centre is None and isinstance(rows, Csr) and fits(scorer, loss, rows, state.values):
        total, state.scale = descend_sparse(
            scorer, loss, state.values, state.scale, rows, labels, order, steps, batch, decay, curvature, state.SMALLEST
        )  # fmt: skip
        return total
    from tasks.fit.dense_steps import descend_dense, fits_dense  # vector instructions: numba is loaded with them

    if fits_dense(scorer, rows, state.values):
        return descend_dense(scorer, loss, state, rows, labels, order, steps, batch, decay, curvature, centre)
    from tasks.fit.hashed_steps import descend_hashed, fits_hashed

    if centre is None and fits_hashed(scorer, rows, state.values, batch):
        return descend_hashed(scorer, loss, state, rows, labels, order, steps, batch, decay, curvature)
    total, _ = 0.0, state.restored()
    for position, step in enumerate(steps.tolist()):
        chosen = order[position * batch : (position + 1) * batch]
        part = rows.take(chosen)
        if not isinstance(part, OneHot):  # products with codes are quicker than with what they stand for
            part = part.decoded()
        if centre is not None:
            part = Dense(part.to_array() - centre)
        scores = scorer.scores(state.values, part)
        scores *= scores.dtype.type(state.scale)
        value, residuals = loss.residuals(scores, labels[chosen])
        total += value
        if curvature > 0:
            damping = 1.0 + curvature * step / chosen.size * part.squared_norms()
            residuals /= damping[:, None].astype(residuals.dtype)
        state.decay(1.0 - step * decay)
        scorer.subtract(state.values, part, residuals, step / (chosen.size * state.scale))
    return total
