"""The command line. Heavy imports stay inside commands, so that --help answers at once.

Data goes to stdout, messages to stderr. Exit codes: 0 ok, 2 usage or config, 3 bad input data, 4 corrupt artefact,
5 out of disk or memory, 6 cluster lost (resumable), 7 run folder belongs to other data, 8 locked by a live run,
130 interrupted (resumable).
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from pipeline.cli_cluster import add_to
from pipeline.cli_export import add_export
from pipeline.cli_options import (
    AsJson,
    Bits,
    ClassNames,
    CompareRuns,
    Config,
    ConfigOrPreset,
    Encode,
    Format,
    IndexBase,
    Insecure,
    Iterations,
    LabelsAt,
    MaxBytes,
    Memory,
    Only,
    Override,
    ProfileFile,
    RawDtype,
    RawShape,
    RowLabels,
    RowsAt,
    RunPath,
    Runs,
    SampleRows,
    Scheduler,
    SeveralParents,
    Skip,
    SourceRows,
    Split,
    Subquantizers,
    TestShare,
    Threads,
    ValidationShare,
    file_of,
    place_of,
)
from pipeline.cli_reproduce import add_reproduce
from pipeline.cli_rows import add_rows
from pipeline.interrupts import INTERRUPTED, hear_sigterm
from pipeline.last_resort import named, report_error, say, usage_code

app = typer.Typer(
    name="labelgrove",
    help="Train and compare classifiers with thousands of classes on feature matrices too large for one machine.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.command()
def run(
    config: ConfigOrPreset,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            parser=place_of,
            metavar="PATH",
            help="a dataset: write the config of a preset for it, and run that",
        ),
    ] = None,
    scheduler: Scheduler = None,
    threads: Threads = None,
    memory: Memory = None,
    profile: ProfileFile = None,
    insecure: Insecure = False,
    runs: Runs = None,
    set_: Override = None,
    only: Only = None,
    skip: Skip = None,
    force: Annotated[bool, typer.Option("--force", help="run although memory or disk look too small")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="as `labelgrove plan`")] = False,
) -> None:
    """Run a config, or continue it where it stopped.

    Finished steps are reused. The table goes to stdout, progress to stderr. Models that --only or --skip leave out are
    not trained; those that are finished already stay in the results.
    With --data, CONFIG is a preset: hashing, hash-bits, codes, retrieval, trace-norm, trees, compression, relaxed,
    relaxed-kernel, relaxed-classes or images; its config is written here first.
    """
    from pipeline import commands

    where = commands.profile_of(profile, scheduler, threads, memory, insecure)
    with contextlib.nullcontext() if dry_run else commands.nursery(where):
        choice = commands.choice_of(only, skip)
        config = commands.config_of(config, data)
        do = commands.plan if dry_run else commands.run
        do(config, where, runs=runs, overrides=set_ or (), force=force, choice=choice)


@app.command()
def plan(
    config: Config,
    scheduler: Scheduler = None,
    threads: Threads = None,
    memory: Memory = None,
    profile: ProfileFile = None,
    insecure: Insecure = False,
    runs: Runs = None,
    set_: Override = None,
    only: Only = None,
    skip: Skip = None,
    json: AsJson = False,
) -> None:
    """Say what `run` would do; writes nothing.

    Steps, which are reused and why the others are not, peak memory of a worker, disk. Exits with 5 when `run` would
    refuse for lack of memory or disk.
    """
    from pipeline import commands

    where = commands.profile_of(profile, scheduler, threads, memory, insecure)
    choice = commands.choice_of(only, skip)
    commands.plan(config, where, runs=runs, overrides=set_ or (), as_json=json, choice=choice)


@app.command()
def check(
    config: Config,
    scheduler: Scheduler = None,
    threads: Threads = None,
    memory: Memory = None,
    profile: ProfileFile = None,
    insecure: Insecure = False,
    runs: Runs = None,
    set_: Override = None,
    only: Only = None,
    skip: Skip = None,
    json: AsJson = False,
) -> None:
    """Check config, data, memory and disk; list all findings.

    Reads every row again and compares digests. The exit code is that of the first finding.
    """
    from pipeline import commands

    where = commands.profile_of(profile, scheduler, threads, memory, insecure)
    choice = commands.choice_of(only, skip)
    commands.check(config, where, runs=runs, overrides=set_ or (), as_json=json, choice=choice)


@app.command()
def ingest(
    source: SourceRows,
    dataset: Annotated[
        Path, typer.Argument(metavar="DATASET", parser=place_of, help="the dataset store to make: NAME.zarr, or a URL")
    ],
    labels: RowLabels = None,
    classes: ClassNames = None,
    taxonomy: Annotated[str | None, typer.Option(help="parent and child, .tsv or .csv; or .json")] = None,
    several_parents: SeveralParents = "refuse",
    split: Split = None,
    test_source: Annotated[str | None, typer.Option(help="test rows, when they come apart")] = None,
    test_labels: Annotated[str | None, typer.Option(help="labels of the test rows")] = None,
    validation_source: Annotated[str | None, typer.Option(help="validation rows, when they come apart")] = None,
    validation_labels: Annotated[str | None, typer.Option(help="labels of the validation rows")] = None,
    validation: ValidationShare = None,
    test: TestShare = None,
    format: Format = None,
    rows_at: RowsAt = None,
    labels_at: LabelsAt = None,
    raw_shape: RawShape = None,
    raw_dtype: RawDtype = None,
    index_base: IndexBase = None,
    features: Annotated[int | None, typer.Option(help="number of columns, of files that do not say it")] = None,
    dtype: Annotated[str | None, typer.Option(help="float32 or float16; default: float16 stays as it is")] = None,
    max_memory: MaxBytes = None,
    on_nonfinite: Annotated[str, typer.Option(help="refuse or drop-row: rows with NaN or Inf")] = "refuse",
    on_corrupt: Annotated[str, typer.Option(help="refuse or drop-row: images that cannot be decoded")] = "drop-row",
    block_rows: Annotated[int | None, typer.Option(help="rows per block; default: blocks of about 8 MB")] = None,
    encode: Encode = None,
    subquantizers: Subquantizers = None,
    bits: Bits = None,
    sample: SampleRows = None,
    iterations: Iterations = None,
    seed: Annotated[int, typer.Option(help="of the shuffle and the split")] = 0,
    force: Annotated[bool, typer.Option("--force", help="replace the dataset if it exists")] = False,
) -> None:
    """Turn files into a checked dataset store.

    Everything is checked before the first row is written; when the input is wrong, nothing is left behind. After a kill
    the same command continues. With --encode the rows are stored as codes, one byte for each of --subquantizers parts.
    For example: labelgrove ingest rows.npy data.zarr --labels labels.txt --taxonomy tree.tsv --split 0.8,0.1,0.1
    """
    options = dict(locals())
    from pipeline import commands

    commands.ingest(**options)


add_rows(app)
add_export(app)
add_reproduce(app)
add_to(app)


@app.command()
def verify(
    path: Annotated[
        Path,
        typer.Argument(metavar="PATH", parser=place_of, help="a dataset store, a run folder or a model folder"),
    ],
) -> None:
    """Read everything again, compare digests.

    Of a dataset, a run folder or a model folder; every difference is listed.
    """
    from pipeline import commands

    commands.verify(path)


@app.command()
def inspect(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="PATH", parser=place_of, help="a model folder (runs/NAME/models/MODEL), or a dataset store"
        ),
    ],
    hash: Annotated[
        bool, typer.Option("--hash", help="of a hashed model: collisions by level, features lost by class")
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(
            parser=place_of,
            metavar="DATASET",
            help="with --hash: features lost on its test rows, too; with --certify: training rows",
        ),
    ] = None,
    certify: Annotated[
        bool, typer.Option("--certify", help="of a trace-norm model: make its certificate anew from weights and --data")
    ] = False,
    json: AsJson = False,
) -> None:
    """Say what a model or a dataset is.

    A dataset's rows are read once: sizes, zeros, norms, how many rows the classes have, taxonomy, digests. Of a model
    kind, classes, features, parameters, encoders, digest, where it comes from; of a trace-norm model its certificate:
    duality gap, optimality conditions, spectrum. With --hash how many features share their bucket on each level, and
    how many are lost under every hash of a class's path, beside what theory expects.
    """
    from pipeline import commands

    commands.inspect(model, hash=hash, certify=certify, data=data, as_json=json)


@app.command()
def clean(
    config: Config,
    runs: Runs = None,
    set_: Override = None,
    yes: Annotated[bool, typer.Option("--yes", help="really remove them")] = False,
) -> None:
    """Remove steps that the config does not need.

    Without --yes they are only listed.
    """
    from pipeline import commands

    commands.clean(config, runs=runs, overrides=set_ or (), really=yes)


@app.command()
def report(run: RunPath, runs: Runs = None) -> None:
    """Print a finished run's table again."""
    from pipeline import commands

    commands.report(run, runs=runs)


