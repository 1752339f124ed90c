"""export: a model as a file of other programs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pipeline.byte_sizes import human_bytes
from pipeline.commands.model_folders import refuse_other_folder
from pipeline.commands.ranking_rows import check_beam
from pipeline.export.npz import stored_bytes, write_npz
from pipeline.last_resort import say_line
from pipeline.outputs import place_of_file
from tasks.errors import UsageError
from tasks.models.folder import SavedModel, load_model

NPZ, ONNX = "npz", "onnx"
FORMATS = (NPZ, ONNX)
TOP = 5  # classes per row, where nothing else is asked
MUCH_LARGER = 4  # than the model: said before an ONNX file is written


def export(
    model: Path, to: str, output: Path, *, top: int | None = None, beam: int | None = None, force: bool = False
) -> None:
    """Write a model as one file.

    model   a model folder; to: "npz", every tensor and the header, of any kind; or "onnx", a graph that ranks classes
    output  NAME.npz or NAME.onnx; its folder is made; with `force` it replaces a file that is there
    top     of onnx: classes per row, 5 unless given, at most all; beam: of a tree, nodes expanded a depth at most, as
            it was trained unless given
    raises  UsageError, PlaceTaken, OutputExists, PackageMissing, ExportUnsupported, ExportTooLarge, those of model
            folders; all before anything is written
    """
    _check(to, top, beam)
    output = place_of_file(output, force, (f".{to}",))
    if to == ONNX:
        from pipeline.export.graph import onnx_package

        onnx_package()  # refused before a model is read
    refuse_other_folder(model, f"labelgrove export MODEL --to {to} -o NAME.{to}")
    saved = load_model(model)
    if beam is not None:
        check_beam(beam, saved, model)
    if to == NPZ:
        write_npz(saved, output, _teller(output), force)
    else:
        _write_onnx(saved, output, top, beam, force)
    say_line(f"{output}: {human_bytes(output.stat().st_size)}, digest {saved.digest}")


def _write_onnx(saved: SavedModel, output: Path, top: int | None, beam: int | None, force: bool) -> None:
    """The size is said before anything is written, and, before the graph is made, why it will be large."""
    from pipeline.export.onnx_file import check_exportable, constant_bytes, write_onnx

    check_exportable(saved, beam)
    size, stored = constant_bytes(saved), stored_bytes(saved)
    if size > MUCH_LARGER * stored:
        why = f"ONNX holds weights that are 0 like all others: {size / stored:.0f} times the {human_bytes(stored)}"
        say_line(f"warning: {why} of the model; --to npz takes no more than the model")
    write_onnx(saved, output, min(TOP if top is None else top, saved.model.n_classes), beam, _teller(output), force)


def _teller(output: Path) -> Callable[[int], None]:
    """What says how much a file will take."""
    return lambda size: say_line(f"{output.name} will take {human_bytes(size)}")


def _check(to: str, top: int | None, beam: int | None) -> None:
    """What is wrong whatever the model."""
    if to not in FORMATS:
        raise UsageError(f"--to {to!r}: expected one of {', '.join(FORMATS)}", "--to")
    for name, value in (("--top", top), ("--beam", beam)):
        if value is not None and value < 1:
            raise UsageError(f"{name} {value}: expected a whole number >= 1", name)
        if value is not None and to == NPZ:
            raise UsageError(f"{name} has no meaning for npz, which ranks nothing", name, "leave it out")
