"""How rows will be stored: in which type, in blocks of how many, with which codebooks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from pipeline.ingest.kept import Kept
from pipeline.ingest.layout import choose_block_rows
from pipeline.ingest.parts import Parts
from pipeline.ingest.source import SLAB_BYTES
from tasks.digest import digest_arrays, digest_text
from tasks.errors import ParamError
from tasks.io import MAX_CHUNK_BYTES
from tasks.rows import Images
from tasks.rows.base import Array

if TYPE_CHECKING:
    from pipeline.ingest.coder import Coder

FLOATS = "float32"


def stored_dtype(parts: Parts, dtype: str | None, coder: Coder | None) -> str:
    """Of the values as they will be stored. dtype: what was asked for. Raises ParamError."""
    if coder is not None:
        return "uint8"
    if parts.body == Images.body:
        if dtype is not None:
            raise ParamError("dtype", dtype, "none", "images are stored as their files are")
        return "uint8"
    if parts.body == "csr":
        if dtype == "float16":
            raise ParamError("dtype", dtype, "float32", "sparse values are stored as float32")
        return "float32"
    halves = all(source.dtype.newbyteorder("=") == np.float16 for source in parts.sources)
    return dtype or ("float16" if halves else FLOATS)


def block_rows_of(parts: Parts, n_rows: int, dtype: str, wanted: int | None, coder: Coder | None) -> int:
    """Rows of a block: those `wanted`, or by the size of a row as it is stored in `dtype`. Raises ParamError."""
    if coder is None:
        row_bytes = max(1, parts.row_bytes() // (2 if dtype == "float16" else 1))
    else:
        row_bytes = coder.params.resolve(parts.n_features)
    if wanted is None:
        return choose_block_rows(n_rows, row_bytes, 0 if coder is None else 4 * parts.n_features)
    most = MAX_CHUNK_BYTES // row_bytes
    if wanted > max(1, most):
        why = f"a block of {row_bytes:,} bytes a row is one chunk"
        raise ParamError("block_rows", wanted, f"at most {most:,}", why)
    return wanted


def learn_codebooks(coder: Coder, parts: Parts, train: Array, kept: Kept) -> None:
    """Codebooks of a sample of the training rows, which are in random order."""
    coder.check_rows(len(train))
    index = np.sort(train[: coder.params.sample])
    step = max(1, SLAB_BYTES // (4 * parts.n_features))

    def draw() -> Array:
        sample = np.empty((len(index), parts.n_features), np.float32)
        for start in range(0, len(index), step):
            taken = parts.take(index[start : start + step], FLOATS)
            sample[start : start + step] = taken.to_array()
        return sample

    about = digest_text(json.dumps(coder.about(), sort_keys=True), digest_arrays(index))
    coder.learn(kept.folder / f"codebooks-{about[:12]}.npz", draw)
