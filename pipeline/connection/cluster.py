"""Connecting to a cluster or starting one, and noticing when it is gone."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pipeline.connection.agreement import Part, ask_parts, bits_warning, facts_here, mismatch, watch_newcomers
from pipeline.connection.dask_settings import DASK_CONFIG, dask_timeouts
from pipeline.connection.own_workers import closing_well, own_workers
from pipeline.connection.profile import Profile
from pipeline.connection.reaching import RESUME, reach
from pipeline.connection.shared_places import OWNER, PathNotShared
from pipeline.connection.timeouts import Timeouts
from pipeline.connection.worker_memory import (
    DASK_PAUSE,
    PAUSE,
    Infos,
    WorkerRoom,
    free,
    has_running,
    is_stuck,
    paused,
    rooms,
)
from pipeline.errors import ClusterLost, TaskFailed, TaskKilled
from pipeline.mending import mend
from tasks.errors import LabelgroveError, is_starved

WORKER_POLL_SECONDS = 0.2  # while the first worker is waited for
NO_WORKER, SILENT = "no worker is left", "the scheduler does not answer"
PAUSED = "workers are paused for lack of memory"
MORE_MEMORY = f"give the workers more memory, or start them with {DASK_PAUSE}={PAUSE:g}; then run again"
GONE, HELD_UP = "worker_gone", "worker_paused"  # what is told of a worker


def ask_scheduler(client: Any, question: str, seconds: float, **arguments: Any) -> Any:
    """What the scheduler answers. Raises ClusterLost when it does not, within `seconds`."""
    try:
        asked = getattr(client.scheduler, question)  # no scheduler any more once the client is closed
        return client.sync(asked, **arguments, callback_timeout=seconds)
    except (OSError, TimeoutError, AttributeError, RuntimeError, ValueError) as error:  # ValueError: TLS cut short
        raise ClusterLost(f"the scheduler does not answer ({type(error).__name__})", hint=RESUME) from error


def ask_workers(client: Any, seconds: float, function: Callable[..., Any], *values: Any) -> dict[str, Any]:
    """Address -> function(*values) on every worker of now, or the exception there. Raises ClusterLost, as above."""
    try:
        return dict(client.sync(client._run, function, *values, on_error="return", callback_timeout=seconds))
    except (OSError, TimeoutError) as error:
        what = f"the cluster does not answer ({type(error).__name__})"
        raise ClusterLost(what, hint="type the same command again") from error


def worker_names(client: Any, seconds: float) -> list[str]:
    """Addresses of the workers alive now, in the order of their names (stable over restarts; addresses are not)."""
    names = named_workers(client, seconds)
    return sorted(names, key=lambda address: (names[address], address))


def worker_infos(client: Any, seconds: float) -> Infos:
    """What the scheduler says of the workers alive now. Raises ClusterLost, as above."""
    infos: Infos = ask_scheduler(client, "identity", seconds, n_workers=-1)["workers"]
    return infos


def named_workers(client: Any, seconds: float) -> dict[str, str]:
    """Address -> name of the workers alive now. Raises ClusterLost, as above."""
    return _names(worker_infos(client, seconds))


def _names(infos: Infos) -> dict[str, str]:
    return {address: str(info.get("name", address)) for address, info in infos.items()}


def worker_rooms(client: Any, seconds: float) -> list[WorkerRoom]:
    """What the workers alive now have for tasks. Raises ClusterLost, as above."""
    return rooms(worker_infos(client, seconds), lambda function: ask_workers(client, seconds, function))


def unheard(kind: str, worker: str) -> None:
    """Nobody is told."""


class ClusterWatch:
    """Waits for futures and turns a lost cluster, a killed task or a foreign exception into a named error."""

    def __init__(self, client: Any, timeouts: Timeouts, news: Callable[[str, str], object] = unheard) -> None:
        """news hears what has happened to which worker: GONE or HELD_UP, its name; in another thread."""
        self.client, self.timeouts, self._news = client, timeouts, news
        self._seen: dict[str, str] = {}  # address -> name of the workers of the last look
        self._paused: dict[str, str] = {}  # those that were ever seen paused
        self._guarded: dict[int, Held] = {}  # what each open guard holds, of any thread
        self._stopped = False

    @contextmanager
    def guard(self, name: str) -> Iterator[Held]:
        """Within it, futures passed through what is yielded are cancelled on any way out but the good one."""
        held = Held(name, lambda: self._stopped)
        if not self._guarded:
            self._stopped = False
        self._guarded[id(held)] = held
        stop = threading.Event()
        lost: list[str] = []
        watcher = threading.Thread(target=self._watch, args=(stop, lost, held), name=f"watch-{name}", daemon=True)
        watcher.start()
        try:
            yield held
        except BaseException as error:
            self._cancel(held.futures())
            why = self._why_lost(lost)
            ours = isinstance(error, LabelgroveError) and not isinstance(error, ClusterLost)
            if why and isinstance(error, Exception) and not ours:
                if why.startswith(PAUSED):
                    raise TaskKilled(why, where=name, hint=MORE_MEMORY) from error
                raise ClusterLost(why, where=name, hint=RESUME) from error
            raise
        finally:
            stop.set()
            self._guarded.pop(id(held)).clear()

    def cancel_all(self) -> None:
        """For a run that ends with an error: cancel what every thread waits for, and refuse what it submits next."""
        self._stopped = True
        with contextlib.suppress(Exception):  # the scheduler may be gone
            held = [future for held in list(self._guarded.values()) for future in held.futures()]
            self.client.cancel(held, force=True)

    def _why_lost(self, told: list[str]) -> str:
        """What the watch has told, or what the connection says; "" when the cluster is there."""
        if told:
            return told[0]
        return "" if self.client.status == "running" else "the connection to the scheduler is gone"

    def _cancel(self, futures: list[Any]) -> None:
        """Drop what waits; what runs is waited for shortly, since Dask cannot stop it and it writes whole chunks."""
        if self.client.status != "running":  # asked now, it would wait for a scheduler that may never come back
            return
        try:
            running = [future for future in futures if future.status == "pending"]
            self.client.cancel(running, force=True)
            mine = {future.key for future in running}  # others run beside us, or the driver of this very run
            limit = time.monotonic() + self.timeouts.stopping
            while time.monotonic() < limit and any(mine & set(keys) for keys in self._processing().values()):
                time.sleep(0.1)
        except Exception:  # the scheduler may be gone: nothing left to cancel then
            return

    def _processing(self) -> dict[str, Any]:
        """Address of every worker -> keys of the tasks it has."""
        return dict(ask_scheduler(self.client, "processing", self.timeouts.answer, workers=None))

    def _watch(self, stop: threading.Event, lost: list[str], held: Held) -> None:
        """Cancel everything once the scheduler has been silent, or there has been no worker, for too long."""
        bad_since: dict[str, float] = {}
        while not stop.wait(self.timeouts.poll):
            now = time.monotonic()
            trouble = self._trouble()
            if trouble != SILENT:
                mend(self.client, self.timeouts.answer)
            bad_since = {trouble: bad_since.get(trouble, now)} if trouble else {}
            waits = trouble in (NO_WORKER, PAUSED)
            limit = self.timeouts.no_workers if waits else self.timeouts.scheduler_silent
            if trouble and now - bad_since[trouble] > limit:
                lost.append(f"{trouble} for {limit:.0f} s")
                self._give_up(held.futures(), hang_up=not waits)
                return

    def _give_up(self, futures: list[Any], hang_up: bool) -> None:
        """Wake whoever waits for these futures, or for an answer of a scheduler that is frozen."""
        with contextlib.suppress(Exception):
            self.client.cancel(futures, force=True)
        if hang_up:
            with contextlib.suppress(Exception):
                self.client.sync(self.client.rpc.close, callback_timeout=self.timeouts.answer)

    def _trouble(self) -> str:
        if self.client.status in ("closed", "closing"):
            return "the connection to the scheduler is closed"
        if self.client.status != "running":
            return SILENT
        try:
            infos = worker_infos(self.client, self.timeouts.answer)
        except ClusterLost:
            return SILENT
        names, held_up = _names(infos), paused(infos)
        self._tell(GONE, self._seen, names)  # one that was started again has another address
        self._tell(HELD_UP, held_up, self._paused)
        self._seen, self._paused = names, self._paused | held_up
        if held_up:
            free(self.client, [*held_up], self.timeouts.answer)
        if not infos:
            return NO_WORKER
        return PAUSED if is_stuck(infos) else ""

    def _tell(self, kind: str, these: dict[str, str], but: dict[str, str]) -> None:
        for address in these.keys() - but.keys():
            with contextlib.suppress(Exception):  # telling must not end the watch
                self._news(kind, these[address])

    def workers(self) -> list[str]:
        """As `worker_names`, none when the scheduler does not answer: the watch decides when that is too long."""
        try:
            return worker_names(self.client, self.timeouts.answer)
        except ClusterLost:
            return []

    def stream(self, futures: list[Any], results: bool = True) -> FutureStream:
        """(future, result) as they end."""
        return FutureStream(self, futures, results)

    def result(self, future: Any) -> Any:
        """The result of one future, or a named error."""
        try:
            return future.result()
        except Exception as error:
            raise self.named(error, str(future.key)) from error

    def named(self, error: BaseException, key: str) -> BaseException:
        """The error a user sees for what a future raised."""
        from concurrent.futures import CancelledError as FuturesCancelledError

        from distributed import CancelledError, KilledWorker
        from distributed.comm.core import CommClosedError
        from distributed.scheduler import NoValidWorkerError, NoWorkerError

        if isinstance(error, LabelgroveError):
            return error
        if isinstance(error, KilledWorker):
            return TaskKilled(
                f"the workers that ran {key} died again and again",
                where=key,
                hint="most often memory: compare `labelgrove plan` with the workers' limit, then run again; "
                "finished work is kept",
            )
        if isinstance(error, NoValidWorkerError | NoWorkerError):
            return ClusterLost(f"no worker has come for {key}", where=key, hint=RESUME)
        if isinstance(error, CancelledError | FuturesCancelledError | CommClosedError | TimeoutError):
            return ClusterLost(f"the scheduler dropped {key} ({error})", where=key, hint=RESUME)
        if is_starved(error):
            return TaskKilled(f"out of memory in {key}", where=key, hint="give the workers more memory, then run again")
        if isinstance(error, PermissionError):
            return PathNotShared(f"a worker may not: {error}", key, OWNER)
        return TaskFailed(
            f"{type(error).__name__}: {error}", where=key, hint="this is a fault in labelgrove: report it"
        )


class Held:
    """Futures that a guard cancels on a bad way out, until they are dropped: the scheduler forgets those."""

    def __init__(self, name: str, stopped: Callable[[], bool]) -> None:
        self._name, self._stopped = name, stopped
        self._futures: dict[str, Any] = {}

    def __call__(self, futures: list[Any]) -> list[Any]:
        """Hold these; raises ClusterLost once the run is stopping."""
        self._futures |= {future.key: future for future in futures}
        if self._stopped():
            raise ClusterLost("the run is stopping", where=self._name, hint=RESUME)
        return futures

    def drop(self, future: Any) -> None:
        """Its result is here, or others need it: it is not held any more."""
        self._futures.pop(future.key, None)

    def futures(self) -> list[Any]:
        """Those held now."""
        return list(self._futures.values())

    def clear(self) -> None:
        """Hold nothing."""
        self._futures.clear()


class FutureStream:
    """Iterates (future, result) in order of completion; futures can be added while it runs."""

    def __init__(self, watch: ClusterWatch, futures: list[Any], results: bool) -> None:
        from distributed import as_completed

        self._watch, self._results = watch, results
        # With its loop named: a client of a cluster that is not ours is nobody's default client.
        self._completed = as_completed(futures, loop=watch.client.loop, with_results=False, raise_errors=False)

    def add(self, futures: list[Any]) -> None:
        self._completed.update(futures)

    def ready(self, block: bool) -> list[tuple[Any, Any]]:
        """(future, result) of those that have ended; with `block` at least one, if any is there."""
        batch = self._completed.next_batch(block=block)
        return [(future, result) for future, result in zip(batch, self._results_of(batch), strict=True)]

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        while not self._completed.is_empty():
            yield from self.ready(block=True)

    def _results_of(self, batch: list[Any]) -> list[Any]:
        """Fetched together: a question for each would take the scheduler as long as the tasks' own bookkeeping."""
        fine = all(future.status == "finished" for future in batch)
        if fine and not self._results:
            return [None] * len(batch)
        if fine and len(batch) > 1:
            with contextlib.suppress(Exception):  # of whichever: asked for one at a time it has a name
                return list(self._watch.client.gather(batch))
        wanted = [future.status != "finished" or self._results for future in batch]
        return [self._watch.result(future) if want else None for future, want in zip(batch, wanted, strict=True)]


