"""The runs that are compared: each opened, named apart from the others, with what its results were made from."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from pipeline.config import OWN_ROWS
from pipeline.published import METRICS, made_from, results_of
from pipeline.report.summary import RunSummary
from pipeline.store import RunFolder, RunFormat, read_json
from tasks.classes import ClassTable
from tasks.errors import LabelgroveError, UsageError
from tasks.models.errors import ModelDamaged
from tasks.models.parquet import read_table
from tasks.models.sums import CLASSES
from tasks.places import is_remote

AGAIN = "type the same `labelgrove run` again: it is made anew"


@dataclass(frozen=True, eq=False)
class ComparedRun:
    """One run.

    name      apart from the others; summary  its models and their numbers
    facts     the "run" part of metrics.json: seed, digest of the dataset, sizes
    settings  of every step that the results were made from, with all defaults; {} of results that do not tell
    versions  of what it was made with; notes  what to know of its results
    """

    name: str
    folder: RunFolder
    summary: RunSummary
    facts: Mapping[str, Any]
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    overrides: Sequence[str] = ()
    notes: Sequence[str] = ()

    @property
    def data(self) -> str:
        """The digest of its dataset; "" where results of an older version do not tell."""
        return str(self.facts.get("dataset") or "")

    def kind(self, model: str) -> str:
        """What a model is: label-tree on pq, tested on x; "" where it is not told."""
        settings = self.settings.get(f"train_{model}", {})
        rows = settings.get("rows") or OWN_ROWS
        tested = settings.get("test_rows") or rows
        text = str(settings.get("kind") or "") + (f" on {rows}" if rows != OWN_ROWS else "")
        return text + (f", tested on {tested}" if tested != rows else "")

    def predictions(self, model: str) -> Path:
        return self.folder / "predictions" / f"{model}.parquet"

    @cached_property
    def classes(self) -> ClassTable | None:
        """The class table that its models carry; None where none can be read."""
        for model in self.summary.models:
            try:
                table = read_table(self.folder / "models" / model / CLASSES, ModelDamaged, AGAIN)
                return ClassTable(tuple(table["id"].to_pylist()), tuple(table["name"].to_pylist()))
            except (LabelgroveError, KeyError):
                continue
        return None


def open_runs(paths: Sequence[Path], runs: Path | None = None) -> list[ComparedRun]:
    """The runs in the order given: run folders, URLs of such, or configs.

    Raises UsageError for fewer than two or the same one twice, RunMissing for what is no run and for runs without
    results, RunFormat, ConfigError.
    """
    from pipeline.commands.looking import find_run, summary_of_folder  # commands import this package

    if len(paths) < 2:
        hint = "name at least two; `labelgrove report RUN` shows one"
        raise UsageError(f"{len(paths)} run{'s' * (not paths)} to compare", str(*paths), hint)
    found = [find_run(path, runs) for path in paths]
    places = [_real(one.folder.path) for one in found]
    for i, place in enumerate(places):
        if place in places[:i]:
            first = paths[places.index(place)]
            raise UsageError(f"this is the same run as {first}", str(paths[i]), "name each run once")
    names = _names([one.folder.path for one in found])
    opened = []
    for one, name in zip(found, names, strict=True):
        results = results_of(one.folder, one.manifest)
        notes = [f"{name}: {note}" for note in (one.changed, results.text(), results.stale_text()) if note]
        opened.append(_opened(one.folder, name, summary_of_folder(one.folder), one.manifest, notes))
    return opened


def _opened(
    folder: RunFolder, name: str, summary: RunSummary, manifest: Mapping[str, Any], notes: list[str]
) -> ComparedRun:
    facts = read_json(folder / METRICS, AGAIN)["run"]
    if not summary.models:
        notes.append(f"{name}: it has no models, so there is nothing of it to compare")
    made = made_from(folder)
    if not made:
        notes.append(f"{name}: its results do not tell what they were made from: an older version wrote them")
    settings = {}
    for step, mark in made.get("steps", {}).items():
        done = folder.done(step, str(mark))
        if done is not None:
            settings[step] = done.settings
    versions = manifest.get("versions")
    try:
        told = {str(key): str(value) for key, value in (versions or {}).items()}
    except AttributeError:
        raise RunFormat("its versions are no table", str(folder / "manifest.json"), AGAIN) from None
    overrides = [str(text) for text in made.get("overrides", ())]
    return ComparedRun(name, folder, summary, facts, settings, told, overrides, notes)


def _real(path: Path) -> str:
    return str(path) if is_remote(path) else os.path.realpath(path)


def _names(folders: Sequence[Path]) -> list[str]:
    """The name of each folder, with as much of what is above it as tells them apart."""
    parts = [tuple(part for part in folder.absolute().parts if part != "/") for folder in folders]
    for depth in range(1, max(map(len, parts)) + 1):
        names = ["/".join(part[-depth:]) for part in parts]
        if len(set(names)) == len(names):
            return names
    return [str(folder) for folder in folders]
