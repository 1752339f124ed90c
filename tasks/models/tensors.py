"""Named arrays in one safetensors file: no code in it, sizes checked before anything is allocated."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file, save_file

from tasks.errors import Diverged
from tasks.files import disk_room
from tasks.models.errors import ModelDamaged, UnsafeFormat
from tasks.models.mapped import read_mapped, release, write_streamed
from tasks.places import is_remote, local_copy, whole_path
from tasks.rows.base import Array

UNSAFE_SUFFIXES = (".pkl", ".pickle", ".joblib", ".pt", ".pth", ".ckpt", ".dill", ".npy", ".bin")
LARGE_BYTES = 256 << 20  # of tensors that are mapped and streamed, so that nobody holds them
CHECKED = 1 << 22  # numbers looked at at once
RUNS_CODE = "pickles and their relatives can run code when they are opened"


def refuse_unsafe_name(name: str, where: str) -> None:
    """Raises UnsafeFormat for the file names of formats that are, or may hold, pickles."""
    if name.lower().endswith(UNSAFE_SUFFIXES):
        raise UnsafeFormat(f"{os.path.basename(name)!r} is no model of ours, and {RUNS_CODE}: not opened", where)


def shapes_of(tensors: dict[str, Array]) -> dict[str, Any]:
    """{name: {"dtype", "shape"}}: what model.json says of the tensors, names in order."""
    return {name: {"dtype": str(tensors[name].dtype), "shape": list(tensors[name].shape)} for name in sorted(tensors)}


def check_finite(tensors: dict[str, Array]) -> None:
    """Raises Diverged when a floating tensor holds NaN or Inf: such a model is never written."""
    for name, values in sorted(tensors.items()):
        count = not_finite(values) if values.dtype.kind == "f" else 0
        if count:
            raise Diverged(
                f"{count:,} of {values.size:,} weights of {name!r} are not finite: the model is not written",
                where=name,
                hint="train with a smaller step or more regularization",
            )


def not_finite(values: Array) -> int:
    """How many numbers are NaN or Inf."""
    flat = values.reshape(-1)
    found = sum(
        int(np.count_nonzero(~np.isfinite(flat[start : start + CHECKED]))) for start in range(0, flat.size, CHECKED)
    )
    release(values)
    return found


def write_tensors(path: Path, tensors: dict[str, Array]) -> None:
    """Write tensors in C order and little-endian; raises Diverged, DiskFull."""
    if is_remote(path):
        with whole_path(path) as local:
            write_tensors(local, tensors)
        return
    check_finite(tensors)
    plain = {name: np.asarray(tensors[name], order="C") for name in sorted(tensors)}
    with disk_room(str(path), sum(values.nbytes for values in plain.values())):
        try:
            path.unlink(missing_ok=True)
            path.touch()
            mode = path.stat().st_mode & 0o777  # what the umask leaves; the library takes it away from all others
            if sum(values.nbytes for values in plain.values()) > LARGE_BYTES:
                write_streamed(path, plain)
            else:
                save_file(plain, str(path))
            path.chmod(mode)
        except SafetensorError as error:
            number = re.search(r"os error (\d+)", str(error))
            if number is None:
                raise
            raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from None


def read_tensors(path: Path) -> dict[str, Array]:
    """All tensors, read-only views of the file where it is large.

    Raises UnsafeFormat when the file is a pickle in disguise, ModelDamaged when sizes do not add up.
    """
    path = local_copy(path)
    try:
        if path.stat().st_size > LARGE_BYTES:
            with safe_open(str(path), "numpy"):  # checks the header
                return read_mapped(path)
        return {name: np.asarray(values) for name, values in load_file(str(path)).items()}
    except (SafetensorError, ValueError) as error:
        with path.open("rb") as file:
            start = file.read(4)
        if start[:1] == b"\x80" or start == b"PK\x03\x04":
            raise UnsafeFormat(f"it is no safetensors file, and {RUNS_CODE}: refused", str(path)) from None
        raise ModelDamaged(f"it is no readable safetensors file ({error})", str(path), "restore the model") from None
