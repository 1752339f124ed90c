"""Connecting to a cluster or starting one, and noticing when it is gone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pipeline.errors import ClusterLost, TaskFailed, TaskKilled
from tasks.errors import LabelgroveError

NO_WORKERS_SECONDS = 300.0  # an empty cluster is given this long to come back
SCHEDULER_SECONDS = 60.0  # a silent scheduler is given this long
POLL_SECONDS = 2.0

RESUME = "start the cluster again and type the same `labelgrove run`: finished work is kept"


def worker_names(client: Any) -> list[str]:
    """Addresses of the workers alive now, in the order of their names (stable over restarts; addresses are not)."""
    workers = client.scheduler_info(n_workers=-1).get("workers", {})
    return [address for _, address in sorted((str(info.get("name", "")), address) for address, info in workers.items())]


class ClusterWatch:
    """Waits for futures and turns a lost cluster, a killed task or a foreign exception into a named error."""

    def __init__(
        self, client: Any, no_workers: float = NO_WORKERS_SECONDS, scheduler_silent: float = SCHEDULER_SECONDS
    ) -> None:
        self.client, self.no_workers, self.scheduler_silent = client, no_workers, scheduler_silent

    @contextmanager
    def guard(self, name: str) -> Iterator[Callable[[list[Any]], list[Any]]]:
        """Within it, futures passed through the yielded function are cancelled on any way out but the good one."""
        held: list[Any] = []

        def watched(futures: list[Any]) -> list[Any]:
            held.extend(futures)
            return futures

        stop = threading.Event()
        lost: list[str] = []
        watcher = threading.Thread(target=self._watch, args=(stop, lost, held), name=f"watch-{name}", daemon=True)
        watcher.start()
        try:
            yield watched
        except BaseException as error:
            self._cancel(held)
            if lost and not isinstance(error, LabelgroveError | KeyboardInterrupt):
                raise ClusterLost(lost[0], where=name, hint=RESUME) from error
            raise
        finally:
            stop.set()
            held.clear()

    def _cancel(self, futures: list[Any]) -> None:
        """Drop what waits; what runs is waited for shortly, since Dask cannot stop it and it writes whole chunks."""
        try:
            running = [future for future in futures if future.status == "pending"]
            self.client.cancel(running, force=True)
            limit = time.monotonic() + 20
            while time.monotonic() < limit and any(self.client.processing().values()):
                time.sleep(0.1)
        except Exception:  # the scheduler may be gone: nothing left to cancel then
            return

    def _watch(self, stop: threading.Event, lost: list[str], held: list[Any]) -> None:
        """Cancel everything once the scheduler has been silent, or there has been no worker, for too long."""
        bad_since: dict[str, float] = {}
        while not stop.wait(POLL_SECONDS):
            now = time.monotonic()
            trouble = self._trouble()
            bad_since = {trouble: bad_since.get(trouble, now)} if trouble else {}
            limit = self.no_workers if trouble == "no worker is left" else self.scheduler_silent
            if trouble and now - bad_since[trouble] > limit:
                lost.append(f"{trouble} for {limit:.0f} s")
                for future in list(held):
                    future.cancel(force=True)
                return

    def _trouble(self) -> str:
        if self.client.status in ("closed", "closing"):
            return "the connection to the scheduler is closed"
        if self.client.status != "running":
            return "the scheduler does not answer"
        workers = self.client.scheduler_info(n_workers=-1).get("workers", {})
        return "" if workers else "no worker is left"

    def finished(self, futures: list[Any], results: bool = True) -> Iterator[tuple[Any, Any]]:
        """(future, result) as they end."""
        return self.stream(futures, results)

    def stream(self, futures: list[Any], results: bool = True) -> FutureStream:
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

        if isinstance(error, LabelgroveError):
            return error
        if isinstance(error, KilledWorker):
            return TaskKilled(
                f"the workers that ran {key} died again and again",
                where=key,
                hint="most often memory: compare `labelgrove plan` with the workers' limit, then run again; "
                "finished work is kept",
            )
        if isinstance(error, CancelledError | FuturesCancelledError | CommClosedError | TimeoutError):
            return ClusterLost(f"the scheduler dropped {key} ({error})", where=key, hint=RESUME)
        if isinstance(error, MemoryError):
            return TaskKilled(f"out of memory in {key}", where=key, hint="give the workers more memory, then run again")
        return TaskFailed(f"{type(error).__name__}: {error}", where=key, hint="this is a fault in labelgrove: report it")


class FutureStream:
    """Iterates (future, result) in order of completion; futures can be added while it runs."""

    def __init__(self, watch: ClusterWatch, futures: list[Any], results: bool) -> None:
        from distributed import as_completed

        self._watch, self._results = watch, results
        self._completed = as_completed(futures, with_results=False, raise_errors=False)

    def add(self, futures: list[Any]) -> None:
        self._completed.update(futures)

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        for future in self._completed:
            if future.status != "finished" or self._results:
                yield future, self._watch.result(future)
            else:
                yield future, None
