"""Where a run is: the steps of the config that the folder was last asked for, and how its last attempt ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pipeline.errors import ClusterLost
from pipeline.interrupts import INTERRUPTED
from pipeline.lock import holder
from pipeline.published import asked_steps, results_of
from pipeline.store import RunFolder
from pipeline.submitted.submission import SCHEDULER_GONE, SUBMITTED, WORKER_GONE, Submission, read_submission

ENDS = ("finished", "failed", "interrupted")
RUNNING, WAITING = "running", "waiting"
KILLED, LOST, NOT_BEGUN = "stopped without a word (killed)", "lost without a word", "not begun"
UNDER_WAY = (RUNNING, WAITING, SUBMITTED)
SILENT = (KILLED, LOST, NOT_BEGUN)


def state_of(folder: RunFolder, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Plain values: what `status --json` prints. Steps are judged by their DONE.json, whatever earlier runs did."""
    events = folder.events()
    attempt = last_attempt(events)
    live = holder(folder.path)
    end = end_of(attempt)
    submission = read_submission(folder)
    asked = manifest.get("asked", {})
    steps = steps_of(folder, manifest)
    current = next((event.get("step") for event in reversed(attempt) if event["event"] == "step"), None)
    results = results_of(folder, manifest)
    solving = pair_under_way(attempt)
    return {
        "run": str(folder.path),
        "state": _phase(live, attempt, submission),
        "holder": live,
        "why": end.get("why") if end and not live else None,
        "submission": _submission_of(submission, attempt),
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
    return _phase(holder(folder.path), last_attempt(folder.events()), read_submission(folder))


def _phase(live: str, attempt: list[dict[str, Any]], submission: Submission | None) -> str:
    """running, submitted, waiting (for another worker), finished, failed, interrupted, or one of the silent ends."""
    if live:
        return RUNNING
    end = end_of(attempt)
    last = str(end["event"]) if end else KILLED if attempt else NOT_BEGUN
    if submission is None or not submission.open:
        return last
    begun = attempt and attempt[0].get("submission") == submission.token
    if not begun and attempt and _time_of(attempt[0]) > submission.submitted:  # somebody has run it since
        return last
    if begun and end is not None and end.get("why") != WORKER_GONE:
        return last
    if submission.state == SUBMITTED:
        return SUBMITTED
    return WAITING if submission.fresh else LOST


def _time_of(event: Mapping[str, Any]) -> float:
    """Seconds since 1970; an event may be of another version."""
    found = event.get("time")
    return float(found) if isinstance(found, int | float) else 0.0


def end_of(attempt: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The event with which an attempt has ended, None when there is none."""
    return next((event for event in reversed(attempt) if event["event"] in ENDS), None)


def exit_code_of(folder: RunFolder, phase: str) -> int:
    """The exit code of a run that is not under way any more: what `run` itself has returned, as far as events tell."""
    if phase == LOST:
        return ClusterLost.exit_code
    if phase in SILENT:
        return INTERRUPTED
    end = end_of(last_attempt(folder.events())) or {}
    if end.get("why") == SCHEDULER_GONE:
        return ClusterLost.exit_code
    code = end.get("code", 1)  # events of earlier versions do not tell it
    known = {"finished": 0, "interrupted": INTERRUPTED}
    return known.get(phase, code if isinstance(code, int) and 0 < code < 256 else 1)


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


def last_end(folder: RunFolder) -> str:
    """How the last attempt ended, in words; "" when it has not, or without a word."""
    end = end_of(last_attempt(folder.events()))
    if end is None:
        return ""
    why = str(end.get("why") or end.get("message") or "").partition("\n")[0]
    return f"{end['event']} ({why})" if why else str(end["event"])


def _submission_of(submission: Submission | None, attempt: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The submission of the last attempt, or one that has not begun; None when the last run was none."""
    if submission is None:
        return None
    begun = attempt and attempt[0].get("submission") == submission.token
    return asdict(submission) if begun or submission.open else None


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
