"""Harchaoui et al., section 4.2: products with full and with compressed rows, timed and counted."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from pipeline.dataset import Dataset
from pipeline.preset import PQ_WIDTH
from pipeline.reproduce.figure import Cell, Claim, Number, PaperFigure, Shown, Table, Verdict, number
from pipeline.reproduce.found import Found
from pipeline.reproduce.harchaoui import PAPER, VALUES
from pipeline.reproduce.judging import compared
from tasks.io import load_rows
from tasks.quantize.kmeans import ArrayOracle, train_codebooks
from tasks.quantize.pq import encode
from tasks.quantize.products import scores, subtract_products
from tasks.rows.base import Array
from tasks.seeds import stream

PRINTED = VALUES["timings"]
M = int(PRINTED["m"])
MOST_ROWS, MOST_BYTES = 16_384, 1 << 28  # of rows that are multiplied
LEARNT_FROM, CENTROIDS, ROUNDS, REPEATS = 4_096, 256, 3, 3


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds of the fastest of REPEATS products; `AX` is X W of the code, `XB` is X' R."""

    n_rows: int
    n_subquantizers: int
    n_centroids: int
    full: dict[str, float]
    compressed: dict[str, float]


def rows_of(dataset: Dataset) -> Array:
    """(n_rows, n_features) float32: the first rows of the dataset."""
    most = max(CENTROIDS, min(MOST_ROWS, MOST_BYTES // (4 * dataset.n_features)))
    parts: list[Array] = []
    for block in dataset.blocks():
        parts.append(np.asarray(load_rows(block).decoded().to_array(), np.float32))
        if sum(map(len, parts)) >= most:
            break
    return np.concatenate(parts)[:most]


@lru_cache(maxsize=1)
def measured(path: str) -> Timings:
    """Of the dataset at a path, once for its page."""
    values = rows_of(Dataset.open(path))
    n_rows, d = values.shape
    width = max(w for w in range(1, PQ_WIDTH + 1) if d % w == 0)
    sample = values[:LEARNT_FROM]
    n_centroids = min(CENTROIDS, 1 << (len(sample).bit_length() - 1))
    codebooks = train_codebooks(ArrayOracle(sample), d // width, n_centroids, ROUNDS, 0).codebooks
    codes = encode(values, codebooks)
    rng = stream(0, "reproduce", "timings")
    weights = rng.standard_normal((d, M)).astype(np.float32)
    residuals = rng.standard_normal((n_rows, M)).astype(np.float32)
    out = np.zeros((d, M), np.float32)
    one = np.float32(1)
    full = {"AX": fastest(lambda: values @ weights), "XB": fastest(lambda: values.T @ residuals)}
    compressed = {
        "AX": fastest(lambda: scores(codes, codebooks, weights)),
        "XB": fastest(lambda: subtract_products(codes, codebooks, residuals, one, out)),
    }
    return Timings(n_rows, d // width, n_centroids, full, compressed)


def fastest(work: Callable[[], object]) -> float:
    """Seconds, after one call that compiles and warms up."""
    work()
    took = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        work()
        took.append(time.perf_counter() - start)
    return min(took)


def show(found: Found) -> Shown:
    data, own = found.data, measured(found.data.path)
    n, d, n_sq = own.n_rows, data.n_features, own.n_subquantizers
    rows: list[list[Cell]] = []
    for name, here, paper in (("full matrix", own.full, "full"), ("compressed matrix", own.compressed, "compressed")):
        cells = [Number(here[key], f"{here[key]:.4f} s") for key in ("AX", "XB")]
        rows.append([name, *cells, *(f"{text} s" for text in PRINTED[paper])])
    ratios = [own.full[key] / own.compressed[key] for key in ("AX", "XB")]
    theirs = [float(a) / float(b) for a, b in zip(PRINTED["full"], PRINTED["compressed"], strict=True)]
    rows.append(["full over compressed", *(number(value, 2) for value in ratios), *(number(v, 2) for v in theirs)])
    counts: list[list[Cell]] = [
        ["multiply-adds, full matrix", *[whole(n * d * M)] * 2, "m n d"],
        ["multiply-adds, compressed", *[whole(own.n_centroids * d * M)] * 2, f"{own.n_centroids} d m"],
        ["random accesses, compressed", *[whole(n * n_sq * M)] * 2, "m n n_sq"],
    ]
    note = (
        f"{n:,} rows of {d:,} features, {n_sq:,} codes a row of {own.n_centroids} centroids, m = {M}; one process, the "
        "fastest of three. The paper prints 256 d n_sq multiply-adds for AX; tables of m x 256 n_sq take 256 d m."
    )
    return Shown(
        [
            Table("Seconds", ["", "AX here", "XB here", "AX paper", "XB paper"], rows, note),
            Table("Operations", ["", "AX here", "XB here", "formula"], counts),
        ]
    )


def whole(value: int) -> Number:
    return Number(float(value), f"{value:,}")


def faster(key: str, least: float) -> Callable[[Found], Verdict]:
    def judge(found: Found) -> Verdict:
        own = measured(found.data.path)
        ratio = own.full[key] / own.compressed[key]
        told = f"{own.full[key]:.4f} s with the full matrix, {own.compressed[key]:.4f} s compressed: {ratio:.2f} times"
        return compared(ratio >= least, told, ratio)

    return judge


FIGURES = (
    PaperFigure(
        "harchaoui-timings",
        PAPER,
        PRINTED["source"],
        "seconds and operations of products with full and compressed rows",
        ("dense",),
        "seconds",
        show,
        (
            Claim("a 4-fold speed increase on XB", "section 4.2", "at least 3 times as fast", faster("XB", 3.0)),
            Claim("AX is faster compressed, too", "section 4.2, timings", "in less time", faster("AX", 1.0)),
        ),
        data="65,536 features, 4,096 codes a row, a 16-core Xeon.",
        differs=(
            "Seconds are of this machine while it made the page; a full product is its BLAS's.",
            "Codebooks are of three rounds of k-means: they decide on no time.",
        ),
    ),
)
