"""What all classifiers share: fit, predictions, saving. A thin face of one [[train]] section of a config."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from pipeline.estimators.encoders import Encoder
from pipeline.estimators.errors import BadParameter
from pipeline.estimators.fitting import Fit, fit_model, sections
from pipeline.estimators.inputs import checked_pair, mapped_rows
from pipeline.estimators.labels import labelled
from pipeline.estimators.parameters import config_of, seed_of
from pipeline.estimators.predicting import all_scores, best_classes, probabilities, scores_all
from pipeline.estimators.rows import rows_of
from pipeline.estimators.saving import load_estimator, save_estimator
from pipeline.estimators.trees_given import taxonomy_of
from pipeline.estimators.whole import as_before
from tasks.models.flat import is_probabilistic
from tasks.models.folder import SavedModel
from tasks.rows.base import Array

NOT_KEYS = ("random_state", "encode", "scheduler", "folder", "validation_fraction", "taxonomy")
ENCODED = "codes"  # the name of the encoding that a learner reads


class Predictor(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A model with its classes: what there is after a fit, or when a folder was loaded.

    model_           the model as its folder says it (`tasks.models.folder.SavedModel`)
    classes_         (n_classes,): the labels
    n_features_in_   width of the rows
    """

    model_: SavedModel
    classes_: Array
    n_features_in_: int

    def predict(self, X: Any) -> Any:
        """The label of each row: (n_rows,) of the dtype of y. Of a Dask array a Dask array, computed when asked for.

        Raises BadRows and scikit-learn's ValueErrors, NotFittedError.
        """
        check_is_fitted(self, "model_")
        return mapped_rows(self, X, self._labels_of, None, self.classes_.dtype)

    def _labels_of(self, block: Any) -> Array:
        found: Array = self.classes_[best_classes(self.model_, rows_of(block))]
        return found

    def _tells_probabilities(self) -> bool:
        may = is_probabilistic(self.model_.model) if hasattr(self, "model_") else self._will_tell_probabilities()
        if not may:
            raise AttributeError(f"{type(self).__name__} has no predict_proba: {self._without_probabilities()}")
        return True

    def _will_tell_probabilities(self) -> bool:
        """Whether a fit with these parameters comes to a model that tells probabilities."""
        return False

    def _without_probabilities(self) -> str:
        """Why there are none, and what to do."""
        return "its scores are no log-odds; KMeansTreeClassifier and TraceNormClassifier tell probabilities"

    @available_if(_tells_probabilities)
    def predict_proba(self, X: Any) -> Any:
        """Probabilities (n_rows, n_classes) float64. Classes that a tree's search does not come to share what is left.

        Raises as `predict` does; there is no such method where the model's scores are no log-odds.
        """
        check_is_fitted(self, "model_")
        return mapped_rows(self, X, self._probabilities_of, len(self.classes_), np.dtype(np.float64))

    def _probabilities_of(self, block: Any) -> Array:
        return probabilities(self.model_, rows_of(block))

    def _gives_scores(self) -> bool:
        may = scores_all(self.model_) if hasattr(self, "model_") else self._will_give_scores()
        if not may:
            raise AttributeError(
                f"{type(self).__name__} has no decision_function: it gives scores to some classes of a row only"
            )
        return True

    def _will_give_scores(self) -> bool:
        """Whether a fit with these parameters comes to a model that scores every class."""
        return False

    @available_if(_gives_scores)
    def decision_function(self, X: Any) -> Any:
        """Scores (n_rows, n_classes) float32; of two classes (n_rows,), above 0 for the second."""
        check_is_fitted(self, "model_")
        columns = len(self.classes_) if len(self.classes_) > 2 else None
        return mapped_rows(self, X, self._scores_of, columns, np.dtype(np.float32))

    def _scores_of(self, block: Any) -> Array:
        scores = all_scores(self.model_, rows_of(block))
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def save(self, folder: str | Path, *, overwrite: bool = False) -> str:
        """Write the model as a folder that the command line knows (predict, inspect, verify); returns its digest.

        overwrite  whether a model that stands there is replaced; nothing but a model ever is
        Raises FolderTaken, NotFittedError, DiskFull.
        """
        check_is_fitted(self, "model_")
        return save_estimator(self, Path(folder), overwrite)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")


