"""Train a support vector machine for every pair of classes: one-vs-one, and DAGSVM."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from pipeline.config import DagSvm, OneVsOne
from pipeline.stage import Estimate, Facts, Made, Work
from pipeline.stages.grow import grown_in
from pipeline.stages.hierarchy import (
    check_drawn,
    drawn_classes,
    family_facts,
    ground_of,
    made_of,
    measured_since,
    model_bytes,
    rows_taker,
    svm_estimate,
)
from pipeline.stages.hierarchy_nodes import NODES
from pipeline.stages.svm_setup import Settled, svm_step
from pipeline.stages.train import TrainStage, check_rows, model_facts, save
from pipeline.store import PROGRESS, SOLVED
from tasks.digest import digest_text
from tasks.places import at
from tasks.relaxed.ground import Ground
from tasks.relaxed.pair_tasks import PairRun, learn_pairs, pair_runs, read_pairs
from tasks.relaxed.pairs import PairModel
from tasks.relaxed.rules import AllRule
from tasks.svm.classifier import Classifier

PAIRS_A_TASK = 400
PAIR_ROWS = 2  # classes whose rows a task holds at a time


def paired_alike(learner: OneVsOne | DagSvm) -> dict[str, Any]:
    """What the classifiers of pairs depend on: one-vs-one and DAGSVM of the same options share them."""
    return {key: value for key, value in learner.model_dump(mode="json").items() if key not in NOT_PAIRED}


NOT_PAIRED = {"name", "kind", "test_rows"}


@dataclass(frozen=True)
class PairsStage(TrainStage):
    """Train one classifier a pair."""

    learner: OneVsOne | DagSvm
    chain: tuple[str, ...]
    n_features: int
    twins: tuple[str, ...] = ()  # other learners of the config with the same pairs
    version: ClassVar[int] = 1

    @classmethod
    def of(
        cls, learner: OneVsOne | DagSvm, facts: Facts, chain: tuple[str, ...] = (), twins: tuple[str, ...] = ()
    ) -> Self:
        """Raises ParamError when a parameter is out of range, NoTrainingRows when there is nothing to learn from."""
        check_rows(learner, facts.dataset)
        check_drawn(learner, facts.dataset)
        return cls(learner, chain, facts.rows[learner.rows].n_features, twins)

    @property
    def inputs(self) -> tuple[str, ...]:
        return (*super().inputs, svm_step(self.learner))

    def estimate(self, facts: Facts) -> Estimate:
        n_train, n_classes = facts.dataset.split_counts["train"], facts.dataset.n_classes
        most = min(n_train, 4 * PAIR_ROWS * (n_train // max(1, n_classes) + 1))
        return svm_estimate(self.learner, facts, model_bytes(self.learner, facts), most)

    def run(self, work: Work) -> Made:
        started = time.perf_counter()
        settled = Settled.of(self.learner, work)
        ground = ground_of(self.learner, work, self._folder(work), AllRule(), "pairs")
        starts = ground.starts()
        classes = drawn_classes(self.learner, starts, work.seed)
        runs = pair_runs(classes.size, PAIRS_A_TASK)
        work.pool.map(learn_pairs, runs, ground, classes, name=f"pairs_{self.learner.name}")
        learnt = grown_in(at(ground.nodes), time.perf_counter() - started)
        model = PairModel.build(
            self.learner.kind,
            classes,
            classifiers_of(runs, ground),
            self.n_features,
            work.dataset.n_classes,
            made_of(self.learner, ground),
            None if ground.linear else settled.kernel,
            rows_taker(ground.rows),
        )
        digest = save(self, work, model, {"C": settled.cost})
        facts = model_facts(model, 0.0, 1) | {"C": settled.cost}
        facts.pop("train_ops_per_row")
        facts["hierarchy"] = family_facts(self.learner, settled, classes, int(np.diff(starts)[classes].sum()))
        return Made(digest, facts, measured_since(started, self.learner, work, learnt))

    def _folder(self, work: Work) -> Path:
        """Of the step, or what twins share until the run has finished."""
        if not self.twins:
            return work.folder / PROGRESS / NODES
        read = [work.inputs[name].digest for name in self.inputs]
        pairs = digest_text(
            str(self.version), repr(paired_alike(self.learner)), str(work.seed), work.dataset.digest, *read
        )
        return work.folder.parent.parent / SOLVED / f"pairs-{pairs[:12]}"


def classifiers_of(runs: list[PairRun], ground: Ground) -> Iterator[Classifier]:
    """Those of all pairs, in lexicographic order, a run at a time."""
    for run in runs:
        yield from read_pairs(run, ground)
