"""The parts of a trace-norm fit that travel: sums over spans of blocks, with projections kept between the calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tasks.fit.blocks import Partition, make_partitions
from tasks.fit.targets import SplitTargets
from tasks.io import Block, read_rows
from tasks.rows.base import Array, Rows
from tasks.rows.dense import Dense
from tasks.sums import add_up
from tasks.trace.kept import KEPT
from tasks.trace.point import Basis, Direction, Group
from tasks.trace.risk import (
    Chunk,
    RiskSums,
    confusion_chunk,
    evaluate_chunk,
    gradient_chunk,
    losses_chunk,
)

SPAN_WORK = 1 << 22  # of a sum, below: some fifty milliseconds, beside which handing out a task costs little
WIDTH = 256  # numbers of a row that cost a gradient as much as the rest of a row and class
Arrays = dict[str, Array]  # of a point: core, and bias if there is one; of a direction the same with "step_" before


@dataclass(frozen=True)
class Setting:
    """Which rows, and the basis in hand: small, travels with every call.

    fit  names the fit: projections are kept under it
    """

    fit: str
    targets: SplitTargets
    basis: Basis


def make_spans(blocks: Sequence[Block], row_floats: int, n_classes: int) -> list[Partition]:
    """Spans of SPAN_WORK or more, in scores and their share of a gradient: a function of shapes alone.

    row_floats  bytes of a stored row over 4: a gradient with codes costs about as much as one with so many features
    """
    n_rows = sum(block.n_rows for block in blocks)
    return make_partitions(blocks, max(1, n_rows * n_classes * (WIDTH + row_floats) // (WIDTH * SPAN_WORK)))


def evaluate_span(span: Partition, point: Arrays, setting: Setting) -> RiskSums:
    """See `evaluate_chunk`."""
    found: RiskSums = _over(span, setting, False, lambda chunk: evaluate_chunk(chunk, point["core"], point.get("bias")))
    return found


def gradient_span(span: Partition, point: Arrays, scale: Array | None, setting: Setting) -> RiskSums:
    """See `gradient_chunk`; reads the rows."""
    at = point["core"], point.get("bias")
    found: RiskSums = _over(span, setting, True, lambda chunk: gradient_chunk(chunk, *at, scale))
    return found


def losses_span(span: Partition, arrays: Arrays, steps: tuple[float, ...], setting: Setting) -> Array:
    """See `losses_chunk`."""
    point = arrays["core"], arrays.get("bias")
    direction = Direction(arrays["step_core"], arrays.get("step_bias"))
    at = np.asarray(steps, np.float64)
    found: Array = _over(span, setting, False, lambda chunk: losses_chunk(chunk, point, direction, at))
    return found


def confusion_span(span: Partition, point: Arrays, setting: Setting) -> Array:
    """See `confusion_chunk`."""
    found: Array = _over(span, setting, False, lambda chunk: confusion_chunk(chunk, point["core"], point.get("bias")))
    return found


def mean_span(span: Partition, setting: Setting) -> Array:
    """(n_features,) float64: the sum of the rows."""

    def added(chunk: Chunk) -> Array:
        ones = np.ones((chunk.rows.n_rows, 1), np.float32)
        return np.asarray(chunk.rows.gradient(ones)[:, 0], np.float64)

    found: Array = _over(span, setting, True, added)
    return found


def _over(span: Partition, setting: Setting, rows: bool, sums: Callable[[Chunk], Any]) -> Any:
    """What the span's blocks add up to, in block order."""
    return add_up([sums(_chunk(block, setting, rows)) for block in span.blocks])


def _chunk(block: Block, setting: Setting, with_rows: bool) -> Chunk:
    """The block's rows that take part, where they are needed, and their projections."""
    index, labels = setting.targets.of(block)
    basis = setting.basis

    def rows() -> Rows:
        return taking_part(block, index)

    def project(group: Group) -> Array:
        return rows().scores(np.ascontiguousarray(group.columns, np.float32))

    place = (block.store, block.index, setting.targets.split)
    none = np.zeros((index.size, 0), np.float32)
    projections = KEPT.of(setting.fit, place, basis, project) if basis.groups else none
    found = rows() if with_rows else Dense(np.zeros((0, basis.n_features), np.float32))
    return Chunk(found, labels, projections)


def taking_part(block: Block, index: Array) -> Rows:
    """The rows of a block at `index`, ascending; without a copy when these are all."""
    rows = read_rows(block)
    return rows if index.size == rows.n_rows else rows.take(index)
