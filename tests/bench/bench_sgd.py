"""Stochastic gradient descent: steps beside a matrix product, and the time to an accuracy beside other packages.

Everything is measured in the CPU time of one thread, a matrix product moments before. The seeded problems are those of
the peers' runner (see `peers`), which keeps them in BENCH_CACHE or PEERS_HOME/cache.
"""

from __future__ import annotations

import importlib.util
import os
import time
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from tasks.fit.fit import fit
from tasks.fit.linear import LinearScorer
from tasks.fit.local import LocalOracle
from tasks.fit.problem import SgdProblem
from tasks.fit.scaled import ScaledParameters
from tasks.fit.scorer import Scorer
from tasks.fit.sgd import SgdParams, descend
from tasks.hashing.heshing import HashedScorer
from tasks.losses.base import Loss
from tasks.losses.crammer_singer import CrammerSinger
from tasks.losses.hinge import OneVsRestHinge
from tasks.losses.logistic import OneVsRestLogistic
from tasks.losses.multinomial import Multinomial
from tasks.rows import Csr, Dense, PqCodes, Rows
from tasks.rows.base import Array
from tasks.taxonomy import Taxonomy
from tests.bench.limits import gemm_rate, seconds
from tests.bench.peers import ask, runner
from tests.bench.table import HotPath, Suite

LOSSES: dict[str, Loss] = {
    "squared hinge": OneVsRestHinge(),
    "logistic": OneVsRestLogistic(),
    "multinomial": Multinomial(),
    "crammer-singer": CrammerSinger(),
}
SHAPES = ((512, 100), (512, 1000), (1024, 1000), (4096, 100))  # features, classes
BATCHES = (16, 64, 256)
CLOCK = time.thread_time
ONCE = {"rounds": 1, "partitions": 1, "least_rows": 1}  # what a user writes for one pass over the rows


