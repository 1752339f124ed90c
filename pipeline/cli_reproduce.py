"""reproduce, of the command line: tables and figures of the papers on the user's data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pipeline.cli_options import Insecure, Memory, Override, ProfileFile, Scheduler, Threads, place_of


def add_reproduce(app: typer.Typer) -> None:
    """Register it."""
    app.command()(reproduce)


def reproduce(
    figure: Annotated[
        str | None, typer.Argument(metavar="[FIGURE]", help="its name; without one, all are listed", show_default=False)
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data", parser=place_of, metavar="DATASET", help="the dataset to make it of; in lists, what it allows"
        ),
    ] = None,
    output: Annotated[
        Path,
        typer.Option("-o", "--output", parser=place_of, metavar="FOLDER", help="where configs, runs and the page go"),
    ] = Path("reproduce"),
    list_: Annotated[
        bool, typer.Option("--list", help="only say what there is; of a FIGURE what it claims, needs and runs")
    ] = False,
    scheduler: Scheduler = None,
    threads: Threads = None,
    memory: Memory = None,
    profile: ProfileFile = None,
    insecure: Insecure = False,
    set_: Override = None,
    seed: Annotated[int, typer.Option(min=0, help="of everything that is drawn")] = 0,
    force: Annotated[bool, typer.Option("--force", help="run although memory or disk look too small")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="write the configs and say what would run")] = False,
) -> None:
    """Make a table or figure of a paper again on your data.

    Writes and runs its configs, then a page and a CSV: our numbers beside those that the paper prints, what differs,
    and whether each of the paper's claims holds here. Typed again, it continues or reuses. Without FIGURE it lists all
    with the data that each needs and about how long it takes. Exit code 2 where the place or the dataset does not fit.
    For example: labelgrove reproduce zhao-xing-table-2 --data data.zarr
    """
    from pipeline import commands

    commands.reproduce(
        figure,
        data,
        output,
        commands.profile_of(profile, scheduler, threads, memory, insecure),
        overrides=set_ or (),
        seed=seed,
        listed=list_,
        dry_run=dry_run,
        force=force,
    )
