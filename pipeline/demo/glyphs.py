"""Draw characters once per face, at one size on one baseline, so that `o` and `O` keep their difference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

CANVAS = 64  # pixels, both ways
FONT_SIZE = 40  # pixels per em: 1.6 em of canvas, the tallest stacked accents take 1.2
BASELINE = 46  # canvas row of the baseline, from the top


def draw(path: Path, codes: list[int]) -> tuple[np.ndarray[Any, np.dtype[np.uint8]], list[int]]:
    """One picture per code point: ink centred left to right, height untouched.

    codes    code points that the face has
    returns  pictures (n_codes, CANVAS, CANVAS) uint8, 255 = ink; and the positions in `codes` of those whose ink
             is absent (a space) or leaves the canvas: their pictures are blank
    """
    from PIL import ImageFont

    # BASIC: the layout engine that is always there and never joins letters, so the same pixels everywhere.
    font = ImageFont.truetype(str(path), FONT_SIZE, layout_engine=ImageFont.Layout.BASIC)
    pictures = np.zeros((len(codes), CANVAS, CANVAS), np.uint8)
    unusable = []
    for row, code in enumerate(codes):
        mask, (_, above) = font.getmask2(chr(code), mode="L", anchor="ls")
        ink = np.asarray(mask, np.uint8).reshape(mask.size[1], mask.size[0])
        if not place(ink, BASELINE + above, pictures[row]):
            unusable.append(row)
    return pictures, unusable


def place(ink: np.ndarray[Any, Any], top: int, picture: np.ndarray[Any, Any]) -> bool:
    """Copy `ink` (h, w) into `picture` with its first row at `top`, centred; False (picture untouched) if it has no
    place there or is blank."""
    columns = np.flatnonzero(ink.any(axis=0)) if ink.size else np.empty(0, np.intp)
    if not columns.size:
        return False
    ink = ink[:, columns[0] : columns[-1] + 1]
    height, width = ink.shape
    left = (picture.shape[1] - width) // 2
    if top < 0 or top + height > picture.shape[0] or left < 0:
        return False
    picture[top : top + height, left : left + width] = ink
    return True
