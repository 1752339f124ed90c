"""WTA against densified WTA on one's own rows: as features of a linear SVM, and for retrieval by Hamming distance.

    python tests/bench/wta_study.py ROWS LABELS OUT.json [--test-rows T --test-labels L] [--classes 30] [--train 100]
        [--validation 30] [--test 50] [--seeds 5] [--windows 4] [--hashes 500 5000] [--retrieval 64 256 512]
        [--variants wta dwta ...] [--check] [--centre]

ROWS is .npz (SciPy CSR) or .npy (dense), LABELS .npy of integers. Seed s draws the classes, the rows and windows, so
all variants of a seed see the same rows and windows, and differences are taken within seeds: their 95 % interval is
Student's over seeds. C is chosen on validation rows. --check adds the product's own SGD and scikit-learn's LinearSVC on
the one-hot features; --centre solves the SVM on centred features, too. Prints tables; OUT.json keeps every number.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numba
import numpy as np
import scipy.sparse
from scipy.stats import t as student
from sklearn.svm import LinearSVC

from tasks.fit.fit import fit
from tasks.fit.linear import LinearScorer
from tasks.fit.local import LocalOracle
from tasks.fit.problem import SgdProblem
from tasks.fit.sgd import SgdParams
from tasks.losses.hinge import OneVsRestHinge
from tasks.rows import Csr, Dense, OneHot, Rows
from tasks.rows.base import Array
from tests.bench.wta_features import (
    COSINE,
    NONE,
    OWN,
    PATTERN,
    UNION,
    Variant,
    centred,
    encode,
    shared_codes,
    svm_accuracies,
)

VARIANTS = {
    variant.name: variant
    for variant in (
        Variant("wta", "wta"),
        Variant("wta-none", "wta", NONE),
        Variant("wta-own", "wta", OWN),
        Variant("wta-cosine", "wta", COSINE),
        Variant("wta-union", "wta", UNION),
        Variant("wta-pattern", "wta", PATTERN),
        Variant("dwta", "dwta"),
        Variant("dwta-R1", "dwta", range=1),
        Variant("dwta-R2", "dwta", range=2),
        Variant("dwta-R4", "dwta", range=4),
        Variant("dwta-R8", "dwta", range=8),
        Variant("dwta-R16", "dwta", range=16),
        Variant("dwta-R64", "dwta", range=64),
        Variant("dwta-R1.75", "dwta", range=1.75),
        Variant("dwta-R4.25", "dwta", range=4.25),
        Variant("dwta-reach1", "dwta", reach=1),
        Variant("dwta-reach4", "dwta", reach=4),
        Variant("counts", "rows"),
        Variant("sqrt", "rows"),
        Variant("binary", "rows"),
    )
}
GRID = [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0]  # C for rows of mean squared norm 1
REFERENCE = "wta"


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows in the order training, validation, test; labels (n_rows,) int32 from 0."""

    rows: Rows
    labels: Array
    n_train: int
    validation: slice
    test: slice


@dataclass(frozen=True, slots=True)
class Record:
    """One number: of a variant, on a seed's sample; `by_c` are the test accuracies of all C in GRID."""

    measure: str
    variant: str
    window: int
    hashes: int
    seed: int
    value: float
    c: float
    empty: float
    by_c: tuple[float, ...] = ()


