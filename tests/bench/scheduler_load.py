"""What the scheduler pays for a call of many tasks: its time and the bytes a task, and the memory it comes to.

    python -m tests.bench.scheduler_load [--blocks 10000] [--tiny 100000]

A scheduler and two workers of their own processes on the loopback, and the product's own pool: `map` and `sum` over
--blocks blocks (items as stages hand them out), then `map` over --tiny items, whose tasks do nothing. Seconds of the
scheduler are its processor time; bytes are those of the messages that the client sends it; memory is its resident peak.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import distributed
import psutil
from distributed.protocol import dumps

from pipeline.pool import DaskPool
from tasks.io import Block
from tasks.worker import WorkerSettings
from tests.bench.record import record
from tests.systems.clusters import cluster


def one(block: Block) -> int:
    """The least that a task can do."""
    return block.index % 7


@dataclass
class Sent:
    """Bytes of the messages that a client has sent to its scheduler."""

    client: Any
    nbytes: int = 0
    _send: Any = field(init=False)

    def __enter__(self) -> Sent:
        self._send, self.nbytes = self.client._send_to_scheduler, 0
        self.client._send_to_scheduler = self.count
        return self

    def count(self, message: dict[str, Any]) -> None:
        """In place of the client's own."""
        self.nbytes += sum(memoryview(frame).nbytes for frame in dumps(message))
        self._send(message)

    def __exit__(self, *_: object) -> None:
        self.client._send_to_scheduler = self._send


def peak_of(process: psutil.Process) -> int:
    """Bytes: the resident high-water mark since `reset`."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:"))


def reset(process: psutil.Process) -> int:
    """Begin a new high-water mark; the bytes resident now."""
    Path(f"/proc/{process.pid}/clear_refs").write_text("5")
    return int(process.memory_info().rss)


def blocks(count: int) -> list[Block]:
    """Items as encoders and fits hand them out."""
    return [
        Block("/runs/large/steps/encode_pq-0123456789ab/rows.zarr", i, 1024 * i, 1024 * (i + 1)) for i in range(count)
    ]


def measured(pool: DaskPool, scheduler: psutil.Process, verb: str, count: int) -> dict[str, float]:
    """One call of the pool."""
    items, before = blocks(count), scheduler.cpu_times()
    resident, began = reset(scheduler), time.perf_counter()
    with Sent(pool.client) as sent:
        result = getattr(pool, verb)(one, items, name=f"bench_{verb}")
    total = result if verb == "sum" else sum(result)
    assert total == sum(one(item) for item in items)
    after = scheduler.cpu_times()
    cpu = after.user + after.system - before.user - before.system
    found = {
        "tasks": count,
        "seconds": time.perf_counter() - began,
        "scheduler_ms_a_task": 1e3 * cpu / count,
        "graph_bytes": sent.nbytes,
        "graph_bytes_a_task": sent.nbytes / count,
        "resident_before_mb": resident / 1e6,
        "resident_peak_mb": peak_of(scheduler) / 1e6,
    }
    print(
        f"{verb:4} {count:>7,} tasks: {found['seconds']:6.1f} s, "
        f"scheduler {found['scheduler_ms_a_task']:.2f} ms a task, "
        f"graph {sent.nbytes / 1e6:.1f} MB ({found['graph_bytes_a_task']:.0f} bytes a task), "
        f"scheduler's memory {found['resident_before_mb']:.0f} -> {found['resident_peak_mb']:.0f} MB",
        flush=True,
    )
    return found


def main(n_blocks: int, tiny: int) -> None:
    """Measure, print, keep."""
    with tempfile.TemporaryDirectory() as folder, cluster(Path(folder) / "cluster") as found:
        scheduler = psutil.Process(found.scheduler.pid)
        with distributed.Client(found.address, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=60)
            pool = DaskPool(client, Path(folder) / "scratch", WorkerSettings())
            pool.map(one, blocks(100), name="bench_first")
            figures = [measured(pool, scheduler, verb, n_blocks) for verb in ("map", "sum")]
            figures.append(measured(pool, scheduler, "map", tiny))
    print(record("scheduler_load", {"calls": figures}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=10_000)
    parser.add_argument("--tiny", type=int, default=100_000)
    asked = parser.parse_args()
    main(asked.blocks, asked.tiny)
