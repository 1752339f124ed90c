"""Which rows are for training, validation and test: as given, or drawn by class from a seed."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.dataset import SPLITS, TEST, TRAIN, VALIDATION
from pipeline.ingest.errors import LengthMismatch, SplitFormat
from pipeline.ingest.files import PathLike, read_text, refuse_unsafe, text_lines, without_blank_end
from pipeline.ingest.npy_file import open_array
from tasks.errors import ParamError
from tasks.rows.base import Array
from tasks.seeds import stream

SplitLike = PathLike | Sequence[Any] | Array | Mapping[str, Any]
HINT = (
    "one part a row (0 1 2, or train validation test) as .npy or .txt; or the rows that are validation as .npy or a "
    'JSON list; or JSON {"validation": [rows], "test": [rows]}; or shares: 0.8,0.1,0.1'
)
WORDS = {
    "train": TRAIN,
    "validation": VALIDATION,
    "test": TEST,
    "val": VALIDATION,
    "valid": VALIDATION,
    "dev": VALIDATION,
}
WORDS |= {str(part): part for part in range(len(SPLITS))}


def check_fraction(name: str, fraction: float) -> None:
    if not 0 <= fraction < 1:
        raise ParamError(name, fraction, "a number from 0 up to, not including, 1", "it is a share of the rows")


def shares_of(split: object) -> tuple[float, float] | None:
    """Shares of validation and test of a text such as "0.8,0.1,0.1" (train first); None for anything else."""
    if not isinstance(split, str) or os.path.exists(split):
        return None
    try:
        train, validation, test = (float(word) for word in split.split(","))
    except ValueError:
        return None
    if min(train, validation, test) < 0 or train == 0 or abs(train + validation + test - 1) > 1e-6:
        raise ParamError("split", split, "three shares, the first above 0, that add up to 1", "every row has one part")
    return validation, test


def draw_split(labels: Array, validation: float, test: float, seed: int) -> Array:
    """A part (n_rows,) uint8 for each row, drawn class by class.

    Every class gives its share up to rounding, and the roundings of all classes add up to the share of the whole, so
    classes of few rows give theirs too. Every class that has rows keeps one for training.

    labels  (n_rows,) int32 classes
    """
    rng = stream(seed, "ingest", "split")
    n_classes = int(labels.max(initial=-1)) + 1
    counts = np.bincount(labels, minlength=n_classes)
    n_test = _shares(counts, test, rng.permutation(n_classes))
    n_test = np.minimum(n_test, np.maximum(counts - 1, 0))
    n_validation = _shares(counts, validation, rng.permutation(n_classes))
    n_validation = np.minimum(n_validation, np.maximum(counts - 1 - n_test, 0))
    order = np.lexsort((rng.permutation(labels.size), labels))  # rows of a class together, shuffled
    starts = np.cumsum(counts) - counts
    rank = np.arange(labels.size) - starts[labels[order]]
    classes = labels[order]
    split = np.full(labels.size, TRAIN, np.uint8)
    split[order[rank < (n_test + n_validation)[classes]]] = VALIDATION
    split[order[rank < n_test[classes]]] = TEST
    return split


def _shares(counts: Array, fraction: float, order: Array) -> Array:
    """How many rows each class gives: differences of the rounded running total, classes taken in `order`."""
    totals = np.floor(np.cumsum(counts[order]) * fraction + 0.5).astype(np.int64)
    shares = np.empty(counts.size, np.int64)
    shares[order] = np.diff(totals, prepend=0)
    return shares


def read_split(split: SplitLike, n_rows: int, rows_name: str) -> Array:
    """A part (n_rows,) uint8 for each row, as given. Raises SplitFormat, LengthMismatch.

    An array of n_rows values that are all 0, 1 or 2 gives a part for each row; other integers are rows of validation.
    """
    if isinstance(split, Mapping):
        return _from_parts(split, n_rows, "split")
    if not isinstance(split, str | os.PathLike):
        return _from_array(np.asarray(split), n_rows, "split", rows_name)
    path = Path(split)
    refuse_missing(path)
    refuse_unsafe(path)
    ending = path.suffix.lower()
    if ending == ".npy":
        return _from_array(open_array(path), n_rows, path.name, rows_name)
    if ending in (".txt", ".tsv", ""):
        return _from_array(np.array(without_blank_end(text_lines(path)), np.str_), n_rows, path.name, rows_name)
    if ending != ".json":
        raise SplitFormat(f"the ending {path.suffix!r} is no kind of split", str(path), HINT)
    try:
        found = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise SplitFormat(f"this is no JSON ({error})", str(path), HINT) from error
    if isinstance(found, dict):
        return _from_parts(found, n_rows, path.name)
    try:
        values = np.array(found)
    except ValueError as error:
        raise SplitFormat("a list of numbers or words is expected", str(path), HINT) from error
    return _from_array(values, n_rows, path.name, rows_name)


def refuse_missing(split: SplitLike) -> None:
    """Raise SplitFormat for a file that is not there."""
    if isinstance(split, str | os.PathLike) and not Path(split).is_file():
        raise SplitFormat("there is no such file, and these are no three shares", str(split), HINT)


def _from_array(values: Array, n_rows: int, source: str, rows_name: str) -> Array:
    if values.ndim != 1 or values.dtype.kind not in "iuUS":
        raise SplitFormat(f"an array of {values.dtype} with shape {values.shape}", source, HINT)
    if values.dtype.kind in "US":
        return _from_words(values, n_rows, source, rows_name)
    if len(values) == n_rows and values.size and values.min() >= 0 and values.max() < len(SPLITS):
        return values.astype(np.uint8)
    if values.size > n_rows or (values.size and values.max() < len(SPLITS) and values.size > len(SPLITS)):
        raise LengthMismatch(f"{len(values):,} parts for {n_rows:,} rows", f"{source} and {rows_name}", HINT)
    return _from_parts({"validation": values}, n_rows, source)


def _from_words(values: Array, n_rows: int, source: str, rows_name: str) -> Array:
    if len(values) != n_rows:
        raise LengthMismatch(f"{len(values):,} parts for {n_rows:,} rows", f"{source} and {rows_name}", HINT)
    split = np.empty(n_rows, np.uint8)
    for row, word in enumerate(values.astype(np.str_).tolist()):
        part = WORDS.get(word.strip().lower())
        if part is None:
            raise SplitFormat(f"{word!r} is no part", f"{source}, row {row}", HINT)
        split[row] = part
    return split


def _from_parts(parts: Mapping[str, Any], n_rows: int, source: str) -> Array:
    split = np.full(n_rows, TRAIN, np.uint8)
    taken = np.zeros(n_rows, bool)
    for word, listed in parts.items():
        if word not in WORDS:
            raise SplitFormat(f"{word!r} is no part", source, HINT)
        rows = np.asarray(listed)
        if rows.size == 0:
            continue
        if rows.ndim != 1 or rows.dtype.kind not in "iu":
            raise SplitFormat(f"the rows of {word!r} are no list of integers", source, HINT)
        outside = np.flatnonzero((rows < 0) | (rows >= n_rows))
        if outside.size:
            what = f"row {rows[outside[0]]} of {word!r} is not among {n_rows:,} rows"
            raise SplitFormat(what, f"{source}, entry {outside[0]}", "rows count from 0")
        unique, counts = np.unique(rows, return_counts=True)
        twice = unique[(counts > 1) | taken[unique]]
        if twice.size:
            raise SplitFormat(f"row {twice[0]} is named twice", source, "each row belongs to one part")
        split[rows], taken[rows] = WORDS[word], True
    return split
