"""A taxonomy per purpose: what a model hashes by, and what hierarchical error is measured on, may be other trees.

A file is read as `labelgrove ingest --taxonomy` reads it, over the classes of the dataset. Fingerprints take what it
says (`pipeline.dataset.taxonomy_digest` of the result), never its path: a copy of the dataset's own tree is that tree.
"""

from __future__ import annotations

import os
from pathlib import Path

from pipeline.dataset import Dataset
from pipeline.ingest.class_table import Classes
from pipeline.ingest.errors import TaxonomyFormat, TaxonomyMultiParent
from pipeline.ingest.taxonomy_file import read_taxonomy
from pipeline.ingest.taxonomy_parents import REFUSE
from pipeline.ingest.taxonomy_tree import build_taxonomy
from tasks.classes import ClassTable
from tasks.errors import InputError
from tasks.taxonomy import Taxonomy

ONE_PARENT = (
    "keep one parent of each node in this file; only the dataset's own taxonomy is made a tree by a rule "
    "(labelgrove ingest --several-parents)"
)


def read_taxonomy_for(
    path: str | os.PathLike[str], classes: ClassTable, where: str, several_parents: str = REFUSE
) -> Taxonomy:
    """The taxonomy of a file over these classes, nodes numbered breadth-first in the order of the file.

    classes  of the dataset: nodes are matched with their ids or names, or listed as the leaves of class 0, 1, ...
    where    what asks for the file, for messages: "flowers.toml, [evaluate] taxonomy"

    Raises the errors of `ingest` for a taxonomy, with the file, the place in it, and `where`.
    """
    given_ids = classes.ids != tuple(str(c) for c in range(len(classes)))
    try:
        if Path(path).is_dir():  # a dataset store, perhaps: its taxonomy is no file
            raise TaxonomyFormat("this is a folder", str(path), "name a taxonomy file, as for `labelgrove ingest`")
        return build_taxonomy(read_taxonomy(path), Classes(classes, given_ids, "the dataset"), several_parents)
    except InputError as error:
        hint = ONE_PARENT if isinstance(error, TaxonomyMultiParent) else error.hint
        raise type(error)(error.what, f"{error.where}, for {where}", hint) from error


def taxonomy_for(
    path: str | os.PathLike[str] | None, dataset: Dataset, where: str, several_parents: str = REFUSE
) -> Taxonomy | None:
    """The taxonomy of a file over the classes of a dataset; without a file the dataset's own, or None."""
    if path is None:
        return dataset.taxonomy
    return read_taxonomy_for(path, dataset.classes, where, several_parents)