@dataclass(frozen=True, eq=False)
class Data:
    """What is drawn from: a matrix and labels, and test rows of their own where there are any."""

    matrix: Any
    labels: Array
    test_matrix: Any
    test_labels: Array | None

    def sample(self, classes: int, sizes: tuple[int, int, int], seed: int) -> Sample:
        """`sizes` training, validation and test rows of each of some classes, drawn by the seed."""
        random = np.random.default_rng([seed, 2018])
        known = np.unique(self.labels)
        chosen = np.sort(random.choice(known, min(classes, known.size), replace=False))
        parts: list[list[Array]] = [[], [], []]
        for label in chosen:
            own = random.permutation(np.flatnonzero(self.labels == label))
            own, rest = own[: sizes[0] + sizes[1]], own[sizes[0] + sizes[1] :]
            if self.test_labels is not None:
                rest = random.permutation(np.flatnonzero(self.test_labels == label))
            for part, rows in zip(parts, (own[: sizes[0]], own[sizes[0] :], rest[: sizes[2]]), strict=True):
                part.append(rows)
        train, validation, test = (np.concatenate(part) for part in parts)
        tests, y_test = (self.matrix, self.labels) if self.test_labels is None else (self.test_matrix, self.test_labels)
        pieces = [self.matrix[train], self.matrix[validation], tests[test]]
        labels = np.concatenate([self.labels[train], self.labels[validation], y_test[test]])
        sampled: Rows = as_csr(scipy.sparse.vstack(pieces)) if scipy.sparse.issparse(pieces[0]) else stacked(pieces)
        first, second = train.size, train.size + validation.size
        y = np.searchsorted(chosen, labels).astype(np.int32)
        return Sample(sampled, y, first, slice(first, second), slice(second, labels.size))


def stacked(pieces: list[Array]) -> Dense:
    return Dense(np.vstack(pieces).astype(np.float32))


def as_csr(matrix: Any) -> Csr:
    m = matrix.tocsr()
    m.sort_indices()
    return Csr(m.data.astype(np.float32), m.indices.astype(np.int32), m.indptr.astype(np.int64), m.shape[1])


def plain_kernel(name: str, sample: Sample) -> Array:
    """Inner products of the rows themselves: their values, square roots or signs, each row of norm 1."""
    change: dict[str, Callable[[Array], Array]] = {"counts": np.asarray, "sqrt": _signed_root, "binary": np.sign}
    values = sample.rows
    if isinstance(values, Csr):
        shape = (values.indices, values.indptr)
        m = scipy.sparse.csr_matrix((change[name](values.data), *shape), shape=values.shape)
        norms = np.sqrt(np.maximum(1e-12, np.asarray(m.multiply(m).sum(axis=1)).ravel()))
        m = scipy.sparse.diags(1 / norms) @ m
        return np.asarray((m @ m[: sample.n_train].T).toarray(), np.float32)
    m = change[name](values.to_array())
    m = m / np.linalg.norm(m, axis=1, keepdims=True)
    return np.asarray(m @ m[: sample.n_train].T, np.float32)


def _signed_root(values: Array) -> Array:
    return np.asarray(np.sign(values) * np.sqrt(np.abs(values)))


def similarities(
    variant: Variant, sample: Sample, part: slice, hashes: int, window: int, seed: int
) -> tuple[Array, float]:
    """(n_part, n_train) inner products of some rows with the training rows, and the share of empty samples."""
    if variant.kind == "rows":
        return plain_kernel(variant.name, sample)[part], 0.0
    codes, sentinel, empty = encode(variant, sample.rows, hashes, window, seed)
    return shared_codes(variant, codes[part], codes[: sample.n_train], sentinel), empty


def chosen_accuracy(found: Array) -> tuple[float, float]:
    """Test accuracy and C of the best validation accuracy, the smaller C in a tie; found (n_grid, 2)."""
    best = int(np.argmax(found[:, 0]))
    return float(found[best, 1]), GRID[best]


@numba.njit(cache=True, nogil=True)
def average_precision(similar: Array, relevant: Array) -> float:
    """Tie-free: rows that are equally similar are retrieved together; similar (n,) float, relevant (n,) bool."""
    order = np.argsort(-similar)
    total, hits, met, first = 0.0, 0, 0, 0
    while first < order.size:
        stop, gained = first, 0
        while stop < order.size and similar[order[stop]] == similar[order[first]]:
            gained += relevant[order[stop]]
            stop += 1
        hits, met = hits + gained, met + stop - first
        total += gained * hits / met
        first = stop
    return total / max(1, hits)


def mean_average_precision(similar: Array, labels: Array, sample: Sample) -> float:
    """Of the test rows as queries among the training rows; similar (n_test, n_train)."""
    train = labels[: sample.n_train]
    queries = zip(similar, labels[sample.test], strict=True)
    return float(np.mean([average_precision(row, train == label) for row, label in queries]))


