"""Dask's own report of an attempt, kept with the run: task stream, profiles, bandwidth, as one page.

Made when the work is over, by the scheduler, from what it has recorded; a run never fails because there is none.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from typing import Any

from pipeline.errors import ClusterLost
from pipeline.store import MANIFEST, RunFolder, file_digest, read_manifest, write_sealed, write_text
from tasks.places import is_remote, remove_at

FOLDER = "performance"  # of a run: a page for each of the last attempts, named after when it began
KEPT = 3
MOST_TASKS = 10_000  # the newest ones: about 150 bytes each on the page
MOST_BYTES = 16 << 20  # a larger page is not kept
LEAST_SECONDS = 5.0  # shorter work gets none: making it takes a second or two
MADE_SECONDS = 20.0  # it may take so long
ASKED_SECONDS = 5.0
OUTSIDE_ICON = re.compile(r"<link[^>]*rel=.(?:shortcut )?icon.[^>]*>")  # Dask's, from its web site
NAMED = re.compile(r"\d{8}-\d{6}Z\.html")


@contextmanager
def performance_kept(client: Any, folder: RunFolder, name: str) -> Iterator[None]:
    """Within it the scheduler records; then the report is written, unless the cluster is lost or Ctrl-C was typed."""
    began, clock = time.time(), time.monotonic()
    recorded = _begin(client)
    try:
        yield
    except (KeyboardInterrupt, ClusterLost):
        raise
    except Exception:
        _keep(client, folder, name, recorded, began, clock)
        raise
    else:
        _keep(client, folder, name, recorded, began, clock)


def _begin(client: Any) -> tuple[float, int] | None:
    """(time, number of the scheduler's own samples), by its clock; from now on it records. None: it cannot."""
    try:
        client.sync(client.scheduler.get_task_stream, start=0, stop=0, callback_timeout=ASKED_SECONDS)
        now, samples = client.sync(client._run_on_scheduler, _now(), callback_timeout=ASKED_SECONDS)
        return float(now), int(samples)
    except Exception:
        return None


def _now() -> Callable[..., tuple[float, int]]:
    """Travels by value, since a scheduler need not have our packages."""

    def now(dask_scheduler: Any) -> tuple[float, int]:
        import time

        return time.time(), dask_scheduler.monitor.count

    return now


def _newest(most: int) -> Callable[..., float]:
    """Travels by value."""

    def newest(dask_scheduler: Any) -> float:
        """When the first of the last `most` recorded tasks ended; 0 when there are fewer."""
        records = dask_scheduler.plugins["task-stream"].buffer
        if len(records) <= most:
            return 0.0
        return float(max(part["stop"] for part in records[-most]["startstops"]))

    return newest


def _keep(
    client: Any, folder: RunFolder, name: str, recorded: tuple[float, int] | None, began: float, clock: float
) -> None:
    if recorded is None or time.monotonic() - clock < LEAST_SECONDS or client.status != "running":
        return
    with contextlib.suppress(Exception):  # whatever it is: the run's results do not depend on it
        start = max(recorded[0], client.sync(client._run_on_scheduler, _newest(MOST_TASKS), callback_timeout=5))
        page = client.sync(
            client.scheduler.performance_report,
            start=start,
            last_count=recorded[1],
            code=escape(f"labelgrove run {name}"),
            mode="inline",
            callback_timeout=MADE_SECONDS,
        )
        if len(page) <= MOST_BYTES:
            write_text(folder / FOLDER / f"{stamp(began)}.html", OUTSIDE_ICON.sub("", page))
            for old in reports(folder)[:-KEPT]:
                old.unlink()


def stamp(seconds: float) -> str:
    """20261129-143000Z: a name that sorts."""
    return time.strftime("%Y%m%d-%H%M%SZ", time.gmtime(seconds))


def reports(folder: RunFolder) -> list[Any]:
    """Paths of the reports that a run folder holds, oldest first."""
    place = folder / FOLDER
    found = place.iterdir() if place.is_dir() else ()
    return sorted(path for path in found if NAMED.fullmatch(path.name) and (is_remote(path) or path.is_file()))


def report_marks(folder: RunFolder) -> dict[str, list[Any]]:
    """Path of every report within the run folder -> [bytes, digest], for the manifest."""
    return {f"{FOLDER}/{path.name}": [path.stat().st_size, file_digest(path)] for path in reports(folder)}


def damaged_reports(folder: RunFolder, marks: Mapping[str, Sequence[Any]]) -> list[str]:
    """Those of the manifest that are missing or have other content than was written."""
    found = report_marks(folder)
    return sorted(name for name, mark in marks.items() if found.get(name) != list(mark))


def mark_again(folder: RunFolder) -> None:
    """The manifest names the reports that are there now: after others were removed on purpose."""
    with contextlib.suppress(FileNotFoundError):
        write_sealed(folder / MANIFEST, {**read_manifest(folder), FOLDER: report_marks(folder)})


def forget_damaged(folder: RunFolder, manifest: Mapping[str, Any]) -> None:
    """Remove reports that are not what was written: they are of attempts that are over, and cannot be made again."""
    for name in damaged_reports(folder, manifest.get(FOLDER, {})):
        remove_at(folder / name)
