"""How much memory and disk support vector machines take, before anything runs."""

from __future__ import annotations

from pipeline.stage import Facts
from pipeline.stages.train import MEGABYTE
from pipeline.svm_files import BAND_ROWS
from tasks.svm.class_rows import SHELF_BYTES
from tasks.svm.gram import gram_bytes

FLOAT, DOUBLE = 4, 8


def row_bytes(facts: Facts, rows: str) -> float:
    """Bytes of a row in float32, decoded."""
    known = facts.rows[rows]
    return 2 * FLOAT * known.row_floats if known.body in ("csr", "onehot") else FLOAT * known.n_features


def sorted_bytes(facts: Facts, rows: str) -> int:
    """Disk that the rows take, sorted by class."""
    known, dataset = facts.rows[rows], facts.dataset
    return int(known.block_bytes / max(1, dataset.block_rows) * dataset.split_counts["train"]) + MEGABYTE


def gram_disk_bytes(n_train: int) -> int:
    """Disk that a kernel matrix takes."""
    return gram_bytes(n_train) + MEGABYTE


def linear_task_bytes(facts: Facts, rows: str, most: int, outputs: int) -> int:
    """Memory of a fit on so many rows, of so many outputs at once."""
    n_rows, known = min(most, facts.dataset.split_counts["train"]), facts.rows[rows]
    held = int(2.5 * n_rows * row_bytes(facts, rows)) + 8 * FLOAT * n_rows
    learning = FLOAT * outputs * (2 * n_rows + 3 * known.n_features)
    return held + learning + 2 * known.block_bytes + 2 * SHELF_BYTES + 64 * MEGABYTE


def kernel_task_bytes(facts: Facts, rows: str, most: int) -> int:
    """Memory of a kernel fit on so many rows: the square of their kernel, what libsvm copies, a band."""
    n_train = facts.dataset.split_counts["train"]
    n_rows = min(most, n_train)
    band = FLOAT * BAND_ROWS * (n_train + facts.rows[rows].n_features) + int(2048 * row_bytes(facts, rows))
    square = int(3.2 * DOUBLE * n_rows * n_rows)
    return max(square, band) + 2 * SHELF_BYTES + 320 * MEGABYTE