def measured(
    sample: Sample, names: list[str], hashes: int, window: int, seed: int, retrieve: bool, centre: bool
) -> Iterator[Record]:
    """Every variant at one size, on one sample."""
    for name in names:
        if (VARIANTS[name].kind == "rows") != (hashes == 0):
            continue  # rows have no hashes: they are measured once
        part = sample.test if retrieve else slice(0, sample.labels.size)
        similar, empty = similarities(VARIANTS[name], sample, part, hashes, window, seed)
        if retrieve:
            value = mean_average_precision(similar, sample.labels, sample)
            yield Record("map", name, window, hashes, seed, value, 0.0, empty)
        else:
            splits = [sample.validation, sample.test]
            found = svm_accuracies(similar, sample.labels, sample.n_train, splits, GRID)
            value, c = chosen_accuracy(found)
            yield Record("accuracy", name, window, hashes, seed, value, c, empty, tuple(found[:, 1].tolist()))
            if centre:
                middle = centred(similar, sample.n_train)
                value, c = chosen_accuracy(svm_accuracies(middle, sample.labels, sample.n_train, splits, GRID))
                yield Record("accuracy-centred", name, window, hashes, seed, value, c, empty)


def checked(sample: Sample, name: str, hashes: int, window: int, seed: int) -> Iterator[Record]:
    """The same features, written out, with the learners that users have: our SGD, and LinearSVC."""
    codes, _, empty = encode(VARIANTS[name], sample.rows, hashes, window, seed)
    rows = OneHot(codes, int(codes[codes != sample_sentinel(codes)].max()) + 1)
    train, y = rows.part(0, sample.n_train), sample.labels[: sample.n_train]
    splits, scale = [sample.validation, sample.test], float(train.squared_norms().mean())
    for learner, work in (("sgd", sgd_accuracies), ("linear-svc", svc_accuracies)):
        found = np.array([work(train, y, rows, sample.labels, splits, c / scale) for c in GRID])
        value, c = chosen_accuracy(found)
        yield Record(f"accuracy-{learner}", name, window, hashes, seed, value, c, empty)


def sample_sentinel(codes: Array) -> int:
    return -1 if codes.dtype == np.int32 else int(np.iinfo(codes.dtype).max)


def sgd_accuracies(train: OneHot, y: Array, rows: OneHot, labels: Array, splits: list[slice], c: float) -> list[float]:
    """One-vs-rest as the product fits it: mean loss + (regularization / 2) |w|^2, so regularization is 1 / (n C)."""
    params = SgdParams(regularization=1.0 / (c * train.n_rows), rounds=10)
    scorer = LinearScorer(train.n_features, int(labels.max()) + 1)
    problem = SgdProblem(scorer, OneVsRestHinge(squared=True), params, seed=0, name="study")
    parameters = fit(problem, LocalOracle(train, y, problem)).parameters
    predicted = [np.argmax(scorer.scores(parameters, rows.part(s.start, s.stop)), axis=1) for s in splits]
    return [float(np.mean(p == labels[s])) for p, s in zip(predicted, splits, strict=True)]


def svc_accuracies(train: OneHot, y: Array, rows: OneHot, labels: Array, splits: list[slice], c: float) -> list[float]:
    model = LinearSVC(C=c, intercept_scaling=float(np.sqrt(train.squared_norms().mean()))).fit(_scipy(train), y)
    return [float(model.score(_scipy(rows.part(s.start, s.stop)), labels[s])) for s in splits]


def _scipy(rows: OneHot) -> Any:
    plain = rows.decoded()
    return scipy.sparse.csr_matrix((plain.data, plain.indices, plain.indptr), shape=plain.shape)


def interval(values: Array) -> float:
    """Half of the 95 % interval of a mean."""
    if values.size < 2:
        return float("nan")
    return float(student.ppf(0.975, values.size - 1) * values.std(ddof=1) / np.sqrt(values.size))


