"""All hot paths that benchmarks have measured, in one table: what `make bench` ends with.

    python -m tests.bench.summary [FOLDER]

FOLDER is where the suites' JSON is (default: LABELGROVE_BENCH, or build/bench).
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.bench.record import FOLDER

HEAD = f"{'path':<64} {'ours':>12} {'':<18} {'of the limit':>12}   times the peers"


def line(path: dict[str, Any]) -> str:
    """One path."""
    name = f"{path['name']}, {path['threads']} thread{'s' * (path['threads'] > 1)}"
    share = f"{path['ours'] / path['limit']:.0%}" if path["limit"] else "-"
    peers = {peer: rate for peer, rate in path["peers"].items() if not isinstance(rate, str)}
    ratios = ", ".join(f"{path['ours'] / rate:.2g}x {peer}" for peer, rate in peers.items())
    missing = len(path["peers"]) - len(peers)
    skipped = f" ({missing} skipped)" if missing else ""
    return f"{name:<64} {path['ours']:12.4g} {path['unit']:<18} {share:>12}   {ratios}{skipped}"


def main(folder: Path) -> None:
    """Print the table of a folder, and where the figures are that are no rates."""
    kept = {file: json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))}
    if not kept:
        sys.exit(f"{folder}: no figures yet")
    suites = [suite for suite in kept.values() if "paths" in suite]
    for suite in suites:
        limits = suite["machine_limits"]
        flops, copied = limits["gemm_flops"] / 1e9, limits["copy_bytes"] / 1e9
        print(f"\n{suite['name']}: float32 product {flops:.0f} GFLOP/s of a core, copy {copied:.1f} GB/s")
        print("\n".join([HEAD, *map(line, suite["paths"])]))
    others = [str(file) for file, suite in kept.items() if "paths" not in suite]
    if others:
        print(f"\nfigures that are no rates: {', '.join(others)}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else os.environ.get(FOLDER, "build/bench")))
