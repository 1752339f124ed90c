"""The plan: which steps a config has, which are reused, why the others run, and what they need. Writes nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pipeline.choice import EVERYTHING, Choice, model_of, without
from pipeline.config import LoadedConfig, RunConfig, TaxonomyLearner
from pipeline.connection.profile import HEAP_KEPT_BYTES, Profile
from pipeline.connection.worker_memory import WorkerRoom
from pipeline.dataset import Dataset
from pipeline.errors import OtherRun
from pipeline.lock import holder
from pipeline.published import REPORT, AskedStep, config_changes
from pipeline.reasons import why_not
from pipeline.rows_facts import rows_facts
from pipeline.run_path import run_path
from pipeline.stage import Asked, Estimate, Facts, Stage, fingerprints
from pipeline.store import SOLVED, Done, RunFolder, bytes_below, read_manifest
from pipeline.taxonomies import read_taxonomy_for
from tasks.errors import LabelgroveError

IDLE_WORKER_BYTES = (320 << 20) + HEAP_KEPT_BYTES  # a process with everything imported and compiled, measured
CACHE_SHARE, MOST_CACHE, LEAST_CACHE = 4, 1 << 30, 16 << 20  # rows kept: a quarter of what a worker may hold
SAFE_SHARE = 0.9  # of a worker's limit: Dask pauses and kills near it


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
    asked: Asked

    @property
    def to_run(self) -> list[PlannedStep]:
        return [step for step in self.steps if step.runs]

    @property
    def disk_bytes(self) -> int:
        """The most that the run holds at any moment."""
        kept, most = 0, 0
        for step in self.to_run:
            most = max(most, kept + step.estimate.most_disk_bytes)
            kept += step.estimate.disk_bytes
        return most

    @property
    def begun_bytes(self) -> int:
        """What an interrupted attempt has left of the steps that run, and continue: a part of `disk_bytes`."""
        begun = sum(
            min(bytes_below(self.folder.step_folder(step.name, step.fingerprint)), step.estimate.most_disk_bytes)
            for step in self.to_run
            if not step.anew
        )
        shared = bytes_below(self.folder / SOLVED) if self.to_run else 0
        return min(self.disk_bytes, begun + shared)

    @property
    def task_bytes(self) -> int:
        """The largest task of the steps that run."""
        return max((step.estimate.task_bytes for step in self.to_run), default=0)

    @property
    def driver_bytes(self) -> int:
        """The most that the main process holds for a step that runs and holds much in it; 0 when none does."""
        most = max((step.estimate.driver_bytes for step in self.to_run), default=0)
        return IDLE_WORKER_BYTES + most if most else 0

    def asked_steps(self) -> dict[str, AskedStep]:
        return {step.name: AskedStep(step.name, step.fingerprint, step.stage.settings()) for step in self.steps}

    def wanted(self) -> list[tuple[str, str]]:
        return [(step.name, step.fingerprint) for step in self.steps]


@dataclass(frozen=True)
class MemoryPlan:
    """How a worker's memory is shared out. All bytes; `peak` is the bound that `plan` prints."""

    limit: int  # 0 when the workers are not ours to limit
    cache: int
    task: int
    threads: int
    workers: int = 0
    cache_gives_way: bool = False  # to the tasks, down to LEAST_CACHE
    tightest: WorkerRoom | None = None  # of workers that others have started, that with least room

    @property
    def peak(self) -> int:
        return IDLE_WORKER_BYTES + self.cache + self.threads * self.task


