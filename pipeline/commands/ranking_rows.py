"""Ranking the classes of given rows, into parts in a scratch folder: what predict and evaluate share."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
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
from pipeline.dataset import PQ, SPLITS, Dataset
from pipeline.ingest.errors import LabelsMissing, check_columns
from pipeline.ingest.feature_order import refuse_other_features
from pipeline.ingest.images import ImageSource
from pipeline.ingest.remote import remote, shown
from pipeline.last_resort import say_line
from pipeline.plan import MemoryPlan
from pipeline.stages.retrieve import split_blocks
from pipeline.store import RunFolder
from tasks.errors import UsageError
from tasks.features.errors import NegativeFeature, numbered
from tasks.models.blocks import predict_block
from tasks.models.encoder import encode_all
from tasks.models.errors import NoProbabilities
from tasks.models.flat import is_tree
from tasks.models.folder import SavedModel, load_model
from tasks.models.predictions import part_name, read_part, write_part
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


@dataclass(frozen=True)
class Asked:
    """What is to be ranked by which model, and how.

    split, scheduler  of a dataset store only; labels, reading (as `OPTIONS` names it): of files only
    taxonomy          a file that hierarchical error is measured on, in place of the dataset's or the model's own
    top               classes per row; beam, doubt: None as the model was trained
    proba             whether the model has to give probabilities
    labelled          whether rows whose labels nobody knows are refused
    uncoded           of a model of codes: rows of numbers as they are, not as codes would have them
    """

    model: Path
    data: str
    labels: str | None = None
    taxonomy: str | None = None
    top: int = 5
    proba: bool = False
    beam: int | None = None
    doubt: float | None = None
    split: str | None = None
    scheduler: str | None = None
    reading: Mapping[str, Any] = field(default_factory=dict)
    labelled: bool = False
    uncoded: bool = False

    @property
    def of_dataset(self) -> bool:
        return is_dataset(self.data)

    def searched(self) -> dict[str, str]:
        """What differs from how the model was trained, as text."""
        found = {"beam": self.beam, "doubt": self.doubt}
        told = {key: str(value) for key, value in found.items() if value is not None}
        return told | ({"uncoded": "yes"} if self.uncoded else {})


def checked_model(asked: Asked, usage: str) -> SavedModel:
    """The model, when it can do what is asked for. Raises UsageError, NoProbabilities, the errors of model folders.

    usage  how the command is typed, for the message about a dataset in the place of the model
    """
    if asked.top < 1:
        raise UsageError(f"--top {asked.top}: expected a whole number >= 1", "--top")
    options: dict[str, Any] = {"--split": asked.split, "--scheduler": asked.scheduler}
    options |= {"--labels": asked.labels, "--taxonomy": asked.taxonomy, **options_of(asked.reading)}
    _refuse_idle(asked.of_dataset, options, shown(asked.data))
    refuse_other_folder(asked.model, usage)
    saved = load_model(asked.model)
    if asked.proba and not saved.probabilistic:
        raise NoProbabilities(
            f"the scores of this {kind_of(saved.model)} model are margins", f"--proba, {asked.model}", GIVE_SOME
        )
    if asked.beam is not None:
        check_beam(asked.beam, saved, asked.model)
    if asked.doubt is not None:
        _check_doubt(asked.doubt, saved, asked.model)
    if asked.uncoded:
        _check_uncoded(saved, asked.model)
    return saved


def ranked(asked: Asked, saved: SavedModel, scratch: Path) -> Predicted:
    """Rank the classes of all rows that are asked for, into parts within `scratch`.

    raises  ColumnMismatch, the errors of rows, labels and taxonomies
    """
    top = min(asked.top, saved.model.n_classes)
    with _told_of(shown(asked.data)):
        if asked.of_dataset:
            return _rank_dataset(asked, saved, scratch, top)
        return _rank_files(asked, saved.doubting(asked.doubt), scratch, top)


# ---- what is asked for -------------------------------------------------------------------------------------------


def _refuse_idle(of_dataset: bool, asked: Mapping[str, Any], data: str) -> None:
    """Options that would be without effect are refused: nobody should believe that they had one."""
    kind, idle = ("a dataset store", FOR_FILES) if of_dataset else ("files", FOR_DATASETS)
    for name in idle:
        if asked[name] is not None:
            hint = HAS_ITS_OWN if name == "--labels" else "leave it out"
            raise UsageError(f"{name} has no meaning for rows of {kind}", f"{name}, {data}", hint)


def check_beam(beam: int, saved: SavedModel, model: Path) -> None:
    """Raises UsageError for a beam that a model cannot be searched with."""
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


GIVE_LABELS = (
    "give them with --labels: one a row, .npy, .txt, .json, or FILE:COLUMN of a table; "
    "or with --labels-at, where files hold several"
)
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


def _check_uncoded(saved: SavedModel, model: Path) -> None:
    if [encoder.kind for encoder in saved.encoders] != ["pq"]:
        what = "--uncoded has no meaning for a model that takes other rows than codes of the numbers themselves"
        raise UsageError(what, f"--uncoded, {model}", "leave it out")


# ---- rows --------------------------------------------------------------------------------------------------------


def _rank_dataset(asked: Asked, saved: SavedModel, scratch: Path, top: int) -> Predicted:
    from pipeline.commands.profiles import profile_of
    from pipeline.runner import View, open_pool

    data, split = asked.data, asked.split
    dataset = Dataset.open(data)
    if split is not None and split not in SPLITS:
        raise UsageError(f"--split {split!r}: expected one of {', '.join(SPLITS)}", "--split")
    check_columns(dataset.n_features, saved.n_features, data)
    refuse_other_features(dataset, saved.feature_names)
    if asked.uncoded and dataset.body == PQ:
        raise UsageError(f"{data} holds codes, no numbers", "--uncoded", "leave it out")
    mapped = class_map(dataset.classes, saved.classes)
    _warn_of_classes(mapped, data)
    tree = tree_of_dataset(dataset, saved, mapped) if asked.taxonomy is None else tree_of_file(asked.taxonomy, saved)
    selection = Selection(
        dataset.path,
        None if split is None else SPLITS.index(split),
        None if mapped is None else tuple(mapped.tolist()),
    )
    profile = profile_of(None, asked.scheduler or "serial")
    memory = MemoryPlan(0, WorkerSettings().cache_bytes, 0, profile.threads)
    blocks = dataset.blocks()
    if split is not None:
        blocks = split_blocks(dataset, blocks, split) or blocks[:1]  # of which nothing is selected
    with open_pool(profile, memory, RunFolder(scratch), View()) as pool:
        place = str(at(saved.folder).absolute())
        shared = place, top, str(scratch), selection, asked.uncoded, asked.beam, asked.doubt
        report = pool.sum(predict_block, blocks, *shared, name="predict_rows")
    parts = [scratch / part_name(block.index) for block in blocks]
    accuracy = Accuracy(saved, tree)
    accuracy.add_blocks(dataset, blocks, parts, split)
    if saved.header.get("provenance", {}).get("dataset") == dataset.digest and split in (None, "train"):
        counts = "its line `test`" if split is None else "its test rows"
        say_line(f"the model learnt from the training rows of {data}: what counts is {counts}")
    return Predicted(parts, report.rows, accuracy)


def _warn_of_classes(mapped: np.ndarray[Any, Any] | None, data: str) -> None:
    missing = 0 if mapped is None else int(np.count_nonzero(mapped == NONE))
    if mapped is not None and missing:
        text = f"{missing:,} of {len(mapped):,} classes of {data} are none of the model's"
        say_line(f"warning: {text}: their rows count as unlabelled")


def _rank_files(asked: Asked, saved: SavedModel, scratch: Path, top: int) -> Predicted:
    data, taxonomy = asked.data, asked.taxonomy
    with remote(scratch / "taxonomy") as fetch:
        accuracy = Accuracy(saved, tree_of_file(fetch.local(taxonomy), saved))
    width, classes = saved.n_features, classes_of_model(saved)
    spool, names = scratch / "spool", saved.feature_names
    source, known = open_rows(data, spool, width, asked.labels, classes, asked.reading, features=names)
    if asked.labelled and known is None:
        raise LabelsMissing("nothing tells the classes of these rows", shown(data), GIVE_LABELS)
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
            ranking = saved.rank(rows, top, encoded=asked.uncoded or files is not None, labels=marks, beam=asked.beam)
        write_part(parts[-1], selected, ranking, files)
        if known is not None:
            accuracy.add(ALL_ROWS, read_part(parts[-1]))
    if blank:
        more = ", ..." if len(blank) > NAMED_FILES else ""
        say_line(
            f"warning: ImageWithoutDescriptors: {len(blank):,} images have no patch with contrast, so there is nothing "
            f"to tell them apart by: {', '.join(blank[:NAMED_FILES])}{more}"
        )
    return Predicted(parts, source.n_rows, accuracy)


def described(saved: SavedModel, images: Rows) -> tuple[Rows, Sequence[int]]:
    """Images as the model's encoders make rows of them, and which of them have no descriptors."""
    found = saved.encoders[0].encode(images)
    without = np.flatnonzero(np.diff(found.offsets) == 0).tolist() if isinstance(found, Descriptors) else []
    return encode_all(found, saved.encoders[1:]), without
