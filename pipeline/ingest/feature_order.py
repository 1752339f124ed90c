"""Rows of files whose columns have names, for a model that knows these: in its order, or not at all."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.dataset import Dataset, Note
from pipeline.ingest.candidates import LABELS_AT, ROWS_AT
from pipeline.ingest.errors import ColumnMismatch
from pipeline.ingest.source import Source
from tasks.models.feature_names import FeatureNames, numbered, places
from tasks.rows.base import Array

ORDERED = "FeaturesInOrder"
MEND = (
    f"give the columns of the training rows, as they are called there: in Parquet {ROWS_AT} FIRST..LAST says which are "
    f"features, and {LABELS_AT} which one is the labels"
)
REORDER = "give the files that it was made of: their columns are put in the model's order; or ingest them in that order"


def put_in_order(source: Source, wanted: FeatureNames | None) -> None:
    """Give a source the model's order of features, with a note where its own is another.

    wanted  the model's names; None where it has none: then only columns that are numbered are put in order
    Without names on both sides nothing is done. Raises ColumnMismatch where they are not the same names.
    """
    found = source.feature_names
    if found is None or (wanted is not None and wanted.digest == FeatureNames.of(found).digest):
        return
    order = places(found, numbered(len(found))) if wanted is None else _order(found, wanted, source.name)
    if order is None:
        return
    source.columns, source.feature_names = order, tuple(found[place] for place in order)
    text = f"{source.name}: its columns are in another order than the model's features and are put in that order"
    source.notes.append(Note(ORDERED, f"{text}, by their names"))


def refuse_other_features(dataset: Dataset, wanted: FeatureNames | None) -> None:
    """Raise ColumnMismatch for a dataset whose features have names that are not the model's, in the model's order."""
    found = dataset.feature_names
    if found is None or found.names is None or wanted is None or found.digest == wanted.digest:
        return
    _order(found.names, wanted, dataset.path)
    what = "its features are those of the model in another order"
    if wanted.names is not None:
        first = next(i for i, (own, name) in enumerate(zip(wanted.names, found.names, strict=True)) if own != name)
        what += f": feature {first} is {found.names[first]!r}, and {wanted.names[first]!r} of the model"
    raise ColumnMismatch(what, dataset.path, REORDER)


def _order(found: Sequence[str], wanted: FeatureNames, where: str) -> Array:
    """(n_features,) int64: the columns `found` in the model's order. Raises ColumnMismatch."""
    if wanted.names is None:
        what = f"the names of these {len(found):,} columns, in their order, are not those of the model's features"
        hint = "give the columns of the training rows in the same order; the model keeps no more than a digest of them"
        raise ColumnMismatch(what, where, hint)
    order = places(found, wanted.names)
    if order is not None:
        return order
    own, here = set(wanted.names), set(found)
    missing = [name for name in wanted.names if name not in here]
    more = [name for name in found if name not in own]
    said = [
        f"{what}: {len(names):,} (the first is {names[0]!r})"
        for names, what in (
            (missing, "features of the model that are missing"),
            (more, "columns that are none of the model's"),
        )
        if names
    ]
    if not said:
        said = ["some names are those of several columns, so they cannot be put in the model's order"]
    raise ColumnMismatch("; ".join(said), where, MEND)
