"""Models at URLs: the whole folder is fetched once per process and version, checked and read as a local one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tasks.errors import LabelgroveError
from tasks.models.errors import ModelMissing
from tasks.models.sums import SUMS
from tasks.models.tensors import refuse_unsafe_name
from tasks.places import is_remote, local_folder


@contextmanager
def local_model(folder: Path) -> Iterator[Path]:
    """A local folder with the files of a model: itself on a disk. Errors of the block name the URL, not the copy."""
    if not is_remote(folder):
        yield folder
        return
    refuse_unsafe_name(folder.name, str(folder))
    try:
        copy = local_folder(folder, SUMS)
    except FileNotFoundError:
        what = f"there is no {SUMS}: this is no model folder"
        raise ModelMissing(what, str(folder), "give the folder of a model") from None
    try:
        yield copy
    except LabelgroveError as error:
        told = tuple(text.replace(str(copy), str(folder)) for text in (error.what, error.where, error.hint))
        error.what, error.where, error.hint = told
        if len(error.args) == len(told):
            error.args = told
        raise
