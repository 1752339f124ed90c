"""reproduce: a table or figure of a paper on the user's data, beside what the paper prints."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pipeline.choice import Choice
from pipeline.commands.running import DatasetMissing, load, plan, run
from pipeline.config import LoadedConfig, load_config
from pipeline.connection.profile import Profile
from pipeline.dataset import Dataset
from pipeline.fields import fit
from pipeline.histograms import readers_of, refuse_negative
from pipeline.last_resort import put_line, say_line
from pipeline.plan import make_plan, memory_plan
from pipeline.published import METRICS
from pipeline.report.summary import SmallTable
from pipeline.report.table import print_small
from pipeline.reproduce.catalogue import catalogue, details_text, figure_of, list_text
from pipeline.reproduce.configs import PartConfig, configs_of
from pipeline.reproduce.figure import PaperFigure
from pipeline.reproduce.found import Found, RunFound
from pipeline.reproduce.needs import left_out, refuse_unfit
from pipeline.reproduce.page import MadeFigure, judge_all, write_page
from pipeline.reproduce.place import refuse_place
from pipeline.resources import refusals
from pipeline.stages.publish import environment
from pipeline.store import MANIFEST, read_json
from tasks.errors import UsageError
from tasks.models.sums import HEADER

INGEST = "`labelgrove ingest SOURCE DATASET` makes one"
AGAIN = "type the same `labelgrove reproduce` again: it is made anew"


def reproduce(
    name: str | None,
    data: Path | None,
    folder: Path,
    profile: Profile,
    *,
    overrides: Sequence[str] = (),
    seed: int = 0,
    listed: bool = False,
    dry_run: bool = False,
    force: bool = False,
) -> None:
    """Make a figure again: its runs, then its page and CSV in `folder`; or, without a name, list what there is.

    Raises UsageError, PlaceTaken, OutputExists, FileAccess, DatasetMissing, DatasetFormat, FigureUnfit, PresetChanged,
    ConfigError and what `run` raises. The place is known to be possible before data is read, and every part of the
    figure before anything is run.
    """
    if listed or name is None:
        named = figure_of(name) if name is not None else None
        dataset = opened(data) if data is not None else None
        sys.stdout.write(list_text(dataset) if named is None else details_text(named, dataset))
        return
    figure = figure_of(name)
    if figure.needs_data and data is None:
        hint = f"labelgrove reproduce {name} --data DATASET; {INGEST}"
        raise UsageError(f"{name} is made of a dataset: which one?", name, hint)
    refuse_place(folder, name)
    if not figure.needs_data or data is None:
        _without_data(figure, folder, data, dry_run)
        return
    dataset = opened(data)
    refuse_unfit(figure, dataset, catalogue().values())
    parts = configs_of(figure, dataset, data, folder, seed)
    with _folder_for(folder):
        _check(parts, overrides, profile, force or dry_run)
    for part in parts:
        part.write()
    if dry_run:
        _plan(parts, profile, overrides, force)
        return
    runs = {part.part.key: _run(part, profile, overrides, force) for part in parts}
    why = {part.key: told for part in figure.parts if (told := left_out(part, dataset))}
    words = [*(f"-s {shlex.quote(text)}" for text in overrides), *([f"--seed {seed}"] if seed else [])]
    command = " ".join(["labelgrove reproduce", name, "--data", shlex.quote(data.name), *words])
    _finish(figure, Found(dataset, runs, why), folder, command, data.name)


def opened(data: Path) -> Dataset:
    """The dataset. Raises DatasetMissing, UsageError for what is none, and what opening it raises."""
    if not data.exists():
        raise DatasetMissing("there is no dataset", str(data), INGEST)
    kinds = {"a run folder": MANIFEST, "a model folder": HEADER}
    for kind, mark in kinds.items():
        if (data / mark).is_file():
            hint = "--data is a dataset, of which the figure's own models are trained: give the one it was made from"
            raise UsageError(f"this is {kind}", str(data), hint)
    if not (data / "zarr.json").is_file():
        raise UsageError("this is no dataset", str(data), INGEST)
    return Dataset.open(data)


@contextlib.contextmanager
def _folder_for(folder: Path) -> Iterator[None]:
    """The folder is there, since the configs name the dataset from it; those that were made for nothing are removed."""
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        for place in made:
            with contextlib.suppress(OSError):
                place.rmdir()
        raise


def _without_data(figure: PaperFigure, folder: Path, data: Path | None, dry_run: bool) -> None:
    if data is not None:
        say_line(f"note: {figure.name} is the paper's own example, --data is not used")
    if dry_run:
        put_line(f"{figure.name}: nothing is run; a page and a CSV would be written to {folder}")
        return
    _finish(figure, Found(), folder, f"labelgrove reproduce {figure.name}", "")


def _check(parts: Sequence[PartConfig], overrides: Sequence[str], profile: Profile, force: bool) -> None:
    """Raises what stands against any part, before the first is written or run: its text is planned as it stands."""
    for part in parts:
        loaded = _loaded(part, overrides)
        made = make_plan(loaded, None, _choice(part))
        if loaded.run.train:
            refuse_negative(made.dataset, [*readers_of(loaded.run)])
        if made.to_run and not force and (found := refusals(made, memory_plan(made, profile))):
            raise found[0]


def _loaded(part: PartConfig, overrides: Sequence[str]) -> LoadedConfig:
    return load_config(part.path, tuple(overrides), part.text)


def _choice(part: PartConfig) -> Choice:
    return Choice.of(part.part.only, None)


def _plan(parts: Sequence[PartConfig], profile: Profile, overrides: Sequence[str], force: bool) -> None:
    for place, part in enumerate(parts):
        if place:
            put_line("")
        put_line(f"config      {part.path}")
        plan(part.path, profile, overrides=overrides, force=force, choice=_choice(part))


def _run(part: PartConfig, profile: Profile, overrides: Sequence[str], force: bool) -> RunFound:
    """Run a part, or continue it; what it has come to."""
    say_line(str(part.path))
    result = run(part.path, profile, overrides=overrides, force=force, choice=_choice(part))
    metrics: dict[str, Any] = read_json(result.folder / METRICS, AGAIN)
    return RunFound(load(part.path, overrides).run, metrics, Path(str(result.folder.path)))


def _finish(figure: PaperFigure, found: Found, folder: Path, command: str, dataset: str) -> None:
    """Judge, write the page, and say what became of the claims."""
    made = MadeFigure(figure, found, figure.show(found), judge_all(figure, found), command, dataset, environment())
    page, table = write_page(folder, made)
    lines = [fit(f"{figure.name}: {figure.shows}")]
    for claim, verdict in made.verdicts:
        lines += [fit(f"  {verdict.state}: {claim.text}", 4), fit(f"    {verdict.here}", 6)]
    if made.verdicts:
        lines.append(made.counted)
    sys.stdout.write("\n".join(lines) + "\n")
    for one in [] if made.verdicts else made.shown.tables:  # of a figure without claims the numbers are what it says
        rows = [[cell if isinstance(cell, str) else cell.text for cell in row] for row in one.rows]
        sys.stdout.write("\n")
        print_small(SmallTable(one.title, tuple(one.heading), rows))
    say_line(f"page: {page}")
    say_line(f"csv: {table}")
