"""logs: the events of a run, and what the driver of a submitted one says; followed until the run ends."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.commands.looking import find_run
from pipeline.last_resort import say
from pipeline.report.table import printable
from pipeline.state import SILENT, UNDER_WAY, look, what_next
from pipeline.store import RunFolder
from pipeline.submitted.submission import log_of, read_submission
from tasks.places import is_remote
from tasks.urls import StoreUnreachable

POLL_SECONDS = 0.5
FAR_POLL_SECONDS = 3.0  # of a run folder in an object store: it is asked for the whole of both


def logs(run: Path, *, runs: Path | None = None, last: int = 50, follow: bool = False) -> int:
    """Print the last events, one line each, then what the driver has said; with `follow` more until the run ends.

    Returns the exit code: of one that was followed to its end that of the run, else 0.
    """
    folder = find_run(run, runs).folder
    seen = Followed(folder)
    seen.show(last)
    while follow:
        now = look(folder)  # before the last lines: what was written until then is shown
        seen.show()
        if now.phase not in UNDER_WAY:
            say(f"{folder.path}: {now.phase if now.phase in SILENT else now.last_end or now.phase}")
            if told := what_next(now.phase, now.why):
                say(told)
            return now.exit_code
        time.sleep(FAR_POLL_SECONDS if is_remote(folder.path) else POLL_SECONDS)
    return 0


class Followed:
    """What of a run's events and its driver's messages was shown already."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self._events, self._token, self._said = 0, "", 0

    def show(self, last: int | None = None) -> None:
        """Print what is new, of each kind the `last` lines at most."""
        events = self.folder.events()
        lines = [event_line(event) for event in events[self._events :]]
        self._events = len(events)
        said = [f"driver: {line}" for line in self._new_lines()]
        for line in (*_last(lines, last), *_last(said, last)):
            sys.stdout.write(printable(line) + "\n")
        sys.stdout.flush()

    def _new_lines(self) -> list[str]:
        """Whole lines of the driver's log that were not there before; of the last submission."""
        submission = read_submission(self.folder)
        if submission is None:
            return []
        if submission.token != self._token:
            self._token, self._said = submission.token, 0
        try:
            data = log_of(self.folder, self._token).read_bytes()
        except (OSError, StoreUnreachable):
            return []
        if len(data) < self._said:  # a log in an object store is cut off at its beginning when it grows large
            self._said = 0
        new = data[self._said : data.rfind(b"\n") + 1]
        self._said += len(new)
        return new.decode("utf-8", "replace").splitlines()


def _last(lines: list[str], most: int | None) -> list[str]:
    return lines if most is None else lines[-most:]


def event_line(event: Mapping[str, Any]) -> str:
    """An event for people."""
    rest = {key: _brief(value) for key, value in event.items() if key not in ("time", "event")}
    return f"{_moment(event.get('time'))} {event['event']} {json.dumps(rest, ensure_ascii=False)}"


def _brief(value: Any) -> Any:
    """Six digits of every number."""
    if isinstance(value, dict):
        return {key: _brief(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_brief(part) for part in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _moment(stamp: Any) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(stamp))
    except (TypeError, ValueError, OverflowError, OSError):
        return "????-??-?? ??:??:??"
