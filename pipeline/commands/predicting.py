"""predict: rank classes for rows, and say how many are right where labels are known."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.accuracy import (
    ALL_ROWS,
    NONE,
    Accuracy,
    class_map,
    classes_of_model,
    tree_of_dataset,
    tree_of_file,
)
from pipeline.commands.inspecting_svm import kind_of
from pipeline.commands.model_folders import refuse_other_folder
from pipeline.commands.new_rows import OPTIONS, is_dataset, open_rows, options_of
from pipeline.connection.profile import is_far
from pipeline.dataset import SPLITS, Dataset
from pipeline.ingest.errors import check_columns
from pipeline.ingest.images import ImageSource
from pipeline.ingest.place import scratch_beside
from pipeline.ingest.remote import remote, shown
from pipeline.outputs import ACCURACY, metrics_path, output_place, put_in_place, write_numbers
from pipeline.plan import MemoryPlan, human_bytes
from pipeline.store import RunFolder
from tasks.errors import UsageError
from tasks.features.errors import NegativeFeature, numbered
from tasks.models.blocks import predict_block
from tasks.models.encoder import encode_all
from tasks.models.errors import NoProbabilities
from tasks.models.flat import is_tree
from tasks.models.folder import SavedModel, load_model
from tasks.models.predictions import LABEL_LOG, PROBABILITIES, join_parts, part_name, read_part, write_part
from tasks.models.selection import Selected, Selection
from tasks.places import at
from tasks.relaxed.hierarchy import ONE_VS_ALL, Hierarchy
from tasks.rows import Descriptors, Rows
from tasks.worker import WorkerSettings

NAMED_FILES = 5  # in a message


@dataclass(frozen=True)
class Predicted:
    """Parts in order, their rows, and the sums over those whose label is known."""

    parts: list[Path]
    rows: int
    accuracy: Accuracy


def predict(
    model: Path,
    data: str,
    output: Path,
    *,
    labels: str | None = None,
    taxonomy: str | None = None,
    top: int = 5,
    proba: bool = False,
    beam: int | None = None,
    doubt: float | None = None,
    split: str | None = None,
    scheduler: str | None = None,
    format: str | None = None,
    rows_at: str | None = None,
    labels_at: str | None = None,
    raw_shape: str | None = None,
    raw_dtype: str | None = None,
    index_base: int | None = None,
    force: bool = False,
) -> int:
    """Rank classes for rows of a dataset store or of files, block by block; returns the number of rows written.

    split, scheduler     of a dataset store only; labels, format, rows_at ... index_base: of files only
    proba                also write probabilities of the classes named, and the logarithm of that of a known label
    beam                 of a tree: nodes expanded a depth at most; None: the model's own
    doubt                of a hierarchy: how near a split a row goes both ways; None: the model's own
    taxonomy             a file that hierarchical error is measured on, in place of the dataset's or the model's own
    Where labels are known, a table goes to stdout and its numbers to OUTPUT.metrics.json.
    raises               OutputExists, NoProbabilities, ColumnMismatch, the errors of model folder, rows and labels
    """
    output = output_place(output, force)
    if top < 1:
        raise UsageError(f"--top {top}: expected a whole number >= 1", "--top")
    of_dataset = is_dataset(data)
    reading: dict[str, Any] = {"fmt": format, "rows_at": rows_at, "labels_at": labels_at}
    reading |= {"raw_shape": raw_shape, "raw_dtype": raw_dtype, "index_base": index_base}
    asked: dict[str, Any] = {"--split": split, "--scheduler": scheduler}
    asked |= {"--labels": labels, "--taxonomy": taxonomy, **options_of(reading)}
    _refuse_idle(of_dataset, asked, shown(data))
    refuse_other_folder(model, "labelgrove predict MODEL DATA -o PREDICTIONS.parquet")
    saved = load_model(model)
    if proba and not saved.probabilistic:
        raise NoProbabilities(
            f"the scores of this {kind_of(saved.model)} model are margins", f"--proba, {model}", GIVE_SOME
        )
    if beam is not None:
        _check_beam(beam, saved, model)
    if doubt is not None:
        _check_doubt(doubt, saved, model)
    top = min(top, saved.model.n_classes)
    with scratch_beside(output, of_dataset and is_far(scheduler)) as scratch, _told_of(shown(data)):
        if of_dataset:
            done = _predict_dataset(saved, data, scratch, top, split, taxonomy, scheduler or "serial", beam, doubt)
        else:
            done = _predict_files(saved.doubting(doubt), data, scratch, top, labels, taxonomy, reading, beam)
        joined = scratch / "joined.parquet"
        searched = {"beam": beam, "doubt": doubt}
        asked = {key: str(value) for key, value in searched.items() if value is not None}
        join_parts(done.parts, joined, asked, drop=() if proba else (PROBABILITIES, LABEL_LOG))
        put_in_place(joined, output)
    sys.stderr.write(f"{output}: {done.rows:,} rows, {human_bytes(output.stat().st_size)}\n")
    _tell(done.accuracy, output, {"model": saved.digest, "model_folder": saved.folder, "data": shown(data), **asked})
    return done.rows


# ---- what is asked for -------------------------------------------------------------------------------------------


def _refuse_idle(of_dataset: bool, asked: Mapping[str, Any], data: str) -> None:
    """Options that would be without effect are refused: nobody should believe that they had one."""
    kind, idle = ("a dataset store", FOR_FILES) if of_dataset else ("files", FOR_DATASETS)
    for name in idle:
        if asked[name] is not None:
            hint = HAS_ITS_OWN if name == "--labels" else "leave it out"
            raise UsageError(f"{name} has no meaning for rows of {kind}", f"{name}, {data}", hint)


def _check_beam(beam: int, saved: SavedModel, model: Path) -> None:
    if beam < 1:
        raise UsageError(f"--beam {beam}: expected a whole number >= 1", "--beam")
    if not is_tree(saved.model):
        what = f"--beam has no meaning for a model of kind {kind_of(saved.model)}, which is not searched"
        raise UsageError(what, f"--beam, {model}", "leave it out")
    if beam > 1 and not saved.model.searchable:
        what = "the margins of this tree's nodes do not compare with one another, so a wider beam would misguide it"
        raise UsageError(what, f"--beam {beam}, {model}", "leave it out; a tree trained with this version has scales")


def _check_doubt(doubt: float, saved: SavedModel, model: Path) -> None:
    if not 0 <= doubt < math.inf:
        raise UsageError(f"--doubt {doubt:g}: expected 0 or more", "--doubt")
    if not isinstance(saved.model, Hierarchy) or saved.model.kind == ONE_VS_ALL:
        what = f"--doubt has no meaning for a model of kind {kind_of(saved.model)}, which is no hierarchy"
        raise UsageError(what, f"--doubt, {model}", "leave it out")
    if doubt and saved.model.is_split[0] and saved.model.sizes[0] > 2 and not saved.model.n_judges:
        what = "this hierarchy was trained without judges, so it cannot compare what two ways come to"
        raise UsageError(what, f"--doubt {doubt:g}, {model}", "leave it out; or train it with a doubt above 0")


FOR_DATASETS, FOR_FILES = ("--split", "--scheduler"), ("--labels", *OPTIONS.values())
HAS_ITS_OWN = "leave it out: a dataset has its own"
GIVE_SOME = (
    'trace-norm and kmeans-tree models give probabilities, and ovr, heshing, flat-hash with loss = "multinomial"; '
    "a model trained by an older version is trained again"
)


@contextmanager
def _told_of(data: str) -> Iterator[None]:
    """A value that the model cannot take stands in the rows that were given, not in those that it learnt from."""
    try:
        yield
    except NegativeFeature as error:
        error.where, error.hint = f"{data}, {error.where}", OTHER_ROWS
        raise


OTHER_ROWS = (
    "this model takes values of 0 or more: correct these rows, leave such ones out, or predict with a model that takes "
    "them"
)


# ---- rows --------------------------------------------------------------------------------------------------------


def _predict_dataset(
    saved: SavedModel,
    data: str,
    scratch: Path,
    top: int,
    split: str | None,
    taxonomy: str | None,
    scheduler: str,
    beam: int | None,
    doubt: float | None,
) -> Predicted:
    from pipeline.commands.running import profile_of
    from pipeline.runner import View, open_pool

    dataset = Dataset.open(data)
    if split is not None and split not in SPLITS:
        raise UsageError(f"--split {split!r}: expected one of {', '.join(SPLITS)}", "--split")
    check_columns(dataset.n_features, saved.n_features, data)
    mapped = class_map(dataset.classes, saved.classes)
    _warn_of_classes(mapped, data)
    tree = tree_of_dataset(dataset, saved, mapped) if taxonomy is None else tree_of_file(taxonomy, saved)
    selection = Selection(
        dataset.path,
        None if split is None else SPLITS.index(split),
        None if mapped is None else tuple(mapped.tolist()),
    )
    profile = profile_of(None, scheduler)
    memory = MemoryPlan(0, WorkerSettings().cache_bytes, 0, profile.threads)
    blocks = dataset.blocks()
    with open_pool(profile, memory, RunFolder(scratch), View()) as pool:
        place = str(at(saved.folder).absolute())
        shared = place, top, str(scratch), selection, False, beam, doubt
        report = pool.sum(predict_block, blocks, *shared, name="predict_rows")
    parts = [scratch / part_name(block.index) for block in blocks]
    accuracy = Accuracy(saved, tree)
    accuracy.add_blocks(dataset, blocks, parts, split)
    if saved.header.get("provenance", {}).get("dataset") == dataset.digest and split in (None, "train"):
        sys.stderr.write(f"the model learnt from the training rows of {data}: what counts is its line `test`\n")
    return Predicted(parts, report.rows, accuracy)


def _warn_of_classes(mapped: np.ndarray[Any, Any] | None, data: str) -> None:
    missing = 0 if mapped is None else int(np.count_nonzero(mapped == NONE))
    if mapped is not None and missing:
        text = f"{missing:,} of {len(mapped):,} classes of {data} are none of the model's"
        sys.stderr.write(f"warning: {text}: their rows count as unlabelled\n")


def _predict_files(
    saved: SavedModel,
    data: str,
    scratch: Path,
    top: int,
    labels: str | None,
    taxonomy: str | None,
    reading: Mapping[str, Any],
    beam: int | None,
) -> Predicted:
    with remote(scratch / "taxonomy") as fetch:
        accuracy = Accuracy(saved, tree_of_file(fetch.local(taxonomy), saved))
    width, classes = saved.n_features, classes_of_model(saved)
    source, known = open_rows(data, scratch / "spool", width, labels, classes, reading)
    if taxonomy is not None and known is None:
        raise UsageError("--taxonomy has no meaning without labels", f"--taxonomy, {shown(data)}", "give --labels, too")
    parts: list[Path] = []
    blank: list[str] = []
    for start, rows in source.slabs():
        index = np.arange(rows.n_rows)
        marks = np.full(rows.n_rows, NONE, np.int32) if known is None else known[start : start + rows.n_rows]
        parts.append(scratch / part_name(len(parts)))
        numbers, files = index + start, None
        if isinstance(source, ImageSource):
            numbers, files = source.numbers[numbers], [source.files[row] for row in numbers]
            rows, without = described(saved, rows)
            blank += [files[row] for row in without]
        selected = Selected(index, numbers, marks)
        with numbered(lambda ids=selected.row_ids: ids):  # type: ignore[misc]
            ranking = saved.rank(rows, top, encoded=files is not None, labels=marks, beam=beam)
        write_part(parts[-1], selected, ranking, files)
        if known is not None:
            accuracy.add(ALL_ROWS, read_part(parts[-1]))
    if blank:
        more = ", ..." if len(blank) > NAMED_FILES else ""
        sys.stderr.write(
            f"warning: ImageWithoutDescriptors: {len(blank):,} images have no patch with contrast, so there is nothing "
            f"to tell them apart by: {', '.join(blank[:NAMED_FILES])}{more}\n"
        )
    return Predicted(parts, source.n_rows, accuracy)


def described(saved: SavedModel, images: Rows) -> tuple[Rows, Sequence[int]]:
    """Images as the model's encoders make rows of them, and which of them have no descriptors."""
    found = saved.encoders[0].encode(images)
    without = np.flatnonzero(np.diff(found.offsets) == 0).tolist() if isinstance(found, Descriptors) else []
    return encode_all(found, saved.encoders[1:]), without


# ---- what is left behind -----------------------------------------------------------------------------------------


def _tell(accuracy: Accuracy, output: Path, facts: Mapping[str, Any]) -> None:
    if not accuracy.scores:
        return
    sys.stdout.write(accuracy.table())
    path = metrics_path(output)
    write_numbers(path, ACCURACY, {**facts, "metrics": accuracy.metrics()})
    sys.stderr.write(f"{path}: the same and more, as JSON\n")
