"""Connecting to a cluster or starting one, and noticing when it is gone."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pipeline.errors import ClusterLost, ClusterMismatch, TaskFailed, TaskKilled
from pipeline.mending import mend
from pipeline.profile import HEAP_KEPT_BYTES, Profile
from tasks.errors import LabelgroveError
from tasks.worker import versions

NO_WORKERS_SECONDS = 300.0  # an empty cluster is given this long to come back
SCHEDULER_SECONDS = 30.0  # a silent scheduler is given this long
POLL_SECONDS = 2.0
ANSWER_SECONDS = 10.0  # one question to the scheduler may take this long: a frozen one never answers

NO_WORKER, SILENT = "no worker is left", "the scheduler does not answer"
RESUME = "start the cluster again and type the same `labelgrove run`: finished work is kept"


def ask_scheduler(client: Any, question: str, **arguments: Any) -> Any:
    """What the scheduler answers. Raises ClusterLost when it does not, within ANSWER_SECONDS."""
    try:
        asked = getattr(client.scheduler, question)  # no scheduler any more once the client is closed
        return client.sync(asked, **arguments, callback_timeout=ANSWER_SECONDS)
    except (OSError, TimeoutError, AttributeError, RuntimeError) as error:
        raise ClusterLost(f"the scheduler does not answer ({type(error).__name__})", hint=RESUME) from error


def worker_names(client: Any) -> list[str]:
    """Addresses of the workers alive now, in the order of their names (stable over restarts; addresses are not)."""
    workers = ask_scheduler(client, "identity", n_workers=-1)["workers"]
    return [address for _, address in sorted((str(info.get("name", "")), address) for address, info in workers.items())]


class ClusterWatch:
    """Waits for futures and turns a lost cluster, a killed task or a foreign exception into a named error."""

    def __init__(
        self, client: Any, no_workers: float = NO_WORKERS_SECONDS, scheduler_silent: float = SCHEDULER_SECONDS
    ) -> None:
        self.client, self.no_workers, self.scheduler_silent = client, no_workers, scheduler_silent
        self._guarded: dict[int, list[Any]] = {}  # what each open guard holds, of any thread
        self._stopped = False

    @contextmanager
    def guard(self, name: str) -> Iterator[Callable[[list[Any]], list[Any]]]:
        """Within it, futures passed through the yielded function are cancelled on any way out but the good one."""
        held: list[Any] = []
        if not self._guarded:
            self._stopped = False
        self._guarded[id(held)] = held

        def watched(futures: list[Any]) -> list[Any]:
            held.extend(futures)
            if self._stopped:
                raise ClusterLost("the run is stopping", where=name, hint=RESUME)
            return futures

        stop = threading.Event()
        lost: list[str] = []
        watcher = threading.Thread(target=self._watch, args=(stop, lost, held), name=f"watch-{name}", daemon=True)
        watcher.start()
        try:
            yield watched
        except BaseException as error:
            self._cancel(held)
            why = self._why_lost(lost)
            ours = isinstance(error, LabelgroveError) and not isinstance(error, ClusterLost)
            if why and isinstance(error, Exception) and not ours:
                raise ClusterLost(why, where=name, hint=RESUME) from error
            raise
        finally:
            stop.set()
            self._guarded.pop(id(held))
            held.clear()

    def cancel_all(self) -> None:
        """For a run that ends with an error: cancel what every thread waits for, and refuse what it submits next."""
        self._stopped = True
        with contextlib.suppress(Exception):  # the scheduler may be gone
            self.client.cancel([future for held in list(self._guarded.values()) for future in held], force=True)

    def _why_lost(self, told: list[str]) -> str:
        """What the watch has told, or what the connection says; "" when the cluster is there."""
        if told:
            return told[0]
        return "" if self.client.status == "running" else "the connection to the scheduler is gone"

    def _cancel(self, futures: list[Any]) -> None:
        """Drop what waits; what runs is waited for shortly, since Dask cannot stop it and it writes whole chunks."""
        try:
            running = [future for future in futures if future.status == "pending"]
            self.client.cancel(running, force=True)
            limit = time.monotonic() + 20
            while time.monotonic() < limit and any(ask_scheduler(self.client, "processing", workers=None).values()):
                time.sleep(0.1)
        except Exception:  # the scheduler may be gone: nothing left to cancel then
            return

    def _watch(self, stop: threading.Event, lost: list[str], held: list[Any]) -> None:
        """Cancel everything once the scheduler has been silent, or there has been no worker, for too long."""
        bad_since: dict[str, float] = {}
        while not stop.wait(POLL_SECONDS):
            now = time.monotonic()
            trouble = self._trouble()
            if trouble != SILENT:
                mend(self.client, ANSWER_SECONDS)
            bad_since = {trouble: bad_since.get(trouble, now)} if trouble else {}
            limit = self.no_workers if trouble == NO_WORKER else self.scheduler_silent
            if trouble and now - bad_since[trouble] > limit:
                lost.append(f"{trouble} for {limit:.0f} s")
                self._give_up(list(held), hang_up=trouble != NO_WORKER)
                return

    def _give_up(self, futures: list[Any], hang_up: bool) -> None:
        """Wake whoever waits for these futures, or for an answer of a scheduler that is frozen."""
        with contextlib.suppress(Exception):
            self.client.cancel(futures, force=True)
        if hang_up:
            with contextlib.suppress(Exception):
                self.client.sync(self.client.rpc.close, callback_timeout=ANSWER_SECONDS)

    def _trouble(self) -> str:
        if self.client.status in ("closed", "closing"):
            return "the connection to the scheduler is closed"
        if self.client.status != "running":
            return SILENT
        try:
            return "" if worker_names(self.client) else NO_WORKER
        except ClusterLost:
            return SILENT

    def workers(self) -> list[str]:
        """As `worker_names`, none when the scheduler does not answer: the watch decides when that is too long."""
        try:
            return worker_names(self.client)
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
        if isinstance(error, MemoryError):
            return TaskKilled(f"out of memory in {key}", where=key, hint="give the workers more memory, then run again")
        return TaskFailed(
            f"{type(error).__name__}: {error}", where=key, hint="this is a fault in labelgrove: report it"
        )


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
        return [self._with_result(future) for future in self._completed.next_batch(block=block)]

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        for future in self._completed:
            yield self._with_result(future)

    def _with_result(self, future: Any) -> tuple[Any, Any]:
        wanted = future.status != "finished" or self._results
        return future, self._watch.result(future) if wanted else None


DASK_CONFIG = {
    "distributed.scheduler.allowed-failures": 20,  # a killed worker is no verdict on the tasks it held
    "distributed.scheduler.no-workers-timeout": f"{NO_WORKERS_SECONDS:.0f}s",
    "distributed.nanny.pre-spawn-environ": {
        # Dask's own 64 KiB makes the kernel hand out and take back every temporary array of a batch, page by page.
        "MALLOC_TRIM_THRESHOLD_": HEAP_KEPT_BYTES,
        "MALLOC_ARENA_MAX": 1,  # each arena would keep as much
        "MALLOC_MMAP_THRESHOLD_": 32 << 20,
        "OMP_NUM_THREADS": 1,
        "MKL_NUM_THREADS": 1,
        "OPENBLAS_NUM_THREADS": 1,
        "NUMBA_NUM_THREADS": 1,
    },
    "distributed.worker.preload": ["tasks.deaf"],  # of a terminal's Ctrl-C: the driver hears it and stops the workers
    # The plan lets a worker come to 0.9 of its limit. Dask's own pause, at 0.8, would be for good: what a worker holds
    # between tasks is a cache, and memory that it keeps for the next task.
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": 0.94,
    "distributed.comm.timeouts.connect": "30s",
    "distributed.admin.large-graph-warning-threshold": "10MB",
}


@contextmanager
def connected(profile: Profile) -> Iterator[Any]:
    """A `distributed.Client` of a cluster started for this run, or of the one that the profile names.

    Raises ClusterLost when nobody answers, ClusterMismatch when its packages differ from ours.
    """
    import dask
    from distributed import Client

    with dask.config.set(DASK_CONFIG), quiet():
        if profile.local_workers:
            with _local(profile) as cluster, Client(cluster) as client:
                yield client
            return
        with _remote(profile) as client:
            _wait_for_workers(client, profile.scheduler)
            _compare_versions(client)
            yield client


@contextmanager
def quiet() -> Iterator[None]:
    """Without Dask's tracebacks of lost connections and killed workers: what matters of them is a named error."""
    if os.environ.get("LABELGROVE_DEBUG"):
        yield
        return
    loggers = [logging.getLogger(name) for name in logging.root.manager.loggerDict if name.startswith("distributed")]
    before = [(logger, logger.level) for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        yield
    finally:
        for logger, level in before:
            logger.setLevel(level)


START_TRIES = 6


def _local(profile: Profile) -> Any:
    """A cluster of our own on this machine; begun again when a worker is lost while it starts. Raises ClusterLost."""
    from distributed import LocalCluster

    for attempt in range(1, START_TRIES + 1):
        try:
            with warnings.catch_warnings():  # of a port taken since we looked: Dask finds another, we say which
                warnings.filterwarnings("ignore", message="Port .* is already in use", category=UserWarning)
                return LocalCluster(
                    n_workers=profile.local_workers,
                    threads_per_worker=profile.threads,
                    memory_limit=profile.memory_bytes(),
                    host="127.0.0.1",
                    dashboard_address=free_dashboard(profile.dashboard),
                    silence_logs=logging.CRITICAL,
                )
        except RuntimeError as error:  # "Nanny failed to start": somebody, or the lack of memory, killed a worker
            if attempt == START_TRIES:
                hint = "fewer workers (--scheduler local:1) or more memory, then type the same command again"
                raise ClusterLost(f"the workers do not start: {error}", "local cluster", hint) from error
    raise AssertionError("unreachable: the last attempt returns or raises")


def dashboard_text(client: Any, profile: Profile) -> str:
    """Where the dashboard is; that it is elsewhere than the profile says, when its port was taken."""
    link = str(client.dashboard_link)
    port = profile.dashboard.rpartition(":")[2]
    moved = profile.local_workers and port not in ("0", "") and f":{port}/" not in link
    return f"dashboard: {link}" + (f" (port {port} is taken)" if moved else "")


def free_dashboard(address: str) -> str:
    """The dashboard's address, with any free port when another process has the port."""
    import socket

    host, _, port = address.rpartition(":")
    try:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, int(port)))
    except (OSError, ValueError):
        return f"{host or '127.0.0.1'}:0"
    return address