def memory_plan(plan: Plan, profile: Profile, rooms: Sequence[WorkerRoom] = ()) -> MemoryPlan:
    """The cache gives way to the tasks. `peak` may come out above the limit: `check_resources` refuses then.

    rooms  of the workers of somebody else's cluster, as far as they are known: all must hold the plan
    """
    limited = [room for room in rooms if room.limit]
    tightest = min(limited, key=lambda room: room.usable - room.threads * plan.task_bytes, default=None)
    limit, threads = profile.memory_bytes() if profile.local_workers else 0, profile.threads
    if tightest is not None:
        limit, threads = tightest.usable, tightest.threads
    need = threads * plan.task_bytes
    if profile.cache:
        cache = profile.cache_bytes()
    else:
        room = int(SAFE_SHARE * limit) - IDLE_WORKER_BYTES - need if limit else MOST_CACHE
        cache = max(LEAST_CACHE, min(MOST_CACHE, limit // CACHE_SHARE if limit else MOST_CACHE, room))
    return MemoryPlan(limit, cache, plan.task_bytes, threads, profile.local_workers, not profile.cache, tightest)


def make_plan(config: LoadedConfig, runs: Path | None = None, choice: Choice = EVERYTHING) -> Plan:
    """The plan of a config against what its run folder holds.

    Models that `choice` leaves out stand in it when they are finished already, and are otherwise left out.

    Raises the errors of opening the dataset, of parameters that the data do not allow, OtherRun, and UsageError for a
    choice that the config does not offer.
    """
    dataset, folder = _opened(config, runs)
    chosen = choice.chosen(config.run)
    others = [learner.name for learner in config.run.train if learner.name not in chosen]
    unfinished = {name for name in others if not _is_finished(name, config, dataset, folder)}
    made = _planned_run(config, dataset, folder, choice, unfinished)
    damaged = {model_of(step.stage) for step in made.to_run} & set(others)
    return _planned_run(config, dataset, folder, choice, unfinished | damaged) if damaged else made


def run_folder_of(config: LoadedConfig, runs: Path | None = None, choice: Choice = EVERYTHING) -> RunFolder:
    """The folder of a config's run; raises as `make_plan` does, and reads no step."""
    dataset, folder = _opened(config, runs)
    chosen = choice.chosen(config.run)
    _stages(config, dataset, [learner.name for learner in config.run.train if learner.name not in chosen])
    return folder


def _opened(config: LoadedConfig, runs: Path | None) -> tuple[Dataset, RunFolder]:
    dataset = Dataset.open(config.dataset_path)
    folder = RunFolder(run_path(config.run.name, config.folder, runs))
    check_identity(folder, config, dataset)
    return dataset, folder


def _stages(
    config: LoadedConfig, dataset: Dataset, left_out: Collection[str], choice: Choice = EVERYTHING
) -> tuple[list[Stage], Facts]:
    """The stages of what is left of a config, and what they will work on."""
    from pipeline.systems import stages_of

    run = without(config.run, left_out)
    facts = facts_of(config, run, dataset)
    return stages_of(run, facts, asked_of(config, left_out, choice)), facts


def facts_of(config: LoadedConfig, run: RunConfig, dataset: Dataset) -> Facts:
    """What a part of a config will work on. Raises the errors of taxonomy files."""
    named = {learner.taxonomy: f"train {learner.name}" for learner in run.train if isinstance(learner, TaxonomyLearner)}
    named |= {run.evaluate.taxonomy: "[evaluate]"}
    taxonomies = {
        name: read_taxonomy_for(config.folder / name, dataset.classes, f"{config.path.name}, {section}, taxonomy")
        for name, section in named.items()
        if name is not None
    }
    return Facts(dataset, rows_facts(run, dataset), taxonomies)


def asked_of(config: LoadedConfig, left_out: Collection[str], choice: Choice) -> Asked:
    """What the command line has said beside the config."""
    names = tuple(learner.name for learner in config.run.train if learner.name in left_out)
    return Asked(config.overrides, names, tuple(choice.words()), tuple(choice.needed(config.run)))


def _planned_run(
    config: LoadedConfig, dataset: Dataset, folder: RunFolder, choice: Choice, left_out: Collection[str]
) -> Plan:
    stages, facts = _stages(config, dataset, left_out, choice)
    prints = fingerprints(stages, dataset.digest, config.run.seed)
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
    made = Plan(config, dataset, folder, tuple(steps), asked_of(config, left_out, choice))
    return replace(made, steps=tuple(_told(step, made) for step in steps))


def _told(step: PlannedStep, plan: Plan) -> PlannedStep:
    """Of results that stand in the folder but are of another config: which, instead of that their files differ."""
    if step.name != REPORT or not step.runs or plan.folder.done(step.name, step.fingerprint) is None:
        return step
    changes = config_changes(plan.folder, plan.asked_steps())
    return replace(step, reason=f"the results are of another config: {'; '.join(changes)}") if changes else step


def _is_finished(name: str, config: LoadedConfig, dataset: Dataset, folder: RunFolder) -> bool:
    """Whether all steps of a model are done, as far as their DONE.json tell."""
    others = [learner.name for learner in config.run.train if learner.name != name]
    try:
        stages, _ = _stages(config, dataset, others)
    except LabelgroveError:  # the data do not allow it: so it has never been trained on them
        return False
    prints = fingerprints(stages, dataset.digest, config.run.seed)
    reads = {stage.name: stage.inputs for stage in stages}
    wanted = [stage.name for stage in stages if model_of(stage)]
    for step in wanted:  # grows: what a step reads is wanted, too
        wanted += [read for read in reads[step] if read not in wanted]
    return all(folder.done(step, prints[step]) for step in wanted)


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


def identity(config: LoadedConfig, dataset: Dataset) -> dict[str, Any]:
    """What a run folder belongs to: with another of these it is another run."""
    return {"dataset": dataset.digest, "seed": config.run.seed, "block_rows": dataset.block_rows}


def check_identity(folder: RunFolder, config: LoadedConfig, dataset: Dataset) -> None:
    """Raises OtherRun when the folder was made from another dataset, seed or block shape; RunFormat when newer."""
    try:
        manifest = read_manifest(folder)
    except FileNotFoundError:
        return
    mine = identity(config, dataset)
    differences = [
        f"{key}: {manifest['identity'].get(key)!r} in the folder, {mine[key]!r} now"
        for key in mine
        if manifest["identity"].get(key) != mine[key]
    ]
    if differences:
        who = holder(folder.path)
        leave = f"; {who}" if who else ", or remove this one"
        raise OtherRun(
            f"{_whose(manifest['identity'], mine)}:\n  " + "\n  ".join(differences),
            str(folder.path),
            f"give the run another `name`{' or' if who else ','} another --runs folder{leave}",
        )


def _whose(its: Mapping[str, Any], mine: Mapping[str, Any]) -> str:
    """In words, in what a folder's run differs from this one. Other data have another digest, and say all of it."""
    if its.get("dataset") != mine["dataset"]:
        return "the run folder belongs to other data"
    words = {"seed": "seed", "block_rows": "block size"}
    others = " and ".join(f"another {word}" for key, word in words.items() if its.get(key) != mine[key])
    return f"the run folder was made with {others}"


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
