"""Where a run is: the steps of the config that the folder was last asked for, and how its last attempt ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from pipeline.errors import ClusterLost
from pipeline.interrupts import INTERRUPTED
from pipeline.lock import holder
from pipeline.published import asked_steps, results_of
from pipeline.store import RunFolder
from pipeline.submitted.submission import (
    ASKING,
    ENDED,
    SCHEDULER_GONE,
    SUBMITTED,
    WORKER_GONE,
    Submission,
    read_submission,
)

ENDS = ("finished", "failed", "interrupted")
RUNNING, WAITING = "running", "waiting"
SUBMITTING, STARTING = "submitting", "starting"  # a first worker is waited for; a driver has been begun beside one
KILLED, LOST, NOT_BEGUN = "stopped without a word (killed)", "lost without a word", "not begun"
UNDER_WAY = (SUBMITTING, SUBMITTED, STARTING, RUNNING, WAITING)
SILENT = (KILLED, LOST, NOT_BEGUN)


@dataclass(frozen=True)
class Look:
    """What a run folder says at one moment: who holds it, the submission and the attempt that this is about.

    live        who holds the folder, "" when nobody does
    submission  the last one, None when there was none, or when a run that was none has come after it
    attempt     the events of the last attempt; none when they are older than the submission, or than `live`
    """

    live: str
    submission: Submission | None
    attempt: list[dict[str, Any]]

    @property
    def end(self) -> dict[str, Any] | None:
        """The event with which the attempt has ended, None when there is none."""
        return next((event for event in reversed(self.attempt) if event["event"] in ENDS), None)

    @property
    def why(self) -> str | None:
        """Why it has ended, as far as that was said."""
        if self.end is None:
            ended = self.submission is not None and self.submission.state == ENDED
            return (self.submission.told or None) if self.submission is not None and ended else None
        return self.end.get("why")

    @property
    def phase(self) -> str:
        """One of those under way, finished, failed, interrupted, or one of the silent ends."""
        submission, end = self.submission, self.end
        if self.live:
            return SUBMITTING if submission is not None and submission.state == ASKING else RUNNING
        last = str(end["event"]) if end else KILLED if self.attempt else NOT_BEGUN
        if submission is None or not submission.open or (end and end.get("why") != WORKER_GONE):
            return last
        if submission.state == SUBMITTED:
            return SUBMITTED
        if not submission.fresh:
            return LOST
        return WAITING if self.attempt else STARTING

    @property
    def exit_code(self) -> int:
        """Of a run that is not under way any more: what `run` itself has returned, as far as record and events tell."""
        phase, submission = self.phase, self.submission
        if phase == LOST or self.why == SCHEDULER_GONE:
            return ClusterLost.exit_code
        if submission is not None and submission.state == ENDED and _is_code(submission.code):
            return int(submission.code or 0)
        if phase in SILENT:
            return INTERRUPTED
        code = (self.end or {}).get("code", 1)  # events of earlier versions do not tell it
        known = {"finished": 0, "interrupted": INTERRUPTED}
        return known.get(phase, code if code and _is_code(code) else 1)

    @property
    def last_end(self) -> str:
        """How the attempt ended, in words; "" when it has not, or without a word."""
        if self.end is None:
            return ""
        why = str(self.why or self.end.get("message") or "").partition("\n")[0]
        return f"{self.end['event']} ({why})" if why else str(self.end["event"])


def look(folder: RunFolder) -> Look:
    """Look at a run folder, and at no step."""
    submission, live, events = read_submission(folder), holder(folder.path), folder.events()
    found = Look(live, submission, last_attempt(events))
    if not live and found.attempt and found.end is None:  # it may have begun between these two looks
        found = replace(found, live=holder(folder.path))
    if found.live and found.end:  # whoever holds the folder has not begun yet, or has nothing left to tell
        found = replace(found, attempt=[])
    if submission is not None and submission.state == ASKING and found.live != submission.told:
        submission = None  # whoever waited for a worker was killed
    if submission is not None and _is_of(found.attempt, submission):
        return found
    if submission is not None and _is_newer(submission, found):
        return replace(found, attempt=[])
    return replace(found, submission=None)


def _is_of(attempt: list[dict[str, Any]], submission: Submission) -> bool:
    return bool(attempt) and attempt[0].get("submission") == submission.token


def _is_newer(submission: Submission, found: Look) -> bool:
    """Whether a submission that has begun no attempt is what became of the run last."""
    if not found.attempt:
        return True
    if submission.open:
        return _time_of(found.attempt[0]) <= submission.submitted
    # Ended: it changes nothing when no driver was begun, or when it was refused because somebody else ran.
    return bool(submission.attempt) and not found.live and _time_of(found.attempt[-1]) <= submission.heartbeat


def state_of(folder: RunFolder, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Plain values: what `status --json` prints. Steps are judged by their DONE.json, whatever earlier runs did."""
    seen = look(folder)
    attempt, live, end = seen.attempt, seen.live, seen.end
    asked = manifest.get("asked", {})
    steps = steps_of(folder, manifest)
    current = next((event.get("step") for event in reversed(attempt) if event["event"] == "step"), None)
    results = results_of(folder, manifest)
    solving = pair_under_way(attempt)
    return {
        "run": str(folder.path),
        "state": seen.phase,
        "holder": live,
        "why": None if live else seen.why,
        "submission": _submission_of(seen),
        "overrides": list(asked.get("overrides", [])),
        "left_out": list(asked.get("left_out", [])),
        "planned": next((event.get("steps", []) for event in attempt if event["event"] == "run"), []),
        "current": current if live else None,
        **({"solving": solving} if solving else {}),
        "done": [step for step in steps if step["digest"] is not None],
        "to_do": [step["step"] for step in steps if step["digest"] is None and not (live and step["step"] == current)],
        "results": {
            "state": results.state,
            "overrides": results.overrides,
            "changes": results.changes,
            "stale_models": results.stale,
        },
        "last_error": end.get("message") if end else None,
        "dashboard": next((event.get("dashboard") for event in reversed(attempt) if event["event"] == "cluster"), None)
        if live
        else None,
    }


