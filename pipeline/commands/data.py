"""ingest, predict, verify."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.dataset import SPLITS, Dataset
from pipeline.ingest import ingest as ingest_files
from pipeline.plan import MemoryPlan, human_bytes
from pipeline.profile import Profile, parse_bytes
from pipeline.progress import pace_text
from pipeline.run_check import run_problems
from pipeline.store import MANIFEST, RunFolder
from tasks.errors import ArtefactError, InputError, UsageError
from tasks.io import FEATURES
from tasks.models.blocks import predict_block
from tasks.models.errors import ColumnMismatch
from tasks.models.folder import SavedModel, load_model, verify_model
from tasks.models.predictions import join_parts, part_name, write_part
from tasks.models.selection import Selected, Selection
from tasks.worker import WorkerSettings


class OutputExists(UsageError):
    """The file that is to be written is there already."""


class NothingToVerify(UsageError):
    """A path at which nothing of ours stands."""


def ingest(
    source: str,
    dataset: Path,
    *,
    format: str | None = None,
    features: int | None = None,
    max_memory: str | None = None,
    **options: Any,
) -> Dataset:
    """Make a dataset store of files (see `pipeline.ingest.ingest`); prints what was made and every note."""
    rate = _Rate()
    limit = None if max_memory is None else parse_bytes(max_memory, "--max-bytes")
    made = ingest_files(source, dataset, fmt=format, n_features=features, max_bytes=limit, progress=rate, **options)
    rate.end()
    for note in made.notes:
        sys.stderr.write(f"{note.level}: {note.code}: {note.text}\n")
    counts = ", ".join(f"{made.split_counts[name]:,} {name}" for name in SPLITS)
    sys.stderr.write(
        f"{made.path}: {made.n_rows:,} rows ({counts}), {made.n_features:,} features, {made.n_classes:,} classes, "
        f"{made.body} {made.dtype} in blocks of {made.block_rows:,} rows, digest {made.digest}\n"
    )
    return made


class _Rate:
    """Rows per second and remaining time of an ingest, on one line of a terminal."""

    def __init__(self) -> None:
        from pipeline.progress import Pace

        self.pace, self.live = Pace(), sys.stderr.isatty()

    def __call__(self, done: int, total: int) -> None:
        rate, eta = self.pace("ingest", done, total, done)
        if self.live:
            sys.stderr.write(f"\r  {done:,}/{total:,} rows {pace_text(rate, eta)}\x1b[K")

    def end(self) -> None:
        if self.live:
            sys.stderr.write("\r\x1b[K")


def predict(
    model: Path,
    data: str,
    output: Path,
    *,
    top: int = 5,
    split: str | None = None,
    scheduler: str | None = None,
    format: str | None = None,
    index_base: int | None = None,
    force: bool = False,
) -> int:
    """Rank classes for rows of a dataset store or of files, block by block; returns the number of rows written.

    split, scheduler     of a dataset store only; format, index_base: of files only
    raises               OutputExists, the errors of the model folder and of the rows, ColumnMismatch
    """
    _check_output(output, force)
    if top < 1:
        raise UsageError(f"--top {top}: expected a whole number >= 1", "--top")
    is_dataset = (Path(data) / "zarr.json").is_file()
    asked = {"--split": split, "--scheduler": scheduler, "--format": format, "--index-base": index_base}
    _refuse_idle(is_dataset, asked, data)
    saved = load_model(model)
    top = min(top, saved.model.n_classes)
    output.absolute().parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{output.name}-", dir=output.absolute().parent))
    try:
        if is_dataset:
            parts, rows = _predict_dataset(saved, data, scratch, top, split, scheduler or "serial")
        else:
            parts, rows = _predict_files(saved, data, scratch, top, format, index_base)
        join_parts(parts, output)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    sys.stderr.write(f"{output}: {rows:,} rows, {human_bytes(output.stat().st_size)}\n")
    return rows


def _check_output(output: Path, force: bool) -> None:
    if output.is_dir():
        raise OutputExists("this is a folder", str(output), "name a file: PREDICTIONS.parquet")
    if output.exists() and not force:
        raise OutputExists("the output is there already", str(output), "choose another name, or --force")


def _refuse_idle(is_dataset: bool, asked: Mapping[str, Any], data: str) -> None:
    """Options that would be without effect are refused: nobody should believe that they had one."""
    kind, idle = ("a dataset store", FOR_FILES) if is_dataset else ("files", FOR_DATASETS)
    for name in idle:
        if asked[name] is not None:
            raise UsageError(f"{name} has no meaning for rows of {kind}", f"{name}, {data}", "leave it out")


FOR_DATASETS, FOR_FILES = ("--split", "--scheduler"), ("--format", "--index-base")


def _predict_dataset(
    saved: SavedModel, data: str, scratch: Path, top: int, split: str | None, scheduler: str
) -> tuple[list[Path], int]:
    from pipeline.commands.running import profile_of
    from pipeline.runner import View, open_pool

    dataset = Dataset.open(data)
    if split is not None and split not in SPLITS:
        raise UsageError(f"--split {split!r}: expected one of {', '.join(SPLITS)}", "--split")
    if dataset.n_features != saved.model.n_features:
        what = f"{dataset.n_features} columns where {saved.model.n_features} are expected"
        raise ColumnMismatch(what, data, "give rows with the columns of the training rows, in the same order")
    number = None if split is None else SPLITS.index(split)
    profile: Profile = profile_of(None, scheduler)
    memory = MemoryPlan(0, WorkerSettings().cache_bytes, 0, profile.threads)
    blocks = dataset.blocks()
    with open_pool(profile, memory, RunFolder(scratch), View()) as pool:
        selection = Selection(dataset.path, number)
        place = str(Path(saved.folder).absolute())
        report = pool.sum(predict_block, blocks, place, top, str(scratch), selection, name="predict_rows")
    return [scratch / part_name(block.index) for block in blocks], report.rows


def _predict_files(
    saved: SavedModel, data: str, scratch: Path, top: int, fmt: str | None, index_base: int | None
) -> tuple[list[Path], int]:
    import numpy as np

    from pipeline.ingest import open_source
    from pipeline.ingest.scan import refuse_non_finite, scan

    spool = scratch / "spool"
    source = open_source(data, spool, fmt=fmt, index_base=index_base, n_features=saved.model.n_features)
    refuse_non_finite([scan(source, "float32")], "leave such rows out")
    parts: list[Path] = []
    for start, rows in source.slabs():
        number = len(parts)
        index = np.arange(rows.n_rows)
        selected = Selected(index, index + start, np.full(rows.n_rows, -1, np.int32))
        parts.append(scratch / part_name(number))
        write_part(parts[-1], selected, saved.rank(rows, top))
    if not parts:
        raise InputError("there are no rows to predict", data, "give files with at least one row")
    return parts, source.n_rows


def verify(path: Path) -> None:
    """Read a dataset, a run folder or a model folder again; prints every problem, raises the first."""
    problems = list(_problems(path))
    for problem in problems:
        sys.stdout.write(f"{problem}\n")
    if problems:
        raise problems[0]
    sys.stdout.write(f"{path}: every digest holds\n")


def _problems(path: Path) -> Any:
    """By what is there of it: the file that names a folder's kind may be the one that is lost."""
    if (path / "model.json").is_file() or (path / "SHA256SUMS").is_file():
        yield from _caught(lambda: verify_model(path))
    elif (path / "zarr.json").is_file() or (path / FEATURES).is_dir():
        yield from Dataset.open(path).problems()
    elif (path / MANIFEST).is_file() or (path / "steps").is_dir():
        yield from run_problems(RunFolder(path.absolute()))
    else:
        hint = "give the folder of a dataset (NAME.zarr), a run (runs/NAME) or a model (runs/NAME/models/MODEL)"
        raise NothingToVerify("this is no dataset, no run and no model", str(path), hint)


def _caught(work: Any) -> Any:
    try:
        work()
    except ArtefactError as error:
        yield error
