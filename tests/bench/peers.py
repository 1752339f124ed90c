"""Other packages on the same work, each in an environment of its own; where there is none, a row says so.

LABELGROVE_PEERS names the folder of the peers' runner (default: LABELGROVE_SHARED/tools/peers), PEERS_HOME that of
their environments. Its rows are what the peers' own processes have measured; those named `ref_...` are yardsticks.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
Row = dict[str, Any]


def runner() -> Path:
    """The script that runs peers."""
    shared = os.environ.get("LABELGROVE_SHARED", str(ROOT.parent / "shared"))
    return Path(os.environ.get("LABELGROVE_PEERS", str(Path(shared) / "tools" / "peers"))) / "peers.py"


def ask(suite: str, names: Sequence[str], threads: int = 1) -> list[Row]:
    """The rows of some peers of a suite of the runner: {peer, case, seconds_min, cpu_seconds_min, quality, ...}.

    A peer that cannot run has a row {peer, error}.
    """
    if not runner().exists():
        return [{"peer": name, "error": "no runner of peers: set LABELGROVE_PEERS"} for name in names]
    if "PEERS_HOME" not in os.environ:
        return [{"peer": name, "error": "no environments of peers: set PEERS_HOME"} for name in names]
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "rows.jsonl"
        words = ["--suite", suite, "--only", ",".join(names), "--threads", str(threads), "--json", str(told)]
        ended = subprocess.run([sys.executable, str(runner()), *words], capture_output=True, text=True, check=False)
        if not told.exists():
            why = (ended.stderr.strip().splitlines() or ["it said nothing"])[-1]
            return [{"peer": name, "error": why} for name in names]
        return [json.loads(line) for line in told.read_text().splitlines()]


def rates(
    suite: str, names: Sequence[str], rate: Callable[[Row], float], threads: int = 1, case: str = ""
) -> dict[str, float | str]:
    """Name of a peer -> its rate, or why there is none; of several cases the one whose name ends in `case`.

    rate   what a row says, in the unit of the path that it stands beside
    """
    found: dict[str, float | str] = {}
    for row in ask(suite, names, threads):
        if "error" in row:
            found[row["peer"]] = str(row["error"])
        elif str(row.get("case") or "").endswith(case):
            found[row["peer"]] = rate(row)
    return found
