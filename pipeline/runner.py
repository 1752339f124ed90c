"""Run a plan: skip what is finished, do the rest, record everything, stop well."""

from __future__ import annotations

import contextlib
import shlex
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pipeline.choice import EVERYTHING, Choice
from pipeline.config import LoadedConfig
from pipeline.connection.cluster import GONE, HELD_UP, ask_workers, connected, dashboard_text, worker_rooms
from pipeline.connection.profile import Profile
from pipeline.connection.shared_places import check_shared
from pipeline.connection.tls import security_of
from pipeline.data_check import check_data
from pipeline.errors import RunLocked, TaskKilled
from pipeline.histograms import readers_of, refuse_negative
from pipeline.last_resort import exit_code_of
from pipeline.lock import holder_first, locked, refuse_lost
from pipeline.notes import learner_notes, needed_note, note_line
from pipeline.plan import (
    MemoryPlan,
    Plan,
    PlannedStep,
    identity,
    make_plan,
    memory_plan,
    run_folder_of,
    still_wanted,
)
from pipeline.pool import DaskPool, Progress, SerialPool, silent
from pipeline.resources import check_resources, check_worker_memory, killed_in
from pipeline.run_path import run_path
from pipeline.stage import Asked, Work
from pipeline.stop_request import Stop, stoppable
from pipeline.store import (
    FORMAT,
    MANIFEST,
    VERSION,
    Done,
    RunFolder,
    file_digest,
    plain,
    read_manifest,
    write_sealed,
    write_text,
)
from pipeline.task_table import TASKS, append_receipts, receipts_hold
from pipeline.watching.performance import FOLDER as PERFORMANCE
from pipeline.watching.performance import forget_damaged, performance_kept, report_marks
from pipeline.watching.telling import IO_RETRIES, NOBODY, Audience, telling
from tasks.calls import Receipt
from tasks.errors import ResourceError
from tasks.files import disk_room
from tasks.places import is_remote, make_own_folder, refuse_per_process, remove_at, told_below
from tasks.versions import one_look
from tasks.worker import WorkerSettings, configure_worker, versions

WORKER_NEWS = {
    GONE: "is gone: what it had in hand begins again elsewhere",
    HELD_UP: "is paused for lack of memory: it is asked to give back what it holds between tasks",
}


class View:
    """What a run tells whoever watches; the command line has its own."""

    progress: Progress = staticmethod(silent)
    began: Callable[[], None] = staticmethod(lambda: None)  # everything is checked, the folder is ours: work begins

    def say(self, text: str) -> None:
        """One line of news."""

    def waits(self, text: str) -> None:
        """What is waited for before any step can begin."""
        self.say(text)

    def step(self, step: PlannedStep, number: int, count: int) -> None:
        """A step begins, or is reused."""

    def finished(self, step: PlannedStep, seconds: float) -> None:
        """A step that ran has ended."""


@dataclass(frozen=True)
class RunResult:
    """A finished run: its folder and its steps."""

    folder: RunFolder
    plan: Plan
    done: dict[str, Done]
    memory: MemoryPlan
    seconds: float


