"""One .npy file: what its header declares, and its values memory-mapped; never unpickled."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO

import numpy as np

from pipeline.ingest.errors import DamagedInput, FeatureDtype
from tasks.files import disk_room
from tasks.rows.base import Array

PARSER_BYTES = 16 << 20  # more than reading a header takes
SAVE_AGAIN = "save it again with numpy.save"
MAX_SIZE = np.iinfo(np.intp).max  # of an axis


def read_header(file: IO[bytes], where: str) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, whether in Fortran order, and dtype that a .npy header declares; DamagedInput when it is none."""
    try:
        version = np.lib.format.read_magic(file)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"header version {version}")
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(file)
        if any(isinstance(size, bool) or size < 0 for size in shape) or max(shape, default=0) > MAX_SIZE:
            raise ValueError(f"shape {shape}"[:80])
    except OSError:
        raise
    except MemoryError as error:  # or a literal nested deeper than Python's parser goes
        bytearray(PARSER_BYTES)  # raises it again when memory is what lacks
        raise DamagedInput("this is no .npy file (its header is nested too deep)", where, SAVE_AGAIN) from error
    except Exception as error:  # a literal of 10,000 signs makes the parser of Python raise almost anything
        said = str(error)[:200] or type(error).__name__
        raise DamagedInput(f"this is no .npy file ({said})", where, SAVE_AGAIN) from error
    return shape, fortran, dtype


def declared_bytes(shape: tuple[int, ...], dtype: np.dtype) -> int:
    return int(np.prod(shape, dtype=object)) * dtype.itemsize


def open_array(path: Path) -> Array:
    """The array of a .npy file, memory-mapped; refuses objects and files shorter than they declare."""
    with open(path, "rb") as file:
        shape, _, dtype = read_header(file, str(path))
        size = os.fstat(file.fileno()).st_size - file.tell()
    refuse_objects(dtype, str(path))
    needed = declared_bytes(shape, dtype)
    if size < needed:
        what = f"the header declares {needed:,} bytes of values and {size:,} are there"
        raise DamagedInput(what, str(path), "copy the file again, it may have been cut short")
    if needed == 0:
        return np.empty(shape, dtype)  # an empty file region cannot be mapped
    mapped: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    return mapped


def write_array(path: Path, array: Array, step: int = 1 << 16) -> None:
    """Write an array as .npy in C order, `step` rows at a time. Raises DiskFull.

    On a full disk a page of a mapped file kills the process, and numpy.save raises an error that does not say why.
    """
    header = {"descr": np.lib.format.dtype_to_descr(array.dtype), "fortran_order": False, "shape": array.shape}
    with disk_room(os.fspath(path), array.nbytes), open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, array.shape[0], step):
            file.write(np.ascontiguousarray(array[start : start + step]).data)


def refuse_objects(dtype: np.dtype, where: str) -> None:
    if dtype.hasobject:
        hint = "convert it to numbers and save again; an array of objects is a pickle, which can run code"
        raise FeatureDtype("this is an array of Python objects", where, hint)
