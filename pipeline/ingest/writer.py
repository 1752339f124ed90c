"""Writing a dataset store: block by block, from rows taken in the stored order."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.dataset import (
    COLUMNS,
    FEATURE_NAMES,
    FORMAT,
    HAS_NAMES,
    VERSION,
    Note,
    attributes_digest,
    class_digest,
    content_digest,
    count_splits,
    taxonomy_digest,
)
from pipeline.ingest.kept import Kept
from pipeline.ingest.parts import Parts
from tasks import io
from tasks.classes import ClassTable
from tasks.digest import digest_arrays
from tasks.models.feature_names import FeatureNames
from tasks.rows import Csr, Dense, Images, Rows
from tasks.rows.base import Array
from tasks.taxonomy import Taxonomy

STORE = "store"  # the note of which store was begun


@dataclass(frozen=True)
class Content:
    """Everything that a dataset will hold, decided before anything is written.

    order (n_rows,) int64 source rows as they will be stored; y (n_source_rows,) int32; split (n_source_rows,) uint8
    """

    order: Array
    y: Array
    split: Array
    classes: ClassTable
    taxonomy: Taxonomy | None
    block_rows: int
    dtype: str
    notes: list[Note]
    made_from: dict[str, Any]
    longest_side: int = 0  # of images, pixels


def write_dataset(folder: Path, parts: Parts, content: Content, kept: Kept, tick: Callable[[int], None]) -> None:
    """Write the store into an existing folder; its attributes, with the content digest, come last.

    kept  blocks that an interrupted ingest has written are not written again
    """
    place = str(folder)
    io.ensure_group(place)
    digests: dict[str, Any] = {name: [] for name in (io.FEATURES, *COLUMNS)}
    for block in _blocks(place, parts, content, kept):
        found = kept.written(place, block)
        if found is None:
            found = _write_block(place, block, parts, content)
            kept.note_block(block, found)
        for name, digest in found.items():
            digests[name].append(digest)
        tick(block.n_rows)
    io.create_group(f"{place}/classes", {"ids": list(content.classes.ids), "names": list(content.classes.names)})
    digests["classes"] = class_digest(content.classes)
    _write_taxonomy(f"{place}/taxonomy", content.taxonomy)
    digests["taxonomy"] = taxonomy_digest(content.taxonomy)
    names = parts.feature_names
    if names is not None:
        io.create_group(f"{place}/{FEATURE_NAMES}", {"names": list(names)})
        digests[FEATURE_NAMES] = FeatureNames.of(names).digest
    io.create_group(f"{place}/digests", digests)
    attrs = _attributes(parts, content, content_digest(digests)) | ({} if names is None else {HAS_NAMES: True})
    io.write_attrs(place, attrs | {"attributes_digest": attributes_digest(attrs)})


def _blocks(place: str, parts: Parts, content: Content, kept: Kept) -> list[io.Block]:
    """The blocks of the store: of the one that was begun, if what is to be written is the same, or of an empty one."""
    facts = {
        "rows": digest_arrays(content.order, content.y, content.split),
        "shape": [len(content.order), parts.n_features],
        "block_rows": content.block_rows,
        "body": parts.body,
        "dtype": content.dtype,
    }
    if kept.load(STORE) == facts:
        return io.blocks_of(f"{place}/{io.FEATURES}")
    kept.forget_blocks()
    blocks = _create(place, parts, content)
    kept.save(STORE, facts)
    return blocks


def _create(place: str, parts: Parts, content: Content) -> list[io.Block]:
    store, n_rows = f"{place}/{io.FEATURES}", len(content.order)
    if parts.body == Images.body:
        blocks = io.create_images(store, n_rows, content.block_rows, content.longest_side)
    else:
        create = io.create_csr if parts.body == Csr.body else io.create_dense
        blocks = create(store, n_rows, parts.n_features, content.block_rows, content.dtype)
    for name, dtype in COLUMNS.items():
        io.create_column(place, name, n_rows, content.block_rows, dtype)
    return blocks


def _write_block(place: str, block: io.Block, parts: Parts, content: Content) -> dict[str, str]:
    """The digests of what is written: rows and columns."""
    index = content.order[block.start : block.stop]
    digests = {io.FEATURES: _write_rows(block, parts.take(index, content.dtype))}
    columns = {io.LABELS: content.y[index], io.SPLIT: content.split[index], io.ROW_ID: index}
    for name, dtype in COLUMNS.items():
        digests[name] = io.write_column(place, name, block.start, columns[name].astype(dtype))
    return digests


def _write_rows(block: io.Block, rows: Rows) -> str:
    if isinstance(rows, Csr):
        return io.write_csr(block, rows.data, rows.indices, rows.indptr)
    if isinstance(rows, Images):
        return io.write_images(block, rows)
    assert isinstance(rows, Dense)
    return io.write_dense(block, rows.values)


def _write_taxonomy(place: str, taxonomy: Taxonomy | None) -> None:
    if taxonomy is None:
        return
    io.create_group(place, {"names": list(taxonomy.names)})
    for name, values in (("parent", taxonomy.parent), ("leaf_of_class", taxonomy.leaf_of_class)):
        io.create_column(place, name, values.size, values.size, "int32")
        io.write_column(place, name, 0, values.astype(np.int32))


def _attributes(parts: Parts, content: Content, digest: str) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "n_rows": len(content.order),
        "n_features": parts.n_features,
        "n_classes": len(content.classes),
        "block_rows": content.block_rows,
        "body": parts.body,
        "dtype": content.dtype,
        "split_counts": count_splits(content.split[content.order]),
        "has_taxonomy": content.taxonomy is not None,
        "digest": digest,
        "notes": [dataclasses.asdict(note) for note in content.notes],
        "made_from": content.made_from,
    }
