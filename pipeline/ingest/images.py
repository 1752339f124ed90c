"""A folder of images: one class for each sub-folder, or classes from a table that names the files.

The files' own bytes are stored, so nothing is lost. Each file is decoded once beforehand: what is damaged, or declares
more pixels than may be held, is found here and not in the middle of a run.
"""

from __future__ import annotations

import io
import os
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from pipeline.dataset import Note
from pipeline.ingest.errors import SourceMissing, UnknownInput
from pipeline.ingest.files import IMAGES, files_below, is_image, table_rows
from pipeline.ingest.labels import Labels, from_items
from pipeline.ingest.source import SLAB_BYTES, Source
from tasks.errors import is_starved
from tasks.features.pixels import decoded
from tasks.rows import Images
from tasks.rows.base import Array

LEAST_ROW_BYTES = 2**14  # a block holds 512 small files at most: describing one takes longer than reading it
MOST_PIXELS = 2**26  # 64 million: 256 MB while they are decoded in colour
PARTS = frozenset(("train", "training", "val", "valid", "validation", "test"))
SHOWN_ENDINGS = 5
PICTURES = frozenset((".heic", ".heif", ".tga", ".ico", ".psd", ".raw", ".dng", ".cr2", ".nef", ".svg", ".jxl", ".jpe"))
FILE_COLUMNS = ("file", "filename", "image", "path")  # that name the files in a table


@dataclass(frozen=True)
class Look:
    """What decoding one file came to: why it cannot be used, or "" and its longer side in pixels."""

    wrong: str = ""
    side: int = 0


