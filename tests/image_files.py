"""Image files made on the spot: textures from a seed, in several formats and modes."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from tasks.rows import Images


def texture(seed: int, height: int = 64, width: int = 64, period: float = 9.0) -> np.ndarray:
    """(height, width) uint8: waves in seeded directions with some noise."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    waves = sum(np.sin((x * a + y * b) * 2 * np.pi / period + c) for a, b, c in rng.uniform(-1, 1, (4, 3)))
    return np.clip(127 + 28 * waves + rng.normal(0, 6, (height, width)), 0, 255).astype(np.uint8)


def encoded(pixels: np.ndarray, kind: str = "PNG", **options: Any) -> bytes:
    """The bytes of a file of an array (height, width[, channels])."""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind, **options)
    return file.getvalue()


def textures(seeds: range, height: int = 64, width: int = 64) -> Images:
    """Some images as rows."""
    return Images.of_files([encoded(texture(seed, height, width)) for seed in seeds])


def image_folder(root: Path, n_classes: int, each: int, side: int = 48) -> Path:
    """root/class-0/00.png ...: each class has waves of a length of its own."""
    for c in range(n_classes):
        folder = root / f"class-{c}"
        folder.mkdir(parents=True)
        for i in range(each):
            (folder / f"{i:02d}.png").write_bytes(encoded(texture(100 * c + i, side, side, 5.0 + 4 * c)))
    return root
