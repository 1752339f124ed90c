"""One hot path beside what the machine allows and what others reach: a line of text and an entry of JSON."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any

from tests.bench.limits import blas, copy_rate, gemm_rate
from tests.bench.record import record


@dataclass(frozen=True)
class HotPath:
    """A rate (more is better) of ours, of the machine and of peers, in one unit.

    limit     what `limit_of` would allow if nothing else cost time; 0 where no limit is known
    peers     name -> their rate, or why there is none
    """

    name: str
    unit: str
    ours: float
    threads: int = 1
    limit: float = 0.0
    limit_of: str = ""
    peers: Mapping[str, float | str] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """What is printed."""
        threads = "1 thread" if self.threads == 1 else f"{self.threads} threads"
        found = [f"{self.name}, {threads}: {self.ours:,.4g} {self.unit}"]
        if self.limit:
            found.append(f"    {self.ours / self.limit:7.1%} of {self.limit:,.4g}, the limit of {self.limit_of}")
        for peer, rate in self.peers.items():
            if isinstance(rate, str):
                found.append(f"    skipped: {peer}: {rate}")
            else:
                found.append(f"    {self.ours / rate:6.2f}x {peer} ({rate:,.4g})")
        return found


class Suite:
    """The paths of one suite: printed as they come, and kept as JSON, so that an interrupted suite leaves its part."""

    def __init__(self, name: str) -> None:
        self.name, self.paths = name, list[HotPath]()
        self.gemm_flops, self.copy_bytes = gemm_rate(), copy_rate()
        flops, copied = self.gemm_flops / 1e9, self.copy_bytes / 1e9
        print(f"\n{name}: {blas()}; a core multiplies {flops:.0f} GFLOP/s, copies {copied:.1f} GB/s")

    def add(self, path: HotPath) -> None:
        """Print a path and keep it."""
        self.paths.append(path)
        print("\n".join(path.lines()), flush=True)
        limits = {"blas": blas(), "gemm_flops": self.gemm_flops, "copy_bytes": self.copy_bytes}
        paths: list[dict[str, Any]] = [asdict(one) for one in self.paths]
        record(self.name, {"machine_limits": limits, "load": os.getloadavg()[0], "paths": paths})


def in_threads(work: Callable[[int], object], threads: int) -> Callable[[], None]:
    """`work(0)`, ..., `work(threads - 1)` side by side, as workers with several threads do."""
    if threads == 1:
        return lambda: (work(0), None)[1]
    pool = ThreadPoolExecutor(threads)

    def run() -> None:
        for _ in pool.map(work, range(threads)):
            pass

    return run
