"""What learners of support vector machines settle first: C, the width of the kernel, which classes are confused."""

from __future__ import annotations

import io
import time
from dataclasses import dataclass
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from pipeline.config import AnySvm, RunConfig, is_svm
from pipeline.stage import CARD_BYTES, Estimate, Facts, Made, Stage, Work, encode_step
from pipeline.stages.svm_size import gram_disk_bytes, kernel_task_bytes, linear_task_bytes, sorted_bytes
from pipeline.svm_files import check_rows_for, kernel_matrix, sorted_rows
from tasks.digest import combine, digest_arrays, digest_text
from tasks.fit.hinge_ascent import ABREAST
from tasks.later import later
from tasks.places import at, read_array, write_whole
from tasks.relaxed.ground import STARTS
from tasks.rows.base import Array
from tasks.seeds import stream
from tasks.svm.class_rows import ClassRows, NodeRows
from tasks.svm.kernels import OF_DISTANCES, Kernel
from tasks.svm.trials import FOLDS, Held, Judges, Trial, halves, sample_scale, try_classes

if TYPE_CHECKING:
    from scipy import sparse
else:
    sparse = later("scipy.sparse")

GRID = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)  # values of C that are tried, in units of 1 / mean k(x, x)
KERNEL_GRID = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
MOST_ROWS, ROWS_A_CLASS = 20_000, 20  # of the sample on which one-vs-all is tried
KERNEL_ROWS = 8_000
SCALE_ROWS = 2_000  # on which C's unit and the kernel's width are measured
TRIED_CLASSES = 2 * ABREAST  # on which C is chosen where there are more
CONFUSION = "confusion.npz"


def svm_step(learner: AnySvm) -> str:
    """The step in which a learner's C, width and confusion are settled; learners that share these share it."""
    told = digest_text(learner.rows, str(learner.kernel), repr(learner.C), repr(learner.width))
    return f"svm_{learner.rows}-{learner.kernel}-{told[:6]}"


def svm_setups(config: RunConfig, facts: Facts) -> list[SvmSetup]:
    """One for each different set of options of the config's learners."""
    found: dict[str, SvmSetup] = {}
    for learner in config.train:
        if is_svm(learner):
            found.setdefault(svm_step(learner), SvmSetup.of(learner, facts))
    return list(found.values())


@dataclass(frozen=True)
class Settled:
    """What a setup has come to: C, the kernel, and the file of the confusion."""

    cost: float
    kernel: Kernel
    confused: str

    @classmethod
    def of(cls, learner: AnySvm, work: Work) -> Self:
        """As the learner's inputs say."""
        step = svm_step(learner)
        results = work.inputs[step].results
        return cls(results["C"], Kernel.load(results["kernel"]), str(work.folders[step] / CONFUSION))


