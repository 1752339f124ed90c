"""From the bytes of an image file to grey levels, by OpenCV."""

from __future__ import annotations

import numpy as np

from tasks.errors import InputError
from tasks.rows.base import Array


class DamagedImage(InputError):
    """An image file that cannot be decoded."""


def grey_levels(file: Array, max_side: int) -> Array:
    """(height, width) uint8 of an image file (n_bytes,) uint8, turned as its EXIF data say; of JPEG the luminance.

    Images with a longer side than `max_side` are shrunk to it, averaging over pixels. Raises DamagedImage.
    """
    import cv2  # here and below: only what describes images waits for it

    pixels = decoded(file)
    if pixels is None:
        raise DamagedImage("an image cannot be decoded", "", "ingest the folder again: damaged files are left out then")
    height, width = pixels.shape
    longer = max(height, width)
    if longer <= max_side:
        return pixels
    size = tuple(max(1, round(side * max_side / longer)) for side in (width, height))
    return np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA))


def decoded(file: Array) -> Array | None:
    """Grey levels (height, width) uint8 of an image file at its own size; None when it cannot be decoded."""
    import cv2

    try:
        pixels = cv2.imdecode(file, cv2.IMREAD_GRAYSCALE)
    except cv2.error:
        return None
    return None if pixels is None or pixels.ndim != 2 or pixels.dtype != np.uint8 else np.asarray(pixels)
