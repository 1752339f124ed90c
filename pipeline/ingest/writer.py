"""Writing a dataset store: block by block, from rows taken in the stored order."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.dataset import (
    CODEBOOKS,
    COLUMNS,
    ENCODING,
    FEATURE_NAMES,
    FIRST_VERSION,
    FORMAT,
    HAS_NAMES,
    PQ,
    VERSION,
    Note,
    attributes_digest,
    class_digest,
    content_digest,
    count_splits,
    taxonomy_digest,
)
from pipeline.ingest.kept import Kept, Written
from pipeline.ingest.parts import Parts
from pipeline.ingest.threads import in_order, n_threads
from tasks import io
from tasks.classes import ClassTable
from tasks.digest import digest_arrays
from tasks.held import is_held
from tasks.held_rows import create_held, note_held
from tasks.models.feature_names import FeatureNames
from tasks.rows import Csr, Dense, Images, Rows
from tasks.rows.base import Array
from tasks.stores import StoreFacts
from tasks.taxonomy import Taxonomy

if TYPE_CHECKING:
    from pipeline.ingest.coder import Coder

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
    coder: Coder | None = None  # of rows that are stored as codes; its codebooks are learnt

    def body(self, parts: Parts) -> str:
        """Of the rows as they are stored."""
        return parts.body if self.coder is None else PQ


def write_dataset(folder: Path, parts: Parts, content: Content, kept: Kept, tick: Callable[[int], None]) -> None:
    """Write the store into an existing folder; its attributes, with the content digest, come last.

    At a place that is held (`tasks.held`) nothing is written: dense and CSR rows stay where they are.

    kept  blocks that an interrupted ingest has written are not written again
    """
    place = str(folder)
    io.ensure_group(place)
    digests: dict[str, Any] = {name: [] for name in (io.FEATURES, *COLUMNS)}
    sums = []

    def once(block: io.Block) -> tuple[io.Block, Written]:
        found = kept.written(place, block)
        if found is None:
            found = _write_block(place, block, parts, content)
            kept.note_block(block, found)
        return block, found

    blocks = _blocks(place, parts, content, kept)
    if content.coder is not None:
        for dtype in {source.dtype for source in parts.sources}:
            content.coder.warm(dtype)
    for block, found in in_order(once, blocks, 1 if content.coder is None else n_threads()):
        for name, digest in found.digests.items():
            digests[name].append(digest)
        sums.append(found.sums)
        tick(block.n_rows)
    io.create_group(f"{place}/classes", {"ids": list(content.classes.ids), "names": list(content.classes.names)})
    digests["classes"] = class_digest(content.classes)
    _write_taxonomy(f"{place}/taxonomy", content.taxonomy)
    digests["taxonomy"] = taxonomy_digest(content.taxonomy)
    names = parts.feature_names
    if names is not None:
        io.create_group(f"{place}/{FEATURE_NAMES}", {"names": list(names)})
        digests[FEATURE_NAMES] = FeatureNames.of(names).digest
    told: dict[str, Any] = {} if names is None else {HAS_NAMES: True}
    if content.coder is not None:
        digests[CODEBOOKS] = digest_arrays(content.coder.codebooks)
        told[ENCODING] = content.coder.told([*parts.coded_sums, *sums])
        content.notes.extend(content.coder.notes(told[ENCODING], parts.n_features))
    io.create_group(f"{place}/digests", digests)
    attrs = _attributes(parts, content, content_digest(digests)) | told
    io.write_attrs(place, attrs | {"attributes_digest": attributes_digest(attrs)})


def _blocks(place: str, parts: Parts, content: Content, kept: Kept) -> list[io.Block]:
    """The blocks of the store: of the one that was begun, if what is to be written is the same, or of an empty one."""
    facts = {
        "rows": digest_arrays(content.order, content.y, content.split),
        "shape": [len(content.order), parts.n_features],
        "block_rows": content.block_rows,
        "body": content.body(parts),
        "dtype": content.dtype,
    } | ({} if content.coder is None else {"codebooks": digest_arrays(content.coder.codebooks)})
    if kept.load(STORE) == facts:
        return io.blocks_of(f"{place}/{io.FEATURES}")
    kept.forget_blocks()
    blocks = _create(place, parts, content)
    kept.save(STORE, facts)
    return blocks


def _create(place: str, parts: Parts, content: Content) -> list[io.Block]:
    store, n_rows = f"{place}/{io.FEATURES}", len(content.order)
    if is_held(store):
        facts = StoreFacts(parts.body, n_rows, parts.n_features, content.block_rows, content.dtype)
        blocks = create_held(store, facts, lambda start, stop: parts.take(content.order[start:stop], content.dtype))
    elif content.coder is not None:
        books = content.coder.codebooks
        blocks = io.create_codes(store, n_rows, books.shape[0], content.block_rows, books)
    elif parts.body == Images.body:
        blocks = io.create_images(store, n_rows, content.block_rows, content.longest_side)
    else:
        create = io.create_csr if parts.body == Csr.body else io.create_dense
        blocks = create(store, n_rows, parts.n_features, content.block_rows, content.dtype)
    for name, dtype in COLUMNS.items():
        io.create_column(place, name, n_rows, content.block_rows, dtype)
    return blocks


def _write_block(place: str, block: io.Block, parts: Parts, content: Content) -> Written:
    """What is written: rows and columns."""
    index = content.order[block.start : block.stop]
    sums: tuple[float, ...] = ()
    if is_held(block.store):
        digests = {io.FEATURES: note_held(block)}
    elif content.coder is None:
        digests = {io.FEATURES: _write_rows(block, parts.take(index, content.dtype))}
    else:
        held = parts.coded(index, content.coder.codebooks)
        digests, sums = {io.FEATURES: io.write_codes(block, held.codes)}, (held.error, held.norm)
    columns = {io.LABELS: content.y[index], io.SPLIT: content.split[index], io.ROW_ID: index}
    for name, dtype in COLUMNS.items():
        digests[name] = io.write_column(place, name, block.start, columns[name].astype(dtype))
    return Written(digests, sums)


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
        "version": FIRST_VERSION if content.coder is None else VERSION,
        "n_rows": len(content.order),
        "n_features": parts.n_features,
        "n_classes": len(content.classes),
        "block_rows": content.block_rows,
        "body": content.body(parts),
        "dtype": content.dtype,
        "split_counts": count_splits(content.split[content.order]),
        "has_taxonomy": content.taxonomy is not None,
        "digest": digest,
        "notes": [dataclasses.asdict(note) for note in content.notes],
        "made_from": content.made_from,
    }
