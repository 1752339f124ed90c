"""Densified WTA codes of rows with 10,000 dimensions and 92 % zeros, beside plain NumPy and what memory allows.

A code is one (row, hash). The limit moves the bytes of the rows and of the codes once, as fast as memory is copied.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from tasks.hashing.code_rows import CodeHash
from tasks.hashing.wta import CodeParams
from tasks.rows import Csr, Dense, OneHot, Rows
from tests.bench.limits import copy_rate, seconds
from tests.bench.peers import ask
from tests.bench.record import record
from tests.bench.table import HotPath, Suite

N_ROWS, N_FEATURES, NONZEROS, WINDOW = 512, 10_000, 800, 4
NAIVE_ROWS = 32


def sparse_rows() -> Csr:
    rng = np.random.default_rng(0)
    columns = np.sort(rng.random((N_ROWS, N_FEATURES)).argpartition(NONZEROS, axis=1)[:, :NONZEROS], axis=1)
    data = rng.random(N_ROWS * NONZEROS, np.float32) + np.float32(0.5)
    indptr = np.arange(0, N_ROWS * NONZEROS + 1, NONZEROS, dtype=np.int64)
    return Csr(data, columns.ravel().astype(np.int32), indptr, N_FEATURES)


def plain_numpy(values: np.ndarray, windows: np.ndarray, shift: int) -> np.ndarray:
    """The definition in whole arrays: gather, argmax, and the nearest sample to the right by a running minimum."""
    samples = values[:, windows]
    codes = samples.argmax(axis=2)
    n = windows.shape[0]
    place = np.where((samples != 0).any(axis=2), np.arange(n), 2 * n)
    around = np.minimum.accumulate(np.hstack([place, place + n])[:, ::-1], axis=1)[:, ::-1][:, :n]
    found: np.ndarray = np.take_along_axis(codes, around % n, axis=1) + shift * (around - np.arange(n))
    return found


@dataclass(frozen=True)
class Work:
    """Rows to code: all on one thread, and their halves on two."""

    hashes: CodeHash
    rows: Rows

    def one(self) -> float:
        return self.rows.n_rows * self.hashes.params.hashes / seconds(lambda: self.hashes.codes(self.rows))

    def two(self) -> float:
        half = self.rows.n_rows // 2
        parts = [self.rows.part(0, half), self.rows.part(half, self.rows.n_rows)]
        with ThreadPoolExecutor(2) as threads:
            taken = seconds(lambda: list(threads.map(self.hashes.codes, parts)))
        return self.rows.n_rows * self.hashes.params.hashes / taken

    def limit(self) -> float:
        """Codes per second if nothing but memory took time."""
        params = self.hashes.params
        per_row = self.rows.nbytes / self.rows.n_rows + params.hashes * params.dtype.itemsize
        return params.hashes * copy_rate() / per_row


def bench_dwta_codes() -> None:
    suite, sparse = Suite("wta"), sparse_rows()
    peers = {threads: peers_of(threads) for threads in (1, 2)}
    for hashes in (512, 2_500, 20_000, 100_000):
        params = CodeParams("dwta", hashes, WINDOW, seed=1)
        drawn, plain = CodeHash.drawn(params, N_FEATURES), CodeHash.drawn(replace(params, kind="wta"), N_FEATURES)
        few = sparse.part(0, NAIVE_ROWS if hashes < 100_000 else 2)
        values = few.to_array()
        np.testing.assert_array_equal(drawn.codes(few)[0], plain_numpy(values, drawn.windows, params.step))
        naive = few.n_rows * hashes / seconds(partial(plain_numpy, values, drawn.windows, params.step))
        some = sparse.part(0, min(N_ROWS, 5_120_000 // hashes))
        for rows in (some, Dense(some.to_array())):
            work, name = Work(drawn, rows), f"DWTA, {hashes:,} hashes of {WINDOW}, {rows.body} rows"
            one, limit, moved = work.one(), work.limit(), "a copy of rows and codes"
            others = {"whole arrays of NumPy": naive, "WTA, nothing densified": Work(plain, rows).one()}
            others |= peers[1].get(hashes, {}) if rows.body == "csr" else {}
            suite.add(HotPath(name, "hashes/s", one, 1, limit, moved, others))
            two = peers[2].get(hashes, {}) if rows.body == "csr" else {}
            suite.add(HotPath(name, "hashes/s", work.two(), 2, 2 * limit, moved, {"one thread": one} | two))


def peers_of(threads: int) -> dict[int, dict[str, float | str]]:
    """Number of hashes -> peers' rates: the compiled references."""
    found: dict[int, dict[str, float | str]] = {}
    names = ["slide_dwta_cpp", "ref_numba_dwta"] if threads == 1 else ["ref_numba_dwta"]
    for row in ask("wta", names, threads):
        if "error" in row:
            found.setdefault(512, {})[row["peer"]] = str(row["error"])
        else:
            found.setdefault(int(row["case"][1:]), {})[row["peer"]] = 1e6 * row["quality"]["mhash_s"]
    return found


def bench_onehot_products() -> None:
    """X W and X' R of one-hot rows, straight on codes and as sparse rows."""
    n_rows, hashes, outputs = 1024, 5000, 100
    rng = np.random.default_rng(0)
    params = CodeParams("dwta", hashes, WINDOW, range=16, seed=1)
    rows = OneHot(rng.integers(0, 16, (n_rows, hashes)).astype(params.dtype), 16)
    weights = rng.standard_normal((rows.n_features, outputs)).astype(np.float32)
    residuals = rng.standard_normal((n_rows, outputs)).astype(np.float32)
    plain = rows.decoded()
    on_codes, sparse = seconds(lambda: rows.scores(weights)), seconds(lambda: plain.scores(weights))
    back, sparse_back = seconds(lambda: rows.gradient(residuals)), seconds(lambda: plain.gradient(residuals))
    print(
        f"\none-hot {n_rows} x {hashes}, {outputs} outputs: X W {on_codes * 1e3:.0f} ms, as sparse rows"
        f" {sparse * 1e3:.0f} ms; X' R {back * 1e3:.0f} ms, as sparse rows {sparse_back * 1e3:.0f} ms"
    )
    figures = {"scores": on_codes, "sparse_scores": sparse, "gradient": back, "sparse_gradient": sparse_back}
    record("onehot", dict(figures))
