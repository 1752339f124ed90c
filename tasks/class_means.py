"""Means of the training rows of each class, and nearest class mean as linear scores (Mensink et al. 2013).

|x - m|^2 = |x|^2 - 2 (x . m - |m|^2 / 2), and |x|^2 is the same for all classes: the nearest mean m is that of the
highest x . m - |m|^2 / 2, a weight vector and a constant per class.

Sums are taken in ranges of classes, and of a range over parts of the blocks: both come from the sizes alone. Of many
ranges each is one task, which goes through all rows and leaves its result in files, so that nothing large travels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from tasks.features.statistics import parts_of
from tasks.fit.blocks import Partition, make_partitions
from tasks.fit.class_ranges import ClassRange, finished, leave
from tasks.fit.scorer import Parameters
from tasks.fit.targets import Targets
from tasks.io import Block, blocks_of, read_rows
from tasks.later import numba
from tasks.places import at
from tasks.rows.base import Array, Rows
from tasks.rows.csr import Csr
from tasks.rows.onehot import OneHot

Metric = Literal["euclidean", "cosine"]

DOUBLE = 8  # bytes
SUM_BYTES = 64 << 20  # of the sums of a range of classes, which travel
SUMS_HELD = 512 << 20  # of the sums of all parts together: one worker may come to hold them
MOST_PARTS = 64
MANY = 8  # ranges: with so many or more, each is one task
NEVER = float(np.finfo(np.float32).min)  # score of a class without training rows: finite, as all that models hold


def sum_ranges(n_features: int, n_classes: int) -> list[ClassRange]:
    """Ranges of nearly equal size, whose sums take SUM_BYTES at most, or hold a single class."""
    widest = max(1, SUM_BYTES // (DOUBLE * max(1, n_features)))
    count = -(-n_classes // widest)
    bounds = [n_classes * i // count for i in range(count + 1)]
    return [ClassRange(i, bounds[i], bounds[i + 1]) for i in range(count)]


def sum_parts(n_features: int, n_classes: int, n_rows: int) -> int:
    """Parts of the sums of n_classes classes over n_rows rows: more rows than classes in each, SUMS_HELD in all."""
    fitting = SUMS_HELD // max(1, DOUBLE * n_features * n_classes)
    return max(1, min(MOST_PARTS, fitting, n_rows // max(1, n_classes)))


def parts_for(blocks: Sequence[Block], classes: ClassRange, n_features: int) -> list[Partition]:
    """Runs of the blocks, each of which gives sums of the range: a function of blocks and sizes alone."""
    n_rows = sum(block.n_rows for block in blocks)
    return make_partitions(blocks, sum_parts(n_features, classes.n_classes, n_rows))


@dataclass(frozen=True, slots=True)
class MeansOf:
    """What all ranges have in common: it travels with each.

    store    path of the rows store, whose first n_train rows hold all that take part
    targets  which rows these are, and of which class
    folder   where ranges leave weights and bias
    """

    store: str
    n_train: int
    n_features: int
    targets: Targets
    metric: Metric
    folder: str

    def blocks(self) -> list[Block]:
        return [block for block in blocks_of(self.store) if block.start < self.n_train]

    def place(self, classes: ClassRange) -> Path:
        return at(self.folder) / f"{classes.index:05d}"

    def is_left(self, classes: ClassRange) -> bool:
        """Whether a range is there, as it was written."""
        return finished(self.place(classes), classes.index) is not None

    def leave(self, classes: ClassRange, sums: Array, counts: Array) -> None:
        """Write what the sums of a range come to; counts (n_classes,) int64, of all classes. Raises DiskFull."""
        own = counts[classes.start : classes.stop]
        leave(self.place(classes), classes.index, nearest_mean(sums, own, self.metric), [])


def leave_range(classes: ClassRange, common: MeansOf, counts: Array) -> None:
    """Sum the rows of a range in one task, and leave what they come to; one that is there already stays."""
    if not common.is_left(classes):
        whole = Partition(0, tuple(common.blocks()))
        common.leave(classes, class_sums(whole, classes, common), counts)


def class_sums(part: Partition, classes: ClassRange, common: MeansOf) -> Array:
    """(n_classes, n_features) float64: sum of the part's rows of each class of the range that take part."""
    out = np.zeros((classes.n_classes, common.n_features))
    for block in part.blocks:
        index, labels = common.targets.of(block)
        own = (labels >= classes.start) & (labels < classes.stop)
        if own.any():
            add_class_sums(read_rows(block).take(index[own]), labels[own] - classes.start, out)
    return out


def add_class_sums(rows: Rows, columns: Array, out: Array) -> None:
    """out[columns[i]] += rows[i], row by row.

    columns  (n_rows,) integers in [0, n_classes)
    out      (n_classes, n_features) float64
    """
    start = 0
    for part in parts_of(rows, rows.codes.shape[1] if isinstance(rows, OneHot) else rows.n_features):
        own = columns[start : start + part.n_rows]
        if isinstance(part, Csr | OneHot):
            plain = part.decoded()
            add_sparse(plain.data, plain.indices, plain.indptr, own, out)
        else:
            add_dense(part.to_array(np.float64), own, out)
        start += part.n_rows


@numba.njit(cache=True, nogil=True)
def add_dense(values: Array, columns: Array, out: Array) -> None:
    """out[columns[i], j] += values[i, j]; values (n_rows, n_features) float64."""
    for i in range(values.shape[0]):
        target = out[columns[i]]
        for j in range(values.shape[1]):
            target[j] += values[i, j]


@numba.njit(cache=True, nogil=True)
def add_sparse(data: Array, indices: Array, indptr: Array, columns: Array, out: Array) -> None:
    """The same of rows in compressed sparse row form."""
    for i in range(indptr.size - 1):
        target = out[columns[i]]
        for p in range(indptr[i], indptr[i + 1]):
            target[indices[p]] += data[p]


def nearest_mean(sums: Array, counts: Array, metric: Metric) -> Parameters:
    """The linear scores of classes: "weights" (n_features, n_classes) and "bias" (n_classes,), float32.

    sums    (n_classes, n_features) float64
    counts  (n_classes,) int64 rows in each sum; a class without any has weights 0 and NEVER for its bias
    metric  euclidean: weights are the means m, the bias is -|m|^2 / 2. cosine: weights are m / |m| (0 of m = 0), the
            bias is 0: |x| is the same for all classes, so rows need no length of 1
    """
    means = sums / np.maximum(counts, 1)[:, None]
    squares = np.einsum("ij,ij->i", means, means)
    bias = -squares / 2
    if metric == "cosine":
        means /= np.where(squares > 0, np.sqrt(squares), 1.0)[:, None]
        bias = np.zeros(len(squares))
    bias = np.where(counts > 0, bias, NEVER)
    return {"weights": np.ascontiguousarray(means.T, np.float32), "bias": bias.astype(np.float32)}
