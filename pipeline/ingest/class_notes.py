"""What is said of the classes and the taxonomy of a dataset that is made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from pipeline.dataset import TRAIN, Note
from pipeline.ingest.class_table import Classes
from pipeline.ingest.errors import OneClassData
from pipeline.ingest.files import PathLike
from pipeline.outputs import NAME_CELLS, cut_to
from tasks.rows.base import Array
from tasks.taxonomy import Taxonomy

SHOWN_CLASSES = 20
NAMED_CLASSES = 3


def named(classes: Classes) -> Note:
    """Where the classes come from, and what a few of them are called."""
    n = len(classes)
    first = ", ".join(_shown(classes, c) for c in range(min(n, NAMED_CLASSES)))
    more = ", ..." if n > NAMED_CLASSES else ""
    return Note("Classes", f"{n:,} classes of {classes.source}: {first}{more}")


def _shown(classes: Classes, c: int) -> str:
    """A class within a sentence: names may be of any length."""
    return cut_to(classes.table.label(c), NAME_CELLS)


def shape_of(tree: Taxonomy | None, given: PathLike | dict[str, Any] | None) -> Note:
    """What was read of the taxonomy, or that there is none and what that means."""
    if tree is None:
        return Note("NoTaxonomy", "no taxonomy was given (--taxonomy): hierarchical error is not reported")
    depths = tree.level[tree.leaf_of_class]
    shallow, deep = int(depths.min()), int(depths.max())
    depth = f"depth {deep}" if shallow == deep else f"depths {shallow} to {deep}"
    name = "taxonomy" if isinstance(given, dict) or given is None else Path(given).name
    n_nodes, n_leaves = tree.parent.size, tree.leaf_of_class.size
    text = f"{name}: {deep + 1} levels with the root, {n_nodes:,} nodes, {n_leaves:,} of them leaves at {depth}"
    return Note("Taxonomy", text)


def class_notes(y: Array, split: Array, kept: Array, classes: Classes) -> list[Note]:
    """A warning for classes without training rows; OneClassData when fewer than two have some."""
    counts = np.bincount(y[kept & (split == TRAIN)], minlength=len(classes))
    filled = np.flatnonzero(counts)
    if filled.size < 2:
        found = f"only of class {classes.table.label(int(filled[0]))}" if filled.size else "none"
        what = f"training rows: {found}; at least two classes are needed"
        raise OneClassData(what, classes.source, "check the labels, the split and what was left out")
    alone = _alone(y[kept], classes)
    empty = np.flatnonzero(counts == 0)
    if not empty.size:
        return alone
    shown = ", ".join(_shown(classes, int(c)) for c in empty[:SHOWN_CLASSES])
    more = f" and {empty.size - SHOWN_CLASSES} more" if empty.size > SHOWN_CLASSES else ""
    text = f"{empty.size} of {len(classes)} classes have no training rows: {shown}{more}"
    return [*alone, Note("ClassWithoutRows", text, "warning")]


def _alone(y: Array, classes: Classes) -> list[Note]:
    """A warning when most rows are alone in their class, as they are where numbers or names of rows came for labels."""
    alone = int(np.count_nonzero(np.bincount(y, minlength=len(classes)) == 1))
    if 2 * alone <= y.size:
        return []
    text = (
        f"{alone:,} of {y.size:,} rows are alone in their class: are the labels numbers or names of rows? "
        "--labels or --labels-at says where the classes are"
    )
    return [Note("RowsAlone", text, "warning")]
