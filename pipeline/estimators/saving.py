"""Fitted estimators as model folders: those of `labelgrove run`, with the dtype of the labels noted beside."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pipeline.estimators.errors import BadParameter, FolderTaken, os_errors
from pipeline.estimators.labels import dtype_told, labels_of_table, spelled
from pipeline.owned import refuse_owned
from tasks.models.errors import ModelFormat
from tasks.models.feature_names import ESTIMATOR, FEATURES, feature_names
from tasks.models.folder import SavedModel, load_model, save_model
from tasks.models.header import FORMAT, RESTORE
from tasks.models.registry import config_word
from tasks.models.sums import HEADER
from tasks.places import at, is_remote

T = TypeVar("T")
WRITE_HINT = "name a folder that can be made, below one that can be written"
READ_HINT = "name the folder of a model: what save or `labelgrove run` has written"


def save_estimator(estimator: Any, folder: Path, overwrite: bool) -> str:
    """Write a fitted estimator's model; see `Predictor.save`."""
    with os_errors(folder, WRITE_HINT):
        place = at(folder)
        refuse_owned(place)
        refuse_taken(place, overwrite)
        return _saved(estimator, place)


def _saved(estimator: Any, place: Path) -> str:
    saved: SavedModel = estimator.model_
    note = {
        "class": type(estimator).__name__,
        "labels": dtype_told(estimator.classes_),
        "parameters": _plain(estimator.get_params(deep=False)),
    }
    if hasattr(estimator, "feature_names_in_"):
        note[FEATURES] = [str(name) for name in estimator.feature_names_in_]
    if given := spelled(estimator.classes_):
        note["spelled"] = given
    return save_model(
        place,
        saved.model,
        saved.classes,
        rows=str(saved.header["rows"]),
        test_rows=str(saved.header["test_rows"]),
        encoders=saved.encoders,
        metrics=saved.header.get("metrics"),
        provenance={**saved.header.get("provenance", {}), ESTIMATOR: note},
    )


def refuse_taken(place: Path, overwrite: bool) -> None:
    """Raises FolderTaken unless nothing is there, or a model that may be replaced."""
    if not is_remote(place) and not place.is_symlink() and not place.exists():
        return
    if not is_remote(place) and place.is_dir() and not place.is_symlink() and not any(place.iterdir()):
        return
    if is_remote(place) and not (place / HEADER).exists():
        return
    try:
        ours = json.loads((place / HEADER).read_text(encoding="utf-8")).get("format") == FORMAT
    except (OSError, ValueError, AttributeError):
        ours = False
    if not ours:
        raise FolderTaken(
            "something that is no model is there", str(place), "choose another name: it is never replaced"
        )
    if not overwrite:
        raise FolderTaken("a model is there already", str(place), "choose another name, or save(..., overwrite=True)")


def _plain(given: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that JSON can hold: numbers, texts, None."""
    found = {key: value.item() if hasattr(value, "item") else value for key, value in given.items()}
    return {key: value for key, value in found.items() if value is None or isinstance(value, bool | int | float | str)}


def load_estimator(kind: type[T], folder: str | Path) -> T:
    """The estimator of a class with the model of a folder; see `Classifier.load`."""
    with os_errors(folder, READ_HINT):
        saved = load_model(folder)
    note = note_of(saved)
    expected: str = kind.learner_kind  # type: ignore[attr-defined]
    found = config_word(str(saved.header["kind"])).replace("kmeans-forest", "kmeans-tree")
    if found != expected:
        what = f"this is a model of kind {found}, {kind.__name__} is of kind {expected}"
        raise BadParameter(what, str(folder), "TrainedClassifier.load takes models of every kind")
    given = note.get("parameters", {}) if note.get("class") == kind.__name__ else {}
    known = kind._get_param_names()  # type: ignore[attr-defined]
    estimator = kind(
        **{key: value for key, value in given.items() if key in known and key not in ("scheduler", "folder")}
    )
    take_model(estimator, saved)
    return estimator


def take_model(estimator: Any, saved: SavedModel) -> None:
    """Make an estimator a fitted one. Raises ModelFormat where the note of the labels does not fit the classes."""
    note = note_of(saved)
    try:
        estimator.classes_ = labels_of_table(saved.classes, note.get("labels"), note.get("spelled"))
    except (ValueError, TypeError, AttributeError, IndexError, OverflowError) as error:
        what = f"the labels that the estimator has noted are not those of the classes ({error})"
        raise ModelFormat(what, saved.folder, RESTORE) from error
    estimator.model_ = saved
    estimator.n_features_in_ = saved.n_features
    estimator.results_ = {}
    estimator.digest_ = str(saved.header.get("provenance", {}).get("dataset", ""))
    noted, known = note.get(FEATURES), feature_names(saved.header.get("provenance", {}))
    names = noted if isinstance(noted, list) else known.names if known is not None else None
    if names is not None and len(names) == saved.n_features:
        import numpy as np

        estimator.feature_names_in_ = np.array(names, object)


def note_of(saved: SavedModel) -> Mapping[str, Any]:
    """What `save_estimator` has noted; empty of models that the command line has made."""
    note = saved.header.get("provenance", {}).get(ESTIMATOR, {})
    return note if isinstance(note, dict) else {}