def run_config(
    config: LoadedConfig,
    profile: Profile,
    runs: Path | None = None,
    force: bool = False,
    view: View | None = None,
    choice: Choice = EVERYTHING,
    stop: Stop | None = None,
) -> RunResult:
    """Bring the run folder of a config to what the config says.

    choice  models to train; the others stand in the results if they are finished
    stop    asked by other threads to end the run; `labelgrove cancel` reaches every run of a main thread

    Raises the errors of `make_plan`, RunLocked, MemoryTooSmall, DiskTooSmall, what stages raise, ClusterLost; whatever
    happens, finished steps stay finished and the next call continues.
    """
    view, started, stop = view or View(), time.perf_counter(), stop or Stop()
    with holder_first(run_path(config.run.name, config.folder, runs)):
        folder = run_folder_of(config, runs, choice)  # refuses what cannot be run before anything is locked or written
    security_of(profile)
    if not profile.is_serial:
        refuse_per_process(config.dataset_path, folder.path)
    with locked(folder.path, stop.ask) as message, stoppable(folder, stop):
        if message:
            view.say(message)
        folder.sweep()
        plan = make_plan(config, runs, choice)
        memory = memory_plan(plan, profile)
        for note in [*learner_notes(config.run.train, plan.dataset), *needed_note(plan.asked.needed)]:
            view.say(note_line(note))
        if not force:
            check_resources(plan, memory)
        _begin(plan, stop)
        view.began()
        with _recorded(folder, stop):
            done, memory = _run_steps(plan, profile, memory, view, force)
            refuse_lost(folder.path)
        if not receipts_hold(folder / TASKS):  # nothing ran that would have begun it anew
            append_receipts(folder / TASKS, "", "", ())
        folder.sweep()
        folder.forget_solved()
        _write_manifest(plan, done, receipts=file_digest(folder / TASKS))
    return RunResult(folder, plan, done, memory, time.perf_counter() - started)


def _begin(plan: Plan, stop: Stop) -> None:
    """The folder says from now on what it belongs to and what it was asked for."""
    folder, config = plan.folder, plan.config
    with contextlib.suppress(FileNotFoundError):
        before = read_manifest(folder)
        forget_damaged(folder, before)
        if not (folder / TASKS).is_file() or before.get(TASKS) not in (None, file_digest(folder / TASKS)):
            remove_at(folder / TASKS)  # begun anew: what it has measured cannot be measured again
    write_text(folder / "config.toml", kept_text(config, plan.asked))
    _write_manifest(plan, {step.name: step.done for step in plan.steps if step.done is not None})
    folder.event(
        "run",
        steps=[step.name for step in plan.to_run],
        overrides=list(config.overrides),
        left_out=list(plan.asked.left_out),
        **stop.said(),
    )


def kept_text(config: LoadedConfig, asked: Asked) -> str:
    """The config as the run folder keeps it: the file, and what the command line put over it."""
    typed = map(shlex.quote, asked.overrides)
    said = "".join(f"# put over it on the command line: -s {override}\n" for override in typed)
    said += f"# left out on the command line: {', '.join(asked.left_out)}\n" if asked.left_out else ""
    return config.text + ("\n" if said and not config.text.endswith("\n") else "") + said


@contextlib.contextmanager
def _recorded(folder: RunFolder, stop: Stop) -> Iterator[None]:
    """How the run ended stands in events.jsonl, unless the process was killed."""
    try:
        yield
    except BaseException as error:
        # Of a full disk, the error that is on its way says more; a folder that is another's by now is left alone.
        with contextlib.suppress(OSError, ResourceError, RunLocked):
            refuse_lost(folder.path)
            if isinstance(error, KeyboardInterrupt):
                folder.event("interrupted", **stop.said())
            else:
                code = exit_code_of(error)
                folder.event("failed", error=type(error).__name__, code=code, message=str(error))
        raise
    folder.event("finished")


