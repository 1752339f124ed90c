"""How soon a command begins, beside what Python itself and the two largest packages take.

Seconds on the clock count for people, processor seconds hardly depend on what else the machine does: both are printed.
A cold run finds no kernel compiled (an empty NUMBA_CACHE_DIR), a warm one all of its own. Python's own byte code is
kept, as installed packages have it.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq

from tests.bench.record import record

REPEATS = 3
COLD, WARM = 15.0, 4.0  # seconds to the first task's end, and to its start
COMMANDS = {
    "--help": ("--help",),
    "plan": ("plan", "config.toml"),
    "check": ("check", "config.toml"),
    "inspect dataset": ("inspect", "tiny.zarr"),
    "inspect model": ("inspect", "runs/tiny/models/ovr"),
    "status": ("status", "runs/tiny"),
    "report": ("report", "runs/tiny"),
    "compare": ("compare", "runs/tiny", "runs/tiny", "-o", "compared.html"),
    "predict": ("predict", "runs/tiny/models/ovr", "rows.npy", "-o", "predictions.parquet"),
}
LIMITS = {"python -c pass": "pass", "import numba, distributed": "import numba, distributed"}


def environment(folder: Path, **more: str) -> dict[str, str]:
    """Ours, with byte code kept in the folder."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": str(folder / "bytecode"), **more}


def labelgrove(*words: str) -> list[str]:
    """The command as the console script has it."""
    return [sys.executable, "-c", "from pipeline.cli import main; main()", *words]


def taken(command: list[str], toy: Path, environ: dict[str, str]) -> tuple[float, float]:
    """(seconds, processor seconds) of a command, the least of some repeats after one that fills caches."""
    found = []
    for _ in range(REPEATS + 1):
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(command, cwd=toy, env=environ, capture_output=True, check=False)
        seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append((seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime))
    return min(one[0] for one in found[1:]), min(one[1] for one in found[1:])


def made(folder: Path) -> Path:
    """The files of `labelgrove init`, ingested."""
    toy, environ = folder / "toy", environment(folder)
    files = ("rows.npy", "tiny.zarr", "--labels", "labels.txt", "--taxonomy", "taxonomy.tsv")
    for words, where in ((("init", str(toy)), folder), (("ingest", *files), toy)):
        subprocess.run(labelgrove(*words), cwd=where, env=environ, capture_output=True, check=True)
    return toy


def first_task(toy: Path, name: str, environ: dict[str, str]) -> tuple[float, float, float]:
    """Seconds from typing `run` to its first task's start and end, and to the end of all."""
    began = time.time()
    command = labelgrove("run", "config.toml", "--scheduler", "local:2", "-s", f"name={json.dumps(name)}")
    subprocess.run(command, cwd=toy, env=environ, capture_output=True, check=True)
    ended = time.time()
    table = pq.read_table(toy / "runs" / name / "tasks.parquet").to_pydict()
    tasks = sorted(zip(table["start"], table["seconds"], strict=True))
    return tasks[0][0] - began, min(start + seconds for start, seconds in tasks) - began, ended - began


def bench_startup(tmp_path: Path) -> None:
    environ, toy = environment(tmp_path), made(tmp_path)
    print(f"\nload {os.getloadavg()[0]:.1f}; seconds are only worth something on an idle machine")
    empty = environment(tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "kernels"))
    runs = {"cold": first_task(toy, "cold", empty), "warm": first_task(toy, "tiny", empty)}
    for name, (begun, done, whole) in runs.items():
        print(f"{name} run: first task begun in {begun:.1f} s and done in {done:.1f} s, all in {whole:.1f} s")
    print(f"wanted: of the cold run the first task done in {COLD:g} s, of the warm run begun in {WARM:g} s")
    limits = {name: taken([sys.executable, "-c", code], toy, environ) for name, code in LIMITS.items()}
    pure, libraries = (limits[name][1] for name in LIMITS)
    print(f"processor seconds: Python alone {pure:.2f}, numba and distributed {libraries:.2f}")
    found = {}
    for name, words in COMMANDS.items():
        found[name] = seconds, processor = taken(labelgrove(*words), toy, environ)
        share = f"{processor / libraries:4.2f} x numba and distributed"
        print(f"{name:>16}: {seconds:5.2f} s, {processor:5.2f} s of a processor = {share}")
    about = {"load": os.getloadavg()[0], "limits": limits, "commands": found}
    record("startup", {"first_task": runs, "wanted": {"cold": COLD, "warm": WARM}, **about})
