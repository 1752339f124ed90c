"""Rows of files that nobody has ingested: opened, checked, with their labels when they are known."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pipeline.accuracy import labels_of_rows
from pipeline.dataset import FORMAT, Note
from pipeline.ingest import open_source
from pipeline.ingest.candidates import UNREAD
from pipeline.ingest.class_table import Classes
from pipeline.ingest.errors import SvmlightLine
from pipeline.ingest.feature_order import ORDERED
from pipeline.ingest.images import ImageSource
from pipeline.ingest.remote import remote
from pipeline.ingest.scan import Scan, notes_of, notes_of_rounded, refuse_damaged, refuse_non_finite, scan
from pipeline.ingest.source import Source
from pipeline.last_resort import say_line
from tasks.errors import InputError
from tasks.io import FEATURES, ROW_ID
from tasks.models.feature_names import FeatureNames
from tasks.places import at
from tasks.rows.base import Array
from tasks.urls import is_url, names_a_store

OPTIONS = {
    "fmt": "--format",
    "rows_at": "--rows-at",
    "labels_at": "--labels-at",
    "raw_shape": "--raw-shape",
    "raw_dtype": "--raw-dtype",
    "index_base": "--index-base",
}
TOLD = ("SvmlightIndexBase", UNREAD, ORDERED)  # what is said of rows of files beside warnings


def options_of(reading: Mapping[str, Any]) -> dict[str, Any]:
    """How files are to be read, under the names of the command line."""
    return {option: reading.get(name) for name, option in OPTIONS.items()}


def is_dataset(data: str) -> bool:
    """Whether this is a dataset store, even a damaged one, and not a zarr array or AnnData folder of the user's."""
    if "\0" in data:  # no file can be called so
        return False
    if is_url(data) and not names_a_store(data):
        return False
    path = at(data)
    try:
        attrs = json.loads((path / "zarr.json").read_text(encoding="utf-8"))["attributes"]
        return attrs.get("format") == FORMAT or (path / ROW_ID).is_dir()
    except (FileNotFoundError, NotADirectoryError):
        foreign = any((path / name).exists() for name in (".zgroup", ".zarray"))
        return (path / FEATURES).is_dir() and not foreign
    except KeyError:
        return (path / ROW_ID).is_dir()
    except (OSError, ValueError, TypeError, AttributeError):
        return True


def open_rows(
    data: str,
    spool: Path,
    n_features: int,
    labels: str | None,
    classes: Classes,
    reading: Mapping[str, Any],
    dtype: str = "float32",
    features: FeatureNames | None = None,
) -> tuple[Source, Array | None]:
    """Rows of files, and their classes (n_rows,) int32 or None.

    data     files or a URL; spool: a folder for what has to be fetched or unpacked
    labels   a file of labels, when there is one; reading: those of OPTIONS, as for `ingest`
    dtype    of the values as they will be used
    features names of the features that are wanted, where they have some
    raises   the errors of reading rows and labels, InputError when there are none, NonFiniteFeature
    """
    with remote(spool / "remote") as fetch:
        data, labels = fetch.local(data), fetch.local(labels, column=True)
        how = {**reading, "n_features": n_features, "features": features}
        source = _open(data, spool, labels is None, how)
        if not source.n_rows:
            raise InputError("there are no rows", data, "give files with at least one row")
        _tell(note for note in source.notes if note.level == "warning" or note.code in TOLD)
        known, said = labels_of_rows(labels, source, classes)
        _tell(said)
        found = scan(source, dtype)
        refuse_non_finite([found], "leave such rows out")
        _tell(notes_of_rounded([found]))
    return _readable(source, known, found)


def _tell(notes: Iterable[Note]) -> None:
    """Each note once: several files may give rise to the same."""
    for note in dict.fromkeys(notes):
        say_line(f"{note.level}: {note.code}: {note.text}")


def _readable(source: Source, known: Array | None, found: Scan) -> tuple[Source, Array | None]:
    """Without images that cannot be decoded, which are said. Raises DamagedImage when none is left."""
    if not found.damaged_rows or not isinstance(source, ImageSource):
        return source, known
    if len(found.damaged_rows) == source.n_rows:
        refuse_damaged([found], source.n_rows)
    _tell(notes_of([found]))
    left = source.without(found.damaged_rows)
    return left, None if known is None else known[left.numbers]


def _open(data: str, spool: Path, labelled: bool, how: Mapping[str, Any]) -> Source:
    """svmlight lines may begin with anything where a label would stand, or with the first column at once."""
    try:
        return open_source(data, spool, labelled=labelled, **how)
    except SvmlightLine:
        if not labelled:
            raise
        return open_source(data, spool, labelled=False, **how)
