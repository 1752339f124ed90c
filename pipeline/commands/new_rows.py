"""Rows of files that nobody has ingested: opened, checked, with their labels when they are known."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.accuracy import labels_of_rows
from pipeline.ingest import open_source
from pipeline.ingest.class_table import Classes
from pipeline.ingest.errors import SvmlightLine
from pipeline.ingest.scan import refuse_non_finite, scan
from pipeline.ingest.source import Source
from tasks.errors import InputError
from tasks.rows.base import Array


def open_rows(
    data: str,
    spool: Path,
    n_features: int,
    labels: str | None,
    classes: Classes,
    reading: Mapping[str, Any],
    dtype: str = "float32",
) -> tuple[Source, Array | None]:
    """Rows of files, and their classes (n_rows,) int32 or None.

    spool    a folder for what has to be unpacked
    labels   a file of labels, when there is one; reading: fmt and index_base, as for `ingest`
    dtype    of the values as they will be used
    raises   the errors of reading rows and labels, InputError when there are none, NonFiniteFeature
    """
    source = _open(data, spool, n_features, labels is None, reading)
    if not source.n_rows:
        raise InputError("there are no rows", data, "give files with at least one row")
    for note in source.notes:
        if note.level == "warning" or note.code == "SvmlightIndexBase":
            sys.stderr.write(f"{note.level}: {note.code}: {note.text}\n")
    known, said = labels_of_rows(labels, source, classes)
    if said:
        sys.stderr.write(f"info: {said}\n")
    refuse_non_finite([scan(source, dtype)], "leave such rows out")
    return source, known


def _open(data: str, spool: Path, n_features: int, labelled: bool, reading: Mapping[str, Any]) -> Source:
    """svmlight lines may begin with anything where a label would stand, or with the first column at once."""
    try:
        return open_source(data, spool, n_features=n_features, labelled=labelled, **reading)
    except SvmlightLine:
        if not labelled:
            raise
        return open_source(data, spool, n_features=n_features, labelled=False, **reading)
