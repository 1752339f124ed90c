"""A run folder read again, every file of it: what `verify` says. Writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pipeline.store import DONE, EVENTS, MANIFEST, Done, RunFolder, RunFormat, bytes_digest, file_digest, read_manifest
from pipeline.task_table import TASKS, receipts_hold
from pipeline.watching.performance import FOLDER as PERFORMANCE
from pipeline.watching.performance import damaged_reports
from tasks.errors import ArtefactError
from tasks.places import is_remote
from tasks.versions import version_of

FORGOTTEN = "type the same `labelgrove run` again: it is of an attempt that is over, and removed"
AGAIN = "type the same `labelgrove run` again: it is made anew"


def run_problems(folder: RunFolder) -> Iterator[ArtefactError]:
    """Everything that is missing, damaged or not what was written: one error each."""
    try:
        manifest = read_manifest(folder)
    except FileNotFoundError:
        yield RunFormat("it is missing", str(folder / MANIFEST), AGAIN)
        return
    except RunFormat as error:
        yield error
        return
    for name, step in manifest["steps"].items():
        yield from _step_problems(folder, name, step)
    holds: dict[str, Callable[[Path], bool]] = {
        "config.toml": lambda path: file_digest(path) == manifest["config"],
        EVENTS: lambda path: bytes_digest(path.read_bytes()[: manifest["events"][0]]) == manifest["events"][1],
        TASKS: lambda path: _receipts_are(path, manifest.get(TASKS)),
    }
    for name, hold in holds.items():
        path = folder / name
        if name == TASKS and not path.exists() and not manifest["steps"]:
            continue
        if not path.is_file() or not hold(path):
            yield ArtefactError(f"{name} is missing or was changed", str(path), AGAIN)
    for name in damaged_reports(folder, manifest.get(PERFORMANCE, {})):
        yield ArtefactError(f"{name} is missing or was changed", str(folder / name), FORGOTTEN)


def _receipts_are(path: Path, digest: str | None) -> bool:
    """Whether the table is what was written; digest: None while a run is under way, or was stopped."""
    return receipts_hold(path) and digest in (None, file_digest(path))


def _step_problems(folder: RunFolder, name: str, step: dict[str, Any]) -> Iterator[ArtefactError]:
    done = folder.done(name, step["fingerprint"])
    if done is None or done.digest != step["digest"]:
        place = folder.step_folder(name, step["fingerprint"]) / DONE
        yield ArtefactError(f"step {name} is not what the manifest says", str(place), AGAIN)
        return
    yield from folder.damage(done, again=True)
    for changed, why in published_damage(folder.path, done, again=True):
        yield ArtefactError(f"{changed} {why}", str(folder / changed), AGAIN)


def published_damage(run_folder: Path, done: Done, again: bool = False) -> Iterator[tuple[str, str]]:
    """Files that a step has written outside its own folder (report, models, predictions) and that do not hold; why.

    again  read also objects of which the store tells the version that they were written in
    """
    if is_remote(run_folder):
        yield from _published_objects(run_folder, done, again)
        return
    for name, (size, digest) in done.measured.get("published", {}).items():
        path = run_folder / name
        if not path.is_file():
            yield name, "is missing"
        elif path.stat().st_size != size or file_digest(path) != digest:
            yield name, "was changed"


def _published_objects(run_folder: Path, done: Done, again: bool) -> Iterator[tuple[str, str]]:
    """The same in an object store."""
    told: dict[str, str] = done.measured.get("published_told", {})
    for name, (size, digest) in done.measured.get("published", {}).items():
        path = run_folder / name
        try:
            now = version_of(str(path))
            known = not again and told.get(name) == now
            if not known and (path.stat().st_size != size or file_digest(path, size) != digest):
                yield name, "was changed"
        except FileNotFoundError:
            yield name, "is missing"