def pass_seconds(scorer: Scorer, loss: Loss, rows: Rows, n_classes: int, batch: int) -> float:
    """Of a pass of SGD over rows of random classes, from weights that are not 0."""
    rng = np.random.default_rng(1)
    labels, order = rng.integers(0, n_classes, rows.n_rows).astype(np.int32), rng.permutation(rows.n_rows)
    start = {name: rng.normal(size=a.shape).astype(np.float32) for name, a in scorer.initial(np.float32).items()}
    steps = np.full(-(-rows.n_rows // batch), 1e-5)
    state = ScaledParameters(start)
    work = lambda: descend(scorer, loss, state, rows, labels, order, steps, batch, 1e-6, loss.curvature)  # noqa: E731
    return seconds(work, CLOCK, 3)


def bodies(n_rows: int, n_features: int) -> dict[str, Rows]:
    """Random rows as float32, as float16, and as codes of eight features a byte."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(n_rows, n_features)).astype(np.float32)
    codes = rng.integers(0, 256, (n_rows, n_features // 8)).astype(np.uint8)
    books = rng.normal(size=(n_features // 8, 256, 8)).astype(np.float32)
    return {"float32": Dense(values), "float16": Dense(values.astype(np.float16)), "PQ codes": PqCodes(codes, books)}


def bench_steps_of_dense_rows() -> None:
    suite = Suite("sgd_steps")
    with threadpool_limits(1):
        for d, k in SHAPES:
            n = max(512, int(6e9 / (4 * d * k)) // 256 * 256)
            for body, rows in bodies(n, d).items():
                for name, loss in LOSSES.items() if body == "float32" else [("squared hinge", LOSSES["squared hinge"])]:
                    for batch in BATCHES:
                        limit = gemm_rate(CLOCK) / (4 * d)
                        rate = n * k / pass_seconds(LinearScorer(d, k), loss, rows, k, batch)
                        path = f"{name}, {body}, {d} features, {k} classes, batch {batch}"
                        suite.add(HotPath(path, "rows x classes/s", rate, 1, limit, "two products a step"))


def seeded(name: str) -> tuple[Rows, Array, Rows, Array] | str:
    """(rows, labels, test rows, test labels) of a problem of the peers' runner, or why there is none."""
    script = runner().with_name("data.py")
    if not script.exists():
        return "no runner of peers: set LABELGROVE_PEERS"
    if not {"BENCH_CACHE", "PEERS_HOME"} & os.environ.keys():
        return "no place for the seeded problems: set PEERS_HOME or BENCH_CACHE"
    spec = importlib.util.spec_from_file_location("peers_data", script)
    if spec is None or spec.loader is None:
        return f"{script} is no module"
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = module.load(name)
    labels, test = found["y"].astype(np.int32), found["yt"]
    if "x" in found:
        return Dense(found["x"]), labels, Dense(found["xt"]), test
    x, xt = module.csr(found, "x"), module.csr(found, "xt")
    return (
        Csr(x.data, x.indices, x.indptr.astype(np.int64), x.shape[1]),
        labels,
        Csr(xt.data, xt.indices, xt.indptr.astype(np.int64), xt.shape[1]),
        test,
    )


def time_and_accuracy(problem: tuple[Rows, Array, Rows, Array], loss: Loss, **params: Any) -> tuple[float, float]:
    """CPU seconds of the whole fit, the choice of the step included, and the share of test rows named right."""
    rows, labels, test, test_labels = problem
    whole = SgdProblem(LinearScorer(rows.n_features, int(labels.max()) + 1), loss, SgdParams(**params), 0, "ovr")
    found: dict[str, Array] = {}

    def train() -> None:
        found.update(fit(whole, LocalOracle(rows, labels, whole)).parameters)

    taken = seconds(train, CLOCK, 3)
    return taken, float((whole.scorer.scores(found, test).argmax(axis=1) == test_labels).mean())


def rival_rates(suite: str, names: list[str], least: float) -> dict[str, float | str]:
    """Fits a second to the accuracy that is asked for, by the curve of each peer; or the best that it came to."""
    found: dict[str, float | str] = {}
    for row in ask(suite, names):
        if "error" in row:
            found[row["peer"]] = str(row["error"])
            continue
        curve = row["quality"]["curve"]
        there = [point[0] for point in curve if point[2] >= least]
        best = max(curve, key=lambda point: point[2])
        found[row["peer"]] = 1 / min(there) if there else f"never: {best[2]:.3f} after {best[0]:.1f} s"
    return found


def bench_time_to_an_accuracy() -> None:
    """One pass of the learner `ovr`: rounds = 1, partitions = 1, least_rows = 1, as a user would write it."""
    suite = Suite("sgd_accuracy")
    rivals = ["logreg_lbfgs", "logreg_saga", "sgd_sklearn", "liblinear_s4", "vw_oaa", "ref_softmax_sgd"]
    cases = (
        ("dense200", "solve_dense", 0.757, "multinomial", {"batch": 64}),
        ("text20", "solve_sparse", 0.89, "squared hinge", {}),
        ("text20", "solve_sparse", 0.89, "multinomial", {"passes": 2, "batch": 64}),
    )
    with threadpool_limits(1):
        for name, peers_suite, least, loss, params in cases:
            problem = seeded(name)
            if isinstance(problem, str):
                print(f"skipped: {name}: {problem}")
                continue
            taken, right = time_and_accuracy(problem, LOSSES[loss], **ONCE, **params)
            said = f"{name}, {loss}, {params}: accuracy {right:.3f} (asked for: {least}) in {taken:.2f} s"
            suite.add(HotPath(said, "fits/s", 1 / taken, peers=rival_rates(peers_suite, rivals, least)))


def chain_with_leaves(chain: Array, level_of_leaf: Array) -> Array:
    """Parents, breadth-first: a chain of inner nodes, below the one of level l the leaves whose number is l."""
    parent = [-1]
    inner = 0
    for level in range(chain.size):
        n_leaves = max(1, int(np.count_nonzero(level_of_leaf == level)))
        below = len(parent)
        parent += [inner] * (n_leaves + (level + 1 < chain.size))
        inner = below
    return np.array(parent, np.int32)


def look_up_rate(table: Array, places: Array) -> float:
    """Numbers a second that are loaded from one row of a table, at places that are ready."""
    return places.size / seconds(lambda: table.take(places, mode="wrap"), CLOCK)


def hashed_path(suite: Suite, name: str, scorer: HashedScorer, rows: Rows, lookups: float, batch: int) -> None:
    """A pass of hashed SGD; `lookups` of a node in the table by the scores of the whole pass."""
    taken = pass_seconds(scorer, CrammerSinger(), rows, scorer.n_outputs, batch)
    row = np.zeros(scorer.n_buckets, np.float32)
    limit = look_up_rate(row, np.random.default_rng(0).integers(0, row.size, 1 << 20))
    suite.add(HotPath(name, "look-ups/s", lookups / taken, 1, limit, "loads of one row of the table"))


def bench_hashed_steps() -> None:
    suite = Suite("sgd_hashed")
    with threadpool_limits(1):
        for levels in (1, 12):
            hashed_sparse_rows(suite, levels)
        for bits in (24, 16):  # more numbers than places, and fewer
            for name in ("crammer-singer", "multinomial"):
                for batch in BATCHES:
                    hashed_dense_rows(suite, bits, name, batch)


def hashed_dense_rows(suite: Suite, bits: int, loss: str, batch: int) -> None:
    """Against the products alone, scores and updates of all nodes, of a tree of 1,000 classes and 372 nodes above."""
    n, d, sizes = 4096, 1024, (1, 12, 60, 300, 1000)
    begins = np.cumsum((0, *sizes))
    above = [begins[t - 1] + np.arange(sizes[t]) * sizes[t - 1] // sizes[t] for t in range(1, len(sizes))]
    parent = np.concatenate([[-1], *above]).astype(np.int32)
    taxonomy = Taxonomy(parent, ("",) * parent.size, np.arange(begins[-2], begins[-1], dtype=np.int32))
    scorer = HashedScorer.shared(taxonomy, 1 << bits, d)
    rows = Dense(np.random.default_rng(0).normal(size=(n, d)).astype(np.float32))
    limit = gemm_rate(CLOCK) / (4 * d)
    rate = n * scorer.operations_per_row() / pass_seconds(scorer, LOSSES[loss], rows, scorer.n_outputs, batch)
    name = f"hashed SGD of dense rows, {loss}, {d} features, 1,372 nodes, 2^{bits} numbers, batch {batch}"
    suite.add(HotPath(name, "rows x nodes/s", rate, 1, limit, "two products a step"))


def hashed_sparse_rows(suite: Suite, levels: int) -> None:
    """Look-ups of a node per column of a batch; the classes hang at all levels of a chain."""
    n, d, k, entries, batch, bits = 256, 100_000, 4_000, 20, 16, 20
    rng = np.random.default_rng(0)
    leaves = np.sort(rng.integers(0, levels, k))
    parent = chain_with_leaves(np.arange(-1, levels - 1), leaves)
    is_leaf = ~np.isin(np.arange(parent.size), parent)
    taxonomy = Taxonomy(parent, ("",) * parent.size, np.flatnonzero(is_leaf).astype(np.int32))
    scorer = HashedScorer.hierarchical(taxonomy, 1 << bits, d)
    columns = np.sort(rng.integers(0, d, (n, entries)).astype(np.int32), axis=1)
    rows = Csr(np.ones(n * entries, np.float32), columns.ravel(), np.arange(0, n * entries + 1, entries), d)
    met = np.random.default_rng(1)
    met.integers(0, taxonomy.n_classes, n)
    order = met.permutation(n)  # as in `pass_seconds`
    distinct = sum(np.unique(columns[order[start : start + batch]]).size for start in range(0, n, batch))
    name = f"hashed SGD of sparse rows, {levels} levels"
    hashed_path(suite, name, scorer, rows, scorer.operations_per_row() * distinct, batch)
