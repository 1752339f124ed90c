"""Content digests: what the values are, whatever the compression, the byte order or the file they stand in."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

DIGEST_BYTES = 16  # BLAKE2b-128: 32 hexadecimal digits


def digest_arrays(*arrays: NDArray[Any]) -> str:
    """Digest of arrays in order: of each its dtype, its shape and its little-endian values in C order."""
    state = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for array in arrays:
        if array.dtype.hasobject:
            raise TypeError("objects have no content digest")
        plain = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).reshape(array.shape)
        state.update(f"{plain.dtype.str}{plain.shape}".encode())
        state.update(plain.reshape(-1).view(np.uint8).data)
    return state.hexdigest()


def digest_text(*texts: str) -> str:
    """Digest of texts in order; where one ends and the next begins counts."""
    state = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        state.update(len(data).to_bytes(8, "little"))
        state.update(data)
    return state.hexdigest()


def combine(digests: Iterable[str]) -> str:
    """One digest of a sequence of digests, in order."""
    return digest_text(*digests)
