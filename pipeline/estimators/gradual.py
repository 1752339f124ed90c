"""Learners of one SGD, round by round: each `partial_fit` averages one more round from where the model stands."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from threadpoolctl import threadpool_limits

from pipeline.estimators.base import Classifier
from pipeline.estimators.errors import BadParameter, BadRows, raise_in_python
from pipeline.estimators.inputs import checked_pair
from pipeline.estimators.labels import all_classes, known, names_of
from pipeline.estimators.parameters import config_of, seed_of
from pipeline.estimators.rows import is_far, rows_of
from pipeline.estimators.trees_given import taxonomy_of
from pipeline.estimators.whole import as_before
from pipeline.ingest.class_table import Classes
from pipeline.ingest.labels import normal
from pipeline.ingest.taxonomy_file import read_taxonomy
from pipeline.ingest.taxonomy_tree import build_taxonomy
from pipeline.stages.problems import Fitted
from pipeline.stages.train import sgd_params
from tasks.classes import ClassTable
from tasks.errors import LabelgroveError
from tasks.fit.fit import FitResult, Record, fit
from tasks.fit.local import LocalOracle
from tasks.fit.problem import SgdProblem, StepTrial
from tasks.fit.scorer import Parameters
from tasks.models.card import SETTINGS
from tasks.models.folder import SavedModel
from tasks.models.hashed import HashedModel
from tasks.models.header import content_digest, make_header, plain_values
from tasks.models.linear import LinearModel
from tasks.rows import Rows
from tasks.rows.base import Array
from tasks.taxonomy import Taxonomy


class Gradual(Classifier):
    """A learner of one SGD.

    rounds_done_  averages so far; more of them are shorter steps
    """

    rounds_done_: int
    trial_: StepTrial | None

    def fit(self, X: Any, y: Any) -> Self:
        """As `Classifier.fit`; what `partial_fit` has learnt before is forgotten."""
        with as_before(self):
            self._fit(X, y)
            self.rounds_done_, self.trial_ = int(self.rounds), None
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """One more round over these rows, in memory and in this process: passes over `partitions` parts, averaged.

        classes  all labels that will ever come: of the first call, unless there was a fit; then they may be left out
        The step and the regularization are chosen on the first rows, and the step falls from round to round.
        A call that fails leaves the estimator as it was. Raises BadParameter and BadRows.
        """
        with as_before(self):
            self._go_on(X, y, classes)
        return self

    def _go_on(self, rows: Any, y: Any, classes: Any) -> None:
        if self.encode is not None:
            what = "partial_fit has no use for encode: the codes are learnt from all rows at once"
            raise BadParameter(what, "encode", "encode=None, with a fitted encoder before this one")
        if is_far(rows):
            what = "partial_fit takes rows in memory"
            raise BadRows(what, "X", "give it block by block, or all of it to fit")
        seed, first = seed_of(self.random_state), not hasattr(self, "model_")
        config = config_of(seed, [self._section()])
        given = self._classes_given(classes)
        rows, y = checked_pair(self, rows, y, reset=first)
        labels = known(y, given)
        try:
            with threadpool_limits(1):
                self._one_round(config.train[0], seed, given, rows_of(rows), labels.codes)
        except LabelgroveError as error:
            raise_in_python(error, f"train {self.learner_kind}")

    def _classes_given(self, classes: Any) -> Array:
        """The classes of the first call, or of the fit; those of a later call must be the same."""
        if not hasattr(self, "model_"):
            if classes is None:
                what = "classes must be passed on the first call to partial_fit."
                raise BadParameter(what, "classes", "partial_fit(X, y, classes=np.unique(y_all)), of all rows to come")
            return all_classes(classes)
        if classes is not None and not np.array_equal(given := all_classes(classes), self.classes_):
            what = f"classes holds {len(given)} labels, others than the {len(self.classes_)} of the calls before"
            raise BadRows(what, "classes", "leave it out, or begin anew with a new estimator")
        return self.classes_

    def _one_round(self, learner: Any, seed: int, classes: Array, rows: Rows, codes: Array) -> None:
        names = names_of(classes)
        taxonomy = tree_over(getattr(self, "taxonomy", None), names)
        described = Fitted(learner, rows.n_features, taxonomy)
        balanced = getattr(learner, "class_weight", "none") == "balanced"
        if balanced:
            what = 'partial_fit has no use for class_weight = "balanced": nobody knows how many rows will come'
            raise BadParameter(what, "class_weight", "none, or fit with all rows")
        scorer, loss = described.problem(NO_DATASET)
        begun, start = self._standing()
        params = replace(sgd_params(learner), rounds=begun + 1)
        problem = SgdProblem(scorer, loss, params, seed, learner.name)
        oracle = LocalOracle(rows, codes.astype(np.int32), problem)
        trial = getattr(self, "trial_", None)
        problem = problem.with_trial(trial if trial is not None else oracle.trial(problem))
        result = fit(problem, oracle, start, Standing(begun, start) if start is not None else None)
        self._take(described, problem, result, names)
        self.trial_, self.rounds_done_, self.classes_ = result.trial, begun + 1, classes

    def _standing(self) -> tuple[int, Parameters | None]:
        """Rounds done, and the parameters that they came to."""
        if not hasattr(self, "model_"):
            return 0, None
        model = self.model_.model
        if isinstance(model, HashedModel):
            return self._rounds(), {"table": model.table}
        if not isinstance(model, LinearModel):
            what = "the model is kept by ranges of classes, too large to be held: partial_fit cannot go on from it"
            raise BadParameter(what, "model_", "fit anew, with more rounds")
        bias = {} if model.bias is None else {"bias": model.bias}
        return self._rounds(), {"weights": model.weights, **bias}

    def _rounds(self) -> int:
        return self.rounds_done_ if hasattr(self, "rounds_done_") else int(self.rounds)

    def _take(self, described: Fitted, problem: SgdProblem, result: FitResult, names: list[str]) -> None:
        model = described.model(problem.scorer, result)
        table = class_table(names)
        header = make_header(model, (), dict(model.tensors()), {"rows": "x", "test_rows": "x"})
        header["digest"] = content_digest(header, model.tensors(), table.ids, table.names)
        told = described.learner.model_dump(mode="json")
        source = f"rows in memory, given to partial_fit, n x {described.n_features:,}"
        settings = plain_values({key: value for key, value in told.items() if value is not None})
        header |= {"provenance": {"seed": problem.seed, "dataset_name": source, SETTINGS: settings}, "metrics": {}}
        self.model_ = SavedModel(model, table, (), header)
        self.results_ = {"history": result.history, "trial": result.trial.as_json()}
        self.digest_ = ""


class Standing:
    """A checkpoint of rounds that were done elsewhere: the fit goes on from them."""

    def __init__(self, done: int, parameters: Parameters) -> None:
        self.done, self.parameters = done, parameters

    def load(self) -> tuple[int, Parameters, list[Record]]:
        return self.done, self.parameters, []

    def save(self, round_index: int, parameters: Parameters, history: list[Record]) -> None:
        """Nothing is kept."""


NO_DATASET: Any = None  # only balanced classes look into one


def class_table(names: list[str]) -> ClassTable:
    """The class table that a dataset of these labels has."""
    return ClassTable(tuple(str(c) for c in range(len(names))), tuple(normal(name) for name in names))


def tree_over(given: Any, names: list[str]) -> Taxonomy:
    """The taxonomy over these classes that is given, or a flat one. Raises BadParameter."""
    described = taxonomy_of(given, names)
    if described is None:
        return Taxonomy.flat(len(names))
    return build_taxonomy(read_taxonomy(described), Classes(class_table(names), True, "classes"))
