"""Of which config are the results in a run folder? metrics.json says what it was made from, the manifest what is asked.

The two differ after a run that was interrupted before its report, so whoever shows results asks here first.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pipeline.reasons import differences
from pipeline.store import RunFolder, RunFormat, read_json

REPORT = "report"  # the step that publishes
METRICS = "metrics.json"
MADE_FROM = "made_from"  # of metrics.json: {"overrides", "report": its settings, "steps": {step: fingerprint}}


@dataclass(frozen=True, slots=True)
class AskedStep:
    """A step of the config as it is now."""

    name: str
    fingerprint: str
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Results:
    """What metrics.json, report.html, models/ and predictions/ are of.

    state    "none", "current" (of the config that the folder was last asked for), "earlier" (of one before)
    changes  from the config of the results to the one asked for: tree.depth: 2 -> 3
    stale    models that lie in models/ but are not of the results
    """

    state: str
    changes: list[str] = field(default_factory=list)
    overrides: list[str] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)

    def text(self) -> str:
        """For people, one line; "" when they are those of the config and nothing was put over it."""
        typed = f"run with -s {' -s '.join(map(shlex.quote, self.overrides))}" if self.overrides else ""
        if self.state == "earlier":
            more = f"; since then {'; '.join(self.changes)}" if self.changes else ""
            return f"results are of an earlier config{', ' if typed else ''}{typed}{more}"
        return f"results were {typed}" if typed else ""

    def stale_text(self) -> str:
        names = ", ".join(self.stale)
        return f"models/ and predictions/ still hold {names} of an earlier config" if names else ""


def results_of(folder: RunFolder, manifest: Mapping[str, Any]) -> Results:
    """Compare what is there with what the manifest says was asked."""
    if not (folder / METRICS).is_file():
        return Results("none")
    made = made_from(folder)
    overrides = [str(text) for text in made.get("overrides", [])]
    stale = stale_models(folder)
    if REPORT in manifest["steps"]:
        return Results("current", [], overrides, stale)
    return Results("earlier", config_changes(folder, asked_steps(manifest)), overrides, stale)


def asked_steps(manifest: Mapping[str, Any]) -> dict[str, AskedStep]:
    """The steps of the config that the folder was last asked for; none in a manifest that does not tell."""
    steps = manifest.get("asked", {}).get("steps", [])
    return {step["name"]: AskedStep(step["name"], step["fingerprint"], step["settings"]) for step in steps}


def made_from(folder: RunFolder) -> dict[str, Any]:
    """What metrics.json says that it was made from, {} when it does not."""
    try:
        made = read_json(folder / METRICS)[MADE_FROM]
        return made if isinstance(made, dict) and isinstance(made["steps"], dict) else {}
    except (OSError, RunFormat, KeyError, TypeError):
        return {}


def stale_models(folder: RunFolder) -> list[str]:
    """Folders of models/ that the results do not speak of."""
    models = made_from(folder).get("report", {}).get("models")
    place = folder / "models"
    if models is None or not place.is_dir():
        return []
    return sorted(path.name for path in place.iterdir() if (path / "model.json").is_file() and path.name not in models)


def config_changes(folder: RunFolder, asked: Mapping[str, AskedStep]) -> list[str]:
    """From the config that the results were made from to the one that is asked for; [] when they do not differ."""
    made = made_from(folder)
    if not made or not asked:
        return []
    lines: list[str] = []
    other = [name for name, mark in made["steps"].items() if name in asked and asked[name].fingerprint != mark]
    for name in other:
        earlier = folder.done(name, made["steps"][name])
        if earlier is not None:
            part = name.partition("_")[2]
            lines += [f"{part}.{line}" for line in differences(earlier.settings, dict(asked[name].settings))]
    report = made.get("report", {})
    if REPORT in asked:
        lines += _report_changes(report, asked[REPORT].settings)
    if other and not lines:
        lines.append(f"{other[0]} was made from other settings")
    return list(dict.fromkeys(lines))


def _report_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Models that have come or gone; the page's own settings."""
    before, now = (list(settings.get("models", [])) for settings in (old, new))
    lines = [f"{name}: new" for name in now if name not in before]
    lines += [f"{name}: not in it any more" for name in before if name not in now]
    own = ({k: v for k, v in settings.items() if k not in ("models", "left_out")} for settings in (old, new))
    return lines + [f"report.{line}" for line in differences(*own)]
