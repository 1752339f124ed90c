"""Commands of the command line that apply what was learnt to rows: predict, evaluate, retrieve."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pipeline.cli_options import (
    AsJson,
    Beam,
    Doubt,
    FileLabels,
    ForceFile,
    Format,
    IndexBase,
    LabelsAt,
    Output,
    RawDtype,
    RawShape,
    RowsAt,
    RunPath,
    Runs,
    TableOutput,
    Uncoded,
    file_of,
    place_of,
)


def add_rows(app: typer.Typer) -> None:
    """Register them, in the order in which --help lists them."""
    for command in (predict, evaluate, retrieve):
        app.command()(command)


def predict(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", parser=place_of, help="a model folder: runs/NAME/models/MODEL")
    ],
    data: Annotated[str, typer.Argument(metavar="DATA", help="rows: a dataset store, or files as for `ingest`")],
    output: TableOutput,
    labels: FileLabels = None,
    taxonomy: Annotated[
        str | None, typer.Option(help="as for `ingest`: hierarchical error is measured on it (files: with --labels)")
    ] = None,
    top: Annotated[int, typer.Option(help="classes per row")] = 5,
    proba: Annotated[
        bool,
        typer.Option("--proba", help="probabilities, too: trace-norm, kmeans-tree, or loss = multinomial"),
    ] = False,
    beam: Beam = None,
    doubt: Doubt = None,
    uncoded: Uncoded = False,
    split: Annotated[str | None, typer.Option(help="of a dataset: train, validation, test; default: all rows")] = None,
    scheduler: Annotated[
        str | None, typer.Option("--scheduler", help="of a dataset, as for `run`; default: this process")
    ] = None,
    format: Format = None,
    rows_at: RowsAt = None,
    labels_at: LabelsAt = None,
    raw_shape: RawShape = None,
    raw_dtype: RawDtype = None,
    index_base: IndexBase = None,
    force: ForceFile = False,
) -> None:
    """Rank the classes of new rows, or test a model.

    Block by block, so memory does not grow with the number of rows. Writes Parquet: row, label when known, the best
    classes with their scores, classifiers evaluated, path through a tree. classes.parquet of the model names them.
    Or, as the output's name ends, .csv or .tsv, with the names of the classes.
    Where labels are known (those of a dataset, --labels for files), a table goes to stdout and, with more numbers, to
    a .metrics.json file beside the output.
    """
    options = dict(locals())
    from pipeline import commands

    commands.predict(**options)


def evaluate(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", parser=place_of, help="a model folder: runs/NAME/models/MODEL")
    ],
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="rows with labels: a dataset store, or files as for `ingest`")
    ],
    labels: Annotated[str | None, typer.Option(help="labels of the rows of files, as for `ingest`")] = None,
    taxonomy: Annotated[str | None, typer.Option(help="as for `ingest`: hierarchical error is measured on it")] = None,
    split: Annotated[str | None, typer.Option(help="of a dataset: train, validation, test; default: test")] = None,
    proba: Annotated[
        bool, typer.Option("--proba", help="log-loss and calibration error, too; of models that give probabilities")
    ] = False,
    beam: Beam = None,
    doubt: Doubt = None,
    uncoded: Uncoded = False,
    worst: Annotated[int, typer.Option(help="worst classes, and most confused pairs, that are listed")] = 20,
    scheduler: Annotated[
        str | None, typer.Option("--scheduler", help="of a dataset: serial or local:N; default: this process")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", parser=file_of, metavar="PATH", help="a .json file of the same numbers"),
    ] = None,
    json: AsJson = False,
    format: Format = None,
    rows_at: RowsAt = None,
    labels_at: LabelsAt = None,
    raw_shape: RawShape = None,
    raw_dtype: RawDtype = None,
    index_base: IndexBase = None,
    force: ForceFile = False,
) -> None:
    """Say how right a model is on labelled rows.

    Accuracy, top-5, mean over classes, hierarchical error where there is a taxonomy, cost; then the classes recognised
    worst and the pairs confused most. Of a dataset its test rows. Nothing is written, but for -o.
    """
    options = dict(locals())
    options["as_json"] = options.pop("json")
    from pipeline import commands

    commands.evaluate(**options)


def retrieve(
    run: RunPath,
    rows: Annotated[str, typer.Argument(metavar="ROWS", help="codes of that run: an encoding of kind wta or dwta")],
    output: Output,
    queries: Annotated[
        str | None, typer.Option(help="rows to look up: files as for `ingest`; default: rows of the dataset")
    ] = None,
    labels: FileLabels = None,
    split: Annotated[str | None, typer.Option(help="of the dataset: test or validation; default: test")] = None,
    top: Annotated[int, typer.Option(help="training rows per query")] = 10,
    distance: Annotated[
        str, typer.Option(help="hamming: codes that differ; present: in proportion to those that not both rows lack")
    ] = "hamming",
    scheduler: Annotated[str | None, typer.Option("--scheduler", help="as for `run`; default: this process")] = None,
    runs: Runs = None,
    format: Format = None,
    rows_at: RowsAt = None,
    labels_at: LabelsAt = None,
    raw_shape: RawShape = None,
    raw_dtype: RawDtype = None,
    index_base: IndexBase = None,
    force: ForceFile = False,
) -> None:
    """Find the nearest training rows, by codes that differ.

    Block by block, so memory does not grow with the number of rows. Writes Parquet: row, label when known, the nearest
    training rows with their labels and distances (equal ones: the row stored first). Where labels are known, a table
    goes to stdout and, with precision and recall at every distance, to a .metrics.json file beside the Parquet file.
    """
    options = dict(locals())
    from pipeline import commands

    commands.retrieve(**options)
