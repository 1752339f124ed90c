"""Does a plan fit? Every step too large for a worker, and the disk: said by `check`, `plan` and `run` alike."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import psutil

from pipeline.byte_sizes import human_bytes
from pipeline.choice import model_of
from pipeline.connection.worker_memory import DASK_PAUSE, PAUSE, WorkerRoom
from pipeline.errors import TaskKilled
from pipeline.plan import IDLE_WORKER_BYTES, LEAST_CACHE, MemoryPlan, Plan, PlannedStep
from pipeline.stages.svm_ways import smaller_svm, svm_of
from tasks.errors import ResourceError
from tasks.places import is_remote


class MemoryTooSmall(ResourceError):
    """A task would not fit into a worker, or what gathers its results into this machine."""


class DiskTooSmall(ResourceError):
    """The run would not fit onto the disk."""


def check_resources(plan: Plan, memory: MemoryPlan) -> None:
    """Raises MemoryTooSmall or DiskTooSmall before anything runs."""
    for refusal in refusals(plan, memory):
        raise refusal


def check_worker_memory(plan: Plan, memory: MemoryPlan) -> None:
    """Raises MemoryTooSmall when a step to run does not fit into a worker."""
    if too_large := oversized(plan, memory):
        raise _memory_error(plan, too_large, memory)


def refusals(plan: Plan, memory: MemoryPlan) -> list[ResourceError]:
    """Everything for which `run` refuses to begin."""
    found: list[ResourceError] = []
    if too_large := oversized(plan, memory):
        found.append(_memory_error(plan, too_large, memory))
    if plan.driver_bytes > (here := psutil.virtual_memory().total):
        what = f"this process would hold {human_bytes(plan.driver_bytes)}, this machine has {human_bytes(here)}"
        largest = max(plan.to_run, key=lambda step: step.estimate.driver_bytes)
        ways = smaller_svm([largest.stage]) or ["learn from fewer features (an encoding of kind pca)"]
        hint = "; or ".join(["run it on a larger machine", *ways, "--force"])
        found.append(MemoryTooSmall(what, where=str(plan.folder.path), hint=hint))
    if is_remote(plan.folder.path):  # how much room a store has, nobody can ask it
        return found
    free = free_bytes(plan.folder.path)
    begun = plan.begun_bytes
    if plan.disk_bytes - begun > free:
        there = f" beside {human_bytes(begun)} that are there already" if begun else ""
        found.append(
            DiskTooSmall(
                f"the run needs about {human_bytes(plan.disk_bytes - begun)}{there}, {human_bytes(free)} are free",
                where=str(plan.folder.path),
                hint="free some space, choose another --runs folder, or --force",
            )
        )
    return found


def killed_in(step: PlannedStep, memory: MemoryPlan, error: TaskKilled) -> TaskKilled:
    """The error of a step whose tasks came to more memory than a worker has: what was planned, what there is."""
    need = human_bytes(worker_bytes(step, memory))
    have = f"workers have {human_bytes(memory.limit)}" if memory.limit else "workers have what their cluster gives them"
    more = _more_memory(worker_bytes(step, memory), memory) if memory.limit else ""
    hint = more or "give the workers more memory"
    return TaskKilled(
        f"{error.what}; {step.name} was planned with {need} for a worker, {have}",
        error.where,
        f"most often memory: {hint}, then run again; finished work is kept",
    )


def worker_bytes(step: PlannedStep, memory: MemoryPlan) -> int:
    """What a worker holds at most while it does this step, with as small a cache as it gets."""
    cache = min(memory.cache, LEAST_CACHE) if memory.cache_gives_way else memory.cache
    return IDLE_WORKER_BYTES + cache + memory.threads * step.estimate.task_bytes


def oversized(plan: Plan, memory: MemoryPlan) -> list[PlannedStep]:
    """The steps to run that do not fit into a worker whose limit is known, the largest first."""
    if not memory.limit:
        return []
    steps = [step for step in plan.to_run if worker_bytes(step, memory) > memory.limit]
    return sorted(steps, key=lambda step: -step.estimate.task_bytes)


def _memory_error(plan: Plan, steps: Sequence[PlannedStep], memory: MemoryPlan) -> MemoryTooSmall:
    needs = [(step.name, worker_bytes(step, memory)) for step in steps]
    wide = max(len(name) for name, _ in needs)
    lines = "".join(f"\n  {name:<{wide}}  needs {human_bytes(need)}" for name, need in needs)
    have = human_bytes(memory.limit) if memory.tightest is None else _room_text(memory.tightest)
    what = f"{len(needs)} step{'s' if len(needs) > 1 else ''} would not fit into a worker of {have}:{lines}\n "
    return MemoryTooSmall(what, where=str(plan.folder.path), hint=_memory_hint(plan, steps, needs[0][1], memory))


def _memory_hint(plan: Plan, steps: Sequence[PlannedStep], need: int, memory: MemoryPlan) -> str:
    """Room for the largest step, or the rest without the models that are too large, when others are left.

    A model is too large as well when what its support vector machines settle first is.
    """
    from pipeline.stages.svm_setup import SvmSetup

    setups = {step.name for step in steps if isinstance(step.stage, SvmSetup)}
    large = [step.stage for step in steps] + [step.stage for step in plan.steps if setups & {*step.stage.inputs}]
    models = list(dict.fromkeys(model_of(stage) for stage in large if model_of(stage)))
    others = {model_of(step.stage) for step in plan.steps} - {"", *models}
    encodings = [step.name for step in steps if not model_of(step.stage) and step.name not in setups]
    ways = [_more_memory(need, memory)]
    if models and others and not encodings:
        ways.append(f"--skip {','.join(models)} to run the rest")
    if any(model_of(step.stage) and svm_of(step.stage) is None for step in steps):
        ways.append("smaller models (fewer `bits` of a hash learner, a label tree instead of one-vs-rest)")
    ways += smaller_svm([step.stage for step in steps])
    if encodings:
        ways.append("smaller blocks at ingest (--block-rows)")
    return "; or ".join([*filter(None, ways), "--force"])


def _more_memory(need: int, memory: MemoryPlan) -> str:
    """What to do so that workers are large enough; "" when this machine has too little for one of ours."""
    if memory.tightest is not None:
        return _more_there(need, memory.tightest)
    fit = int(psutil.virtual_memory().total // need)
    asked = f'--memory "{-(-need // (1 << 20))} MiB"'
    if fit >= memory.workers:
        return asked
    return f"--scheduler local:{fit} {asked}" if fit else ""


def _more_there(need: int, room: WorkerRoom) -> str:
    """The same, of workers that others have started."""
    fits = f"workers with {human_bytes(need)} or more (`dask worker --memory-limit`) and {room.threads} thread"
    ways = [fits + ("s" if room.threads > 1 else "")]
    if room.pause < PAUSE:
        ways.append(f"{DASK_PAUSE}={PAUSE:g} where they are started, as deploy/dask.yaml has it")
    return ", with ".join(ways)


def _room_text(room: WorkerRoom) -> str:
    """2.0 GiB (worker w1, paused above 80 %)."""
    pause = f", paused above {room.pause:.0%}" if room.pause < PAUSE else ""
    threads = f", {room.threads} threads" if room.threads > 1 else ""
    return f"{human_bytes(room.limit)} (worker {room.name}{threads}{pause})"


def free_bytes(path: Path) -> int:
    """Free space of the file system that will hold `path`."""
    existing = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
    return shutil.disk_usage(existing).free
