"""status, logs, report, doctor: look at what is there."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from pathlib import Path
from typing import Any

import psutil

from pipeline.lock import holder
from pipeline.plan import free_bytes, human_bytes
from pipeline.report.summary import RunSummary
from pipeline.report.table import print_table
from pipeline.stages.publish import environment
from pipeline.store import RunFolder, RunFormat, read_json


def run_folder(path: Path) -> RunFolder:
    """Raises RunFormat when nothing of a run is there."""
    if not (path / "manifest.json").is_file():
        raise RunFormat("this is no run folder", str(path), "give the folder that `run` has printed: runs/NAME")
    return RunFolder(path.absolute())


def summary_of_folder(folder: RunFolder) -> RunSummary:
    """What the table needs, from metrics.json and the config kept in the folder."""
    place = folder / "metrics.json"
    try:
        metrics = read_json(place)
        models, n_classes = metrics["models"], int(metrics["run"]["n_classes"])
        if not all(isinstance(model, dict) for model in models.values()):
            raise TypeError("a model is no table of numbers")
    except FileNotFoundError:
        raise RunFormat("the run has no metrics yet", str(folder.path), "`labelgrove run` finishes it") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        what = f"it is no metrics.json of ours ({type(error).__name__}: {error})"
        raise RunFormat(what, str(place), "`labelgrove run` makes it anew") from None
    return RunSummary(folder.path.name, models, n_classes)


def status(run: Path, *, as_json: bool = False) -> dict[str, Any]:
    """Print where a run is; returns the same as plain values."""
    folder = run_folder(run)
    events = folder.events()
    planned: list[str] = next((event.get("steps", []) for event in reversed(events) if event["event"] == "run"), [])
    started = [event.get("step") for event in events if event["event"] == "step"]
    ended = [event for event in events if event["event"] == "done"]
    live = holder(folder.path)
    last = next((e for e in reversed(events) if e["event"] in ("finished", "failed", "interrupted")), None)
    state = "running" if live else (last["event"] if last else "stopped without a word (killed)")
    found = {
        "run": str(folder.path),
        "state": state,
        "holder": live,
        "planned": planned,
        "current": started[-1] if live and started else None,
        "done": [{"step": e.get("step"), "seconds": e.get("seconds", 0.0), "digest": e.get("digest")} for e in ended],
        "last_error": last.get("message") if last else None,
        "dashboard": next((e.get("dashboard") for e in reversed(events) if e["event"] == "cluster"), None)
        if live
        else None,
    }
    sys.stdout.write(json.dumps(found, indent=1) + "\n" if as_json else _status_text(found))
    return found


def _status_text(found: dict[str, Any]) -> str:
    lines = [f"{found['run']}: {found['state']}" + (f", {found['holder']}" if found["holder"] else "")]
    if found["dashboard"]:
        lines.append(f"dashboard: {found['dashboard']}")
    lines += [f"  done  {entry['step']}  {entry['seconds']:.1f} s" for entry in found["done"]]
    if found["current"]:
        lines.append(f"  now   {found['current']}")
    if found["last_error"] and not found["holder"]:
        lines.append(found["last_error"])
    return "\n".join(lines) + "\n"


def logs(run: Path, *, last: int = 50) -> None:
    """Print the last events, one line each."""
    for event in run_folder(run).events()[-last:]:
        moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(event.get("time", 0)))
        rest = {key: value for key, value in event.items() if key not in ("time", "event")}
        sys.stdout.write(f"{moment} {event.get('event')} {json.dumps(rest, ensure_ascii=False)}\n")


def report(run: Path) -> None:
    """Print a run's table and where its page is."""
    folder = run_folder(run)
    print_table(summary_of_folder(folder))
    sys.stderr.write(f"report: {folder / 'report.html'}\n")


def doctor(*, as_json: bool = False) -> dict[str, Any]:
    """Print what this machine offers and which versions decide the bits of a result."""
    memory = psutil.virtual_memory()
    found: dict[str, Any] = {
        **environment(),
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "memory": human_bytes(memory.total),
        "memory free": human_bytes(memory.available),
        "disk free here": human_bytes(free_bytes(Path.cwd())),
        "numba cache": os.environ.get("NUMBA_CACHE_DIR", "beside the package"),
    }
    text = json.dumps(found, indent=1) if as_json else "\n".join(f"{key:<15} {value}" for key, value in found.items())
    sys.stdout.write(text + "\n")
    return found