def table(records: list[Record]) -> str:
    """Mean and standard deviation over seeds, and the mean difference from the reference of the same seed."""
    found: dict[tuple[str, int, int], dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    empty: dict[tuple[str, int, int], list[float]] = defaultdict(list)
    for r in records:
        found[r.measure, r.window, r.hashes][r.variant][r.seed] = r.value
        if r.variant == REFERENCE:
            empty[r.measure, r.window, r.hashes].append(r.empty)
    lines = []
    for size, variants in found.items():
        share = f"{np.mean(empty[size]):.3f}" if empty[size] else "-"
        lines.append(f"\n{size[0]}, K = {size[1]}, {size[2]:,} hashes, empty {share}")
        for name, by_seed in variants.items():
            values, base = np.array(list(by_seed.values())), variants.get(REFERENCE, {})
            gain = np.array([value - base[seed] for seed, value in by_seed.items() if seed in base])
            gained = f"{gain.mean():+.4f} +- {interval(gain):.4f}" if gain.size and name != REFERENCE else ""
            lines.append(f"  {name:<12} {values.mean():.4f}  sd {values.std():.4f}  {gained}")
    return "\n".join(lines)


def table_by_c(records: list[Record]) -> str:
    """Mean test accuracy at every C: what a badly chosen one does to each variant."""
    found: dict[tuple[int, int, str], list[tuple[float, ...]]] = defaultdict(list)
    for r in records:
        if r.by_c:
            found[r.window, r.hashes, r.variant].append(r.by_c)
    lines = ["\naccuracy at every C: " + " ".join(f"{c:>6g}" for c in GRID)]
    for (window, hashes, name), rows in found.items():
        means = " ".join(f"{x:6.4f}" for x in np.mean(rows, axis=0))
        lines.append(f"  K {window:<2} {hashes:>6}  {name:<12} {means}")
    return "\n".join(lines)


def load(rows: Path, labels: Path) -> tuple[Any, Array]:
    matrix = scipy.sparse.load_npz(rows).tocsr() if rows.suffix == ".npz" else np.load(rows)
    return matrix, np.load(labels)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("rows", "labels", "out"):
        parser.add_argument(name, type=Path)
    for name in ("test-rows", "test-labels"):
        parser.add_argument(f"--{name}", type=Path, default=None)
    for name, default in (("classes", 30), ("train", 100), ("validation", 30), ("test", 50), ("seeds", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--windows", type=int, nargs="*", default=[4])
    parser.add_argument("--hashes", type=int, nargs="*", default=[500, 5000])
    parser.add_argument("--retrieval", type=int, nargs="*", default=[64, 256, 512])
    parser.add_argument("--variants", nargs="+", choices=list(VARIANTS), default=list(VARIANTS))
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--centre", action="store_true")
    return parser.parse_args()


def read(options: argparse.Namespace) -> Data:
    test, test_labels = load(options.test_rows, options.test_labels) if options.test_rows else (None, None)
    return Data(*load(options.rows, options.labels), test, test_labels)


def study(options: argparse.Namespace) -> list[Record]:
    data = read(options)
    records: list[Record] = []
    for seed in range(options.seeds):
        sample = data.sample(options.classes, (options.train, options.validation, options.test), seed)
        for retrieve in (False, True):
            records += measured(sample, options.variants, 0, 0, seed, retrieve, options.centre)
        for window in options.windows:
            for sizes, retrieve in ((options.hashes, False), (options.retrieval, True)):
                for hashes in sizes:
                    records += measured(sample, options.variants, hashes, window, seed, retrieve, options.centre)
        if options.check:
            for name in ("wta", "wta-none", "dwta-R16"):
                records += checked(sample, name, options.hashes[0], options.windows[0], seed)
        options.out.write_text(json.dumps([asdict(r) for r in records], indent=1))
        print(f"seed {seed}: {len(records)} numbers", flush=True)
    return records


if __name__ == "__main__":
    results = study(arguments())
    print(table(results) + table_by_c(results))
