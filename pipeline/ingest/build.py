"""`ingest`: from files to a checked dataset store, everything checked before the first block is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil

from pipeline.dataset import SPLITS, TEST, TRAIN, VALIDATION, Dataset, Note, Progress, count_splits
from pipeline.ingest.class_notes import class_notes, named, shape_of
from pipeline.ingest.class_table import Classes, ClassesLike, class_of_rows, classes_of, notes_of_integers, read_classes
from pipeline.ingest.coded_source import CodedSource
from pipeline.ingest.errors import check_columns
from pipeline.ingest.feature_order import put_in_order
from pipeline.ingest.files import PathLike
from pipeline.ingest.kept import Kept
from pipeline.ingest.labels import Labels, LabelsLike
from pipeline.ingest.layout import order_rows
from pipeline.ingest.options import options_of, whole
from pipeline.ingest.parts import Given, Parts, Reading, SourceLike, given_parts, open_sources, optional_part
from pipeline.ingest.place import made_whole
from pipeline.ingest.remote import Remote, remote
from pipeline.ingest.request import request_of
from pipeline.ingest.scan import Scan, notes_of, refuse_damaged, refuse_non_finite, refuse_vanishing, scan_once
from pipeline.ingest.source import Source
from pipeline.ingest.splits import SplitLike, check_fraction, draw_split, read_split, refuse_missing, shares_of
from pipeline.ingest.stored import FLOATS, block_rows_of, learn_codebooks, stored_dtype
from pipeline.ingest.taxonomy_file import read_taxonomy
from pipeline.ingest.taxonomy_parents import REFUSE as REFUSE_SEVERAL
from pipeline.ingest.taxonomy_parents import check_rule
from pipeline.ingest.taxonomy_tree import classes_from_leaves, taxonomy_and_notes
from pipeline.ingest.upload import forget_staged, put_dataset, refuse_existing, staged_at
from pipeline.ingest.writer import Content, write_dataset
from tasks.errors import ParamError
from tasks.held import is_held
from tasks.models.feature_names import FeatureNames
from tasks.places import at, is_remote
from tasks.rows import Images
from tasks.rows.base import Array
from tasks.taxonomy import Taxonomy

if TYPE_CHECKING:
    from pipeline.ingest.coder import Coder

TEST_SHARE = 0.2  # of the rows, when no test rows are given
REFUSE, DROP_ROW = "refuse", "drop-row"


@dataclass(frozen=True)
class Drawing:
    """How rows of the first source are divided."""

    split: SplitLike | None
    validation: float
    test: float
    seed: int
    as_split: bool = False  # whether `split` has said these shares


@dataclass(frozen=True)
class Asked:
    """What was asked for of classes, rows and blocks; as the arguments of `ingest`."""

    classes: ClassesLike | None
    taxonomy: PathLike | dict[str, Any] | None
    several_parents: str
    drawing: Drawing
    rules: tuple[str, str]  # on_nonfinite, on_corrupt
    dtype: str | None
    block_rows: int | None
    options: dict[str, Any]  # what was asked for, as plain values
    coder: Coder | None = None  # of rows that are encoded on the way in


def ingest(
    source: SourceLike,
    dataset: PathLike,
    *,
    labels: LabelsLike | None = None,
    classes: ClassesLike | None = None,
    taxonomy: PathLike | dict[str, Any] | None = None,
    several_parents: str = REFUSE_SEVERAL,
    split: SplitLike | None = None,
    test_source: SourceLike | None = None,
    test_labels: LabelsLike | None = None,
    validation_source: SourceLike | None = None,
    validation_labels: LabelsLike | None = None,
    validation: float = 0.1,
    test: float = TEST_SHARE,
    fmt: str | None = None,
    seed: int = 0,
    block_rows: int | None = None,
    index_base: int | None = None,
    n_features: int | None = None,
    rows_at: str | None = None,
    labels_at: str | None = None,
    raw_shape: str | None = None,
    raw_dtype: str | None = None,
    on_nonfinite: str = REFUSE,
    on_corrupt: str = DROP_ROW,
    dtype: str | None = None,
    max_bytes: int | None = None,
    encode: str | None = None,
    subquantizers: int | None = None,
    bits: int | None = None,
    sample: int | None = None,
    iterations: int | None = None,
    force: bool = False,
    progress: Progress | None = None,
    copying: Progress | None = None,
    say: Callable[[str], None] | None = None,
) -> Dataset:
    """Make a dataset store of the user's files, and open it.

    What a killed or interrupted call has done of the same is continued: of files, whose path, size and time of change
    are the same, by the same options. With `encode` so is what a full disk or an error of the user's own ended.

    source, test_source, validation_source  a file of a format that `pipeline.ingest.files.FORMATS` lists, a list,
                  pattern or folder of such shards, a URL, an array or a scipy sparse matrix; `MadeRows`; an iterator of
                  arrays (n, n_features), or of such and their labels (n,)
    labels ...    see `pipeline.ingest.labels.read_labels`; else those that stand in the files of the rows
    classes       class table; else the leaves of the taxonomy, or what the labels imply
    several_parents   of a node of the taxonomy: "refuse", or which one it keeps: that named "first", or that on the
                  "shortest" or "longest" path from the root; nodes above no class are then left out
    split         parts of the rows of `source`: see `pipeline.ingest.splits.read_split`, or shares "0.8,0.1,0.1"
    validation, test   shares drawn by class from the rows of `source`, each unless such rows or a split are given
    index_base, n_features   of svmlight files: whether columns count from 0 or 1; number of columns
    rows_at, labels_at   where in the files rows and labels are: column, dataset, array, layer, ending in an archive; by
                  default the only place there is
    raw_shape, raw_dtype   of files of numbers without a header: "1000x256" or "x256", and "float32" or the like
    on_nonfinite  "refuse" rows with NaN or infinity, or "drop-row"
    on_corrupt    the same of images that cannot be decoded
    dtype         "float32" or "float16"; by default float16 stays and everything else becomes float32
    max_bytes     what may be held in memory of one part of a file (.npz, chunk, row group); by default half of all
    encode        "pq": only codes of a product quantiser are kept, never the numbers; what learners take is what the
                  codes stand for
    subquantizers, bits, sample, iterations   of its codebooks: see `tasks.quantize.pq.PqParams`; the sample is drawn
                  from the training rows; of rows that are made from 32 blocks, or as many as hold it; of others that
                  come from first to last from the first ones
    progress      called with (rows done, rows in all)
    copying       the same while files that give rows only in order are copied; 0 in all: unknown
    say           called with a line when an interrupted call is continued

    A dataset at a URL is made among temporary files and put when it is whole. At a folder that is held (`tasks.held`),
    of an array or a sparse matrix, nothing is written but scratch files: the rows are read where they are.

    Raises the errors of `pipeline.ingest.errors` and ParamError, then nothing is left behind; DiskFull, then
    nothing but rows that are encoded already.
    """
    seed, block_rows, sample = whole("seed", seed), whole("block_rows", block_rows), whole("sample", sample)
    bits, subquantizers = whole("bits", bits), whole("subquantizers", subquantizers)
    iterations = whole("iterations", iterations)
    request, options = request_of(locals()), options_of(locals(), ingest.__kwdefaults__ or {})
    _check_options(on_nonfinite, on_corrupt, dtype, index_base, block_rows)
    _check_several(several_parents, taxonomy)
    apart = optional_part("validation", VALIDATION, validation_source, validation_labels)
    held = optional_part("test", TEST, test_source, test_labels)
    given = given_parts(Given(TRAIN, source, labels), apart, held)
    drawing = _drawing(split, 0.0 if apart else validation, 0.0 if held else test, seed)
    words = {"subquantizers": subquantizers, "bits": bits, "sample": sample, "iterations": iterations}
    limit, located = max_bytes or _half_of_memory(), (rows_at, labels_at, raw_shape, raw_dtype)
    coder = _coder(encode, words, dtype, seed, on_nonfinite == REFUSE, limit)
    rules = (on_nonfinite, on_corrupt)
    asked = Asked(classes, taxonomy, several_parents, drawing, rules, dtype, block_rows, options, coder)
    url, place = "", at(dataset)
    if is_remote(place):
        url = str(place)
        refuse_existing(url, force)
        place, force = staged_at(url), True
    making = nullcontext(place) if is_held(str(place)) else made_whole(place, force, request, coder is not None)
    with making as folder, remote(_spool(folder), say) as fetch:
        reading = Reading(
            _spool(folder), limit, fmt, index_base, n_features, *located, tick=copying, coder=coder, say=say
        )
        _fill(folder, fetch, given, asked, reading, progress, say)
        if url:
            put_dataset(folder, url, say)
    if url:
        forget_staged(place)
    return Dataset.open(url or place)


def _fill(
    folder: Path,
    fetch: Remote,
    given: Sequence[Given],
    asked: Asked,
    reading: Reading,
    progress: Progress | None,
    say: Callable[[str], None] | None,
) -> None:
    """Write the whole dataset into a folder, continuing what is begun there."""
    given = [Given(item.part, fetch.local(item.source), fetch.local(item.labels, True)) for item in given]
    drawing = replace(asked.drawing, split=fetch.local(asked.drawing.split))
    classes, taxonomy = fetch.local(asked.classes), fetch.local(asked.taxonomy)
    asked = replace(asked, classes=classes, taxonomy=taxonomy, drawing=drawing)
    kept = Kept(folder, notes=not is_held(str(folder)))
    if kept.found and say:
        n_blocks = kept.n_blocks()
        say(f"continuing after {n_blocks:,} blocks" if n_blocks else "continuing what was begun")
    parts = Parts(given, reading)
    if asked.coder is not None:
        _refuse_early(parts, asked)
    parts.encode()
    meter = _Meter(progress, parts.n_rows)
    content, scans = _decided(parts, [item.part for item in given], asked, kept, meter)
    write_dataset(folder, parts, content, kept, meter)
    if parts.body == Images.body:
        from pipeline.ingest.image_listing import write_listing  # pyarrow takes its time to load

        write_listing(folder, parts.sources, scans)
    meter.end()


def _decided(parts: Parts, roles: Sequence[int], asked: Asked, kept: Kept, meter: _Meter) -> tuple[Content, list[Scan]]:
    """All that the dataset will hold, and what a look at every row has found."""
    table, tree, choices = _class_table(parts.labels, asked.classes, asked.taxonomy, asked.several_parents)
    y = np.concatenate([class_of_rows(part, table) for part in parts.labels])
    stored = stored_dtype(parts, asked.dtype, asked.coder)
    usable, scans = _scan(parts, stored, asked.rules, kept, meter, asked.coder)
    divided, notes = _divide(parts, roles, y, usable, asked.drawing)
    said = [named(table), *notes_of_integers(parts.labels, table), shape_of(tree, asked.taxonomy), *choices]
    notes = [*parts.notes, *said, *table.notes, *notes, *notes_of(scans), *class_notes(y, divided, usable, table)]
    seed, coder = asked.drawing.seed, asked.coder
    order = order_rows(divided, usable, seed)
    if coder is not None and coder.learnt is None:
        learn_codebooks(coder, parts, order[: int(np.count_nonzero(usable & (divided == TRAIN)))], kept)
    content = Content(
        order, y, divided, table.table, tree,
        block_rows_of(parts, len(order), stored, asked.block_rows, coder), stored, notes,
        {"sources": [one.name for one in parts.sources], "seed": seed, "options": asked.options},
        max(found.longest_side for found in scans), coder,
    )  # fmt: skip
    return content, scans


def _refuse_early(parts: Parts, asked: Asked) -> None:
    """Raise what can be known before rows are encoded, which may take hours; it is all looked at again after that."""
    known = [labels for labels in parts.known if labels is not None]
    if len(known) == len(parts.known) or asked.classes is not None:
        table = _class_table(known, asked.classes, asked.taxonomy, asked.several_parents)[0]
        for labels in known:
            class_of_rows(labels, table)
    elif asked.taxonomy is not None:
        classes_from_leaves(read_taxonomy(asked.taxonomy))
    first, split = parts.sources[0], asked.drawing.split
    if split is not None and first.known_rows is not None:
        read_split(split, first.known_rows, first.name)
    elif split is not None:
        refuse_missing(split)
    if asked.block_rows is not None:
        block_rows_of(parts, 0, FLOATS, asked.block_rows, asked.coder)


def _spool(folder: Path) -> Path:
    """A folder, within the one that is being made, for what must be rewritten before rows can be taken from it."""
    spool = folder / "spool.partial"
    spool.mkdir(exist_ok=True)
    return spool


def _half_of_memory() -> int:
    return int(psutil.virtual_memory().total // 2)


def open_source(
    source: SourceLike,
    spool: Path,
    *,
    n_features: int | None = None,
    max_bytes: int | None = None,
    labelled: bool = True,
    features: FeatureNames | None = None,
    **reading: Any,
) -> Source:
    """Rows of files without the rest of a dataset: what `predict` reads.

    spool     a folder for scratch files
    labelled  whether to read the labels that svmlight lines begin with, and those that `labels_at` names
    features  names of the `n_features` that a model takes, where it has some: columns with names are put in this order
    reading   fmt, index_base, rows_at, labels_at, raw_shape, raw_dtype, as of `ingest`
    """
    spool.mkdir(parents=True, exist_ok=True)
    how = Reading(spool, max_bytes or _half_of_memory(), n_features=n_features, must_label=False, **reading)
    (opened,) = open_sources([source], how, [labelled])
    if n_features is not None:
        put_in_order(opened, features)
        check_columns(opened.n_features, n_features, opened.name)
    return opened


class _Meter:
    """Rows done: reading them through counts half, writing them the other half."""

    def __init__(self, progress: Progress | None, n_rows: int) -> None:
        self.progress, self.n_rows, self.halves = progress, n_rows, 0

    def __call__(self, rows: int) -> None:
        self.halves += rows
        if self.progress:
            self.progress(self.halves // 2, self.n_rows)

    def end(self) -> None:
        self.halves = 2 * self.n_rows
        self(0)


def _coder(encode: str | None, words: dict[str, int | None], *how: Any) -> Coder | None:
    if encode is None and all(value is None for value in words.values()):
        return None  # and kernels are not loaded
    from pipeline.ingest.coder import coder_of

    return coder_of(encode, words, *how)


# ---- what was asked for ------------------------------------------------------------------------------------------


def _drawing(split: SplitLike | None, validation: float, test: float, seed: int) -> Drawing:
    shares = shares_of(split)
    if shares is not None:
        return Drawing(None, *shares, seed, as_split=True)
    check_fraction("validation", validation)
    check_fraction("test", test)
    if validation + test >= 1:
        why = "some rows must stay for training"
        raise ParamError("validation + test", validation + test, "less than 1", why)
    if seed < 0:
        raise ParamError("seed", seed, "a whole number from 0", "it starts random streams")
    return Drawing(split, validation, test, seed)


def _check_options(
    on_nonfinite: str, on_corrupt: str, dtype: str | None, index_base: int | None, block_rows: int | None
) -> None:
    if on_nonfinite not in (REFUSE, DROP_ROW):
        raise ParamError("on_nonfinite", on_nonfinite, f"{REFUSE} or {DROP_ROW}", "NaN is never trained on")
    if on_corrupt not in (REFUSE, DROP_ROW):
        raise ParamError("on_corrupt", on_corrupt, f"{REFUSE} or {DROP_ROW}", "such an image shows nothing")
    if dtype not in (None, "float32", "float16"):
        raise ParamError("dtype", dtype, "float32 or float16", "rows are stored so")
    if index_base not in (None, 0, 1):
        raise ParamError("index_base", index_base, "0 or 1", "columns count from one of them")
    if block_rows is not None and block_rows < 1:
        raise ParamError("block_rows", block_rows, "at least 1", "a block is a run of rows")


def _check_several(several_parents: str, taxonomy: object) -> None:
    check_rule(several_parents)
    if taxonomy is None and several_parents != REFUSE_SEVERAL:
        raise ParamError("several_parents", several_parents, "a taxonomy beside it", "without one there are no parents")


# ---- classes -----------------------------------------------------------------------------------------------------


def _class_table(
    labels: Sequence[Labels],
    classes: ClassesLike | None,
    taxonomy: PathLike | dict[str, Any] | None,
    several_parents: str,
) -> tuple[Classes, Taxonomy | None, list[Note]]:
    nodes = None if taxonomy is None else read_taxonomy(taxonomy)
    implied = None if nodes is None else classes_from_leaves(nodes)
    table = read_classes(classes) if classes is not None else implied or classes_of(labels)
    return (table, None, []) if nodes is None else (table, *taxonomy_and_notes(nodes, table, several_parents))


# ---- rows --------------------------------------------------------------------------------------------------------


def _scan(
    parts: Parts, stored: str, rules: tuple[str, str], kept: Kept, meter: _Meter, coder: Coder | None
) -> tuple[Array, list[Scan]]:
    """Which source rows are used, and what was found; raises NonFiniteFeature, DamagedImage and FeatureRange.

    rules  for rows that are not finite, and for images that are damaged: refuse them, or leave them out
    """
    on_nonfinite, on_corrupt = rules
    dtype, most = (stored, np.inf) if coder is None else (FLOATS, coder.largest(parts.n_features))
    scans = [_scanned(source, dtype, kept, f"scan-{i}", meter, most) for i, source in enumerate(parts.sources)]
    if on_nonfinite == REFUSE:
        refuse_non_finite(scans)
    if on_corrupt == REFUSE:
        refuse_damaged(scans, parts.n_rows)
    refuse_vanishing(scans, dtype)
    usable = np.ones(parts.n_rows, bool)
    for offset, found in zip(parts.offsets, scans, strict=False):
        usable[offset + np.array(found.bad_rows + found.damaged_rows, np.int64)] = False
    return usable, scans


def _scanned(source: Source, dtype: str, kept: Kept, name: str, meter: _Meter, most: float) -> Scan:
    if not isinstance(source, CodedSource):
        return scan_once(source, dtype, kept, name, meter, most)
    meter(source.n_rows)  # it was looked at as it went by
    return source.found


def _divide(parts: Parts, roles: Sequence[int], y: Array, kept: Array, drawing: Drawing) -> tuple[Array, list[Note]]:
    """The part (n_source_rows,) uint8 of each source row, and what was decided."""
    split = np.repeat(np.array(roles, np.uint8), np.diff(parts.offsets))
    first = slice(0, int(parts.offsets[1]))
    notes = []
    if drawing.split is not None:
        split[first] = read_split(drawing.split, parts.sources[0].n_rows, parts.sources[0].name)
    else:
        shares = {
            part: 0.0 if part in roles else share
            for part, share in ((VALIDATION, drawing.validation), (TEST, drawing.test))
        }
        mine = np.flatnonzero(kept[first])
        split[mine] = draw_split(y[mine], shares[VALIDATION], shares[TEST], drawing.seed)
        drawn = [f"{share:.3g} as {SPLITS[part]}" for part, share in shares.items() if share]
        if drawn:
            how = f"by class (seed {drawing.seed})" + (", as --split says" if drawing.as_split else "")
            text = f"parts of the rows of {parts.sources[0].name} were drawn {how}: {', '.join(drawn)}"
            notes.append(Note("SplitDrawn", text))
    counts = count_splits(split[kept])
    missing = [f"{name} rows" for name, count in counts.items() if not count and name != "train"]
    if missing:
        notes.append(Note("EmptySplit", f"there are no {' and no '.join(missing)}", "warning"))
    return split, notes
