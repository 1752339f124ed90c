"""Make the demo's data set: distorted pictures of characters as rows of oriented gradients, in files for `ingest`."""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.demo.characters import class_id, class_table, drawable, taxonomy
from pipeline.demo.confusable import THRESHOLD, Confusion, Likeness, find_confusable
from pipeline.demo.fonts import FACES, face_paths, shared_code_points
from pipeline.demo.glyphs import draw
from pipeline.demo.gradients import oriented_gradients
from pipeline.demo.warp import SIDE, Distortion, affine_maps, warp
from pipeline.ingest.npy_file import write_array
from tasks.errors import ParamError
from tasks.files import disk_room
from tasks.seeds import stream

CODE_VERSION = 1  # raise it when the same settings give other rows
SPLITS = ("train", "validation", "test")
STAMP = "demo.json"  # written last: settings, counts and the digest of every other file

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class DemoParams:
    """What the demo's rows depend on."""

    seed: int = 0
    rows_per_face: int = 3  # distorted pictures of each character in each of the 12 faces
    n_classes: int | None = None  # at most this many, spread over the code points; None = all
    distortion: Distortion = field(default_factory=Distortion)

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise ParamError("demo.seed", self.seed, "0 or more", "random streams start from a non-negative number")
        if self.rows_per_face < 1:
            raise ParamError("demo.rows_per_face", self.rows_per_face, "1 or more", "every face must be drawn")
        if self.n_classes is not None and self.n_classes < 2:
            raise ParamError("demo.n_classes", self.n_classes, "2 or more", "one class leaves nothing to tell apart")

    def settings(self) -> dict[str, Any]:
        """The parameters and the versions that decide on pixels, as plain JSON values."""
        libraries = {name: version(name) for name in ("matplotlib", "numpy", "pillow")}
        return {**asdict(self), "code_version": CODE_VERSION, "libraries": libraries}


@dataclass(frozen=True, slots=True)
class DemoData:
    """Where the files lie, and the counts a summary prints."""

    folder: Path
    counts: dict[str, Any]
    reused: bool = False

    def rows(self, split: str) -> Path:
        """Feature rows (n, 576) float32 of "train", "validation" or "test"."""
        return self.folder / f"{split}.npy"

    def labels(self, split: str) -> Path:
        """Class numbers (n,) int32 of the same rows."""
        return self.folder / f"{split}_labels.npy"

    @property
    def classes(self) -> Path:
        return self.folder / "classes.json"

    @property
    def taxonomy(self) -> Path:
        return self.folder / "taxonomy.json"

    @property
    def confusable(self) -> Path:
        return self.folder / "confusable.tsv"

    def summary(self) -> list[str]:
        """Lines for a person: what was made, and what was left out and why."""
        n = self.counts
        held = {s: ", ".join(face.name for face in FACES if face.split == s) for s in SPLITS}
        return [
            f"{n['classes']:,} characters of {n['blocks']} Unicode blocks, drawn in {len(FACES)} DejaVu faces, "
            f"{n['features']} features (oriented gradients)",
            f"{n['train']:,} training rows; {n['validation']:,} validation rows ({held['validation']}) and "
            f"{n['test']:,} test rows ({held['test']}): faces unseen in training",
            f"{n['merged']} of {n['drawn']:,} code points are no classes of their own: they are drawn like another one "
            f"(within {THRESHOLD:.0%} of the ink in half of the faces or more), see {self.confusable.name}",
            f"{n['doubtful']} pairs look alike in fewer faces and stay apart: some errors on them cannot be avoided",
        ]


def make_demo_data(
    folder: Path,
    seed: int = 0,
    rows_per_face: int = 3,
    n_classes: int | None = None,
    log: Callable[[str], None] | None = None,
) -> DemoData:
    """Draw, distort and describe the characters; the same arguments give the same bytes.

    A folder that already holds exactly this data (settings and digests) is used as it is.
    Raises ParamError, and FontsMissing when matplotlib's fonts are not there.
    """
    params = DemoParams(seed, rows_per_face, n_classes)
    say = log or (lambda _line: None)
    found = reuse(folder, params)
    if found:
        say("demo data: present and intact")
        return found
    folder.mkdir(parents=True, exist_ok=True)
    (folder / STAMP).unlink(missing_ok=True)
    codes, pictures, confusion = choose_characters()
    say(f"demo data: {len(confusion.kept):,} characters drawn in {len(FACES)} faces")
    kept = spread(confusion.kept, params.n_classes)
    rows, labels = split_rows(pictures[:, kept], params)
    say(f"demo data: {sum(len(part) for part in labels.values()):,} rows described by oriented gradients")
    chosen = [codes[at] for at in kept]
    write_files(folder, rows, labels, chosen, likeness_table(codes, confusion, set(kept)))
    counts = {split: len(labels[split]) for split in SPLITS} | {
        "classes": len(kept),
        "features": rows["train"].shape[1],
        "blocks": len({node["id"] for node in taxonomy(chosen)["nodes"] if node["parent"] == "characters"}),
        "drawn": len(codes),
        "merged": len(confusion.merged),
        "doubtful": len(confusion.doubtful),
    }
    stamp(folder, params, counts)
    return DemoData(folder, counts)