def _run_steps(
    plan: Plan, profile: Profile, memory: MemoryPlan, view: View, force: bool
) -> tuple[dict[str, Done], MemoryPlan]:
    """The finished steps, and how memory was shared out once the workers were known."""
    done: dict[str, Done] = {}

    def fitted(client: Any) -> MemoryPlan:
        nonlocal memory
        memory = memory_plan(plan, profile, worker_rooms(client, _first_answer(profile)))
        if not force:
            check_worker_memory(plan, memory)
        return memory

    with contextlib.ExitStack() as stack:
        pool: SerialPool | DaskPool | None = None
        audience = NOBODY
        for number, step in enumerate(plan.steps, 1):
            step = still_wanted(step, done)
            if pool is None and step.done is None:  # before the step begins: workers may have to be waited for
                pool = stack.enter_context(open_pool(profile, memory, plan.folder, view, fitted))
                if isinstance(pool, DaskPool) and not profile.local_workers:
                    refuse_apart(plan, pool.client, profile)
                audience = stack.enter_context(_watched(plan, memory, pool))
                if any(other.stage.reads_rows for other in plan.to_run):
                    check_data(plan.dataset, pool)
                refuse_negative(plan.dataset, [*readers_of(plan.config.run)], pool, {one.name for one in plan.to_run})
            view.step(step, number, len(plan.steps))
            if step.done is not None:
                done[step.name] = step.done
                continue
            try:
                done[step.name] = _run_step(plan, step, pool, done, audience)
            except TaskKilled as error:
                raise killed_in(step, memory, error) from error
            view.finished(step, float(done[step.name].measured["seconds"]))
    return done, memory


def _first_answer(profile: Profile) -> float:
    """Seconds for a worker that has just come: it may have to import all that we are first."""
    return max(profile.timeouts.connect, profile.timeouts.scheduler_silent)


def refuse_apart(plan: Plan, client: Any, profile: Profile) -> None:
    """Raises PathNotShared unless all workers of somebody else's cluster see the dataset and may write the run."""

    def ask(function: Callable[..., Any], *values: Any) -> dict[str, Any]:
        return ask_workers(client, _first_answer(profile), function, *values)

    check_shared(ask, plan.folder / "scratch", {"the dataset": plan.config.dataset_path / "zarr.json"})


@contextlib.contextmanager
def open_pool(
    profile: Profile,
    memory: MemoryPlan,
    folder: RunFolder,
    view: View,
    fitted: Callable[[Any], MemoryPlan] | None = None,
) -> Iterator[Any]:
    """The pool that a profile asks for, closed at the end.

    fitted  fitted(client) is how the memory of somebody else's workers is shared out; default: as that of ours
    """
    settings = WorkerSettings(memory.cache)
    configure_worker(settings)  # what is computed in this process has the bits that it would have in a worker
    scratch = folder / "scratch"
    with contextlib.ExitStack() as stack:
        if is_remote(scratch) and (profile.is_serial or profile.local_workers):  # whoever reads it is on this machine
            scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="labelgrove-")))
        yield from _pool(profile, settings, scratch, folder, view, fitted)


def _pool(
    profile: Profile,
    settings: WorkerSettings,
    scratch: Path,
    folder: RunFolder,
    view: View,
    fitted: Callable[[Any], MemoryPlan] | None,
) -> Iterator[SerialPool | DaskPool]:
    """The pool with arrays for all tasks in `scratch`."""
    if profile.is_serial:
        yield SerialPool(scratch, settings, view.progress)
        return
    with connected(profile, view.say, view.waits, view.waits) as client:
        view.say(dashboard_text(client, profile))
        folder.event("cluster", dashboard=client.dashboard_link)

        if fitted is not None and not profile.local_workers:
            settings = WorkerSettings(fitted(client).cache)

        def news(kind: str, worker: str) -> None:
            view.say(f"worker {worker} {WORKER_NEWS[kind]}")
            folder.event(kind, worker=worker)

        yield DaskPool(client, scratch, settings, view.progress, profile.timeouts, news)


@contextlib.contextmanager
def _watched(plan: Plan, memory: MemoryPlan, pool: SerialPool | DaskPool) -> Iterator[Audience]:
    """On a Dask cluster: the page of the dashboard hears of the run, and Dask's own report of it is kept."""
    if not isinstance(pool, DaskPool):
        yield NOBODY
        return
    steps = [{"step": step.name, "reused": not step.runs, "reason": step.reason} for step in plan.steps]
    run = {"name": plan.config.run.name, "folder": str(plan.folder.path), "steps": steps}
    with (
        telling(pool.client, **run, planned_bytes=memory.peak, limit_bytes=memory.limit) as teller,
        performance_kept(pool.client, plan.folder, plan.config.run.name),
    ):
        shown = pool.progress

        def progress(name: str, done: int, total: int, rows: int, rows_total: int) -> None:
            shown(name, done, total, rows, rows_total)
            teller.progress(name, done, total, rows, rows_total)

        pool.progress = progress
        yield teller.audience()


