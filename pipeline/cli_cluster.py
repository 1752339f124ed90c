"""Commands of the command line about runs that work elsewhere: submit, status, logs, cancel; certificates for it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pipeline.cli_options import (
    AsJson,
    Config,
    Insecure,
    Only,
    Override,
    ProfileFile,
    RunPath,
    Runs,
    Scheduler,
    Skip,
)


def add_to(app: typer.Typer) -> None:
    """Register them, in the order in which --help lists them."""
    for command in (submit, status, logs, cancel, certificates):
        app.command()(command)


def submit(
    config: Config,
    scheduler: Scheduler = None,
    profile: ProfileFile = None,
    insecure: Insecure = False,
    runs: Runs = None,
    set_: Override = None,
    only: Only = None,
    skip: Skip = None,
    force: Annotated[bool, typer.Option("--force", help="run although memory or disk look too small")] = False,
    where: Annotated[
        str, typer.Option("--where", metavar="WORKER", help="name of the worker to drive it beside; default: any")
    ] = "",
) -> None:
    """Hand a run to a cluster, and return.

    What `run` does is done there, by a process beside one of the workers; when that worker dies it goes on beside
    another. Returns once the run has begun; what `run` would refuse is refused here, with the same exit code.
    Prints the run folder; `labelgrove logs RUN --follow` shows what happens.
    """
    from pipeline import commands

    commands.submit(
        config,
        commands.profile_of(profile, scheduler, None, None, insecure),
        runs=runs,
        overrides=set_ or (),
        force=force,
        choice=commands.choice_of(only, skip),
        where=where,
    )


def status(run: RunPath, runs: Runs = None, json: AsJson = False) -> None:
    """Say where a run is.

    Steps that are done and to do, who runs it now, how it ended, and whether its results are of an earlier config.
    """
    from pipeline import commands

    commands.status(run, runs=runs, as_json=json)


def logs(
    run: RunPath,
    runs: Runs = None,
    last: Annotated[int, typer.Option(min=1, help="events to show")] = 50,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="go on until the run ends")] = False,
) -> None:
    """Print the last events of a run.

    Of a submitted one also what its driver says. With --follow the exit code is that of the run.
    """
    from pipeline import commands

    if code := commands.logs(run, runs=runs, last=last, follow=follow):
        raise SystemExit(code)


def cancel(run: RunPath, runs: Runs = None) -> None:
    """Stop a run, wherever it runs.

    It ends as if interrupted: finished steps are kept, the same command continues. Waits until it has ended; exit 0
    also when nothing runs, 8 when it has not ended within two minutes.
    """
    from pipeline import commands

    commands.cancel(run, runs=runs)


def certificates(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="where they go", show_default=False)],
    hosts: Annotated[
        list[str] | None,
        typer.Option("--host", metavar="HOST", help="a name or address of the scheduler (and --host another)"),
    ] = None,
    days: Annotated[int, typer.Option(min=1, help="how long they are valid")] = 365,
    force: Annotated[bool, typer.Option("--force", help="replace those that are there")] = False,
) -> None:
    """Make certificates for a cluster of your own.

    An authority, a certificate and key for scheduler, workers and clients, and a profile that names them. Whoever has
    them may run code on the cluster.
    """
    from pipeline.commands.certificates import certificates as make

    make(folder, tuple(hosts or ()), days=days, force=force)
