"""status, logs, report, doctor: look at what is there."""

from __future__ import annotations

import json
import os
import platform
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from pydantic import TypeAdapter, ValidationError

from pipeline.commands.no_run import is_config, what_it_is
from pipeline.config import Name, read_toml
from pipeline.config_errors import ConfigError
from pipeline.last_resort import say, say_line
from pipeline.published import METRICS, results_of
from pipeline.report.advice import advice_from
from pipeline.report.numbers import seconds, short
from pipeline.report.summary import RunSummary, SmallTable
from pipeline.report.table import print_table, printable
from pipeline.run_path import run_path, tidy
from pipeline.state import state_of, what_next
from pipeline.store import MANIFEST, RunFolder, RunFormat, read_json, read_manifest
from pipeline.submitted.submission import ASKING, read_submission
from tasks.errors import UsageError


class RunMissing(UsageError):
    """No run folder at a path, or none yet of a config."""


@dataclass(frozen=True)
class FoundRun:
    """A run folder with what its manifest says; `changed` when the config by which it was found is not the run's."""

    folder: RunFolder
    manifest: dict[str, Any]
    changed: str = ""


def find_run(path: Path, runs: Path | None = None) -> FoundRun:
    """The run of a run folder, or of a config file. Raises RunMissing, ConfigError, RunFormat."""
    if path.is_file() and (path.absolute().parent / MANIFEST).is_file():  # a file of a run folder
        path = path.parent
    if path.is_file() and is_config(path):
        folder = RunFolder(run_path(name_of(path), path.parent, runs))
        manifest = manifest_of(
            folder, f"{path} has not been run yet", f"type `labelgrove run {shlex.quote(str(path))}`"
        )
        other = f"{path} is not what this run was asked for: it has changed, or another config has its name"
        changed = "" if kept_begins_with(folder, path) else other
        return FoundRun(folder, manifest, changed)
    folder = RunFolder(tidy(path))
    return FoundRun(folder, manifest_of(folder))


def manifest_of(folder: RunFolder, what: str = "", hint: str = "") -> dict[str, Any]:
    """Raises RunMissing when nothing of a run is there, RunFormat when its manifest is missing, damaged or newer.

    what, hint  of RunMissing; by default what the place is instead
    """
    try:
        return read_manifest(folder)
    except (FileNotFoundError, NotADirectoryError):
        if (folder / "steps").is_dir():
            again = "type the same `labelgrove run` again: it is made anew, finished steps are kept"
            raise RunFormat("the manifest is missing", str(folder / MANIFEST), again) from None
        if read_submission(folder) is not None:  # submitted, and not begun
            return {"identity": {}, "steps": {}}
        told, advice = (what, hint) if what else what_it_is(folder.path)
        raise RunMissing(told, str(folder.path), advice) from None


def name_of(config: Path) -> str:
    """The run's name, of a config that may be wrong elsewhere. Raises ConfigError."""
    try:
        return str(TypeAdapter(Name).validate_python(read_toml(config)[1].get("name"), strict=True))
    except ValidationError:
        hint = "give the run folder instead: runs/NAME"
        raise ConfigError("the config has no usable `name`", str(config), hint) from None


def kept_begins_with(folder: RunFolder, config: Path) -> bool:
    """Whether the folder was last asked for this very text."""
    try:
        return (folder / "config.toml").read_bytes().startswith(config.read_bytes())
    except OSError:
        return False


def summary_of_folder(folder: RunFolder) -> RunSummary:
    """What the table needs, from metrics.json."""
    place = folder / METRICS
    again = "type the same `labelgrove run` again: it is made anew"
    try:
        metrics = read_json(place, again)
        models, n_classes = metrics["models"], int(metrics["run"]["n_classes"])
        order = {name: place for place, name in enumerate(metrics["run"].get("models", ()))}
        models = dict(sorted(models.items(), key=lambda item: order.get(item[0], len(order))))
        left_out = [str(name) for name in metrics["run"].get("left_out", [])]
        tables = [SmallTable(**table) for table in metrics.get("tables", ())]
        details = {name: dict(found) for name, found in dict(metrics.get("details", {})).items()}
        advice = advice_from(metrics["advice"]) if "advice" in metrics else None
        if not all(isinstance(model, dict) for model in models.values()):
            raise TypeError("a model is no table of numbers")
    except FileNotFoundError:
        raise RunMissing("the run has no results yet", str(folder.path), "`labelgrove run` finishes it") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        what = f"it is no metrics.json of ours ({type(error).__name__}: {error})"
        raise RunFormat(what, str(place), again) from None
    findings = [str(text) for text in metrics.get("findings", ())]
    return RunSummary(
        folder.path.name,
        models,
        n_classes,
        details=details,
        left_out=left_out,
        tables=tables,
        findings=findings,
        advice=advice,
    )


