"""What an ingest was asked for, in words that can be typed again: kept with the dataset, shown in reports.

Of files only their own names are kept, never the folders that they stood in, nor what a URL carries to get in.
"""

from __future__ import annotations

import operator
import os
import shlex
from collections.abc import Mapping
from typing import Any

from pipeline.ingest.made_rows import MadeRows
from pipeline.ingest.remote import is_url, shown
from tasks.errors import ParamError

FILES = (
    "labels", "classes", "taxonomy", "split", "test_source", "test_labels", "validation_source", "validation_labels"
)  # fmt: skip
WORDS = (
    "several_parents", "validation", "test", "fmt", "rows_at", "labels_at", "raw_shape", "raw_dtype", "index_base",
    "n_features", "dtype", "on_nonfinite", "on_corrupt", "block_rows", "seed", "encode", "subquantizers", "bits",
    "sample", "iterations"
)  # fmt: skip
TYPED = {"fmt": "format", "n_features": "features"}  # where the command line has another word than the function
ABOUT = {  # what made rows say of themselves
    "about": "source", "test_about": "test_source", "validation_about": "validation_source"
}  # fmt: skip
IN_MEMORY = "(in memory)"  # of what was no file


def whole(name: str, value: Any) -> Any:
    """A whole number of any type, NumPy's too, as Python's own, which can be kept as JSON; None stays. Raises
    ParamError."""
    try:
        return None if value is None else operator.index(value)
    except TypeError:
        raise ParamError(name, value, "a whole number", f"{type(value).__name__} is none") from None


def options_of(asked: Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `ingest` that decide what is made and are not the usual ones, as plain values.

    asked  all arguments; usual  their defaults
    """
    found: dict[str, Any] = {"source": _named(asked["source"])}
    found |= {key: _named(asked[key]) for key in FILES if asked[key] is not None}
    made = {key: asked[source] for key, source in ABOUT.items() if isinstance(asked.get(source), MadeRows)}
    found |= {key: rows.about for key, rows in made.items() if rows.about is not None}
    return found | {key: _plain(asked[key]) for key in WORDS if asked[key] != usual[key]}


def _named(value: Any) -> Any:
    """The name of a file, or the names of several; IN_MEMORY of anything else."""
    if isinstance(value, str | os.PathLike):
        text = os.fspath(value)
        return (shown(text) if is_url(text) else text).rstrip("/").rpartition("/")[2] or text
    if isinstance(value, list | tuple) and value and all(isinstance(one, os.PathLike) for one in value):
        return [_named(one) for one in value]
    return IN_MEMORY


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float) else str(value)


def command_of(options: Mapping[str, Any], dataset: str) -> str:
    """The command that makes the dataset of this name again; "" where it was made of rows in memory, or by a version
    that has kept nothing."""
    source = options.get("source")
    if not isinstance(source, str) or any(value == IN_MEMORY or isinstance(value, list) for value in options.values()):
        return ""
    words = ["labelgrove", "ingest", source, dataset]
    for key in (*FILES, *WORDS):
        if key in options:
            words += [f"--{TYPED.get(key, key).replace('_', '-')}", str(options[key])]
    return shlex.join(words)
