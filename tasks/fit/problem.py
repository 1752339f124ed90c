"""One fit, described: small, frozen, picklable, so that it travels to the workers as it is."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from tasks.fit.linear import LinearScorer
from tasks.fit.scorer import Scorer
from tasks.fit.sgd import AUTO, SgdParams
from tasks.fit.targets import Targets
from tasks.losses.base import Loss
from tasks.rows.base import Array

BIAS_SHARES = {1: 1 / 16, 2: 1 / 4}  # of a row's squared norm, by the passes of a brief fit


@dataclass(frozen=True, slots=True)
class StepTrial:
    """What was chosen on a sample before the first round.

    step            the first step of the falling schedule, or the constant step that was asked for
    regularization  as used: the number that was asked for, or the one "auto" came to
    squared_norm    mean squared norm of the sample's rows, without their centre if there is one
    passes          over a partition between two averages
    blank_loss      mean loss of scores that are all 0, on the sample
    tried           ((step, objective on the sample after a short fit), ...); empty when the step was given
    rows            rows in the sample
    brief           whether the fit has one pass or two in all, over more rows than the sample: it ends before it could
                    learn its rows by heart
    centre          (n_features,) float32: the mean row of the sample, when training takes it away from dense rows
    """

    step: float
    regularization: float
    squared_norm: float
    passes: int
    blank_loss: float
    tried: tuple[tuple[float, float], ...]
    rows: int
    brief: bool = False
    centre: Array | None = field(default=None, compare=False)

    def as_json(self) -> dict[str, Any]:
        """Plain values, for the run's records."""
        return {
            "step": self.step,
            "regularization": self.regularization,
            "squared_norm": self.squared_norm,
            "passes": self.passes,
            "blank_loss": self.blank_loss,
            "tried": [list(pair) for pair in self.tried],
            "rows": self.rows,
            "centred": self.centre is not None,
        }


@dataclass(frozen=True, slots=True, eq=False)
class SgdProblem:
    """What is fitted: scores, loss, parameters, which rows, and the place in the run its random streams come from.

    targets  None when the rows are in memory (`LocalOracle`)
    name     the place: "ovr", "tree/0.3"; two fits of one run need different names
    trial    what was chosen on the sample; `fit` fills it in
    """

    scorer: Scorer
    loss: Loss
    params: SgdParams
    seed: int
    name: str
    targets: Targets | None = None
    trial: StepTrial | None = None

    @property
    def decay(self) -> float:
        """d(penalty)/dw = decay * w. Raises ValueError before the trial."""
        return self.settled().regularization * (2.0 if self.params.doubled else 1.0)

    def settled(self) -> StepTrial:
        """The trial. Raises ValueError when there was none."""
        if self.trial is None:
            raise ValueError(f"the step of {self.name} has not been chosen: call choose_step or fit")
        return self.trial

    def with_trial(self, trial: StepTrial) -> SgdProblem:
        """The same problem with its step chosen; a bias learns at the pace of the rows' own scale.

        In a brief fit its noise would stay: there it counts as a shorter feature, by BIAS_SHARES.
        """
        scorer = self.scorer
        if isinstance(scorer, LinearScorer) and scorer.bias:
            share = BIAS_SHARES[self.params.rounds * trial.passes] if trial.brief else 1.0
            scorer = replace(scorer, bias_rate=share * trial.squared_norm)
        return replace(self, scorer=scorer, trial=trial)

    @property
    def all_passes(self) -> int:
        """Over the rows, in the whole fit. Raises ValueError before the trial."""
        return self.params.rounds * self.settled().passes

    @property
    def constant_step(self) -> bool:
        return self.params.step != AUTO