class Classifier(Predictor):
    """A learner of the config: its parameters are the keys of its section, under the same names.

    digest_    of the dataset that was fitted: that of `labelgrove ingest` of the same rows, labels and seed
    results_   what the training step says: shape of a tree, history of rounds, certificate
    """

    learner_kind: ClassVar[str] = ""  # what the config calls it
    chooses: ClassVar[bool] = False  # whether it has use for validation rows
    digest_: str
    results_: dict[str, Any]

    def fit(self, X: Any, y: Any) -> Self:
        """Fit on rows (n_rows, n_features) and labels (n_rows,): NumPy, SciPy sparse, zarr or Dask arrays.

        Rows of zarr and Dask arrays are read block by block and copied to temporary files, never held at once. The
        model is that of `labelgrove run` for the same rows, labels, seed and parameters.
        A fit that fails or is interrupted leaves the estimator as it was.
        Raises BadParameter and BadRows, both ValueErrors; the named errors of clusters, memory and disk.
        """
        with as_before(self):
            self._fit(X, y)
        return self

    def _fit(self, rows: Any, y: Any) -> None:
        seed = seed_of(self.random_state)
        encodings = self._encodings()
        config = config_of(seed, [sections(self._section(), encodings)], encodings)
        rows, y = checked_pair(self, rows, y)
        labels = labelled(y)
        asked = Fit(
            config,
            labels,
            taxonomy_of(getattr(self, "taxonomy", None), labels.names),
            self._share(),
            self.scheduler,
            self.folder,
            f"train {self.learner_kind}",
        )
        found = fit_model(asked, rows)
        self._warn_of_few(found.n_validation, asked.validation, len(y))
        self.model_, self.results_, self.digest_ = found.saved, found.results, found.dataset
        self.classes_ = labels.classes

    def _section(self) -> dict[str, Any]:
        given = self.get_params(deep=False)
        keys = {key: value for key, value in given.items() if key not in NOT_KEYS}
        return {"kind": self.learner_kind, "name": self.learner_kind, **keys}

    def _encodings(self) -> list[dict[str, Any]]:
        """The sections of what the learner reads in place of the rows."""
        given = getattr(self, "encode", None)
        if given is None:
            return []
        chain: Sequence[Any] = given if isinstance(given, list | tuple) else [given]
        found: list[dict[str, Any]] = []
        for place, encoder in enumerate(chain):
            if not isinstance(encoder, Encoder):
                what = f"encode: {type(encoder).__name__} is neither a ProductQuantizer nor a WTAHasher"
                raise BadParameter(what, "encode", "other transformers stand before the classifier in a Pipeline")
            name = f"{ENCODED}-{place}" if place else ENCODED
            reads = {"rows": found[-1]["name"]} if found else {}
            found.append({**encoder.section(name), **reads})
        return found

    def _share(self) -> float:
        share = getattr(self, "validation_fraction", 0.0)
        if isinstance(share, bool) or not isinstance(share, int | float | np.number) or not 0 <= share < 1:
            what = f"validation_fraction = {share!r}: expected a number from 0 up to, not including, 1"
            raise BadParameter(what, "validation_fraction")
        return float(share)

    def _warn_of_few(self, n_validation: int, share: float, n_rows: int) -> None:
        if share and not n_validation:
            text = (
                f"validation_fraction = {share} of {n_rows} rows are none that a class can spare: "
                f"{type(self).__name__} chooses on its training rows"
            )
            warnings.warn(text, FewRowsWarning, stacklevel=4)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """The fitted estimator of a model's folder, saved by `save` or made by `labelgrove run`.

        Of a run its parameters are those of the model's section, and random_state is the run's seed. encode, taxonomy
        and validation_fraction are then as by default: a model does not tell these of a run.
        Raises ModelMissing, ModelDamaged and the like; BadParameter for a model of another kind.
        """
        return load_estimator(cls, folder)


class FewRowsWarning(UserWarning):
    """There are too few rows to keep some for choosing."""
