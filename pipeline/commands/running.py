"""run, plan, check, clean."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pipeline.byte_sizes import human_bytes
from pipeline.choice import EVERYTHING, Choice, without
from pipeline.config import LoadedConfig, RunConfig, dataset_of_text, load_config
from pipeline.config_errors import ConfigError
from pipeline.connection.profile import Profile
from pipeline.dataset import Dataset
from pipeline.fields import fit
from pipeline.histograms import readers_of, refuse_negative
from pipeline.last_resort import put, put_line, say, say_line
from pipeline.lock import locked
from pipeline.notes import learner_notes, needed_note, note_line
from pipeline.plan import IDLE_WORKER_BYTES, MemoryPlan, Plan, facts_of, make_plan, memory_plan
from pipeline.progress import view_for_terminal
from pipeline.published import stale_models
from pipeline.report.numbers import seconds
from pipeline.resources import free_bytes, refusals, worker_bytes
from pipeline.runner import RunResult, run_config
from pipeline.stage import Facts
from pipeline.stop_request import Stop
from pipeline.store import MANIFEST
from pipeline.systems import stages_of
from pipeline.watching.performance import KEPT, MOST_BYTES, mark_again, reports
from tasks.errors import LabelgroveError, ResourceError, UsageError, one_line
from tasks.places import is_remote


class DatasetMissing(UsageError):
    """Nothing stands where the config says that the dataset is."""


def load(config: Path, overrides: Sequence[str]) -> LoadedConfig:
    """The config, once its dataset is known to be there. Raises ConfigError, DatasetMissing, UsageError."""
    _refuse_kept(config)
    loaded = load_config(config, tuple(overrides))
    check_dataset_is_there(loaded.dataset_path)
    return loaded


def _refuse_kept(config: Path) -> None:
    """A run folder and its copy of the config are results: a run of them would lie within them."""
    if is_remote(config):
        hint = "copy it here; its data.path and --runs may be URLs"
        raise UsageError("a config is a file of this machine", str(config), hint)
    folder = config if config.is_dir() else config.absolute().parent
    if (folder / MANIFEST).is_file():
        hint = "give the config that it was made from, or copy config.toml (and the -s at its end) to another folder"
        raise UsageError("this is a run folder, or in one", str(config), hint)


def check_dataset_is_there(path: Path) -> None:
    if not path.exists():
        hint = (
            "`labelgrove ingest SOURCE DATASET` makes one; data.path of the config is relative to the config's folder"
        )
        raise DatasetMissing("there is no dataset", str(path), hint)


def config_of(config: Path, data: Path | None) -> Path:
    """The config itself or, for the name of a preset and a dataset, the preset's, written here. Raises UsageError."""
    if data is None and config.exists():
        return config
    from pipeline.preset import PRESETS, write_preset

    if data is None:
        if str(config) in PRESETS:
            raise UsageError("this is a preset: which dataset?", str(config), f"labelgrove run {config} --data DATASET")
        return config
    check_dataset_is_there(data)
    path = write_preset(str(config), data, Path())
    say_line(f"{path}: {PRESETS[str(config)]}")
    return path


def choice_of(only: Sequence[str] | None, skip: Sequence[str] | None) -> Choice:
    """The models that the command line names."""
    return Choice.of(only, skip)


def run(
    config: Path,
    profile: Profile,
    *,
    runs: Path | None = None,
    overrides: Sequence[str] = (),
    force: bool = False,
    choice: Choice = EVERYTHING,
) -> RunResult:
    """Run or continue a config; prints the table to stdout and where everything is to stderr."""
    return run_loaded(load(config, overrides), profile, runs=runs, force=force, choice=choice)


def run_loaded(
    loaded: LoadedConfig,
    profile: Profile,
    *,
    runs: Path | None = None,
    force: bool = False,
    choice: Choice = EVERYTHING,
    stop: Stop | None = None,
    began: Callable[[], None] | None = None,
) -> RunResult:
    """The same of a config that is read already; `began` is called when everything is checked and work begins."""
    from pipeline.commands.looking import summary_of_folder
    from pipeline.report.table import print_table

    stop = stop or Stop()
    with view_for_terminal() as view:
        view.began = began or view.began
        try:
            result = run_config(loaded, profile, runs, force, view, choice, stop)
        except KeyboardInterrupt:
            if stop.reason:
                view.say(stop.reason)
            raise
    _say_how_long(result)
    if loaded.run.train or loaded.run.retrieve or loaded.run.encode:
        print_table(summary_of_folder(result.folder))
    say_line(f"run folder: {result.folder.path}")
    if (result.folder / "report.html").is_file():
        say_line(f"report: {result.folder / 'report.html'}")
    _warn_of_peaks(result)
    return result


def _say_how_long(result: RunResult) -> None:
    ran, steps = len(result.plan.to_run), len(result.plan.steps)
    say_line(f"total: {ran} of {steps} steps run, {steps - ran} reused, in {seconds(result.seconds)}")


