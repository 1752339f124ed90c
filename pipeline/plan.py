"""The plan: which steps a config has, which are reused, why the others run, and what they need. Writes nothing."""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.config import OWN_ROWS, LoadedConfig
from pipeline.dataset import Dataset
from pipeline.errors import OtherRun
from pipeline.profile import Profile
from pipeline.stage import Estimate, Facts, Stage, fingerprints
from pipeline.store import DONE, MANIFEST, Done, RunFolder, RunFormat, read_sealed
from tasks.errors import LabelgroveError, ResourceError
from tasks.io import nonzeros_of

IDLE_WORKER_BYTES = 320 << 20  # a worker process with everything imported and compiled, measured
CACHE_SHARE, MOST_CACHE, LEAST_CACHE = 4, 1 << 30, 16 << 20  # rows kept: a quarter of what a worker may hold
SAFE_SHARE = 0.9  # of a worker's limit: Dask pauses and kills near it


class MemoryTooSmall(ResourceError):
    """A task would not fit into a worker."""


class DiskTooSmall(ResourceError):
    """The run would not fit onto the disk."""


@dataclass(frozen=True)
class PlannedStep:
    """One step: reused (its DONE.json says so) or to be run, with the reason."""

    stage: Stage
    fingerprint: str
    done: Done | None
    reason: str
    estimate: Estimate
    damage: tuple[LabelgroveError, ...] = ()
    anew: bool = False  # what its folder holds is of no use

    @property
    def name(self) -> str:
        return self.stage.name

    @property
    def runs(self) -> bool:
        return self.done is None


@dataclass(frozen=True)
class Plan:
    """All steps of a config in order, and what the run needs."""

    config: LoadedConfig
    dataset: Dataset
    folder: RunFolder
    steps: tuple[PlannedStep, ...]
    findings: tuple[str, ...] = field(default=())

    @property
    def to_run(self) -> list[PlannedStep]:
        return [step for step in self.steps if step.runs]

    @property
    def disk_bytes(self) -> int:
        return sum(step.estimate.disk_bytes for step in self.to_run)

    @property
    def task_bytes(self) -> int:
        """The largest task of the steps that run."""
        return max((step.estimate.task_bytes for step in self.to_run), default=0)

    def wanted(self) -> list[tuple[str, str]]:
        return [(step.name, step.fingerprint) for step in self.steps]


@dataclass(frozen=True)
class MemoryPlan:
    """How a worker's memory is shared out. All bytes; `peak` is the bound that `plan` prints."""

    limit: int  # 0 when the workers are not ours to limit
    cache: int
    task: int
    threads: int

    @property
    def peak(self) -> int:
        return IDLE_WORKER_BYTES + self.cache + self.threads * self.task