def _run_step(plan: Plan, step: PlannedStep, pool: Any, done: dict[str, Done], audience: Audience) -> Done:
    folder, stage = plan.folder, step.stage
    refuse_lost(folder.path)
    event = audience.beside(folder.event)
    if step.damage:
        event("damaged", step=step.name, found=[str(error) for error in step.damage])
    if step.anew:
        folder.discard(step.name, step.fingerprint)
    place = folder.step_folder(step.name, step.fingerprint)
    with disk_room(str(place), 0):
        make_own_folder(place)
    event("step", step=step.name, fingerprint=step.fingerprint, reason=step.reason)
    first = len(pool.receipts)
    started = time.perf_counter()
    inputs = {name: done[name] for name in stage.inputs}
    folders = {name: folder.step_folder(name, found.fingerprint) for name, found in inputs.items()}
    work = Work(place, pool, plan.dataset, plan.config.run.seed, inputs, folders, event, audience.latest)
    try:
        with one_look():
            made = stage.run(work)
    finally:
        receipts: list[Receipt] = pool.receipts[first:]
        with contextlib.suppress(OSError, ResourceError, RunLocked):
            refuse_lost(folder.path)
            append_receipts(folder / TASKS, step.name, step.fingerprint, receipts)
    finished = Done(
        step=step.name,
        fingerprint=step.fingerprint,
        code=stage.version,
        seed=plan.config.run.seed,
        digest=made.digest,
        inputs={name: found.digest for name, found in inputs.items()},
        settings=stage.settings(),
        files=folder.describe_files(step.name, step.fingerprint),
        results=plain(made.results),
        measured=plain({**summed(receipts), "seconds": time.perf_counter() - started, **made.measured}),
        told=told_below(place),
    )
    refuse_lost(folder.path)
    folder.finish(finished)
    if again := sum(receipt.io_retries for receipt in receipts):
        event("fault", step=step.name, kind=IO_RETRIES, count=again, said=f"{step.name}: {again} I/O retries")
    event("done", step=step.name, digest=made.digest, seconds=round(finished.measured["seconds"], 3))
    return finished


def summed(receipts: list[Receipt]) -> dict[str, Any]:
    """What the tasks of a step took: peak of any worker's resident memory, seconds inside tasks."""
    if not receipts:
        return {"tasks": 0, "task_seconds": 0.0}
    return {
        "tasks": len(receipts),
        "task_seconds": sum(receipt.seconds for receipt in receipts),
        "peak_bytes": max(receipt.peak for receipt in receipts),
        "task_peak_bytes": max(receipt.peak - receipt.resident_before for receipt in receipts),
    }


def _write_manifest(plan: Plan, done: dict[str, Done], receipts: str | None = None) -> None:
    """What the folder belongs to, and the steps that hold now. receipts: digest of a table that is complete."""
    folder, config = plan.folder, plan.config
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "name": config.run.name,
        "identity": identity(config, plan.dataset),
        "versions": versions(),
        "config": file_digest(folder / "config.toml"),
        "events": folder.events_mark(),
        PERFORMANCE: report_marks(folder),
        TASKS: receipts,
        "asked": plain({**asdict(plan.asked), "steps": [asdict(step) for step in plan.asked_steps().values()]}),
        "steps": {
            name: {"fingerprint": found.fingerprint, "digest": found.digest, "bytes": found.nbytes}
            for name, found in done.items()
        },
    }
    write_sealed(folder / MANIFEST, manifest)
