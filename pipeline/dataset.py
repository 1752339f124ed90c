"""A dataset: rows, labels, class table, optional taxonomy and split, as `pipeline.ingest` has written them.

Layout: train rows first (shuffled), then validation rows, then test rows; `row_id` says where each came from.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from tasks import io
from tasks.classes import ClassTable
from tasks.digest import combine, digest_arrays, digest_text
from tasks.errors import ArtefactError, LabelgroveError
from tasks.models.feature_names import FeatureNames
from tasks.places import at
from tasks.rows.base import Array
from tasks.taxonomy import Taxonomy

FORMAT, VERSION = "labelgrove.dataset", 2
FIRST_VERSION = 1  # what datasets are written as, but for those that hold codes
SPLITS = ("train", "validation", "test")
TRAIN, VALIDATION, TEST = range(3)
COLUMNS = {io.LABELS: "int32", io.SPLIT: "uint8", io.ROW_ID: "int64"}
FEATURE_NAMES, HAS_NAMES = "features", "has_feature_names"  # a group, and the attribute that says that it is there
PQ = "pq"  # the body of rows that are codes of a product quantiser
CODEBOOKS, ENCODING = "codebooks", "encoding"  # of rows that are codes: whose digest is kept; how they were made
Progress = Callable[[int, int], None]  # (rows done, rows in all)


class DatasetFormat(ArtefactError):
    """A folder that is no dataset, or one that a newer version wrote."""


class DatasetDamaged(ArtefactError):
    """Something in a dataset is not what was written at ingest."""


@dataclass(frozen=True, slots=True)
class Note:
    """Something worth knowing about the data: a warning, or a conversion that was made."""

    code: str
    text: str
    level: str = "info"  # or "warning"


@dataclass(frozen=True)
class Dataset:
    """Facts of a dataset; its rows and columns are read block by block through `tasks.io`."""

    path: str
    n_rows: int
    n_features: int
    n_classes: int
    block_rows: int
    body: str  # "dense", "csr", "images" or "pq"
    dtype: str
    split_counts: dict[str, int]  # train, validation, test
    digest: str  # of the content: rows, columns, classes and taxonomy
    notes: tuple[Note, ...]

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Raises StoreMetadata when nothing is there, DatasetFormat and DatasetDamaged when it cannot be used."""
        place = str(at(path))
        attrs = io.read_attrs(place)
        _check_format(attrs, place)
        if attrs.get("attributes_digest") != attributes_digest(attrs):
            raise DatasetDamaged("its attributes are not what was written", f"{place}/zarr.json", AGAIN)
        try:
            facts = {name: attrs[name] for name in cls.__dataclass_fields__ if name not in ("path", "notes")}
            dataset = cls(path=place, notes=tuple(Note(**note) for note in attrs["notes"]), **facts)
        except (KeyError, TypeError) as error:
            raise DatasetDamaged(f"its attributes are incomplete ({error})", f"{place}/zarr.json", AGAIN) from error
        dataset._check_shapes()
        return dataset

    def _check_shapes(self) -> None:
        rows = io.facts_of(self.rows_store)
        found = (rows.body, rows.n_rows, rows.n_features, rows.dtype)
        said = (self.body, self.n_rows, self.n_features, self.dtype)
        if found != said:
            raise DatasetDamaged(f"the rows are {found}, the dataset says {said}", self.rows_store, AGAIN)
        for name in COLUMNS:
            length = io.column_length(self.path, name)
            if length != self.n_rows:
                where = f"{self.path}/{name}"
                raise DatasetDamaged(f"{length} values for {self.n_rows} rows", where, AGAIN)

    @property
    def rows_store(self) -> str:
        return os.path.join(self.path, io.FEATURES)

    def blocks(self) -> list[io.Block]:
        """The blocks of the dataset's own rows, in order."""
        return io.blocks_of(self.rows_store)

    @cached_property
    def classes(self) -> ClassTable:
        attrs = io.read_attrs(f"{self.path}/classes")
        return ClassTable(tuple(attrs["ids"]), tuple(attrs["names"]))

    @cached_property
    def taxonomy(self) -> Taxonomy | None:
        """The taxonomy as ingested, nodes breadth-first; None when the dataset has none."""
        if not io.read_attrs(self.path)["has_taxonomy"]:
            return None
        place = f"{self.path}/taxonomy"
        parent, leaves = (io.read_column(place, name) for name in ("parent", "leaf_of_class"))
        return Taxonomy(parent, tuple(io.read_attrs(place)["names"]), leaves)

    @cached_property
    def feature_names(self) -> FeatureNames | None:
        """Names of the columns, in their order; None where the source had none."""
        if not io.read_attrs(self.path).get(HAS_NAMES):
            return None
        return FeatureNames.of(io.read_attrs(f"{self.path}/{FEATURE_NAMES}")["names"])

    @property
    def encoding(self) -> dict[str, Any] | None:
        """Of rows that ingest has encoded: settings, and relative errors; None of all others."""
        found: dict[str, Any] | None = io.read_attrs(self.path).get(ENCODING)
        return found

    @property
    def codebooks(self) -> Array | None:
        """(n_subquantizers, n_centroids, width) float32, of rows that are codes; None of all others."""
        return io.read_codebooks(self.rows_store) if self.body == PQ else None

    def verify(self, progress: Progress | None = None) -> None:
        """Read everything again and compare digests; raises the first problem (see `problems`)."""
        for problem in self.problems(progress):
            raise problem

    def problems(self, progress: Progress | None = None) -> Iterator[ArtefactError]:
        """Everything that is missing, damaged or not what was written: one error each."""
        place = f"{self.path}/digests"
        found = list(
            _differences("digests of its parts", place, self.digest, lambda: content_digest(io.read_attrs(place)))
        )
        if found:  # without them nothing else can be compared
            yield from found
            return
        stored = io.read_attrs(place)
        yield from _differences("class table", f"{self.path}/classes", stored["classes"], self._class_digest)
        yield from _differences("taxonomy", f"{self.path}/taxonomy", stored["taxonomy"], self._taxonomy_digest)
        if FEATURE_NAMES in stored:
            yield from _differences(
                "names of features", f"{self.path}/{FEATURE_NAMES}", stored[FEATURE_NAMES], self._names_digest
            )
        damaged = list(self.codebook_problems())
        yield from damaged
        for block in () if damaged else self.blocks():  # without codebooks no row of codes can be read
            yield from self._block_problems(block, stored)
            if progress:
                progress(block.stop, self.n_rows)

    def codebook_problems(self) -> Iterator[ArtefactError]:
        """What is wrong with the codebooks of rows that are codes."""
        if self.body == PQ:
            place = f"{self.rows_store}/{CODEBOOKS}"
            stored = io.read_attrs(f"{self.path}/digests").get(CODEBOOKS, "")
            yield from _differences(
                "codebooks", place, stored, lambda: digest_arrays(io.load_codebooks(self.rows_store))
            )

    def _class_digest(self) -> str:
        return class_digest(self.classes)

    def _taxonomy_digest(self) -> str:
        return taxonomy_digest(self.taxonomy)

    def _names_digest(self) -> str:
        return self.feature_names.digest if self.feature_names is not None else ""

    def _block_problems(self, block: io.Block, stored: dict[str, Any]) -> Iterator[ArtefactError]:
        where = f"block {block.index}, rows {block.start}..{block.stop - 1}"
        place = f"{self.rows_store}, {where}"
        yield from _differences("rows", place, stored["X"][block.index], lambda: io.rows_digest(io.load_rows(block)))
        for name in COLUMNS:

            def again(name: str = name) -> str:
                return digest_arrays(io.read_column(self.path, name, block.start, block.stop, cached=False))

            yield from _differences(name, f"{self.path}/{name}, {where}", stored[name][block.index], again)


