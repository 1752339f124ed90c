"""ingest and verify."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pipeline.connection.profile import parse_bytes
from pipeline.dataset import SPLITS, Dataset
from pipeline.fields import fit
from pipeline.foreign import foreign_note, foreign_to_dataset, foreign_to_model
from pipeline.ingest import ingest as ingest_files
from pipeline.last_resort import put, put_line, say, say_line
from pipeline.owned import refuse_owned
from pipeline.progress import pace_text
from pipeline.run_check import run_problems
from pipeline.store import MANIFEST, RunFolder
from tasks.errors import ArtefactError, UsageError
from tasks.io import FEATURES
from tasks.models.folder import verify_model
from tasks.models.sums import HEADER, SUMS


class NothingToVerify(UsageError):
    """A path at which nothing of ours stands."""


def ingest(
    source: str,
    dataset: Path,
    *,
    format: str | None = None,
    features: int | None = None,
    max_memory: str | None = None,
    validation: float | None = None,
    test: float | None = None,
    **options: Any,
) -> Dataset:
    """Make a dataset store of files (see `pipeline.ingest.ingest`); prints what was made and every note."""
    refuse_owned(dataset)
    shares = {"validation": validation, "test": test}
    for name, share in shares.items():
        if share is not None:
            _refuse_idle_share(name, options)
            options[name] = share
    rate = _Rate()
    limit = None if max_memory is None else parse_bytes(max_memory, "--max-bytes")
    options |= {"progress": rate, "copying": rate.copying, "say": say_line}
    made = ingest_files(source, dataset, fmt=format, n_features=features, max_bytes=limit, **options)
    rate.end()
    for note in made.notes:
        say(fit(f"{note.level}: {note.code}: {note.text}"))
    counts = ", ".join(f"{made.split_counts[name]:,} {name}" for name in SPLITS)
    what = f"images ({counts})" if made.body == "images" else f"rows ({counts}), {made.n_features:,} features"
    say_line(
        f"{made.path}: {made.n_rows:,} {what}, {made.n_classes:,} classes, "
        f"{made.body} {made.dtype} in blocks of {made.block_rows:,} rows, digest {made.digest}"
    )
    return made


def _refuse_idle_share(name: str, options: dict[str, Any]) -> None:
    """A share beside what decides it already would be without effect: nobody should believe that it had one."""
    for other in ("split", f"{name}_source"):
        if options.get(other) is not None:
            option = other.replace("_", "-")
            raise UsageError(f"--{name} has no meaning beside --{option}", f"--{name}", "leave one of them out")


class _Rate:
    """Rows per second and remaining time of an ingest, on one line of a terminal."""

    def __init__(self) -> None:
        from pipeline.watching.pace import Pace

        self.pace, self.live = Pace(), sys.stderr.isatty()

    def __call__(self, done: int, total: int) -> None:
        rate, eta = self.pace("ingest", done, total, done)
        if self.live:
            sys.stderr.write(f"\r  {done:,}/{total:,} rows {pace_text(rate, eta)}\x1b[K")

    def copying(self, done: int, total: int) -> None:
        """Rows copied of one source, before they are looked at; how many there will be is not always known."""
        rate, eta = self.pace("copy", done, total, done)
        if self.live:
            of = f"{done:,}/{total:,}" if total else f"{done:,}"
            sys.stderr.write(f"\r  copying: {of} rows {pace_text(rate, eta if total else None)}\x1b[K")

    def end(self) -> None:
        if self.live:
            sys.stderr.write("\r\x1b[K")


def verify(path: Path) -> None:
    """Read a dataset, a run folder or a model folder again; prints every problem, raises the first.

    What lies in a dataset or a model and is no part of it is noted: it is no damage.
    """
    problems = list(_problems(path))
    for problem in problems:
        put(str(problem))
    if note := foreign_note(_foreign(path, damaged=bool(problems))):
        say(f"note: {path}: {note}")
    if problems:
        raise problems[0]
    put_line(f"{path}: every digest holds")


def _problems(path: Path) -> Any:
    """By what is there of it: the file that names a folder's kind may be the one that is lost."""
    if _is_model(path):
        yield from _caught(lambda: verify_model(path))
    elif _is_dataset(path):
        yield from Dataset.open(path).problems()
    elif (path / MANIFEST).is_file() or (path / "steps").is_dir():
        yield from run_problems(RunFolder(path.absolute()))
    else:
        hint = "give the folder of a dataset (NAME.zarr), a run (runs/NAME) or a model (runs/NAME/models/MODEL)"
        raise NothingToVerify("this is no dataset, no run and no model", str(path), hint)


def _foreign(path: Path, damaged: bool) -> list[str]:
    """Entries that are no part of it; none where that cannot be told: of a run, or of what cannot be read."""
    try:
        if _is_model(path):
            return [] if damaged else foreign_to_model(path)
        return foreign_to_dataset(Dataset.open(path)) if _is_dataset(path) else []
    except ArtefactError:
        return []


def _is_model(path: Path) -> bool:
    return (path / HEADER).is_file() or (path / SUMS).is_file()


def _is_dataset(path: Path) -> bool:
    return (path / "zarr.json").is_file() or (path / FEATURES).is_dir()


def _caught(work: Any) -> Any:
    try:
        work()
    except ArtefactError as error:
        yield error
