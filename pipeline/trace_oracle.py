"""The empirical risk over the pool: sums over spans of blocks, a basis whose columns lie in the run folder, and a log.

The log keeps what the rows have answered. A solver is deterministic, so one that was interrupted is begun anew with
the answers it had, and asks on from there: to the same bits, whatever the solver.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.pool import Pool
from tasks.calls import write_array
from tasks.digest import digest_arrays, digest_text
from tasks.files import disk_room
from tasks.fit.checkpoint import keep, load_kept
from tasks.fit.targets import SplitTargets
from tasks.io import Block, read_rows
from tasks.places import read_array, remove_files
from tasks.rows.base import Array
from tasks.trace.blocks import (
    Arrays,
    Setting,
    confusion_span,
    evaluate_span,
    gradient_span,
    losses_span,
    make_spans,
    mean_span,
)
from tasks.trace.point import Basis, Direction, Group, Point
from tasks.trace.risk import LocalRisk, RiskSums
from tasks.trees.gather import gather

LOG_BYTES = 1 << 29  # answers kept of one search at most
MANY_CELLS = 1 << 28  # rows times classes, from which on a sum over all rows takes seconds
FEW_A_CLASS, MANY_A_CLASS = 64, 512  # rows a class: of few rows; of so many that few tell nearly what all do
SAMPLE_BYTES = 64 << 20  # of the sample that this process holds: wide rows are sampled more sparingly


class AnswerLog:
    """Answers in the order they were given, one file each, in a folder for each search; `begin` one before asking."""

    def __init__(self, folder: Path, most_bytes: int = LOG_BYTES) -> None:
        self.root, self.most_bytes = folder, most_bytes
        self.begin("")

    def begin(self, search: str) -> None:
        """Answers of this search, from the first one on."""
        self.folder = self.root / search
        self.number, self.bytes = 0, 0

    def forget(self) -> None:
        """The search is over: its answers are of no use any more."""
        remove_files(self.folder, "*.npz")

    def ask(self, question: str, answer: Callable[[], Arrays]) -> Arrays:
        """What was answered to this question at this place, or `answer()`, which is kept while there is room."""
        path = self.folder / f"{self.number:06d}.npz"
        self.number += 1
        kept = load_kept(path)
        if kept is not None and str(kept.pop("question", "")) == question:
            self.bytes += sum(array.nbytes for array in kept.values())
            return kept
        found = answer()
        self.bytes += sum(array.nbytes for array in found.values())
        if self.bytes <= self.most_bytes:
            keep(path, {**found, "question": np.array(question)})
        return found


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """What is learnt from.

    blocks      of the rows store that hold training rows
    dataset     the path of the dataset that knows their split and labels
    counts      (n_classes,) int64: training rows of each class
    row_floats  bytes of a stored row over 4
    name        of the learner: what the dashboard shows
    """

    blocks: Sequence[Block]
    dataset: str
    counts: Array
    n_features: int
    row_floats: int
    name: str


class PoolRisk:
    """`tasks.trace.risk.Risk` over the training blocks of a rows store.

    fit     names the fit: workers keep projections under it
    folder  for columns of bases and for answers, while the fit is under way
    said    behind the learner's name tells the dashboard how far the search is
    """

    def __init__(self, pool: Pool, rows: TrainingRows, fit: str, folder: Path, log_bytes: int = LOG_BYTES) -> None:
        self.pool, self.blocks, self.name, self.said = pool, list(rows.blocks), rows.name, ""
        self.targets, self.fit, self.folder = SplitTargets(rows.dataset), fit, folder
        self.counts = rows.counts
        self._n_features, self._n_classes = rows.n_features, rows.counts.size
        self.spans = make_spans(self.blocks, rows.row_floats, self._n_classes)
        self.near = pool.here() if len(self.spans) == 1 else pool  # for sums over projections, of which there are many
        self.log = AnswerLog(folder / "answers", log_bytes)
        self._rows = rows
        self._whole: LocalRisk | None = None

    def few(self) -> PoolRisk | None:
        """The same over the first blocks, some rows of a class: ingest has shuffled them. None where all are not many.

        It has a folder of its own, and keeps no answers: they are soon given again.
        """
        wanted = FEW_A_CLASS * self.n_classes
        if self.n_rows * self.n_classes < MANY_CELLS or self.n_rows < MANY_A_CLASS * self.n_classes:
            return None
        counts, number = np.zeros_like(self.counts), 0
        while counts.sum() < wanted:
            counts += np.bincount(self.targets.of(self.blocks[number])[1], minlength=counts.size)
            number += 1
        rows = replace(self._rows, blocks=self.blocks[:number], counts=counts)
        return PoolRisk(self.pool, rows, self.fit, self.folder / "few", log_bytes=0)

    @property
    def n_rows(self) -> int:
        return int(self.counts.sum())

    @property
    def n_features(self) -> int:
        return self._n_features

    @property
    def n_classes(self) -> int:
        return self._n_classes

    def group(self, columns: Array) -> Group:
        """The columns in float32, in a file named after their content."""
        plain = np.ascontiguousarray(columns, np.float32)
        token = digest_arrays(plain)
        path = self._columns(token)
        if self.known_group(token, plain.shape[1]) is None:  # or what an interrupted attempt left is damaged
            with disk_room(str(path), plain.nbytes):
                path.parent.mkdir(parents=True, exist_ok=True)
                write_array(path, plain)
        return Group(token, str(path), plain.shape[1])

    def known_group(self, token: str, size: int) -> Group | None:
        """The group of columns that an interrupted attempt has written, None when they are not those any more."""
        path = self._columns(token)
        try:
            whole = digest_arrays(read_array(path)) == token
        except (OSError, ValueError, EOFError):
            return None
        return Group(token, str(path), size) if whole else None

    def forget_columns(self, besides: Collection[str]) -> None:
        """Remove the files of all groups but those with these tokens."""
        for path in self._columns("*").parent.glob("*.npy"):
            if path.stem not in besides:
                path.unlink()

    def _columns(self, token: str) -> Path:
        return self.folder / "columns" / f"{token}.npy"

    def evaluate(self, point: Point) -> RiskSums:
        arrays = arrays_of(point)
        return self._risk("evaluate", point, arrays, lambda: self._sum(evaluate_span, "scores", point.basis, arrays))

    def gradient(self, point: Point, scale: Array | None = None) -> RiskSums:
        arrays = arrays_of(point)
        asked = arrays if scale is None else {**arrays, "scale": scale}
        return self._risk(
            "gradient", point, asked, lambda: self._sum(gradient_span, "gradient", point.basis, arrays, scale)
        )

    def losses(self, point: Point, direction: Direction, steps: Sequence[float]) -> Array:
        arrays = arrays_of(point) | {f"step_{name}": array for name, array in arrays_of(direction).items()}
        at = tuple(float(step) for step in steps)

        def answer() -> Arrays:
            return {"losses": self._sum(losses_span, "search", point.basis, arrays, at) / max(1, self.n_rows)}

        return self.log.ask(self._question(f"losses {at}", point.basis, arrays), answer)["losses"]

    def confusion(self, point: Point) -> Array:
        arrays = arrays_of(point)

        def answer() -> Arrays:
            return {"confusion": self._sum(confusion_span, "classes", point.basis, arrays) / max(1, self.n_rows)}

        return self.log.ask(self._question("confusion", point.basis, arrays), answer)["confusion"]

    def mean(self) -> Array:
        def answer() -> Arrays:
            return {"mean": self._sum(mean_span, "mean", Basis(self.n_features)) / max(1, self.n_rows)}

        return self.log.ask("mean", answer)["mean"]

    def sample(self, n: int) -> LocalRisk:
        """The first training rows; ingest stores them shuffled."""
        blocks, offsets, labels = [], [], []
        missing = self._affordable(min(n, self.n_rows))
        for number, block in enumerate(self.blocks):
            index, known = self.targets.of(block)
            blocks.append(np.full(min(missing, index.size), number))
            offsets.append(index[:missing])
            labels.append(known[:missing])
            missing -= labels[-1].size
            if not missing:
                break
        rows = gather(self.blocks, np.concatenate(blocks), np.concatenate(offsets))
        return LocalRisk(rows, np.concatenate(labels), self.n_classes, np.float32)

    def whole(self) -> LocalRisk | None:
        """Read once, and kept: where they are so few, they are what later pairs ask for as well."""
        if self._whole is None and self._affordable(self.n_rows) == self.n_rows:
            self._whole = self.sample(self.n_rows)
        return self._whole

    def _affordable(self, n: int) -> int:
        """At most n rows of SAMPLE_BYTES, by the bytes of the first block's."""
        rows = read_rows(self.blocks[0])
        return max(1, min(n, SAMPLE_BYTES * rows.n_rows // max(1, rows.nbytes)))

    def _risk(self, what: str, point: Point, asked: Arrays, answer: Callable[[], RiskSums]) -> RiskSums:
        def packed() -> Arrays:
            sums = answer().mean()
            numbers = np.array([sums.rows, sums.loss])
            return {"numbers": numbers, "gradient": sums.gradient, "bias": sums.bias, "entropies": sums.entropies}

        found = self.log.ask(self._question(what, point.basis, asked), packed)
        rows, loss = found["numbers"]
        return RiskSums(int(rows), float(loss), found["gradient"], found["bias"], found["entropies"])

    @staticmethod
    def _question(what: str, basis: Basis, arrays: Arrays) -> str:
        columns = [(group.token, kept) for group, kept in zip(basis.groups, basis.kept, strict=True)]
        return digest_text(what, repr(columns), *(digest_arrays(array) for _, array in sorted(arrays.items())))

    def _sum(self, fn: Callable[..., Any], what: str, basis: Basis, *shared: Any) -> Any:
        pool = self.pool if fn in (gradient_span, mean_span) else self.near
        travelling = Setting(self.fit, self.targets, Basis(basis.n_features, basis.groups, basis.kept))
        return pool.sum(fn, self.spans, *shared, travelling, name=f"{what}_{self.name}{self.said}")


def arrays_of(at: Point | Direction) -> Arrays:
    """What travels of a point or a direction, beside the basis."""
    return {"core": at.core} if at.bias is None else {"core": at.core, "bias": at.bias}
