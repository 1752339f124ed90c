"""srun, sbatch, scancel and scontrol as far as deploy/slurm uses them: what Slurm would start are processes here."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

NAMES = ("srun", "sbatch", "scancel", "scontrol")


def write_commands(folder: Path) -> Path:
    """The commands in a folder of their own; returns it."""
    folder.mkdir(parents=True)
    for name in NAMES:
        path = folder / name
        path.write_text(f'#!/bin/sh\nexec {sys.executable} {Path(__file__).resolve()} {name} {folder} "$@"\n')
        path.chmod(0o755)
    return folder


def asked(folder: Path) -> list[str]:
    """What the commands were called with, in order."""
    path = folder / "asked"
    return path.read_text().splitlines() if path.exists() else []


def srun(folder: Path, words: list[str]) -> int:  # noqa: ARG001
    """As many processes as --ntasks says, ended with it."""
    count = int(next(word.partition("=")[2] for word in words if word.startswith("--ntasks=")))
    command = words[next(i for i, word in enumerate(words) if not word.startswith("-")) :]
    tasks = [subprocess.Popen(command, env=os.environ | {"SLURM_PROCID": str(i)}) for i in range(count)]

    def end(signum: int, frame: Any) -> None:  # noqa: ARG001
        for task in tasks:
            task.terminate()

    signal.signal(signal.SIGTERM, end)
    return max(task.wait() for task in tasks)


def sbatch(folder: Path, words: list[str]) -> int:
    """The script in the background, as a job whose number is that of its process group."""
    with open(folder / "jobs.log", "ab") as log:
        job = subprocess.Popen(["bash", words[-1]], stdout=log, stderr=log, start_new_session=True)
    print(f"Submitted batch job {job.pid}")
    return 0


def scancel(folder: Path, words: list[str]) -> int:  # noqa: ARG001
    """End jobs."""
    for word in words:
        try:
            os.killpg(int(word), signal.SIGTERM)
        except ProcessLookupError:
            continue
    return 0


def scontrol(folder: Path, words: list[str]) -> int:  # noqa: ARG001
    """Only noted."""
    return 0


if __name__ == "__main__":
    name, place, *given = sys.argv[1:]
    with open(Path(place) / "asked", "a") as notes:
        notes.write(" ".join([name, *given]) + "\n")
    sys.exit({"srun": srun, "sbatch": sbatch, "scancel": scancel, "scontrol": scontrol}[name](Path(place), given))
