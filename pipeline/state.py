"""Where a run is: the steps of the config that the folder was last asked for, and how its last attempt ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.lock import holder
from pipeline.published import asked_steps, results_of
from pipeline.store import RunFolder

ENDS = ("finished", "failed", "interrupted")


def state_of(folder: RunFolder, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Plain values: what `status --json` prints. Steps are judged by their DONE.json, whatever earlier runs did."""
    events = folder.events()
    attempt = last_attempt(events)
    live = holder(folder.path)
    end = next((event for event in reversed(attempt) if event["event"] in ENDS), None)
    asked = manifest.get("asked", {})
    steps = steps_of(folder, manifest)
    current = next((event.get("step") for event in reversed(attempt) if event["event"] == "step"), None)
    results = results_of(folder, manifest)
    solving = pair_under_way(attempt)
    return {
        "run": str(folder.path),
        "state": "running" if live else (end["event"] if end else "stopped without a word (killed)"),
        "holder": live,
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