def _warn_of_peaks(result: RunResult) -> None:
    ran = {step.name for step in result.plan.to_run}
    peak = max((done.measured.get("peak_bytes") or 0 for name, done in result.done.items() if name in ran), default=0)
    if peak > result.memory.peak:
        planned = human_bytes(result.memory.peak)
        say_line(f"warning: a worker held {human_bytes(peak)}, the plan said at most {planned}")


def plan(
    config: Path,
    profile: Profile,
    *,
    runs: Path | None = None,
    overrides: Sequence[str] = (),
    as_json: bool = False,
    force: bool = False,
    choice: Choice = EVERYTHING,
) -> Plan:
    """Print what `run` would do; raises what `run` would raise before it begins, unless forced."""
    made = make_plan(load(config, overrides), runs, choice)
    memory = memory_plan(made, profile)
    found = refusals(made, memory)
    foreign = not (profile.is_serial or profile.local_workers)
    if as_json:
        sys.stdout.write(json.dumps(plan_json(made, memory, found), indent=1) + "\n")
    else:
        for line in plan_text(made, memory, foreign).removesuffix("\n").split("\n"):
            put_line(line)
    sys.stdout.flush()
    if force and found:
        for refusal in found:
            say(f"forced: {refusal}")
    elif found:
        raise found[0]
    return made


def plan_json(made: Plan, memory: MemoryPlan, found: Sequence[ResourceError]) -> dict[str, Any]:
    """The plan as plain values."""
    return {
        "run": str(made.folder.path),
        "steps": [
            {
                "step": step.name,
                "action": "run" if step.runs else "reuse",
                "reason": step.reason,
                "fingerprint": step.fingerprint,
                "tasks": step.estimate.tasks,
                "task_bytes": step.estimate.task_bytes,
                "worker_bytes": worker_bytes(step, memory),
                "driver_bytes": step.estimate.driver_bytes,
                "disk_bytes": step.estimate.disk_bytes,
            }
            for step in made.steps
        ],
        "worker_peak_bytes": memory.peak,
        "worker_limit_bytes": memory.limit,
        "driver_peak_bytes": made.driver_bytes,
        "cache_bytes": memory.cache,
        "disk_bytes": made.disk_bytes,
        "disk_begun_bytes": made.begun_bytes,
        "disk_free_bytes": None if is_remote(made.folder.path) else free_bytes(made.folder.path),
        "left_out": list(made.asked.left_out),
        "refusals": [finding_json(refusal) for refusal in found],
    }


def finding_json(error: LabelgroveError) -> dict[str, str]:
    return {"code": error.code, "what": error.what, "where": error.where, "hint": error.hint}


def plan_text(made: Plan, memory: MemoryPlan, foreign: bool) -> str:
    """The plan for people; foreign: workers are not ours, and only `run` will know their memory."""
    wide = max((len(step.name) for step in made.steps), default=0)
    lines = [one_line(f"run folder  {made.folder.path}"), one_line(f"dataset     {made.dataset.path}"), ""]
    for step in made.steps:
        action = "run  " if step.runs else "reuse"
        tasks, each = step.estimate.tasks, human_bytes(step.estimate.task_bytes)
        need = f"about {tasks} task{'s' if tasks > 1 else ''}, {each} each" if tasks else f"in this process, {each}"
        lines.append(fit(f"  {action}  {step.name:<{wide}}  {step.reason}{f'  [{need}]' if step.runs else ''}", 9))
    lines += [f"  left out  {name}" for name in made.asked.left_out]
    notes = [*learner_notes(made.config.run.train, made.dataset), *needed_note(made.asked.needed)]
    lines += [fit(note_line(note)) for note in notes]
    limit = f" of {human_bytes(memory.limit)}" if memory.limit else ""
    limit = " (`run` looks what its workers have)" if foreign else limit
    if not made.to_run:
        return "\n".join([*lines, "", "everything is finished: nothing to run"]) + "\n"
    begun = made.begun_bytes
    there = f", of which {human_bytes(begun)} are there already" if begun else ""
    dask = foreign or memory.workers
    beside = f", and {KEPT} reports of Dask of at most {human_bytes(MOST_BYTES)} each" if dask else ""
    needs = [
        f"peak memory per worker  at most {human_bytes(memory.peak)}{limit}: process {human_bytes(IDLE_WORKER_BYTES)}, "
        f"cached rows {human_bytes(memory.cache)}, {memory.threads} x task {human_bytes(memory.task)}",
        *([f"memory of this process  at most {human_bytes(made.driver_bytes)}"] if made.driver_bytes else []),
        f"disk  at most {human_bytes(made.disk_bytes)}{there}{beside}, {_room_text(made.folder.path)}",
    ]
    lines += ["", *map(fit, needs)]
    return "\n".join(lines) + "\n"


def _room_text(folder: Path) -> str:
    """What is known of the room for a run folder."""
    if is_remote(folder):
        return "in an object store: its room is not known"
    return f"{human_bytes(free_bytes(folder))} free"