def memory_plan(plan: Plan, profile: Profile) -> MemoryPlan:
    """The cache gives way to the tasks. `peak` may come out above the limit: `check_resources` refuses then."""
    from pipeline.profile import parse_bytes

    limit = profile.memory_bytes() if profile.local_workers else 0
    need = profile.threads * plan.task_bytes
    if profile.cache:
        cache = parse_bytes(profile.cache, "cache")
    else:
        room = int(SAFE_SHARE * limit) - IDLE_WORKER_BYTES - need if limit else MOST_CACHE
        cache = max(LEAST_CACHE, min(MOST_CACHE, limit // CACHE_SHARE if limit else MOST_CACHE, room))
    return MemoryPlan(limit, cache, plan.task_bytes, profile.threads)


def check_resources(plan: Plan, memory: MemoryPlan) -> None:
    """Raises MemoryTooSmall or DiskTooSmall before anything runs."""
    if memory.limit and not memory_fits(memory):
        largest = max(plan.to_run, key=lambda step: step.estimate.task_bytes)
        raise MemoryTooSmall(
            f"a worker would need {human_bytes(memory.peak)}, it has {human_bytes(memory.limit)}",
            where=largest.name,
            hint="fewer workers (--scheduler local:1) or a larger --memory; else leave this step's model out (features "
            "x classes numbers must fit into a worker; heshing and flat-hash take what `bits` says); or --force",
        )
    free = free_bytes(plan.folder.path)
    if plan.disk_bytes > free:
        raise DiskTooSmall(
            f"the run needs about {human_bytes(plan.disk_bytes)}, {human_bytes(free)} are free",
            where=str(plan.folder.path),
            hint="free some space, choose another --runs folder, or --force",
        )


def memory_fits(memory: MemoryPlan) -> bool:
    return memory.peak <= memory.limit


def free_bytes(path: Path) -> int:
    """Free space of the file system that will hold `path`."""
    existing = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
    return shutil.disk_usage(existing).free


def make_plan(config: LoadedConfig, runs: Path | None = None) -> Plan:
    """The plan of a config against what its run folder holds.

    Raises the errors of opening the dataset, of parameters that the data do not allow, and OtherRun.
    """
    dataset, folder, stages = _opened(config, runs)
    prints = fingerprints(stages, dataset.digest, config.run.seed)
    facts = facts_of(config, dataset)
    steps: list[PlannedStep] = []
    changed: set[str] = set()
    reused: dict[str, Done] = {}
    for stage in stages:
        step = still_wanted(_planned(stage, prints, folder, facts, changed), reused)
        if step.done is None:
            changed.add(stage.name)
        else:
            reused[stage.name] = step.done
        steps.append(step)
    return Plan(config, dataset, folder, tuple(steps))


def run_folder_of(config: LoadedConfig, runs: Path | None = None) -> RunFolder:
    """The folder of a config's run; raises as `make_plan` does, and reads no step."""
    return _opened(config, runs)[1]


def _opened(config: LoadedConfig, runs: Path | None) -> tuple[Dataset, RunFolder, list[Stage]]:
    from pipeline.systems import stages_of

    dataset = Dataset.open(config.dataset_path)
    folder = RunFolder(run_path(config, runs))
    check_identity(folder, config, dataset)
    return dataset, folder, stages_of(config.run, dataset)


def still_wanted(step: PlannedStep, done: Mapping[str, Done]) -> PlannedStep:
    """The step, to be run anew when a step that it was made from has come out otherwise since.

    done  the finished steps so far; those that are still to run are not among them
    """
    if step.done is None:
        return step
    made_from = step.done.inputs
    other = [name for name in step.stage.inputs if name in done and made_from.get(name) != done[name].digest]
    if not other:
        return step
    return replace(step, done=None, reason=f"{', '.join(other)} came out otherwise than before", anew=True)


def run_path(config: LoadedConfig, runs: Path | None) -> Path:
    """runs/NAME beside the config file, or below the folder that the command line gives."""
    return ((runs if runs is not None else config.folder / "runs") / config.run.name).absolute()


def identity(config: LoadedConfig, dataset: Dataset) -> dict[str, Any]:
    """What a run folder belongs to: with another of these it is another run."""
    return {"dataset": dataset.digest, "seed": config.run.seed, "block_rows": dataset.block_rows}


def check_identity(folder: RunFolder, config: LoadedConfig, dataset: Dataset) -> None:
    """Raises OtherRun when the folder was made from another dataset, seed or block shape; RunFormat when newer."""
    hint = "remove this file: finished steps carry digests of their own and are kept"
    try:
        manifest = read_sealed(folder / MANIFEST, hint)
    except FileNotFoundError:
        return
    if not isinstance(manifest.get("identity"), dict):
        raise RunFormat("it is no manifest of ours", str(folder / MANIFEST), hint)
    mine = identity(config, dataset)
    differences = [
        f"{key}: {manifest['identity'].get(key)!r} in the folder, {mine[key]!r} now"
        for key in mine
        if manifest["identity"].get(key) != mine[key]
    ]
    if differences:
        raise OtherRun(
            "the run folder belongs to other data:\n  " + "\n  ".join(differences),
            str(folder.path),
            "give the run another `name`, another --runs folder, or remove this one",
        )


def facts_of(config: LoadedConfig, dataset: Dataset) -> Facts:
    """Bytes of the largest block in each encoding, before any of them is made."""
    width = dataset.n_features
    if dataset.body == "csr":
        most = max(nonzeros_of(dataset.rows_store), default=0)
        own, floats = 8 * most + 8 * dataset.block_rows, math.ceil(most / max(1, dataset.block_rows))
    else:
        own, floats = np.dtype(dataset.dtype).itemsize * width * dataset.block_rows, width
    block_bytes, row_floats = {OWN_ROWS: own}, {OWN_ROWS: floats}
    for encoding in config.run.encode:
        block_bytes[encoding.name] = dataset.block_rows * (encoding.subquantizers or width)
        row_floats[encoding.name] = width
    return Facts(dataset, block_bytes, row_floats)


def _planned(stage: Stage, prints: dict[str, str], folder: RunFolder, facts: Facts, changed: set[str]) -> PlannedStep:
    mark = prints[stage.name]
    done = folder.done(stage.name, mark)
    estimate = stage.estimate(facts)
    if done is None:
        return PlannedStep(stage, mark, None, why_not(stage, mark, folder, changed), estimate)
    damage = folder.damage(done)
    if damage:
        reason = f"damaged: {damage[0].what}" + (f" and {len(damage) - 1} more" if len(damage) > 1 else "")
        return PlannedStep(stage, mark, None, reason, estimate, tuple(damage), anew=True)
    if lost := stage.outputs_hold(folder.path, done):
        return PlannedStep(stage, mark, None, lost, estimate)
    return PlannedStep(stage, mark, done, "finished, digests hold", estimate)


def why_not(stage: Stage, mark: str, folder: RunFolder, changed: set[str]) -> str:
    """Why no finished step can be reused, in words."""
    if folder.step_folder(stage.name, mark).is_dir():
        return "unfinished: continues"
    earlier = earlier_steps(stage.name, folder)
    if not earlier:
        return "new"
    last = earlier[-1]
    reasons = []
    if last.code != stage.version:
        reasons.append(f"code version {last.code} -> {stage.version}")
    reasons += differences(last.settings, stage.settings())
    reasons += [f"{name} changes" for name in stage.inputs if name in changed or name not in last.inputs]
    return "; ".join(reasons) or "its inputs were made from other settings"


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """key: old -> new for every setting that differs."""
    missing = "not set"
    return [
        f"{key}: {old.get(key, missing)} -> {new.get(key, missing)}"
        for key in sorted(old.keys() | new.keys())
        if old.get(key, missing) != new.get(key, missing)
    ]


def earlier_steps(name: str, folder: RunFolder) -> list[Done]:
    """Finished steps of this name in the folder, oldest first."""
    found = []
    for path in (folder / "steps").glob(f"{name}-*/{DONE}"):
        try:
            values = read_sealed(path)
            done = folder.done(name, str(values["fingerprint"]))
        except (OSError, RunFormat, KeyError, TypeError):
            continue
        if done is not None:
            found.append((path.stat().st_mtime_ns, done))
    return [done for _, done in sorted(found, key=lambda pair: pair[0])]


def human_bytes(n: float) -> str:
    """1.5 GiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(n) < 1024 or unit == "GiB":
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.1f} {unit}"
        n /= 1024
    raise AssertionError("unreachable")