AGAIN = "ingest the source again"


def _check_format(attrs: dict[str, Any], place: str) -> None:
    if attrs.get("format") != FORMAT:
        raise DatasetFormat("this is no labelgrove dataset", place, "make one with `labelgrove ingest`")
    version = attrs.get("version")
    if not isinstance(version, int) or version > VERSION:
        what = f"dataset version {version!r} is newer than this program knows ({VERSION})"
        raise DatasetFormat(what, place, "use the version of labelgrove that wrote it, or ingest the source again")


def _differences(what: str, where: str, expected: str, again: Callable[[], str]) -> Iterator[ArtefactError]:
    try:
        if again() != expected:
            yield DatasetDamaged(f"{what}: the content is not what was written", where, AGAIN)
    except ArtefactError as error:
        yield error
    except (KeyError, TypeError, ValueError, LabelgroveError) as error:
        yield DatasetDamaged(f"{what}: {error}", where, AGAIN)


def class_digest(classes: ClassTable) -> str:
    return combine([digest_text(*classes.ids), digest_text(*classes.names)])


def taxonomy_digest(taxonomy: Taxonomy | None) -> str:
    if taxonomy is None:
        return digest_text()
    return combine([digest_arrays(taxonomy.parent, taxonomy.leaf_of_class), digest_text(*taxonomy.names)])


def content_digest(parts: dict[str, Any]) -> str:
    """One digest of a dataset: of X and each column the digests of its blocks, then class table and taxonomy, the names
    of the features where there are any, and the codebooks of rows that are codes.
    """
    columns: Iterable[str] = (json.dumps(parts[name]) for name in (io.FEATURES, *COLUMNS))
    others = [parts[name] for name in (FEATURE_NAMES, CODEBOOKS) if name in parts]
    return combine([*columns, parts["classes"], parts["taxonomy"], *others])


def attributes_digest(attrs: Mapping[str, Any]) -> str:
    """Digest of the dataset's own attributes, its facts and notes."""
    return digest_text(json.dumps({key: attrs[key] for key in sorted(attrs) if key != "attributes_digest"}))


def count_splits(split: Array) -> dict[str, int]:
    """Rows of each part. split (n_rows,) uint8."""
    counts = np.bincount(split, minlength=len(SPLITS))
    return dict(zip(SPLITS, (int(count) for count in counts), strict=True))