@app.command()
def compare(
    run: CompareRuns,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", parser=file_of, metavar="PATH", help="the page to write; default: compare.html, here"
        ),
    ] = None,
    runs: Runs = None,
    json: AsJson = False,
    force: Annotated[bool, typer.Option("--force", help="replace the page if it exists")] = False,
) -> None:
    """Set the models of several runs side by side.

    Says first whether their accuracies compare; then the table, what to take, the best models of the runs row by row,
    and what differs between the runs. Writes the same as a page, with the numbers as CSV beside it.
    """
    from pipeline import commands

    commands.compare(run, output=output, runs=runs, as_json=json, force=force)


@app.command()
def demo(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="where data, dataset and run go")] = Path("demo"),
    scheduler: Scheduler = None,
    seed: Annotated[int, typer.Option(help="of the images and of the run")] = 0,
    small: Annotated[
        bool, typer.Option("--small", help="a few classes only, in seconds: to see that all works")
    ] = False,
) -> None:
    """Compare four systems on data made on the spot.

    Some 1,200 characters of the DejaVu fonts, drawn with small distortions; downloads nothing.
    """
    from pipeline import commands

    commands.demo(folder, scheduler=scheduler, seed=seed, small=small)


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="a new folder")],
    images: Annotated[
        bool, typer.Option("--images", help="a folder of images, and a config of image features")
    ] = False,
) -> None:
    """Write a commented config and tiny data.

    The two commands that it prints work as typed.
    """
    from pipeline import commands

    commands.init(folder, images=images)


@app.command()
def schema() -> None:
    """Print the config's JSON Schema, for editors."""
    import json

    from pipeline.config import RunConfig

    typer.echo(json.dumps(RunConfig.model_json_schema(), indent=1))


@app.command()
def doctor(json: AsJson = False) -> None:
    """Print versions, BLAS, memory and disk."""
    from pipeline import commands

    commands.doctor(as_json=json)


def main(arguments: list[str] | None = None) -> None:
    """Entry point: every error becomes one message and its exit code (LABELGROVE_DEBUG=1 shows tracebacks)."""
    hear_sigterm()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a name that the terminal cannot show must not end a command
            stream.reconfigure(errors="backslashreplace")
    try:
        code = app(arguments, prog_name="labelgrove", standalone_mode=False)
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except Exception as error:
        code = usage_code(error) or report_error(named(error))
    if code == INTERRUPTED:  # typer turns Ctrl-C and SIGTERM into this code
        typed = sys.argv[1:] if arguments is None else arguments
        goes_on = typed[:1] in (["run"], ["demo"], ["ingest"], ["reproduce"])
        say(f"interrupted; the same command {'continues where it stopped' if goes_on else 'begins anew'}")
    if code:
        sys.exit(code)


if __name__ == "__main__":
    main()
