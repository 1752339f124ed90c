"""A model as a documented folder: written whole or not at all, checked before anything in it is believed.

models/NAME/
  model.json           format, version, kind, sizes, definitions, encoders, tensors, content digest, provenance, metrics
  weights.safetensors  the tensors; those of an encoder are named encoder.<place>.<name>
  classes.parquet      class int32, id string, name string
  README.md            model card
  SHA256SUMS           of the four above, as sha256sum writes it
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tasks.classes import ClassTable
from tasks.errors import LabelgroveError
from tasks.files import beside, disk_room, settle
from tasks.later import later
from tasks.models.base import Model, Ranking, has_doubt
from tasks.models.card import model_card
from tasks.models.encoder import Encoder, encode_all
from tasks.models.errors import ModelDamaged, ModelFormat
from tasks.models.feature_names import FeatureNames, feature_names
from tasks.models.fetched import local_model
from tasks.models.flat import is_flat, is_probabilistic, is_tree, rank_flat
from tasks.models.header import RESTORE, content_digest, json_text, make_header, plain_values, read_header
from tasks.models.parquet import read_table, write_table
from tasks.models.registry import ENCODERS, MODELS, class_of
from tasks.models.sums import CARD, CLASSES, HEADER, SUMS, WEIGHTS, check_folder, sums_text
from tasks.models.tensors import check_finite, not_finite, read_tensors, shapes_of, write_tensors
from tasks.places import at, is_remote, put_folder
from tasks.rows.base import Array, Rows

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = later("pyarrow")


@dataclass(frozen=True, eq=False)
class SavedModel:
    """A model with all that its folder says: ranks raw rows, encoding them first where it carries encoders."""

    model: Model
    classes: ClassTable
    encoders: tuple[Encoder, ...] = ()
    header: Mapping[str, Any] = field(default_factory=dict)
    folder: str = ""

    @property
    def digest(self) -> str:
        return str(self.header["digest"])

    @property
    def n_features(self) -> int:
        """Columns of the raw rows that it takes."""
        return self.encoders[0].n_features if self.encoders else self.model.n_features

    @property
    def feature_names(self) -> FeatureNames | None:
        """Of those columns; None where the rows that it learnt from had none. Never names of another number of them."""
        found = feature_names(self.header.get("provenance", {}))
        return found if found is not None and found.count == self.n_features else None

    @property
    def probabilistic(self) -> bool:
        """Whether its scores are log-odds or probabilities, so that predictions hold probabilities."""
        return is_probabilistic(self.model)

    def rank(
        self, rows: Rows, top: int, encoded: bool = False, labels: Array | None = None, beam: int | None = None
    ) -> Ranking:
        """Raw rows go through the encoders, first to last; a run's own rows may be `encoded` to the end already.

        labels  (n_rows,) int32, -1 where not known: with them the ranking holds probabilities, if the model has any
        beam    of a tree: nodes expanded a depth at most; None: the model's own
        """
        rows = rows if encoded else encode_all(rows, self.encoders)
        if is_tree(self.model):
            return self.model.rank(rows, top, labels, beam)
        if labels is not None and self.probabilistic and is_flat(self.model):
            return rank_flat(self.model, rows, top, labels)
        return self.model.rank(rows, top)

    def searching(self, beam: int | None) -> SavedModel:
        """The same with another beam of its own, of a tree; None: as it is."""
        return replace(self, model=self.model.searched(beam)) if beam is not None and is_tree(self.model) else self

    def doubting(self, doubt: float | None) -> SavedModel:
        """The same with another doubt, of a hierarchy; None: as it is."""
        return replace(self, model=self.model.doubting(doubt)) if doubt is not None and has_doubt(self.model) else self


def save_model(
    folder: str | Path,
    model: Model,
    classes: ClassTable,
    *,
    rows: str = "x",
    test_rows: str = "x",
    encoders: Sequence[Encoder] = (),
    metrics: Mapping[str, float] | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> str:
    """Write a model folder in place of whatever stood there; returns the content digest.

    rows, test_rows  names of the encoding it learnt from and of the one it predicts on ("x" = raw rows)
    encoders         what turns raw rows into test_rows; empty when it predicts on raw rows
    metrics          numbers of metrics.json, shown in the card; provenance: plain JSON values; neither is in the digest
    raises           Diverged when a weight is not finite, DiskFull
    """
    place = at(folder)
    tensors = _all_tensors(model, encoders)
    check_finite(tensors)
    header = make_header(model, encoders, tensors, {"rows": rows, "test_rows": test_rows})
    header["digest"] = content_digest(header, tensors, classes.ids, classes.names)
    header |= {"name": place.name, "metrics": plain_values(metrics or {}), "provenance": plain_values(provenance or {})}
    _write_folder(place, header, tensors, classes)
    return str(header["digest"])


def _write_folder(place: Path, header: dict[str, Any], tensors: dict[str, Array], classes: ClassTable) -> None:
    """All files beside the place, then one rename (in an object store put, SHA256SUMS last); or nothing is left."""
    spare = beside(Path(tempfile.gettempdir(), place.name) if is_remote(place) else place)
    shutil.rmtree(spare, ignore_errors=True)
    try:
        with disk_room(str(place), sum(values.nbytes for values in tensors.values())):
            spare.mkdir(parents=True)
            write_tensors(spare / WEIGHTS, tensors)
            write_table(spare / CLASSES, _class_rows(classes))
            (spare / HEADER).write_text(json_text(header, indent=1) + "\n", "utf-8")
            card = model_card(header, place.name, header["provenance"], header["metrics"])
            (spare / CARD).write_text(card, "utf-8")
            (spare / SUMS).write_text(sums_text(spare), "utf-8")
            settle(str(spare))
            put_folder(spare, place, SUMS)
    finally:
        shutil.rmtree(spare, ignore_errors=True)


def load_model(folder: str | Path) -> SavedModel:
    """The model of a folder, after every file's checksum was compared.

    Raises UnsafeFormat, UnsafePath, ModelMissing, ModelDamaged, ModelFormat, HashMismatch: all with the file's path.
    """
    with local_model(at(folder)) as place:
        return _loaded(place, str(at(folder)))


def _loaded(place: Path, folder: str) -> SavedModel:
    """The model of a local folder, a copy of `folder` perhaps."""
    check_folder(place)
    header = read_header(place)
    tensors = read_tensors(place / WEIGHTS)
    if shapes_of(tensors) != header["tensors"]:
        raise ModelFormat("its tensors are not those that model.json lists", str(place / WEIGHTS), RESTORE)
    classes = _read_classes(place / CLASSES, header["n_classes"])
    where = str(place / HEADER)
    model: Model = _built(class_of(header["kind"], MODELS, where), header, _group(tensors, ""), where)
    if (model.n_features, model.n_classes) != (header["n_features"], header["n_classes"]):
        raise ModelFormat("n_features and n_classes are not those of the tensors", where, RESTORE)
    encoders = [
        _built(class_of(part["kind"], ENCODERS, where), part, _group(tensors, f"encoder.{i}."), where)
        for i, part in enumerate(header["encoders"])
    ]
    return SavedModel(model, classes, tuple(encoders), header, folder)


def publish_model(source: str | Path, target: str | Path, metrics: Mapping[str, float], beam: int | None = None) -> str:
    """Write the model of one folder to another, with the metrics that were measured since; the digest stays.

    beam  of a tree: that it was tested with, to be its own from now on
    """
    saved = load_model(source).searching(beam)
    return save_model(
        target,
        saved.model,
        saved.classes,
        rows=saved.header["rows"],
        test_rows=saved.header["test_rows"],
        encoders=saved.encoders,
        metrics=metrics,
        provenance=saved.header["provenance"],
    )


def verify_model(folder: str | Path) -> str:
    """Load a model and compute its content digest again; returns it.

    Raises ModelDamaged when it is another, or when numbers are not finite: such a model was never written here.
    """
    saved = load_model(folder)
    tensors = _all_tensors(saved.model, saved.encoders)
    for name, values in sorted(tensors.items()):
        if values.dtype.kind == "f" and (count := not_finite(values)):
            what = f"{count:,} of {values.size:,} numbers of {name!r} are not finite"
            raise ModelDamaged(what, str(at(folder) / WEIGHTS), RESTORE)
    digest = content_digest(saved.header, tensors, saved.classes.ids, saved.classes.names)
    if digest != saved.digest:
        what = f"the content digest is {digest}, model.json says {saved.digest}"
        raise ModelDamaged(what, str(at(folder) / HEADER), RESTORE)
    return digest


def _built(kind: Any, header: Mapping[str, Any], tensors: dict[str, Array], where: str) -> Any:
    """kind.load(...), with any complaint about a wrong header turned into ModelFormat at its place."""
    try:
        return kind.load(dict(header), tensors)
    except LabelgroveError as error:
        raise type(error)(error.what, error.where or where, error.hint or RESTORE) from error
    except (KeyError, ValueError, TypeError, IndexError, AttributeError, OverflowError) as error:
        raise ModelFormat(f"header and tensors do not fit ({type(error).__name__}: {error})", where, RESTORE) from error


def _all_tensors(model: Model, encoders: Sequence[Encoder]) -> dict[str, Array]:
    tensors = dict(model.tensors())
    for i, encoder in enumerate(encoders):
        tensors |= {f"encoder.{i}.{name}": values for name, values in encoder.tensors().items()}
    return tensors


def _group(tensors: dict[str, Array], prefix: str) -> dict[str, Array]:
    """Tensors under a prefix, without it; the prefix "" means those of the model itself."""
    if prefix:
        return {name[len(prefix) :]: values for name, values in tensors.items() if name.startswith(prefix)}
    return {name: values for name, values in tensors.items() if not name.startswith("encoder.")}


def _class_rows(classes: ClassTable) -> pa.Table:
    numbers = np.arange(len(classes.ids), dtype=np.int32)
    columns = [pa.array(numbers), pa.array(classes.ids, pa.string()), pa.array(classes.names, pa.string())]
    return pa.table(columns, names=["class", "id", "name"])


def _read_classes(path: Path, n_classes: int) -> ClassTable:
    table = read_table(path, ModelDamaged, RESTORE)
    if table.column_names != ["class", "id", "name"] or table.num_rows != n_classes:
        raise ModelFormat(f"it is no table (class, id, name) of {n_classes} rows", str(path), RESTORE)
    if table["class"].to_pylist() != list(range(n_classes)):
        raise ModelFormat("its classes are not numbered 0, 1, 2, ...", str(path), RESTORE)
    return ClassTable(tuple(table["id"].to_pylist()), tuple(table["name"].to_pylist()))