def choose_characters() -> tuple[list[int], Array, Confusion]:
    """Code points drawn, their pictures (n_faces, n_codes, CANVAS, CANVAS) uint8, and which of them look alike."""
    paths = face_paths()
    codes = drawable(shared_code_points(paths))
    drawn = [draw(path, codes) for path in paths]
    unusable = {at for _, missing in drawn for at in missing}
    usable = [at for at in range(len(codes)) if at not in unusable]
    pictures = np.stack([face[usable] for face, _ in drawn])
    return [codes[at] for at in usable], pictures, find_confusable(pictures)


def spread(kept: list[int], n_classes: int | None) -> list[int]:
    """At most n_classes of the kept positions, evenly spread, ascending."""
    if n_classes is None or n_classes >= len(kept):
        return kept
    return [kept[at * len(kept) // n_classes] for at in range(n_classes)]


def split_rows(pictures: Array, params: DemoParams) -> tuple[dict[str, Array], dict[str, Array]]:
    """Rows and labels of each split, shuffled, so that every block of rows has all faces.

    pictures  (n_faces, n_classes, CANVAS, CANVAS) uint8
    """
    raw: dict[str, list[Array]] = {split: [] for split in SPLITS}
    for index, face in enumerate(FACES):
        for copy in range(params.rows_per_face):
            raw[face.split].append(distorted_rows(pictures[index], params, index, copy))
    rows = {split: np.concatenate(parts) for split, parts in raw.items()}
    mean = rows["train"].mean(axis=0, dtype=np.float64).astype(np.float32)
    labels: dict[str, Array] = {}
    for split, parts in raw.items():
        order = stream(params.seed, "demo", "order", split).permutation(len(rows[split]))
        labels[split] = np.tile(np.arange(pictures.shape[1], dtype=np.int32), len(parts))[order]
        rows[split] = centred(rows[split], mean)[order]
    return rows, labels


def distorted_rows(pictures: Array, params: DemoParams, face: int, copy: int) -> Array:
    """One distorted picture per class of one face, as rows of features; a random stream of its own."""
    random = stream(params.seed, "demo", "distort", face, copy)
    maps = affine_maps(len(pictures), params.distortion, random)
    noise = random.standard_normal((len(pictures), SIDE, SIDE), np.float32) * np.float32(params.distortion.noise)
    rows: Array = oriented_gradients(warp(pictures, maps, noise))
    return rows


def centred(rows: Array, mean: Array) -> Array:
    """Rows minus the training mean, scaled to unit length: histograms alone all point much the same way."""
    rows = rows - mean
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    unit: Array = (rows / np.where(lengths > 0, lengths, 1.0)[:, None]).astype(np.float32)
    return unit


def likeness_table(codes: list[int], confusion: Confusion, classes: set[int]) -> list[str]:
    """Lines of confusable.tsv: code points merged into a class, then pairs that stay apart though alike in places."""

    def line(found: Likeness, verdict: str) -> str:
        first, second = codes[found.code], codes[found.like]
        names = (unicodedata.name(chr(first)), class_id(second), unicodedata.name(chr(second)))
        return "\t".join([class_id(first), *names, f"{found.faces}", verdict])

    header = "\t".join(["code_point", "name", "kept_class", "kept_name", f"faces_alike_of_{len(FACES)}", "verdict"])
    merged = [line(found, "merged" if found.like in classes else "not drawn") for found in confusion.merged]
    apart = [line(found, "kept apart") for found in confusion.doubtful if {found.code, found.like} <= classes]
    return [header, *merged, *apart]


def write_files(
    folder: Path, rows: dict[str, Array], labels: dict[str, Array], codes: list[int], likeness: list[str]
) -> None:
    """Every file but the stamp. Raises DiskFull."""
    where = DemoData(folder, {})
    for split in SPLITS:
        write_array(where.rows(split), rows[split])
        write_array(where.labels(split), labels[split])
    with disk_room(str(where.classes), 0):
        where.classes.write_text(json.dumps(class_table(codes), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        where.taxonomy.write_text(json.dumps(taxonomy(codes), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        where.confusable.write_text("\n".join(likeness) + "\n", encoding="utf-8")


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of every file of the data set that is there."""
    where = DemoData(folder, {})
    paths = [*map(where.rows, SPLITS), *map(where.labels, SPLITS), where.classes, where.taxonomy, where.confusable]
    found = {}
    for path in paths:
        if path.is_file():
            with path.open("rb") as file:
                found[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def stamp(folder: Path, params: DemoParams, counts: dict[str, Any]) -> None:
    """Write the stamp, last, by rename."""
    record = {"settings": params.settings(), "counts": counts, "sha256": digests(folder)}
    draft = folder / f"{STAMP}.part"
    draft.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    draft.replace(folder / STAMP)


def reuse(folder: Path, params: DemoParams) -> DemoData | None:
    """The data of an earlier call with the same settings, if every byte is still there."""
    try:
        record = json.loads((folder / STAMP).read_text(encoding="utf-8"))
        intact = record["settings"] == params.settings() and record["sha256"] == digests(folder)
        return DemoData(folder, record["counts"], reused=True) if intact else None
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
