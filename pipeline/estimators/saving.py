"""Fitted estimators as model folders: those of `labelgrove run`, with the dtype of the labels noted beside."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pipeline.estimators.encoders import ProductQuantizer, WTAHasher
from pipeline.estimators.errors import BadParameter, FolderTaken, os_errors
from pipeline.estimators.labels import dtype_told, labels_of_table, spelled
from pipeline.ingest.place import scratch_beside
from pipeline.outputs import OutputExists, move_folder_in
from pipeline.owned import refuse_owned
from tasks.files import sync_path
from tasks.models.card import SETTINGS
from tasks.models.errors import ModelFormat
from tasks.models.feature_names import ESTIMATOR, FEATURES, feature_names
from tasks.models.folder import SavedModel, load_model, save_model
from tasks.models.header import FORMAT, RESTORE
from tasks.models.registry import config_word
from tasks.models.sums import HEADER, SUMS
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
        if is_remote(place):
            return _saved(estimator, place)
        try:
            with scratch_beside(place) as scratch:
                digest = _saved(estimator, scratch / place.name)
                move_folder_in(scratch / place.name, place, SUMS, overwrite)
                sync_path(str(place.absolute().parent))
        except OutputExists as error:
            hint = error.hint.replace("--force", "save(..., overwrite=True)")
            raise FolderTaken(error.what, str(place), hint) from None
        return digest


def _saved(estimator: Any, place: Path) -> str:
    saved: SavedModel = estimator.model_
    note = {
        "class": type(estimator).__name__,
        "labels": dtype_told(estimator.classes_),
        "parameters": _told(estimator.get_params(deep=False)),
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


def _told(given: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters as JSON: also encoders, and a taxonomy that is a mapping of texts."""
    found = _plain(given)
    if (encode := given.get("encode")) is not None:
        found["encode"] = [_told_encoder(one) for one in (encode if isinstance(encode, list | tuple) else [encode])]
    if isinstance(taxonomy := given.get("taxonomy"), Mapping):
        try:
            found["taxonomy"] = json.loads(json.dumps(taxonomy))
        except (TypeError, ValueError):  # labels that are no texts or numbers
            return found
        if found["taxonomy"] != taxonomy:  # as of whole numbers, which become texts
            del found["taxonomy"]
    return found


def _told_encoder(encoder: Any) -> dict[str, Any]:
    return {"class": type(encoder).__name__, "parameters": _plain(encoder.get_params(deep=False))}


def _encoders_of(noted: Any) -> Any:
    """What `encode` was: the encoder of a note, or several; None where it tells none that are known."""
    known = {one.__name__: one for one in (ProductQuantizer, WTAHasher)}
    made = []
    for one in noted if isinstance(noted, list) else []:
        kind = known.get(one.get("class")) if isinstance(one, dict) else None
        given = one.get("parameters") if isinstance(one, dict) else None
        if kind is None or not isinstance(given, dict):
            return None
        made.append(kind(**{key: given[key] for key in _learnt_by(kind) & given.keys()}))
    return made[0] if len(made) == 1 else made or None


def _learnt_by(kind: Any) -> set[str]:
    """Names of the parameters that what is learnt depends on."""
    return set(kind._get_param_names()) - {"scheduler", "folder"}


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
    given = note.get("parameters", {}) if note.get("class") == kind.__name__ else _of_run(saved)
    known = {key: value for key, value in given.items() if key in _learnt_by(kind)}
    estimator = kind(**known | ({"encode": _encoders_of(known["encode"])} if "encode" in known else {}))
    take_model(estimator, saved)
    return estimator


def _of_run(saved: SavedModel) -> dict[str, Any]:
    """The parameters of a model that a run has trained: its section of the config, the run's seed, and how it searches.

    A model tells no more: neither the share of validation rows, nor how its encodings were trained, nor a taxonomy.
    """
    provenance = saved.header.get("provenance", {})
    found = provenance.get(SETTINGS, {})
    given = {key: value for key, value in found.items() if key != "taxonomy"} if isinstance(found, dict) else {}
    given |= {name: value for name in ("beam", "doubt") if (value := getattr(saved.model, name, None)) is not None}
    return given | ({"random_state": provenance["seed"]} if "seed" in provenance else {})


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