def phase_of(folder: RunFolder) -> str:
    """The `state` of `state_of` alone, which reads no step."""
    return look(folder).phase


def _time_of(event: Mapping[str, Any]) -> float:
    """Seconds since 1970; an event may be of another version."""
    found = event.get("time")
    return float(found) if isinstance(found, int | float) else 0.0


def _is_code(found: Any) -> bool:
    return isinstance(found, int) and 0 <= found < 256


def what_next(phase: str, why: str | None) -> str:
    """Who goes on with a submitted run that is silent, and what to do when nobody does; "" for all others."""
    if phase == WAITING:
        return "the cluster starts it beside another worker, where it continues"
    if phase == LOST:
        return (
            "neither its worker nor its scheduler has been heard of lately: unless the cluster still takes it up, "
            "nobody goes on with it; submit it again, finished work is kept"
        )
    if why == SCHEDULER_GONE:
        return "nobody goes on with it: submit it again, finished work is kept"
    return ""


def _submission_of(seen: Look) -> dict[str, Any] | None:
    """The submission, with the one exit code that `logs --follow` returns, too."""
    if seen.submission is None:
        return None
    return asdict(seen.submission) | {"code": None if seen.submission.open else seen.exit_code}


def pair_under_way(attempt: list[dict[str, Any]]) -> dict[str, Any]:
    """Of the step that works, or worked last, the pair of penalties that it solves and how far that came, or {}."""
    begun = next((i for i in reversed(range(len(attempt))) if attempt[i]["event"] in ("step", "solving")), None)
    if begun is None or attempt[begun]["event"] == "step":
        return {}
    found = _numbers(attempt[begun], ("pair", "pairs", "lambda1", "lambda2"))
    iterations = [event for event in attempt[begun:] if event["event"] == "iteration"]
    return found and found | _numbers(iterations[-1] if iterations else {}, ("iteration", "objective", "gap", "rank"))


def _numbers(event: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    """These of an event, {} unless all are there: an event may be of another version."""
    found = {key: event[key] for key in keys if isinstance(event.get(key), int | float)}
    return found if len(found) == len(keys) else {}


def last_attempt(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The events from the last `run` on."""
    starts = [i for i, event in enumerate(events) if event["event"] == "run"]
    return events[starts[-1] :] if starts else events


def steps_of(folder: RunFolder, manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every step that is asked for: name, seconds it took, digest of its content (None while it is not done)."""
    marks = {name: step.fingerprint for name, step in asked_steps(manifest).items()}
    marks = marks or {name: step["fingerprint"] for name, step in manifest["steps"].items()}
    found = []
    for name, mark in marks.items():
        done = folder.done(name, mark)
        seconds = None if done is None else float(done.measured.get("seconds") or 0.0)
        found.append({"step": name, "seconds": seconds, "digest": None if done is None else done.digest})
    return found
