"""Hashing sparse rows (170,016 features, 1 % non-zero) into 2^18 buckets, beside a copy and FeatureHasher.

What is measured is the map of entries to signed value and bucket: 8 bytes in, 8 bytes out. The limit copies as many
bytes between arrays that are there already. Merging entries that share a bucket is measured apart. All in one process;
`make bench` prints it and keeps the figures as JSON.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from sklearn.feature_extraction import FeatureHasher

from tasks.hashing.entries import hash_entries, hash_entries_into
from tasks.hashing.flat import hash_rows, hash_rows_dense
from tasks.rows import Csr
from tasks.rows.csr import merged
from tests.bench.limits import seconds
from tests.bench.peers import rates
from tests.bench.record import record
from tests.bench.table import HotPath, Suite

N_ROWS, N_FEATURES, NONZEROS, N_BUCKETS = 4096, 170_016, 1_700, 2**18
FEW_BUCKETS = 2**10
ROUNDS = 15  # of hashing and copying in turn: what else the machine does hits both
SOME_ROWS = 512  # for what takes long
HASHER_ROWS = 64
SEED = np.uint32(7)
ENTRY_BYTES = 16  # value and index in, value and bucket out
PEERS = {1: ["vw_hash", "scipy_countsketch", "ref_numba_inline"], 2: ["ref_numba_inline"]}


def sparse_rows() -> Csr:
    rng = np.random.default_rng(0)
    columns = np.concatenate([np.sort(rng.choice(N_FEATURES, NONZEROS, replace=False)) for _ in range(N_ROWS)])
    data = rng.standard_normal(columns.size).astype(np.float32)
    return Csr(data, columns.astype(np.int32), np.arange(N_ROWS + 1, dtype=np.int64) * NONZEROS, N_FEATURES)


def in_turn(works: Sequence[Callable[[slice], object]], sizes: Sequence[int], n_threads: int) -> list[float]:
    """Seconds of each work on equal parts of 0..size, one a thread: the best of ROUNDS, taken in turn."""
    best = [np.inf] * len(works)
    with ThreadPoolExecutor(n_threads) as threads:
        for _ in range(ROUNDS):
            for i, (work, size) in enumerate(zip(works, sizes, strict=True)):
                parts = [slice(size * t // n_threads, size * (t + 1) // n_threads) for t in range(n_threads)]
                began = time.perf_counter()
                list(threads.map(work, parts))
                best[i] = min(best[i], time.perf_counter() - began)
    return best


def hasher_rate(rows: Csr) -> float:
    """Non-zeros per second of FeatureHasher, whose features are words."""
    words = [
        [(str(j), float(x)) for j, x in zip(rows.indices[first:last], rows.data[first:last], strict=True)]
        for first, last in zip(rows.indptr[:-1], rows.indptr[1:], strict=True)
    ]
    hasher = FeatureHasher(N_BUCKETS, input_type="pair", dtype=np.float32)
    return rows.data.size / seconds(lambda: hasher.transform(words))


def bench_hash_entries() -> None:
    rows, suite = sparse_rows(), Suite("hash")
    data, indices, n = rows.data, rows.indices, rows.data.size
    signed, buckets = np.empty_like(data), np.empty_like(indices)
    source = np.zeros(ENTRY_BYTES * n // 8, np.float32)  # half of the bytes are read, half are written
    target = np.empty_like(source)
    target[:] = 1

    def hashed(part: slice) -> None:
        hash_entries_into(data[part], indices[part], SEED, N_BUCKETS, signed[part], buckets[part])

    def copied(part: slice) -> None:
        np.copyto(target[part], source[part])

    hasher = hasher_rate(rows.part(0, HASHER_ROWS))
    for n_threads in (1, 2):
        hashing, copying = in_turn([hashed, copied], [n, source.size], n_threads)
        limit = 2 * source.nbytes / copying / ENTRY_BYTES
        others: dict[str, float | str] = {"FeatureHasher": hasher} if n_threads == 1 else {}
        others |= rates("hash", PEERS[n_threads], lambda row: 1e6 * row["quality"]["mnnz_s"], n_threads)
        name = "hashing of non-zeros into 2^18 buckets"
        suite.add(HotPath(name, "non-zeros/s", n / hashing, n_threads, limit, "a copy of as many bytes", others))
    allocating = n / seconds(lambda: hash_entries(data, indices, SEED, N_BUCKETS))
    suite.add(HotPath("the same into new arrays", "non-zeros/s", allocating))
    other = n / seconds(lambda: hash_entries_into(data, indices, SEED, N_BUCKETS - 1, signed, buckets))
    suite.add(HotPath("the same into 2^18 - 1 buckets", "non-zeros/s", other))


def bench_hash_rows() -> None:
    """Whole rows: entries that share a bucket are added up, without and with sorting; few buckets to dense rows."""
    rows = sparse_rows().part(0, SOME_ROWS)
    n = rows.data.size

    def by_sorting() -> Csr:
        signed, buckets = hash_entries(rows.data, rows.indices, SEED, N_BUCKETS)
        return merged(signed, buckets, rows.indptr, N_BUCKETS)

    figures: dict[str, object] = {
        "merged": n / seconds(lambda: hash_rows(rows, int(SEED), N_BUCKETS)),
        "merged_by_sorting": n / seconds(by_sorting),
        "merged_few_buckets": n / seconds(lambda: hash_rows(rows, int(SEED), FEW_BUCKETS)),
        "dense_few_buckets": n / seconds(lambda: hash_rows_dense(rows, int(SEED), FEW_BUCKETS)),
    }
    shown = ", ".join(f"{name.replace('_', ' ')} {float(str(rate)) / 1e6:,.0f} M" for name, rate in figures.items())
    print(f"\nhashed rows, non-zeros/s: {shown}\nkept in {record('hash-rows', figures)}")