@dataclass(frozen=True)
class SvmSetup(Stage):
    """C by cross-validation of one-vs-all, width by mean distance, confusion by one-vs-all on rows held out."""

    step: str
    rows: str
    kernel: str
    C: float | None
    width: float | None
    version: ClassVar[int] = 2

    @classmethod
    def of(cls, learner: AnySvm, facts: Facts) -> Self:
        """Raises ParamError."""
        del facts
        Kernel(learner.kernel, learner.width or 1.0)  # type: ignore[arg-type]
        return cls(svm_step(learner), learner.rows, str(learner.kernel), learner.C, learner.width)

    @property
    def name(self) -> str:
        return self.step

    def settings(self) -> dict[str, Any]:
        return {"rows": self.rows, "kernel": self.kernel, "C": self.C, "width": self.width}

    @property
    def inputs(self) -> tuple[str, ...]:
        return () if self.rows == "x" else (encode_step(self.rows),)

    @property
    def reads_rows(self) -> bool:
        return True

    def estimate(self, facts: Facts) -> Estimate:
        n_train, n_classes = facts.dataset.split_counts["train"], facts.dataset.n_classes
        spare = sorted_bytes(facts, self.rows)
        if self.kernel == "linear":
            task = linear_task_bytes(facts, self.rows, most_rows(n_classes), min(n_classes, ABREAST))
        else:
            task, spare = kernel_task_bytes(facts, self.rows, KERNEL_ROWS), spare + gram_disk_bytes(n_train)
        ranges = -(-n_classes // ABREAST)
        confusion = 12 * min(n_classes**2, most_rows(n_classes))
        return Estimate(task, CARD_BYTES + confusion, FOLDS * (len(GRID) + ranges) + ranges, spare, 20 * n_train)

    def run(self, work: Work) -> Made:
        started = time.perf_counter()
        check_rows_for(work, self.rows, self.kernel)
        rows = sorted_rows(work, self.rows)
        starts = read_array(at(rows.folder) / STARTS)
        scale, kernel = self._kernel(work, rows, starts)
        before = time.perf_counter()
        gram = kernel_matrix(work, self.rows, rows, kernel)
        most = most_rows(work.dataset.n_classes) if gram is None else KERNEL_ROWS
        trials = Trials(work, Judges(rows, gram, most, work.seed), starts, self.step)
        cost, table = trials.chosen(self.C, scale, GRID if gram is None else KERNEL_GRID)
        chosen = time.perf_counter()
        confusion, right = trials.confusion(cost)
        digest = write_confusion(work.folder / CONFUSION, confusion)
        results = {"C": cost, "kernel": kernel.header(), "scale": scale, "trials": table, "held_out_top1": right}
        measured = {
            "seconds": time.perf_counter() - started,
            "choice_seconds": chosen - before,
            "confusion_seconds": time.perf_counter() - chosen,
        }
        return Made(combine([digest, repr(results)]), results, measured)

    def _kernel(self, work: Work, rows: ClassRows, starts: Array) -> tuple[float, Kernel]:
        """(mean k(x, x), the kernel with its width)."""
        judges = Judges(rows, None, SCALE_ROWS, work.seed)
        kernel = Kernel(self.kernel)  # type: ignore[arg-type]
        told = starts, kernel, self.width
        scale, width = work.pool.map(sample_scale, [judges], *told, name=f"width_{self.step}")[0]
        if self.kernel in OF_DISTANCES:
            kernel = Kernel(kernel.kind, width)
        return scale, kernel


def most_rows(n_classes: int) -> int:
    """Rows of the sample on which one-vs-all is tried."""
    return max(MOST_ROWS, ROWS_A_CLASS * n_classes)


@dataclass(frozen=True)
class Trials:
    """One-vs-all on folds of a sample, over the pool."""

    work: Work
    judges: Judges
    starts: Array
    name: str

    def classes(self) -> Array:
        """Those with training rows: (K,) int32."""
        return np.flatnonzero(np.diff(self.starts)).astype(np.int32)

    def chosen(
        self, given: float | None, scale: float, grid: tuple[float, ...]
    ) -> tuple[float, list[dict[str, float]]]:
        """C and what was tried: the one given, or that of the highest mean accuracy of classes.

        Of equals the one nearest to 1 / mean k(x, x): with a very small C, machines of few rows know little but how
        many there are of each class.
        """
        unit = 1.0 / scale if scale > 0 else 1.0
        classes = self.classes()
        if given is not None or classes.size < 2:
            return given or unit, []
        if classes.size > TRIED_CLASSES:
            drawn = stream(self.work.seed, "svm-classes").permutation(classes.size)[:TRIED_CLASSES]
            classes = classes[np.sort(drawn)]
        costs = [unit * step for step in grid]
        table = [
            {"C": cost, "top1": mean_of_classes(self.held_out(cost, classes), self.rows(classes))} for cost in costs
        ]
        best = max(range(len(table)), key=lambda place: (table[place]["top1"], -abs(log(grid[place]))))
        return costs[best], table

    def rows(self, classes: Array) -> NodeRows:
        """The sample of some classes."""
        return NodeRows.of(self.starts, classes, self.judges.most)

    def held_out(self, cost: float, classes: Array) -> list[Held]:
        """Of each fold what rows of the other are held for."""
        step = ABREAST if self.judges.gram is None else classes.size  # least squares have one factor for all classes
        cuts = list(range(0, classes.size, step))
        trials = [Trial(cost, fold, cut, min(cut + step, classes.size)) for fold in range(FOLDS) for cut in cuts]
        shared = self.judges, self.starts, classes
        found = self.work.pool.map(try_classes, trials, *shared, name=f"try_{self.name}")
        joined = list[Held]()
        for fold in range(FOLDS):
            best, *others = found[fold * len(cuts) : (fold + 1) * len(cuts)]
            for other in others:
                best = best.or_better(other)
            joined.append(best)
        return joined

    def confusion(self, cost: float) -> tuple[sparse.csr_array[Any], float]:
        """((n_classes, n_classes) float32: held-out rows by class and by what they were held for, share right)."""
        classes, n_classes = self.classes(), self.starts.size - 1
        if classes.size < 2:
            return sparse.csr_array((n_classes, n_classes), dtype=np.float32), 1.0
        rows, held = self.rows(classes), self.held_out(cost, classes)
        fold = halves(rows)
        true = np.concatenate([rows.labels[fold != f] for f in range(FOLDS)])
        told = np.concatenate([one.label for one in held])
        counts = sparse.coo_array(
            (np.ones(true.size, np.float32), (classes[true], classes[told])), shape=(n_classes, n_classes)
        )
        return sparse.csr_array(counts), float(np.mean(true == told))


def mean_of_classes(held: list[Held], rows: NodeRows) -> float:
    """Mean accuracy of the classes on held-out rows."""
    fold = halves(rows)
    true = np.concatenate([rows.labels[fold != f] for f in range(FOLDS)])
    right = np.concatenate([one.label for one in held]) == true
    counts = np.bincount(true, minlength=rows.counts.size)
    hits = np.bincount(true[right], minlength=rows.counts.size)
    return float((hits[counts > 0] / counts[counts > 0]).mean())


def write_confusion(path: Path, confusion: sparse.csr_array[Any]) -> str:
    """Write it whole or not at all; returns its digest. Raises DiskFull."""
    confusion.sum_duplicates()
    buffer = io.BytesIO()
    sparse.save_npz(buffer, confusion)
    write_whole(path, buffer.getvalue())
    return digest_arrays(confusion.indptr, confusion.indices, confusion.data)
