"""cancel: a run is stopped from anywhere."""

from __future__ import annotations

import time
from pathlib import Path

from pipeline.commands.looking import RunMissing, find_run
from pipeline.commands.no_run import is_config
from pipeline.errors import RunLocked
from pipeline.last_resort import put_line, say
from pipeline.state import LOST, UNDER_WAY, look, phase_of
from pipeline.stop_request import forget_request, request_stop
from pipeline.store import RunFolder
from pipeline.submitted.submission import Submission, read_submission

CANCEL_SECONDS = 120.0  # a run ends when what its workers have in hand has ended
CANCEL_POLL_SECONDS = 0.5


def cancel(run: Path, *, runs: Path | None = None, seconds: float = CANCEL_SECONDS) -> str:
    """Stop the run of a folder, wherever it runs; returns how it ended ("" when nothing ran).

    Raises RunMissing, RunLocked when it has not ended within `seconds`: it is asked to, and will.
    """
    try:
        folder = find_run(run, runs).folder
    except RunMissing as missing:
        if not (run.is_file() and is_config(run)):
            raise
        say(f"nothing runs: {missing.what}")
        return ""
    asked = request_stop(folder)
    if not asked:
        say(f"nothing runs in {folder.path}: {phase_of(folder)}")
        return ""
    say(f"asked to stop: {asked}")
    waiting = look(folder).submission
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        seen = look(folder)
        if seen.phase not in UNDER_WAY:
            if seen.phase != LOST:  # a worker may still come and take that up: the request stands
                forget_request(folder)
            ended = _how_ended(folder, waiting) or seen.last_end or seen.phase
            put_line(f"{folder.path}: {ended}")
            return ended
        time.sleep(CANCEL_POLL_SECONDS)
    hint = "it stops when its workers have ended what they have in hand; `labelgrove status` tells"
    raise RunLocked(f"it was asked to stop, and has not within {seconds:.0f} s", str(folder.path), hint)


def _how_ended(folder: RunFolder, waiting: Submission | None) -> str:
    """In words, of a submission that has ended before a worker had taken it; "" of all others."""
    now = read_submission(folder)
    if waiting is None or now is None or now.token != waiting.token or now.attempt or now.open:
        return ""
    return f"interrupted ({now.told})"