def _remote(profile: Profile) -> Any:
    from distributed import Client
    from distributed.security import Security

    where = profile.scheduler
    security = None
    if profile.tls_ca:
        security = Security(
            tls_ca_file=profile.tls_ca,
            tls_client_cert=profile.tls_cert,
            tls_client_key=profile.tls_key,
            require_encryption=True,
        )
    target = {"address": where} if "://" in where else {"scheduler_file": where}
    try:
        return Client(**target, security=security, timeout="30s", set_as_default=False)
    except (OSError, TimeoutError, ValueError, TypeError) as error:
        raise ClusterLost(f"no scheduler answers at {where}: {error}", where, RESUME) from None


def _wait_for_workers(client: Any, where: str) -> None:
    try:
        client.wait_for_workers(1, timeout=NO_WORKERS_SECONDS)
    except (OSError, TimeoutError):
        what = f"the scheduler at {where} has had no worker for {NO_WORKERS_SECONDS:.0f} s"
        raise ClusterLost(what, where, "start workers (`dask worker`), then type the same command again") from None


def _compare_versions(client: Any) -> None:
    """Workers must compute what this process would: same packages, and our own `tasks`."""
    mine = versions()
    for worker, found in client.run(versions, on_error="return").items():
        if isinstance(found, ImportError):
            hint = "install labelgrove with the same lock file on the workers, then run again"
            raise ClusterMismatch(f"the workers cannot import our `tasks`: {found}", str(worker), hint)
        if isinstance(found, Exception):
            continue  # it has gone meanwhile; another takes its tasks
        wrong = [
            f"{name}: {found.get(name)} there, {mine[name]} here" for name in mine if found.get(name) != mine[name]
        ]
        if wrong:
            hint = "install the same lock file on the workers (deploy one image), then run again"
            raise ClusterMismatch("; ".join(wrong), str(worker), hint)
