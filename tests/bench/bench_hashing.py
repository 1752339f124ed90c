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
from tests.bench.record import record

N_ROWS, N_FEATURES, NONZEROS, N_BUCKETS = 4096, 170_016, 1_700, 2**18
FEW_BUCKETS = 2**10
ROUNDS = 15  # of hashing and copying in turn: what else the machine does hits both
SOME_ROWS = 512  # for what takes long
HASHER_ROWS = 64
SEED = np.uint32(7)
ENTRY_BYTES = 16  # value and index in, value and bucket out
LEAST_OF_COPY, LEAST_OVER_HASHER = 0.5, 100


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
    rows = sparse_rows()
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
    figures: dict[str, object] = {"feature_hasher_nonzeros_per_second": hasher}
    for n_threads in (1, 2):
        hashing, copying = in_turn([hashed, copied], [n, source.size], n_threads)
        rate, copy = n / hashing, 2 * source.nbytes / copying
        share = rate * ENTRY_BYTES / copy
        print(
            f"\nhashing into 2^18 buckets, {n_threads} thread{'s' * (n_threads > 1)}: {rate / 1e6:,.0f} M non-zeros/s ="
            f" {rate * ENTRY_BYTES / 1e9:.1f} GB/s; copy {copy / 1e9:.1f} GB/s: {share:.0%} of it"
            f" (asked for: {LEAST_OF_COPY:.0%}); FeatureHasher {hasher / 1e6:.1f} M: {rate / hasher:,.0f}x"
            f" (asked for: {LEAST_OVER_HASHER}x)",
            end="",
        )
        figures[f"threads_{n_threads}"] = {
            "nonzeros_per_second": rate,
            "bytes_per_second": rate * ENTRY_BYTES,
            "copy_bytes_per_second": copy,
            "share_of_copy": share,
            "times_feature_hasher": rate / hasher,
        }
    allocating = n / seconds(lambda: hash_entries(data, indices, SEED, N_BUCKETS))
    other = n / seconds(lambda: hash_entries_into(data, indices, SEED, N_BUCKETS - 1, signed, buckets))
    print(f"\n  into new arrays {allocating / 1e6:,.0f} M; 2^18 - 1 buckets {other / 1e6:,.0f} M", end="")
    figures |= {"new_arrays": allocating, "no_power_of_two": other}
    print(f"\nkept in {record('hash-entries', figures)}")


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
