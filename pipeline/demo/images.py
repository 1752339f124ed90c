"""The demo's characters as image files: a folder for each part, in it a folder for each character."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from pipeline.demo.characters import class_id
from pipeline.demo.data import choose_characters, spread
from pipeline.demo.fonts import FACES
from pipeline.demo.warp import SIDE, Distortion, affine_maps, warp
from tasks.errors import ParamError
from tasks.files import disk_room
from tasks.rows.base import Array
from tasks.seeds import stream


def write_images(folder: Path, n_classes: int, copies: int, side: int = 64, seed: int = 0) -> dict[str, int]:
    """Write folder/train/U+0041/00-0.png ...: dark ink on light ground, `copies` distorted pictures in every face.

    side     pixels, both ways
    returns  how many images each part has
    Raises ParamError, FontsMissing, DiskFull.
    """
    if n_classes < 2 or copies < 1 or side < 1:
        raise ParamError("images", (n_classes, copies, side), "2 classes, 1 copy, 1 pixel or more", "none is drawn")
    codes, pictures, confusion = choose_characters()
    kept = spread(confusion.kept, n_classes)
    counts = dict.fromkeys((face.split for face in FACES), 0)
    for number, face in enumerate(FACES):
        for copy in range(copies):
            random = stream(seed, "images", "distort", number, copy)
            drawn = drawn_large(pictures[number, kept], side, random)
            for at, pixels in zip(kept, drawn, strict=True):
                place = folder / face.split / class_id(codes[at])
                with disk_room(str(place), pixels.nbytes):
                    place.mkdir(parents=True, exist_ok=True)
                    Image.fromarray(pixels).save(place / f"{number:02d}-{copy}.png")
            counts[face.split] += len(kept)
    return counts


def drawn_large(pictures: Array, side: int, random: np.random.Generator) -> Array:
    """One distorted picture (side, side) uint8 of each, 255 = ground. pictures (n, canvas, canvas) uint8, 255 = ink."""
    amount = Distortion()
    maps = affine_maps(len(pictures), amount, random)
    maps[:, :, :2] *= SIDE / side
    noise = random.standard_normal((len(pictures), side, side), np.float32) * np.float32(amount.noise)
    ground: Array = 255 * (1 - np.clip(warp(pictures, maps, noise), 0, 1))
    return ground.round().astype(np.uint8)
