"""The command `export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pipeline.cli_options import ForceFile, file_of, place_of


def add_export(app: typer.Typer) -> None:
    """Register it."""
    app.command()(export)


def export(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", parser=place_of, help="a model folder: runs/NAME/models/MODEL")
    ],
    to: Annotated[str, typer.Option("--to", metavar="FORMAT", help="npz: arrays; onnx: a graph that ranks classes")],
    output: Annotated[
        Path, typer.Option("-o", "--output", parser=file_of, metavar="PATH", help="the file: NAME.npz or NAME.onnx")
    ],
    top: Annotated[int | None, typer.Option(help="of onnx: classes per row; default: 5")] = None,
    beam: Annotated[
        int | None, typer.Option(help="of a tree, onnx: nodes expanded a depth at most; default: as it was trained")
    ] = None,
    force: ForceFile = False,
) -> None:
    """Write a model as a file of other programs.

    npz: every tensor of a model of any kind, its definitions and classes, for numpy.load. onnx: rows in, the best
    classes and their scores out, as `predict` ranks them; of flat linear models, trace-norm and trees, with the
    encoders normalize, pca and pq. Needs `pip install "labelgrove[onnx]"`.
    """
    from pipeline import commands

    commands.export(model, to, output, top=top, beam=beam, force=force)
