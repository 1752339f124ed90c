"""The twelve DejaVu faces that matplotlib ships, and the code points that all of them draw."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tasks.errors import ResourceError


class FontsMissing(ResourceError):
    """A face that the demo draws with is not where matplotlib keeps its fonts."""


@dataclass(frozen=True, slots=True)
class Face:
    """One face of a type family, and which split its drawings go to."""

    name: str  # "DejaVu Serif Bold"
    file: str  # file name inside matplotlib's font folder
    split: str  # "train", "validation" or "test": whole faces are held out


FACES = (
    Face("DejaVu Sans", "DejaVuSans.ttf", "train"),
    Face("DejaVu Sans Bold", "DejaVuSans-Bold.ttf", "train"),
    Face("DejaVu Sans Oblique", "DejaVuSans-Oblique.ttf", "validation"),
    Face("DejaVu Sans Bold Oblique", "DejaVuSans-BoldOblique.ttf", "train"),
    Face("DejaVu Sans Mono", "DejaVuSansMono.ttf", "train"),
    Face("DejaVu Sans Mono Bold", "DejaVuSansMono-Bold.ttf", "test"),
    Face("DejaVu Sans Mono Oblique", "DejaVuSansMono-Oblique.ttf", "train"),
    Face("DejaVu Sans Mono Bold Oblique", "DejaVuSansMono-BoldOblique.ttf", "train"),
    Face("DejaVu Serif", "DejaVuSerif.ttf", "train"),
    Face("DejaVu Serif Bold", "DejaVuSerif-Bold.ttf", "train"),
    Face("DejaVu Serif Italic", "DejaVuSerif-Italic.ttf", "test"),
    Face("DejaVu Serif Bold Italic", "DejaVuSerif-BoldItalic.ttf", "train"),
)


def face_paths() -> list[Path]:
    """Where the faces lie, in the order of FACES. Raises FontsMissing."""
    from matplotlib import get_data_path  # costs 0.1 s, so not at import time

    folder = Path(get_data_path()) / "fonts" / "ttf"
    paths = [folder / face.file for face in FACES]
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        raise FontsMissing(
            f"matplotlib's fonts lack {', '.join(missing)}",
            where=str(folder),
            hint="reinstall matplotlib (`pip install --force-reinstall matplotlib`)",
        )
    return paths


def shared_code_points(paths: list[Path]) -> list[int]:
    """Code points that every face maps to a glyph of its own, ascending."""
    from matplotlib.ft2font import FT2Font

    maps = [set(FT2Font(str(path)).get_charmap()) for path in paths]
    return sorted(set.intersection(*maps))
