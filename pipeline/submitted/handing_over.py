"""Handing a run to a cluster: workers must see its files, one of them takes it, and it has begun, or been refused."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.connection.cluster import ClusterWatch, ask_scheduler, ask_workers
from pipeline.connection.profile import ProfileError
from pipeline.connection.shared_places import check_shared
from pipeline.connection.timeouts import Timeouts
from pipeline.errors import ClusterLost, RunLocked
from pipeline.interrupts import INTERRUPTED
from pipeline.lock import holder, stop_hint
from pipeline.stop_request import forget_request, request_stop
from pipeline.store import RunFolder
from pipeline.submitted.carried_errors import error_of
from pipeline.submitted.driver_task import Ended, drive, state_of_key, topic_of
from pipeline.submitted.submission import (
    ENDED,
    LOGS,
    NEVER_TAKEN,
    Order,
    Submission,
    forget_old_logs,
    renew,
    write_submission,
)
from tasks.digest import digest_text
from tasks.errors import LabelgroveError

BEGIN_SECONDS = 120.0  # a run that has not begun by then waits for a worker: `status` tells
LEAVING_SECONDS = 10.0
POLL_SECONDS = 0.25
TAKEN = ("processing", "memory")  # states of a task that a worker has, or has had
PRIORITY = 1000  # before all tasks of runs: a driver takes no worker's thread


@dataclass(frozen=True)
class HandedOver:
    """What became of a submission: begun on a host, ended already (everything was finished), or still waiting."""

    state: str  # "running", "finished", "waiting"
    host: str = ""


def hand_over(
    client: Any,
    order: Order,
    folder: RunFolder,
    files: Mapping[str, Path],
    timeouts: Timeouts,
    where: str = "",
    over: Callable[[], None] = lambda: None,
) -> HandedOver:
    """Give the order to the cluster and wait until the run has begun or ended.

    files  what workers must see beside the run folder: what it is -> path
    where  name of the worker beside which the driver should run
    over   called when all is well, just before the cluster gets it

    Raises PathNotShared, RunLocked, ProfileError (no such worker), ClusterLost, and whatever the run is refused for.
    Interrupted, it takes the order back.
    """
    key = f"labelgrove_driver-{digest_text(order.run)[:16]}"
    asked = Asked(client, timeouts)
    _wait_for_key(asked, key, folder)
    workers = _workers_called(client, where)
    check_shared(asked.workers, folder / LOGS, files)
    forget_old_logs(folder)
    future = None
    try:
        write_submission(folder, Submission(order.token, order.by, str(client.scheduler.address), time.time()))
        over()
        future = _submit(client, key, order, workers)
        return _until_begun(asked, future, order.token, folder)
    except KeyboardInterrupt:
        _withdraw(asked, future, order.token, folder)
        raise


@dataclass(frozen=True)
class Asked:
    """Questions to a cluster that are answered in time, or raise ClusterLost."""

    client: Any
    timeouts: Timeouts

    def scheduler(self, fn: Callable[..., Any], *values: Any) -> Any:
        """fn(*values, dask_scheduler=...) on the scheduler."""
        return self._in_time(
            self.client._run_on_scheduler, fn, *values, callback_timeout=self.timeouts.scheduler_silent
        )

    def workers(self, fn: Callable[..., Any], *values: Any) -> dict[str, Any]:
        """Address -> fn(*values) on every worker, or the exception."""
        return ask_workers(self.client, self.timeouts.scheduler_silent, fn, *values)

    def events(self, topic: str) -> list[dict[str, Any]]:
        """What was told under a topic, oldest first."""
        return [told for _, told in ask_scheduler(self.client, "events", self.timeouts.answer, topic=topic)]

    def result(self, future: Any) -> Any:
        """The result of a future that has ended, or a named error."""
        return ClusterWatch(self.client, self.timeouts).result(future)

    def _in_time(self, asked: Callable[..., Any], *values: Any, **options: Any) -> Any:
        try:
            return self.client.sync(asked, *values, **options)
        except (OSError, TimeoutError) as error:
            what = f"the cluster does not answer ({type(error).__name__})"
            raise ClusterLost(what, str(self.client.scheduler), "type the same command again") from error


def _submit(client: Any, key: str, order: Order, workers: list[str]) -> Any:
    """The one task; it outlives this client."""
    from distributed import fire_and_forget

    chosen = {"workers": workers, "allow_other_workers": True} if workers else {}
    future = client.submit(drive, order, key=key, pure=False, priority=PRIORITY, **chosen)
    fire_and_forget(future)
    return future


def _until_begun(asked: Asked, future: Any, token: str, folder: RunFolder) -> HandedOver:
    until = time.monotonic() + BEGIN_SECONDS
    while time.monotonic() < until:
        if future.done():
            return _at_the_end(asked.result(future), token, folder)
        for told in asked.events(topic_of(token)):
            if told.get("began") == token:
                return HandedOver("running", str(told.get("host", "")))
        time.sleep(POLL_SECONDS)
    return HandedOver("waiting")


def _withdraw(asked: Asked, future: Any, token: str, folder: RunFolder) -> None:
    """Nothing stays that a worker could take up; a driver that a worker has begun is asked to stop, as by `cancel`."""
    with contextlib.suppress(OSError, LabelgroveError):  # whatever is lost or full by now: what stopped us says more
        request_stop(folder)
        taken = future is not None and asked.scheduler(state_of_key, str(future.key)) in TAKEN
        if future is not None:
            _cancel(asked, future)
        if not taken:
            renew(folder, token, state=ENDED, code=INTERRUPTED, told=NEVER_TAKEN)
            forget_request(folder)


def _cancel(asked: Asked, future: Any) -> None:
    """Return when the scheduler knows the task no more: the request travels by itself, and this process may end now."""
    asked.client.cancel([future], force=True)
    until = time.monotonic() + LEAVING_SECONDS
    while asked.scheduler(state_of_key, str(future.key)) and time.monotonic() < until:
        time.sleep(POLL_SECONDS)


def _at_the_end(ended: Ended, token: str, folder: RunFolder) -> HandedOver:
    """What a driver has come to before we saw it begin. Raises its error."""
    if ended.token != token:  # another client's submission of the same moment had the key first
        raise _locked(folder)
    if ended.error is not None:
        raise error_of(ended.error)
    if ended.code:
        raise RunLocked(f"the run ended at once: {ended.told or f'exit code {ended.code}'}", str(folder.path))
    return HandedOver("finished")


def _wait_for_key(asked: Asked, key: str, folder: RunFolder) -> None:
    """A task whose run has just ended is given a moment to end, too. Raises RunLocked when it goes on."""
    until = time.monotonic() + LEAVING_SECONDS
    while asked.scheduler(state_of_key, key) in ("waiting", "queued", "no-worker", "processing"):
        if holder(folder.path) or time.monotonic() >= until:
            raise _locked(folder)
        time.sleep(POLL_SECONDS)


def _locked(folder: RunFolder) -> RunLocked:
    return RunLocked("this run is submitted already", str(folder.path), stop_hint(folder.path))


def _workers_called(client: Any, name: str) -> list[str]:
    """The addresses of the worker of a name; none when no name is given."""
    if not name:
        return []
    infos = client.scheduler_info(n_workers=-1)["workers"]
    found = [address for address, info in infos.items() if name in (str(info.get("name")), info.get("host"), address)]
    if not found:
        names = ", ".join(sorted(str(info.get("name")) for info in infos.values()))
        raise ProfileError(f"no worker is called {name!r}", "--where", f"workers: {names}")
    return found
