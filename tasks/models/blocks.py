"""Functions that travel: predict the rows of one block, with the model loaded once per process."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from tasks.cache import ByteCache
from tasks.features.errors import numbered
from tasks.io import Block, read_rows
from tasks.models.errors import ModelMissing
from tasks.models.folder import SavedModel, load_model
from tasks.models.predictions import part_name, write_part
from tasks.models.selection import Selection
from tasks.models.sums import SUMS
from tasks.places import at
from tasks.rows.base import Rows
from tasks.sums import FieldSums
from tasks.versions import version_of

Way = tuple[str, str, bool, int | None, float | None]  # of ranking: model, body of rows, encoded, beam, doubt
MODELS_KEPT = 2  # models held per process, each counted as one byte
_LOADED = ByteCache(MODELS_KEPT)


@dataclass(frozen=True, slots=True)
class PredictReport(FieldSums):
    """What predicting added up to.

    rows, evaluations   rows predicted; classifiers really evaluated for them
    seconds             processor time of the thread that ranks, which others on the machine hardly change; reading and
                        writing apart
    digests             content digest of each part, in block order
    """

    rows: int
    evaluations: int
    seconds: float
    digests: tuple[str, ...]


def cached_model(folder: str) -> SavedModel:
    """The model of a folder, loaded and checked once per process while its SHA256SUMS stays the same."""
    try:
        version = version_of(str(at(folder) / SUMS))
    except (FileNotFoundError, NotADirectoryError):
        load_model(folder)  # names what is wrong with the folder
        raise ModelMissing("the model has gone", folder, "train again") from None
    return _LOADED.fetch(folder, version, lambda: load_model(folder), lambda _: 1)


def predict_block(
    block: Block,
    model_folder: str,
    top: int,
    target_dir: str,
    selection: Selection,
    encoded: bool = False,
    beam: int | None = None,
    doubt: float | None = None,
) -> PredictReport:
    """Rank the selected rows of a block and write them as `part-<block>.parquet` in target_dir.

    encoded  whether the rows are those of the run that the model is tested on; else its encoders turn them into such
    beam     of a tree: nodes expanded a depth at most; None: the model's own
    doubt    of a hierarchy: how near a split a row goes both ways; None: the model's own

    A block of which nothing is selected writes an empty part, so that every block has one. Raises ColumnMismatch, the
    errors of `load_model` and of `read_rows`, DiskFull.
    """
    saved = cached_model(model_folder).doubting(doubt)
    selected = selection.of(block)
    rows = read_rows(block)
    if len(selected.index) != rows.n_rows:
        rows = rows.take(selected.index)
    with numbered(lambda: selected.row_ids):
        warm_up((model_folder, rows.body, encoded, beam, doubt), saved, rows, top)
        start = time.thread_time()
        ranking = saved.rank(rows, top, encoded, selected.labels, beam)
        seconds = time.thread_time() - start
    digest = write_part(at(target_dir) / part_name(block.index), selected, ranking)
    return PredictReport(rows.n_rows, int(ranking.evaluations.sum(dtype=np.int64)), seconds, (digest,))


WARM_ROWS = 512  # one row comes to few of a model's ways, and another's kernels would be compiled on the clock
_WARM: set[Way] = set()


def warm_up(way: Way, saved: SavedModel, rows: Rows, top: int) -> None:
    """Compile, or load, the kernels of a model and a body of rows once per process, so that timings hold none of it.

    The first rows of a block, so that an error in one of them has its number.
    """
    if way not in _WARM and rows.n_rows:
        n = min(rows.n_rows, WARM_ROWS)
        _, _, encoded, beam, _ = way
        saved.rank(rows.take(np.arange(n)), top, encoded, np.zeros(n, np.int32), beam)
        _WARM.add(way)
