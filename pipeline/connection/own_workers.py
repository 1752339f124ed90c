"""Workers of our own on this machine: started, again if one is lost just then, and none is left behind."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pipeline.connection.addresses import DASHBOARD
from pipeline.connection.dask_settings import DASK_CONFIG, dask_timeouts
from pipeline.connection.nursery import is_begun
from pipeline.connection.profile import Profile, ProfileError, shown
from pipeline.connection.reaching import causes
from pipeline.connection.timeouts import Timeouts
from pipeline.errors import ClusterLost
from tasks.errors import is_starved
from tasks.files import NO_ROOM, disk_room

START_TRIES = 6
LATER = "labelgrove.dashboard-later"  # of pipeline.dashboard
MORE_ROOM = "fewer workers (--scheduler local:1) or more memory"
# Of Dask's settings as they are when workers of our own start: those that `connected` makes, and how a dashboard is
# reached. What else a user has set is meant for another cluster, and may break ours.
KEPT = (*DASK_CONFIG, *dask_timeouts(Timeouts()), "distributed.dashboard")


@contextmanager
def closing_well(opened: Any, profile: Profile) -> Iterator[Any]:
    """A client or a cluster of our own, closed at the end: what dies just then spoils nothing, since the work is done,
    or an error is on its way that says more."""
    try:
        yield opened
    finally:
        with contextlib.suppress(Exception):
            opened.close(timeout=profile.timeouts.connect)
        if isinstance(opened.status, str):  # of a client that could not be closed: its finaliser would wait once more
            opened.status = "closed"


@contextmanager
def own_workers(profile: Profile) -> Iterator[Any]:
    """A cluster of our own, of which no process is left at the end: Python would wait for one that is frozen."""
    before = set(multiprocessing.active_children())
    try:
        with plain_dask(), closing_well(_local(profile), profile) as cluster:
            yield cluster
    finally:
        end_workers(before)


@contextmanager
def plain_dask() -> Iterator[None]:
    """Dask's own defaults and what is KEPT, here and in what is started here: our workers speak plain TCP on 127.0.0.1,
    whatever the environment or a file in ~/.config/dask says of TLS, preloads and the like for other clusters."""
    import dask
    import distributed  # its defaults come with it

    defaults = dask.config.merge(*dask.config.defaults)["distributed"]
    kept = {name: dask.config.get(name) for name in KEPT} | {LATER: True}
    if is_begun():
        kept["distributed.worker.multiprocessing-method"] = "forkserver"
        distributed.utils._forkserver_preload_set = True  # Dask would load all that it knows, here
    try:
        with dask.config.set({"distributed": defaults, **kept}):
            yield
    finally:  # another scheduler of this process has it imported anew, and shows its page from the beginning
        sys.modules.pop("pipeline.dashboard", None)


def _scratch() -> Path:
    """Where workers have folders of their own."""
    import dask

    return Path(dask.config.get("temporary-directory") or tempfile.gettempdir(), "dask-scratch-space")


def _refuse_full_disk(error: BaseException | None) -> None:
    """Raises DiskFull when there is no room for the workers' own folders."""
    place = _scratch()
    while error is not None:
        if isinstance(error, OSError):
            with disk_room(error.filename or str(place), 0):
                if error.errno in NO_ROOM:
                    raise error
        error = error.__cause__ or error.__context__


def end_workers(but: set[Any]) -> None:
    """Kill the worker processes of this one that are left, but for some."""
    for child in set(multiprocessing.active_children()) - but:
        if "Dask Worker" in child.name:
            child.kill()


def _local(profile: Profile) -> Any:
    """A cluster of our own on this machine; begun again when a worker is lost while it starts. Raises ClusterLost."""
    from distributed import LocalCluster

    before = set(multiprocessing.active_children())
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
                    scheduler_kwargs={"dashboard": False},  # made when it is looked at
                    silence_logs=logging.CRITICAL,
                    death_timeout=profile.timeouts.starting,
                )
        # Somebody, or the lack of memory, killed or froze a worker; Dask's nanny is not sure of the latter.
        except (RuntimeError, TimeoutError, AssertionError, OSError) as error:
            end_workers(before)
            _refuse_full_disk(error)
            if attempt == START_TRIES:
                why, hint = told_of_start(error)
                hint = f"{hint}, then type the same command again"
                raise ClusterLost(f"the workers do not start: {why}", "local cluster", hint) from error
    raise AssertionError("unreachable: the last attempt returns or raises")


def told_of_start(error: BaseException) -> tuple[str, str]:
    """Why workers of our own did not start, by the innermost cause that has words, and what to do."""
    found = list(causes(error))
    cause = next((one for one in reversed(found) if str(one)), error)
    said = str(cause).strip().partition("\n")[0]
    if isinstance(cause, OSError) and cause.filename and Path(cause.filename).is_relative_to(_scratch().parent):
        return said, f"give workers a folder that they may write: Dask's `temporary-directory` is {_scratch().parent}"
    # Dask's own words tell that a worker ended, or said nothing: whoever starts processes knows no more.
    if isinstance(cause, RuntimeError | TimeoutError | AssertionError) or any(map(is_starved, found)):
        return said or type(cause).__name__, MORE_ROOM
    return f"{type(cause).__name__}: {said}", "mend what is named (LABELGROVE_DEBUG=1 shows where it comes from)"


def free_dashboard(address: str) -> str:
    """The dashboard's address, with any free port when another process has the port. Raises ProfileError for a host
    that is not this machine's."""
    import errno
    import socket

    host, _, port = address.rpartition(":")
    try:
        with socket.socket(socket.AF_INET6 if host.startswith("[") else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host.strip("[]"), int(port or 0)))
    except OSError as error:
        if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
            what = f"dashboard = {shown(repr(address))}: the host is none of this machine ({error.strerror})"
            raise ProfileError(what, "dashboard", DASHBOARD) from None
        return f"{host or '127.0.0.1'}:0"
    return address if port else "127.0.0.1:0"