def status(run: Path, *, runs: Path | None = None, as_json: bool = False) -> dict[str, Any]:
    """Print where a run is; returns the same as plain values."""
    found = find_run(run, runs)
    state = state_of(found.folder, found.manifest)
    results = results_of(found.folder, found.manifest)
    told = results.text() if results.state == "earlier" else ""
    notes = [note for note in (found.changed, told, results.stale_text()) if note]
    sys.stdout.write(json.dumps(state, indent=1) + "\n" if as_json else _status_text(state, notes))
    return state


def _status_text(state: dict[str, Any], notes: Sequence[str]) -> str:
    typed = "".join(f" -s {shlex.quote(override)}" for override in state["overrides"])
    lines = [", ".join(filter(None, (f"{state['run']}: {state['state']}", state["holder"], state["why"])))]
    if state["submission"]:
        lines.append(_submission_text(state["submission"]))
        lines += filter(None, [what_next(state["state"], state["why"])])
    if typed:
        lines.append(f"asked for with{typed}")
    if state["dashboard"]:
        lines.append(f"dashboard: {state['dashboard']}")
    wide = max((len(entry["step"]) for entry in state["done"]), default=0)
    lines += [f"  done      {entry['step']:<{wide}}  {seconds(entry['seconds'])}" for entry in state["done"]]
    if state["current"]:
        lines.append(f"  now       {state['current']}{_solving_text(state.get('solving', {}))}")
    elif state.get("solving"):
        lines.append(f"  was at    {_solving_text(state['solving'])[2:]}; solved pairs are kept")
    lines += [f"  to do     {name}" for name in state["to_do"]]
    lines += [f"  left out  {name}: not trained" for name in state["left_out"]]
    if state["last_error"] and not state["holder"]:
        lines.append(state["last_error"])
    if state["results"]["state"] == "none":
        lines.append("no results yet")
    return "\n".join(map(clean, [*lines, *notes])) + "\n"


def _submission_text(found: Mapping[str, Any]) -> str:
    """Who has submitted it where, and which worker drives it."""
    text = f"submitted by {found['by']} to {found['scheduler']}"
    ended = "" if found["code"] is None else f"; ended with exit code {found['code']}"
    if found["state"] == ASKING:
        return f"being {text}, which has no worker yet"
    if not found["attempt"]:
        return f"{text}, no worker has taken it{ended or ' yet'}"
    again = f", the {found['attempt']}. time" if found["attempt"] > 1 else ""
    return f"{text}, driven beside worker {found['worker']} on {found['host']}{again}{ended}"


def _solving_text(pair: dict[str, Any]) -> str:
    """Which pair of penalties is being solved, and how far; "" when none is."""
    if not pair:
        return ""
    text = f": pair {pair['pair']:.0f} of {pair['pairs']} at most"
    text += f", lambda1 {pair['lambda1']:.3g}, lambda2 {pair['lambda2']:.3g}"
    if not pair.get("objective"):
        return text
    gap = f"relative gap {short(100 * pair['gap'] / pair['objective'])} %"
    return f"{text}, iteration {pair['iteration']:.0f}: {gap}, rank {pair['rank']:.0f}"


def clean(text: str) -> str:
    """Lines of it without control characters."""
    return "\n".join(printable(line) for line in text.split("\n"))


def report(run: Path, *, runs: Path | None = None) -> None:
    """Print a run's table and where its page is; says when the results are not those of the config."""
    found = find_run(run, runs)
    print_table(summary_of_folder(found.folder))
    say_line(f"report: {found.folder / 'report.html'}")
    results = results_of(found.folder, found.manifest)
    for note in (found.changed, results.text(), results.stale_text()):
        if note:
            say(f"note: {note}")


def doctor(*, as_json: bool = False) -> dict[str, Any]:
    """Print what this machine offers and which versions decide the bits of a result."""
    from pipeline.byte_sizes import human_bytes  # `status` does without what these load
    from pipeline.resources import free_bytes
    from pipeline.stages.publish import environment

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
