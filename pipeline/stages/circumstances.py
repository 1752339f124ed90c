"""Of a run: which steps ran when and by how many processes, on what machine, and what makes it again."""

from __future__ import annotations

import os
import platform
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from pipeline.dataset import Dataset
from pipeline.ingest.options import command_of
from pipeline.pool import SerialPool
from pipeline.report.numbers import size
from pipeline.report.summary import StepTiming
from pipeline.stage import Asked, Work, encode_step
from pipeline.store import Done, RunFolder
from pipeline.task_table import TASKS, earlier
from tasks import io


def step_timings(work: Work, run_folder: Path) -> list[StepTiming]:
    """Of all steps before this one, in the run's order: those that this attempt did not run are "reused"."""
    ran, processes = _ran_now(run_folder), _processes(run_folder)
    encodings_first = sorted(work.inputs.items(), key=lambda found: not found[0].startswith(encode_step("")))
    return [
        StepTiming(
            name,
            "ran" if ran is None or name in ran else "reused",
            done.measured.get("seconds"),
            done.measured.get("tasks"),
            done.measured.get("peak_bytes"),
            processes.get(done.fingerprint),
        )
        for name, done in encodings_first
    ]


def _ran_now(run_folder: Path) -> set[str] | None:
    """The steps that the attempt under way has set out to run; None where no event tells."""
    for event in reversed(RunFolder(run_folder).events()):
        if event["event"] == "run" and isinstance(event.get("steps"), list):
            return {str(name) for name in event["steps"]}
    return None


def _processes(run_folder: Path) -> dict[str, int]:
    """Fingerprint of a step -> how many processes worked on its tasks, over all attempts."""
    import pyarrow.compute as pc  # a plan does without it

    for table in earlier(run_folder / TASKS):
        pairs = table.select(["fingerprint", "process"]).group_by(["fingerprint", "process"]).aggregate([])
        counts = pc.value_counts(pairs["fingerprint"]).to_pylist()
        return {str(one["values"]): int(one["counts"]) for one in counts}
    return {}


def machine_facts(work: Work) -> dict[str, str]:
    """Of the process that writes the page: kind of scheduler, processor, cores and memory; no names of hosts."""
    serial = isinstance(work.pool, SerialPool)
    workers = {} if serial else _workers(work)
    return {
        "scheduler of the last attempt": "serial: tasks run in one process" if serial else "Dask",
        **workers,
        "processor": platform.processor() or platform.machine(),
        "cores of this machine": str(os.cpu_count() or "not known"),
        "memory of this machine": size(psutil.virtual_memory().total),
    }


def _workers(work: Work) -> dict[str, str]:
    """How many there are, when the scheduler tells at once."""
    client = getattr(work.pool, "client", None)
    try:
        found = client.scheduler_info(n_workers=-1)["workers"].values()  # type: ignore[union-attr]
        threads = sum(int(one["nthreads"]) for one in found)
        return {"workers at the end": f"{len(found):,}, {threads:,} threads"}
    except (AttributeError, KeyError, TypeError, ValueError, OSError):
        return {}


def commands_of(config: str, dataset: Dataset, asked: Asked) -> list[str]:
    """What to type to make the run again, from the files on; config: its name."""
    made_from = io.read_attrs(dataset.path).get("made_from", {})
    ingest = command_of(made_from.get("options", {}), Path(dataset.path).name)
    run = shlex.join(["labelgrove", "run", f"{config}.toml", *asked.words()])
    return [*([ingest] if ingest else []), run]


def origin_of(dataset: Dataset) -> dict[str, str]:
    """Where the rows came from: names of files, seed of the split."""
    made_from = io.read_attrs(dataset.path).get("made_from", {})
    sources = [str(name) for name in made_from.get("sources", ())]
    found = {"made from": ", ".join(dict.fromkeys(sources))} if sources else {}
    return found | ({"seed of shuffle and split": str(made_from["seed"])} if "seed" in made_from else {})


def content_digests(dataset: Dataset, inputs: Mapping[str, Done], steps: Mapping[str, str]) -> dict[str, Any]:
    """The dataset's, and those of the steps by what to call them. steps: {"model tree": step}"""
    found = {"dataset": dataset.digest}
    return found | {name: inputs[step].digest for name, step in steps.items() if step in inputs}