def check(
    config: Path,
    profile: Profile,
    *,
    runs: Path | None = None,
    overrides: Sequence[str] = (),
    as_json: bool = False,
    choice: Choice = EVERYTHING,
) -> list[str]:
    """Print all findings; raises the first error after all are printed."""
    errors: list[LabelgroveError] = []
    notes: list[str] = []
    try:
        loaded: LoadedConfig | None = load_config(config, tuple(overrides))
    except ConfigError as error:
        errors.append(error)
        loaded = None
    place = loaded.dataset_path if loaded else dataset_of_text(config, tuple(overrides))
    dataset = _check_dataset(place, errors, notes) if place else None
    if loaded is not None and dataset is not None:
        _check_run(loaded, dataset, profile, runs, choice, errors)
        notes += [note_line(note) for note in learner_notes(loaded.run.train, dataset)]
    unique = {str(error): error for error in errors}
    if as_json:
        listed = [finding_json(error) for error in unique.values()]
        sys.stdout.write(json.dumps({"errors": listed, "notes": notes}, indent=1) + "\n")
    else:
        for text in [*unique, *map(fit, notes)]:
            put(text)
        found = f"{len(unique):,} finding{'s' * (len(unique) > 1)}: `run` would refuse this\n"
        sys.stdout.write(found if unique else "nothing stands in the way of a run\n")
    if unique:
        raise SystemExit(next(iter(unique.values())).exit_code)
    return notes


def _check_run(
    loaded: LoadedConfig,
    dataset: Dataset,
    profile: Profile,
    runs: Path | None,
    choice: Choice,
    errors: list[LabelgroveError],
) -> None:
    """What is wrong with each encoding and model, with the rows that they take, and with the room that they need."""
    chosen: list[str] | None = _try(errors, lambda: choice.chosen(loaded.run))
    if chosen is None:
        return
    run = without(loaded.run, {learner.name for learner in loaded.run.train} - set(chosen))
    facts: Facts | None = _try(errors, lambda: facts_of(loaded, run, dataset))
    if facts is None:
        return
    found = [error for part in _parts(run) for error in _refusals(part, facts)]
    errors += found
    _try(errors, lambda: refuse_negative(dataset, [*readers_of(run)]))
    made: Plan | None = None if found else _try(errors, lambda: make_plan(loaded, runs, choice))
    if made is not None:
        errors += refusals(made, memory_plan(made, profile))


def _check_dataset(place: Path, errors: list[LabelgroveError], notes: list[str]) -> Dataset | None:
    """The dataset when it can be opened; everything that is wrong with it is added to the errors."""
    dataset: Dataset | None = _try(errors, lambda: _open_dataset(place))
    if dataset is not None:
        notes += [note_line(note) for note in dataset.notes if note.level != "info"]  # of which ingest has told
        _try(errors, lambda: errors.extend(dataset.problems()))
    return dataset


def _open_dataset(place: Path) -> Dataset:
    check_dataset_is_there(place)
    return Dataset.open(place)


def _parts(run: RunConfig) -> Iterator[RunConfig]:
    """The config with one encoding or one model at a time, so that every one has its say."""
    for encoding in run.encode:
        yield run.model_copy(update={"encode": (encoding,), "train": (), "retrieve": ()})
    for learner in run.train:
        yield run.model_copy(update={"encode": (), "train": (learner,), "retrieve": ()})


def _refusals(part: RunConfig, facts: Facts) -> list[LabelgroveError]:
    errors: list[LabelgroveError] = []
    _try(errors, lambda: stages_of(part, facts))
    return errors


def _try(errors: list[LabelgroveError], work: Callable[[], Any]) -> Any:
    try:
        return work()
    except LabelgroveError as error:
        errors.append(error)
        return None


def clean(config: Path, *, runs: Path | None = None, overrides: Sequence[str] = (), really: bool = False) -> list[Path]:
    """Remove step folders that the config does not need, published models that it does not have and performance reports
    but the newest, or list them."""
    made = make_plan(load(config, overrides), runs)
    stale = [*made.folder.stale_steps(made.wanted()), *_published_stale(made), *reports(made.folder)[:-1]]
    for path in stale:
        put_line(str(path))
    if really and stale:
        with locked(made.folder.path):
            for path in stale:
                made.folder.discard_path(path)
            mark_again(made.folder)
    what = "removed" if really else "not needed; --yes removes them"
    say_line(f"{len(stale)} step(s), published model(s) and performance report(s) {what}")
    return stale


def _published_stale(made: Plan) -> list[Path]:
    """Models and predictions of learners that the config has no more."""
    names = {learner.name for learner in made.config.run.train}
    gone = [name for name in stale_models(made.folder) if name not in names]
    paths = [path for name in gone for path in (f"models/{name}", f"predictions/{name}.parquet")]
    return [made.folder / path for path in paths if (made.folder / path).exists()]