class ImageSource(Source):
    """Image files below a folder, in the order of their paths or of the table that names them."""

    body: ClassVar[str] = "images"

    def __init__(self, root: Path, files: Sequence[str], notes: Sequence[Note] = ()) -> None:
        super().__init__(root.name, (len(files), 0), np.dtype(np.uint8), notes)
        self.root, self.files = root, list(files)
        self.named = False  # whether a table has said which files there are, and their labels
        self.numbers = np.arange(len(self.files))  # of the rows, where some were left out
        self.sizes = np.array([os.stat(root / file).st_size for file in files], np.int64)

    @property
    def row_bytes(self) -> int:
        return max(LEAST_ROW_BYTES, int(self.sizes.sum() // max(1, self.n_rows)))

    def take(self, index: Array, dtype: str) -> Images:  # noqa: ARG002
        """Raises SourceMissing when a file has gone, or changed its size, since the folder was listed."""
        return Images.of_files([self._read(int(row)) for row in index])

    def slab(self, start: int, stop: int, dtype: str | None = None) -> Images:  # noqa: ARG002
        return self.take(np.arange(start, stop), "uint8")

    def slabs(self, dtype: str | None = "float32") -> Iterator[tuple[int, Images]]:
        """As many files at a time as SLAB_BYTES hold."""
        start = 0
        while start < self.n_rows:
            held = np.cumsum(self.sizes[start:])
            stop = start + max(1, int(np.searchsorted(held, SLAB_BYTES, side="right")))
            yield start, self.slab(start, stop, dtype)
            start = stop

    def without(self, rows: Sequence[int]) -> ImageSource:
        """The same without some rows; the others keep their numbers."""
        kept = np.setdiff1d(np.arange(self.n_rows), np.asarray(rows, np.int64))
        left = ImageSource(self.root, [self.files[row] for row in kept], self.notes)
        left.numbers = self.numbers[kept]
        return left

    def _read(self, row: int) -> bytes:
        path = self.root / self.files[row]
        try:
            data = path.read_bytes()
        except OSError as error:
            raise SourceMissing(f"it cannot be read ({error.strerror})", str(path), "check the folder") from error
        if len(data) != self.sizes[row]:
            what = f"it had {self.sizes[row]:,} bytes when the folder was listed, and has {len(data):,} now"
            raise SourceMissing(what, str(path), "ingest again when nobody writes there")
        return data

    def place(self, row: int) -> str:
        return str(self.root / self.files[row])


# ---- which files -------------------------------------------------------------------------------------------------


def open_images(root: Path) -> ImageSource:
    """The images of a folder, in the order of their paths; their classes are its sub-folders, if they lie in such.

    Raises SourceMissing, UnknownInput.
    """
    found, notes = _listed(root)
    if not found:
        hint = f"endings that are read: {' '.join(sorted(IMAGES))}"
        raise SourceMissing("the folder holds no images", str(root), hint)
    source = ImageSource(root, found, notes)
    source.labels = _by_folder(root, found)
    return source


def beside(source: ImageSource) -> str:
    """Why images of sub-folders have no classes: that some lie beside these; "" where it is not so."""
    alone = [file for file in source.files if "/" not in file]
    if not alone or len(alone) == source.n_rows:
        return ""
    more = ", ..." if len(alone) > 1 else ""
    return f"{len(alone):,} of its images lie beside the folders of classes: {alone[0]}{more}"


def named_images(paths: Sequence[Path]) -> ImageSource:
    """Images that are named one by one, in their order, without classes."""
    places = [Path(os.path.abspath(path)) for path in paths]
    root = Path(os.path.commonpath([place.parent for place in places]))
    return ImageSource(root, [place.relative_to(root).as_posix() for place in places])


def named_by_table(source: ImageSource, table: object) -> ImageSource:
    """The images that a table names, in its order, with its labels; the source itself where the table names no files.

    table   TSV or CSV (or FILE:COLUMN) with a column `file` of paths within the folder and one of labels
    Raises SourceMissing and UnknownInput with the line.
    """
    if not isinstance(table, str | os.PathLike):
        return source
    path, column = _table_and_column(table)
    if path.suffix.lower() not in (".tsv", ".csv") or not path.is_file():
        return source
    header, *rows = table_rows(path) or [[]]
    header = [name.strip() for name in header]
    lowered = [name.lower() for name in header]
    if not set(lowered) & set(FILE_COLUMNS):
        if len(header) == 1:
            return source
        what = f"none of its columns, {', '.join(map(repr, header))}, names the files"
        hint = f"call it {FILE_COLUMNS[0]}; or give one column of labels, in the order of the files' paths"
        raise UnknownInput(what, str(path), hint)
    files, labels = _by_table(source, path, column, header, rows)
    notes = list(source.notes)
    if left := source.n_rows - len(files):
        notes.append(Note("PassedOver", f"{source.name}: {left:,} images that {path.name} does not name", "warning"))
    named = ImageSource(source.root, files, notes)
    named.labels, named.named = labels, True
    return named


def _listed(root: Path) -> tuple[list[str], list[Note]]:
    """Paths of the images within the folder, sorted, and what is said of other files."""
    found, odd, others = [], [], Counter[str]()
    for path in files_below(root):
        if not is_image(path):
            others[os.path.splitext(path)[1].lower() or "no ending"] += 1
        elif not os.path.isfile(root / path):
            odd.append(f"{path} (no regular file)")
        elif not path.isprintable() and path != path.encode("utf-8", "replace").decode("utf-8"):
            odd.append(f"{path.encode('utf-8', 'backslashreplace').decode()} (its name is no UTF-8)")
        else:
            found.append(path)
    notes = []
    if others:
        kinds = ", ".join(f"{count:,} {ending}" for ending, count in others.most_common(SHOWN_ENDINGS))
        more = ", ..." if len(others) > SHOWN_ENDINGS else ""
        text = f"{root.name}: {others.total():,} files of no format of images that is read ({kinds}{more})"
        level = "warning" if any(ending in PICTURES for ending in others) else "info"
        notes.append(Note("PassedOver", text, level))
    if odd:
        more = ", ..." if len(odd) > SHOWN_ENDINGS else ""
        text = f"{root.name}: {len(odd):,} files that cannot be read: {', '.join(odd[:SHOWN_ENDINGS])}{more}"
        notes.append(Note("PassedOver", text, "warning"))
    return sorted(found), notes


def _by_folder(root: Path, files: Sequence[str]) -> Labels | None:
    """The first folder of each path is its class; None where images lie in the folder itself."""
    parts = [Path(file).parts for file in files]
    if any(len(part) == 1 for part in parts):  # `beside` tells of these where others lie in folders
        return None
    names = [part[0] for part in parts]
    if {name.lower() for name in names} <= PARTS:
        given = ", ".join(sorted(set(names)))
        hint = "ingest ROOT/train DATASET --test-source ROOT/test (and --validation-source)"
        raise UnknownInput(f"its sub-folders are {given}: parts of a dataset, no classes", str(root), hint)
    return from_items(names, f"the sub-folders of {root.name}")


def _table_and_column(table: str | os.PathLike[str]) -> tuple[Path, str | None]:
    text = os.fspath(table)
    name, colon, column = text.rpartition(":")
    return (Path(name), column) if colon and not os.path.exists(text) else (Path(text), None)


def _by_table(
    source: ImageSource, path: Path, column: str | None, header: list[str], rows: list[list[str]]
) -> tuple[list[str], Labels]:
    """Files and labels that the lines of a table name."""
    lowered = [name.lower() for name in header]
    file_column = next(lowered.index(name) for name in FILE_COLUMNS if name in lowered)
    others = [name for i, name in enumerate(header) if i != file_column]
    if column not in others and (column is not None or len(others) != 1):
        hint = f"name the column of the labels: {path.name}:COLUMN"
        raise UnknownInput(f"its columns are {', '.join(map(repr, header))}", str(path), hint)
    label_column = header.index(column or others[0])
    there, files, labels = set(source.files), [], []
    for line, row in enumerate(rows, 2):
        if not any(row):
            continue
        where = f"{path}, line {line}"
        if len(row) != len(header):
            what = f"{len(row)} fields where {len(header)} columns are named"
            raise UnknownInput(what, where, "one line an image, fields as in the first line")
        file = os.path.normpath(row[file_column])
        if file not in there:
            hint = "paths are relative to the folder; leave out lines of images that are not there"
            raise SourceMissing(f"there is no image {row[file_column]!r} in {source.root}", where, hint)
        files.append(file)
        labels.append(row[label_column])
    if len(set(files)) < len(files):
        twice = Counter(files).most_common(1)[0][0]
        raise UnknownInput(f"the image {twice!r} is named twice", str(path), "one line for each image")
    return files, from_items(labels, path.name)


# ---- whether they can be used ------------------------------------------------------------------------------------


def look_at(images: Images, threads: ThreadPoolExecutor) -> list[Look]:
    """Decode each image once, in several threads; in order."""
    return list(threads.map(lambda row: look(images.file(row)), range(images.n_rows)))


def look(file: Array) -> Look:
    """Whether an image can be used. Its declared size is looked at before a pixel is decoded."""
    from PIL import Image

    if not file.size:
        return Look("the file is empty")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what is large or odd: it is judged here
            with Image.open(io.BytesIO(file.tobytes())) as image:
                width, height = image.size
                if width * height > MOST_PIXELS:
                    return Look(f"{width:,} x {height:,} pixels are more than {MOST_PIXELS:,}")
                image.draft("L", (1, 1))  # of JPEG all is read, little computed
                image.load()
    except Image.UnidentifiedImageError:
        return Look("it is no image of a known kind")
    except Image.DecompressionBombError:
        return Look(f"it declares more than {MOST_PIXELS:,} pixels")
    except Exception as error:  # decoders raise what they like at damaged bytes
        if is_starved(error):  # of an image that is fine: it must not be left out
            raise
        return Look(str(error).splitlines()[0] if str(error) else type(error).__name__)
    pixels = decoded(file)
    if pixels is None:
        np.empty((height, width, 4), np.uint8)  # OpenCV is silent when it is memory that is missing; this is not
        return Look("OpenCV cannot decode it")
    return Look("", max(pixels.shape))