@contextmanager
def connected(
    profile: Profile,
    say: Callable[[str], object] = str,
    waits: Callable[[str], object] | None = None,
    reaches: Callable[[str], object] | None = None,
) -> Iterator[Any]:
    """A `distributed.Client` of a cluster started for this run, or of the one that the profile names.

    say      hears of workers of somebody else's cluster that are no reason to stop: refused ones, other processors
    waits    hears once that no worker is there yet; default: `say`
    reaches  hears of a scheduler that takes its time to answer; default: `say`

    Raises ClusterLost when nobody answers, ClusterMismatch when its packages differ from ours, and what `security_of`
    raises.
    """
    import dask
    from distributed import Client

    with dask.config.set({**DASK_CONFIG, **dask_timeouts(profile.timeouts)}), quiet():
        if profile.local_workers:
            with own_workers(profile) as cluster, closing_well(Client(cluster), profile) as client:
                yield client
            return
        with closing_well(reach(profile, reaches or say), profile) as client:
            _wait_for_workers(client, profile, waits or say)
            _agree(client, profile, say)
            yield client


NOISY = ("distributed", "tornado")  # the second logs what a client's own callbacks meet once it has hung up


@contextmanager
def quiet() -> Iterator[None]:
    """Without Dask's tracebacks of lost connections and killed workers: what matters of them is a named error."""
    if os.environ.get("LABELGROVE_DEBUG"):
        yield
        return
    loggers = [logging.getLogger(name) for name in logging.root.manager.loggerDict if name.startswith(NOISY)]
    before = [(logger, logger.level) for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        yield
    finally:
        for logger, level in before:
            logger.setLevel(level)


def dashboard_text(client: Any, profile: Profile) -> str:
    """Where the dashboard is; that it is elsewhere than the profile says, when its port was taken."""
    link = str(client.dashboard_link)
    port = profile.dashboard.rpartition(":")[2]
    moved = profile.local_workers and port not in ("0", "") and f":{port}/" not in link
    return f"dashboard: {link}" + (f" (port {port} is taken)" if moved else "")


def _wait_for_workers(client: Any, profile: Profile, waits: Callable[[str], object]) -> None:
    """Raises ClusterLost when none comes, and when the scheduler falls silent meanwhile."""
    where, times, told = profile.scheduler, profile.timeouts, False
    until = time.monotonic() + times.no_workers
    while not has_running(infos := worker_infos(client, times.connect)):
        held_up = paused(infos)
        if not told:
            paused_too = f" ({', '.join(sorted(held_up.values()))}: {PAUSED})" if held_up else ""
            waits(f"waiting for a worker of {where}, {times.no_workers:g} s at most{paused_too}")
            told = True
        if time.monotonic() > until:
            if held_up:
                raise TaskKilled(f"{PAUSED} for {times.no_workers:g} s", where, MORE_MEMORY)
            what = f"the scheduler at {where} has had no worker for {times.no_workers:g} s"
            raise ClusterLost(what, where, "start workers (`dask worker`), then type the same command again")
        if held_up:
            free(client, [*held_up], times.connect)
        time.sleep(min(WORKER_POLL_SECONDS, times.poll))


def _agree(client: Any, profile: Profile, say: Callable[[str], object]) -> None:
    """All parts must compute what this process would: same packages, and our own. Raises ClusterMismatch."""
    here, seconds, where = facts_here(), profile.timeouts.connect, profile.scheduler
    limit = time.monotonic() + seconds
    while True:
        try:
            parts = _compared(client, here, seconds)
            watch_newcomers(client, here, say)
            break
        except TimeoutError:
            what = f"a part of the cluster at {where} has not answered for {seconds:.0f} s"
            raise ClusterLost(what, where, "restart what is frozen, then type the same command again") from None
        except OSError as error:  # of a worker that dies while it is asked, or of the scheduler itself
            if client.status != "running" or time.monotonic() > limit:
                raise ClusterLost(f"the scheduler at {where} has gone", where, RESUME) from error
            time.sleep(profile.timeouts.poll)
    warning = bits_warning(here, parts)
    if warning:
        say(warning)


def _compared(client: Any, here: dict[str, str], seconds: float) -> list[Part]:
    """The scheduler and the workers of now. Raises ClusterMismatch, ClusterLost, and what `ask_parts` does."""
    parts = ask_parts(client, here, named_workers(client, seconds), seconds)
    error = mismatch(here, parts)
    if error is not None:
        raise error
    return parts
