"""faiss and nanopq at product quantisation, in their own environment: imports NumPy and them alone.

    python pq_peers_child.py CASES

CASES is JSON: {"threads", "shapes": [[n_features, width], ...], "encoded", "trained", "rounds"}. Prints one JSON list
of {"peer", "case", "rate"}: rows a second encoded, and rows times rounds a second trained (of the first shape). One
thread is measured in its CPU time, more in wall time.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

REPEATS = 3


def best(work: Callable[[], Any], clock: Callable[[], float], repeats: int = REPEATS) -> float:
    taken = []
    for _ in range(repeats):
        began = clock()
        work()
        taken.append(clock() - began)
    return min(taken)


def faiss_rows(given: dict[str, Any], clock: Callable[[], float]) -> list[dict[str, Any]]:
    import faiss

    faiss.omp_set_num_threads(given["threads"])
    found, rng = [], np.random.default_rng(0)
    for place, (d, width) in enumerate(given["shapes"]):
        quantizer = faiss.ProductQuantizer(d, d // width, 8)
        rows = rng.standard_normal((given["trained"], d), np.float32)
        quantizer.cp.niter, quantizer.cp.min_points_per_centroid = given["rounds"] if place == 0 else 1, 1
        taken = best(lambda q=quantizer, r=rows: q.train(r), clock, 1)
        if place == 0:
            work = len(rows) * given["rounds"]
            found.append({"peer": "faiss", "case": "train", "rate": work / taken})
        rows = rows[: given["encoded"]]
        rate = len(rows) / best(lambda q=quantizer, r=rows: q.compute_codes(r), clock)
        found.append({"peer": "faiss", "case": f"{d}/{width}", "rate": rate})
    return found


def nanopq_rows(given: dict[str, Any], clock: Callable[[], float]) -> list[dict[str, Any]]:
    import nanopq

    found, rng = [], np.random.default_rng(0)
    for place, (d, width) in enumerate(given["shapes"]):
        quantizer = nanopq.PQ(M=d // width, Ks=256, verbose=False)
        rows = rng.standard_normal((given["trained"], d), np.float32)
        rounds = given["rounds"] if place == 0 else 1
        taken = best(lambda q=quantizer, r=rows, n=rounds: q.fit(r, iter=n, seed=1), clock, 1)
        if place == 0:
            found.append({"peer": "nanopq", "case": "train", "rate": len(rows) * rounds / taken})
        rows = rows[: given["encoded"]]
        rate = len(rows) / best(lambda q=quantizer, r=rows: q.encode(r), clock)
        found.append({"peer": "nanopq", "case": f"{d}/{width}", "rate": rate})
    return found


def main() -> None:
    given = json.loads(sys.argv[1])
    clock = time.thread_time if given["threads"] == 1 else time.perf_counter
    found = faiss_rows(given, clock)
    if given["threads"] == 1:  # it has no threads of its own
        found += nanopq_rows(given, clock)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
