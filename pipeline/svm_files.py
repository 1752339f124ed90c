"""What learners of support vector machines share while a run works: rows sorted by class, kernel matrices.

They stand in `solved/` of the run until all its steps are finished, whoever made them first.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pipeline.stage import Work, encode_step
from pipeline.stages.problems import class_counts
from pipeline.store import SOLVED
from tasks.calls import write_array
from tasks.digest import digest_text
from tasks.files import disk_room
from tasks.io import Block, facts_of, nonzeros_of
from tasks.relaxed.ground import STARTS
from tasks.svm.class_rows import ClassRows, RowRuns, check_block, shelves_of, sort_shelf
from tasks.svm.gram import GramStore, write_band
from tasks.svm.kernels import OF_HISTOGRAMS, Kernel

BAND_ROWS = 512  # of a kernel matrix


def sorted_rows(work: Work, rows: str) -> ClassRows:
    """The training rows of the dataset or of an encoding, by class. Raises DiskFull."""
    blocks = work.blocks(rows)
    store, counts = blocks[0].store, class_counts(work.dataset)
    folder = shared_folder(work, "rows", rows)
    with disk_room(str(folder), 0):
        folder.mkdir(parents=True, exist_ok=True)
    write_array(folder / STARTS, np.concatenate([[0], np.cumsum(counts)]).astype(np.int64))
    found = ClassRows(str(folder), store, work.dataset.path, shelves_of(counts, row_bytes(store, blocks)))
    work.pool.map(sort_shelf, [shelf for shelf in found.shelves if shelf.n_rows], found, name="sort_by_class")
    return found


def row_bytes(store: str, blocks: list[Block]) -> float:
    """Bytes of a row as it is stored, about."""
    facts = facts_of(store)
    if facts.body == "csr":
        return 8 * sum(nonzeros_of(store)) / max(1, facts.n_rows) + 8
    del blocks
    return facts.n_features * (np.dtype(facts.dtype).itemsize if facts.body == "dense" else 1.0)


def kernel_matrix(work: Work, rows: str, found: ClassRows, kernel: Kernel) -> GramStore | None:
    """Kernel values of all training rows with each other; None for the linear kernel. Raises DiskFull."""
    if kernel.kind == "linear":
        return None
    folder = shared_folder(work, "kernel", rows, kernel.kind, repr(kernel.width))
    with disk_room(str(folder), 0):
        folder.mkdir(parents=True, exist_ok=True)
    store = GramStore(str(folder), found.n_rows, BAND_ROWS)
    work.pool.map(write_band, range(store.n_bands), store, RowRuns(found), kernel, name="kernel_values")
    return store


def check_rows_for(work: Work, rows: str, kind: str) -> None:
    """Raises NegativeFeature with the source's row when a kernel of histograms meets a value below 0, of any split."""
    if kind in OF_HISTOGRAMS:
        kernel = Kernel(kind)  # type: ignore[arg-type]
        work.pool.map(check_block, work.blocks(rows), kernel, work.dataset.path, name="check_histograms")


def shared_folder(work: Work, what: str, rows: str, *more: str) -> Path:
    """Of what steps about the rows of the dataset or of an encoding share until the run has finished; named by these
    rows and by `more`, all else that decides it."""
    read = [done.digest for name, done in sorted(work.inputs.items()) if name == encode_step(rows)]
    named = digest_text(work.dataset.digest, rows, *read, *more)
    return work.folder.parent.parent / SOLVED / f"{what}-{named[:12]}"
