"""A finished model folder, of any kind, as a fitted estimator."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

from pipeline.estimators.base import Predictor
from pipeline.estimators.errors import BadParameter, os_errors
from pipeline.estimators.saving import READ_HINT, take_model
from pipeline.estimators.whole import as_before
from tasks.models.folder import load_model


class TrainedClassifier(Predictor):
    """A model of `labelgrove run`, or of `save`, ready to predict; `fit` learns nothing and changes nothing.

    folder  of the model: runs/NAME/models/NAME
    Labels are those of the fit, of a model that an estimator has saved; else whole numbers where the classes are called
    0, 1, 2, ..., and the names of the classes where they have others. A clone is the estimator itself, as it is frozen.
    """

    results_: dict[str, Any]
    digest_: str

    def __init__(self, folder: str | Path | None = None) -> None:
        self.folder = folder

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """The estimator of a model's folder. Raises ModelMissing, ModelDamaged, ModelFormat, UnsafeFormat."""
        return cls(folder)._read()

    def _read(self) -> Self:
        if self.folder is None:
            what = "there is no model: folder = None"
            raise BadParameter(what, "folder", 'TrainedClassifier.load("runs/NAME/models/NAME")')
        with as_before(self), os_errors(self.folder, READ_HINT):
            take_model(self, load_model(self.folder))
        return self

    def fit(self, X: Any = None, y: Any = None) -> Self:  # noqa: ARG002
        """Read the folder, unless that was done; rows and labels are not looked at."""
        return self if hasattr(self, "model_") else self._read()

    def __sklearn_clone__(self) -> Self:
        return self
