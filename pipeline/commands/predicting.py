"""predict: rank classes for rows, and say how many are right where labels are known."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.accuracy import Accuracy
from pipeline.byte_sizes import human_bytes
from pipeline.commands.ranking_rows import Asked, Predicted, checked_model, ranked
from pipeline.connection.profile import is_far
from pipeline.ingest.place import scratch_beside
from pipeline.ingest.remote import shown
from pipeline.last_resort import say_line
from pipeline.outputs import ACCURACY, PARQUET, TABLES, metrics_path, output_place, put_in_place, write_numbers
from pipeline.predictions_csv import write_csv
from tasks.models.folder import SavedModel
from tasks.models.predictions import LABEL_LOG, PROBABILITIES, join_parts


def predict(
    model: Path,
    data: str,
    output: Path,
    *,
    labels: str | None = None,
    taxonomy: str | None = None,
    top: int = 5,
    proba: bool = False,
    beam: int | None = None,
    doubt: float | None = None,
    uncoded: bool = False,
    split: str | None = None,
    scheduler: str | None = None,
    format: str | None = None,
    rows_at: str | None = None,
    labels_at: str | None = None,
    raw_shape: str | None = None,
    raw_dtype: str | None = None,
    index_base: int | None = None,
    force: bool = False,
) -> int:
    """Rank classes for rows of a dataset store or of files, block by block; returns the number of rows written.

    split, scheduler     of a dataset store only; labels, format, rows_at ... index_base: of files only
    proba                also write probabilities of the classes named, and the logarithm of that of a known label
    beam                 of a tree: nodes expanded a depth at most; None: the model's own
    doubt                of a hierarchy: how near a split a row goes both ways; None: the model's own
    uncoded              of a model of codes: rows of numbers as they are, not as codes would have them
    taxonomy             a file that hierarchical error is measured on, in place of the dataset's or the model's own
    output               Parquet, or by its ending .csv or .tsv: with the classes' names in place of their numbers
    Where labels are known, a table goes to stdout and its numbers to a file beside the output: see `metrics_path`.
    raises               OutputExists, PlaceTaken, NoProbabilities, ColumnMismatch, the errors of model, rows and labels
    """
    output = output_place(output, force, TABLES)
    reading: dict[str, Any] = {"fmt": format, "rows_at": rows_at, "labels_at": labels_at}
    reading |= {"raw_shape": raw_shape, "raw_dtype": raw_dtype, "index_base": index_base}
    asked = Asked(model, data, labels, taxonomy, top, proba, beam, doubt, split, scheduler, reading, uncoded=uncoded)
    saved = checked_model(asked, "labelgrove predict MODEL DATA -o PREDICTIONS.parquet")
    with scratch_beside(output, asked.of_dataset and is_far(scheduler)) as scratch:
        done = ranked(asked, saved, scratch)
        facts = {"model": saved.digest, "model_folder": saved.folder, "data": shown(data), **asked.searched()}
        joined = _joined(done, asked, saved, output, scratch)
        put_in_place(joined, _numbers(done.accuracy, facts, scratch), output, force)
    say_line(f"{output}: {done.rows:,} rows, {human_bytes(output.stat().st_size)}")
    if done.accuracy.scores:
        sys.stdout.write(done.accuracy.table())
        say_line(f"{metrics_path(output)}: the same and more, as JSON")
    return done.rows


def _joined(done: Predicted, asked: Asked, saved: SavedModel, output: Path, scratch: Path) -> Path:
    """One file of all parts, in the form that the output's ending names."""
    joined = scratch / f"joined{output.suffix.lower()}"
    if joined.suffix == PARQUET:
        join_parts(done.parts, joined, asked.searched(), drop=() if asked.proba else (PROBABILITIES, LABEL_LOG))
    else:
        write_csv(done.parts, joined, saved.classes, asked.proba)
    return joined


def _numbers(accuracy: Accuracy, facts: Mapping[str, Any], scratch: Path) -> Path | None:
    """A file of them, where labels are known."""
    if not accuracy.scores:
        return None
    path = scratch / "numbers.json"
    write_numbers(path, ACCURACY, {**facts, "metrics": accuracy.metrics()})
    return path
