"""retrieve: the nearest training rows of queries by Hamming distance, and how many are of the query's class."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.accuracy import ALL_ROWS, NONE, known_classes
from pipeline.byte_sizes import human_bytes
from pipeline.commands.looking import find_run
from pipeline.commands.new_rows import OPTIONS, open_rows, options_of
from pipeline.commands.profiles import profile_of
from pipeline.connection.profile import is_far
from pipeline.dataset import COLUMNS, PQ, SPLITS
from pipeline.ingest.place import scratch_beside
from pipeline.ingest.remote import shown
from pipeline.last_resort import say_line
from pipeline.outputs import RETRIEVAL, metrics_path, output_place, put_in_place, text_table, write_numbers
from pipeline.plan import MemoryPlan
from pipeline.report.numbers import percent
from pipeline.run_codes import RunCodes
from pipeline.runner import View, open_pool
from pipeline.stages.retrieve import results_of, split_blocks
from pipeline.store import RunFolder
from tasks.errors import UsageError
from tasks.io import LABELS, ROW_ID, Block, create_column, create_group, create_onehot, write_codes, write_column
from tasks.models.encoder import Encoder, encode_all
from tasks.models.predictions import part_name
from tasks.models.selection import Selection
from tasks.retrieval.blocks import RetrievalReport, retrieve_block
from tasks.retrieval.candidates import HAMMING, PRESENT, Candidates
from tasks.retrieval.neighbours import join_neighbours
from tasks.rows import OneHot, Rows
from tasks.rows.base import Array
from tasks.worker import WorkerSettings

FOR_FILES = ("--labels", *OPTIONS.values())


@dataclass(frozen=True)
class Queries:
    """Blocks of codes that are looked up, which of their rows, and what these are called."""

    blocks: list[Block]
    selection: Selection
    name: str


def retrieve(
    run: Path,
    rows: str,
    output: Path,
    *,
    queries: str | None = None,
    labels: str | None = None,
    split: str | None = None,
    top: int = 10,
    distance: str = HAMMING,
    scheduler: str | None = None,
    runs: Path | None = None,
    format: str | None = None,
    rows_at: str | None = None,
    labels_at: str | None = None,
    raw_shape: str | None = None,
    raw_dtype: str | None = None,
    index_base: int | None = None,
    force: bool = False,
) -> int:
    """Rank the training rows of a run's dataset for each query; returns the number of queries.

    run, rows            a run folder or its config; the name of an encoding of kind wta or dwta that is finished there
    queries              files of rows as for `ingest`; None: the rows of the dataset's `split` ("test")
    labels, format ... index_base  of files only
    distance             "hamming", or "present": in proportion to the codes that not both rows lack
    Where labels are known, a table goes to stdout and its numbers with the whole curve to OUTPUT.metrics.json.
    raises               OutputExists, RunMissing, UsageError, the errors of the run folder, of rows and of labels
    """
    output = output_place(output, force)
    if top < 1:
        raise UsageError(f"--top {top}: expected a whole number >= 1", "--top")
    if distance not in (HAMMING, PRESENT):
        raise UsageError(f"--distance {distance!r}: expected one of {HAMMING}, {PRESENT}", "--distance")
    reading: dict[str, Any] = {"fmt": format, "rows_at": rows_at, "labels_at": labels_at}
    reading |= {"raw_shape": raw_shape, "raw_dtype": raw_dtype, "index_base": index_base}
    asked: dict[str, Any] = {"--split": split, "--labels": labels, **options_of(reading)}
    _refuse_idle(queries, asked)
    found = find_run(run, runs)
    codes = RunCodes.of(found, run, rows)
    if found.changed:
        say_line(f"note: {found.changed}")
    with scratch_beside(output, queries is None and is_far(scheduler)) as scratch:
        if queries is None:
            wanted = _of_dataset(codes, split or "test")
        else:
            wanted = _of_files(codes, queries, labels, reading, scratch.absolute())
        candidates = Candidates(codes.store, codes.dataset.path, distance)
        report = _retrieve(candidates, wanted, top, scratch.absolute(), scheduler or "serial")
        joined = scratch / "joined.parquet"
        metadata = {"codes": codes.digest, "dataset": codes.dataset.digest}
        join_neighbours([scratch / part_name(block.index) for block in wanted.blocks], joined, metadata, report.digests)
        about = {
            "run": str(found.folder.path),
            "rows": rows,
            "distance": distance,
            "codes": codes.digest,
            "data": shown(queries) if queries else codes.dataset.path,
        }
        put_in_place(joined, _numbers(report, wanted.name, scratch, about), output, force)
    say_line(f"{output}: {report.queries:,} queries, {human_bytes(output.stat().st_size)}")
    _tell(report, wanted.name, output)
    return report.queries


def _refuse_idle(queries: str | None, asked: Mapping[str, Any]) -> None:
    """Options that would be without effect are refused: nobody should believe that they had one."""
    kind, idle = ("rows of a run's dataset", FOR_FILES) if queries is None else ("rows of files", ("--split",))
    for name in idle:
        if asked[name] is not None:
            hint = "leave it out, or give --queries FILES" if queries is None else "leave it out"
            raise UsageError(f"{name} has no meaning for {kind}", name, hint)
    if asked["--split"] not in (None, *SPLITS[1:]):
        raise UsageError(f"--split {asked['--split']!r}: expected one of {', '.join(SPLITS[1:])}", "--split")


# ---- queries -----------------------------------------------------------------------------------------------------


def _of_dataset(codes: RunCodes, split: str) -> Queries:
    blocks = split_blocks(codes.dataset, codes.blocks(), split)
    if not blocks:
        raise UsageError(f"the dataset has no {split} rows", codes.dataset.path, "name files: --queries FILES")
    return Queries(blocks, Selection(codes.dataset.path, SPLITS.index(split)), split)


def _of_files(codes: RunCodes, data: str, labels: str | None, reading: Mapping[str, Any], scratch: Path) -> Queries:
    """Rows of files as a small dataset of codes: read and encoded block by block, as the run has encoded its rows."""
    dataset, encoders = codes.dataset, codes.encoders()
    classes = known_classes(dataset.classes, f"the dataset {dataset.path}")
    spool, width = scratch / "spool", dataset.n_features
    dtype = "float32" if dataset.body == PQ else dataset.dtype  # queries are numbers where the rows are codes
    source, known = open_rows(data, spool, width, labels, classes, reading, dtype, dataset.feature_names)
    marks = np.full(source.n_rows, NONE, np.int32) if known is None else known
    place, block_rows = str(scratch / "queries"), min(dataset.block_rows, source.n_rows)
    create_group(place, {})
    for name in (LABELS, ROW_ID):
        create_column(place, name, source.n_rows, block_rows, COLUMNS[name])
    blocks: list[Block] = []
    for start in range(0, source.n_rows, block_rows):
        stop = min(start + block_rows, source.n_rows)
        encoded = _encoded(source.slab(start, stop, dtype), encoders)
        if not blocks:
            shape = (source.n_rows, encoded.codes.shape[1], block_rows)
            blocks = create_onehot(f"{place}/codes", *shape, encoded.codes.dtype.name, encoded.n_codes)
        write_codes(blocks[start // block_rows], encoded.codes)
        write_column(place, LABELS, start, marks[start:stop])
        write_column(place, ROW_ID, start, np.arange(start, stop))
    return Queries(blocks, Selection(place), ALL_ROWS)


def _encoded(rows: Rows, encoders: Sequence[Encoder]) -> OneHot:
    codes = encode_all(rows, encoders)
    assert isinstance(codes, OneHot)  # the last encoder is of kind wta or dwta
    return codes


# ---- ranking -----------------------------------------------------------------------------------------------------


def _retrieve(candidates: Candidates, wanted: Queries, top: int, scratch: Path, scheduler: str) -> RetrievalReport:
    profile = profile_of(None, scheduler)
    memory = MemoryPlan(0, WorkerSettings().cache_bytes, 0, profile.threads)
    shared = (candidates, wanted.selection, top, str(scratch))
    with open_pool(profile, memory, RunFolder(scratch), View()) as pool:
        report: RetrievalReport = pool.sum(retrieve_block, wanted.blocks, *shared, name="retrieve_rows")
    return report


def _numbers(report: RetrievalReport, name: str, scratch: Path, about: Mapping[str, Any]) -> Path | None:
    """A file of them, with the whole curve, where labels are known."""
    if not report.sums.queries:
        return None
    results = results_of(report)
    del results["curve"]  # thinned
    path = scratch / "numbers.json"
    write_numbers(path, RETRIEVAL, {**about, "metrics": {name: results}, "curve": report.sums.curve().as_json()})
    return path


def _tell(report: RetrievalReport, name: str, output: Path) -> None:
    if not report.sums.queries:
        return
    precision: Array = np.array(report.sums.precision_at(report.candidates))
    shown = dict.fromkeys((1, len(precision)))
    heading = ["", "queries", "mean average precision", *(f"precision at {k}" for k in shown)]
    numbers = [percent(report.sums.mean_average_precision), *(percent(precision[k - 1]) for k in shown)]
    sys.stdout.write(text_table([heading, [name, f"{report.sums.queries:,}", *numbers]]))
    say_line(f"{metrics_path(output)}: the same and the whole curve, as JSON")
