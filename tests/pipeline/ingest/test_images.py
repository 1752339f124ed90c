"""Folders of images: classes of sub-folders or of a table, the files' own bytes, what is damaged and how it is said."""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from pipeline.dataset import Dataset
from pipeline.ingest import errors, ingest, open_source
from pipeline.ingest.images import MOST_PIXELS, ImageSource, look
from tasks.errors import ParamError
from tasks.io import longest_side_of, read_column, read_rows
from tasks.rows import Images
from tests.damage import delete, flip
from tests.image_files import encoded, image_folder, texture


def content(dataset: Dataset) -> dict[int, bytes]:
    """The bytes of each stored image, by its row in the source."""
    found = {}
    for block in dataset.blocks():
        images = read_rows(block)
        assert isinstance(images, Images)
        ids = read_column(dataset.path, "row_id", block.start, block.stop)
        found |= {int(row): images.file(i).tobytes() for i, row in enumerate(ids)}
    return found


def labels_by_row(dataset: Dataset) -> dict[int, str]:
    ids, classes = read_column(dataset.path, "row_id"), read_column(dataset.path, "y")
    return {int(row): dataset.classes.names[c] for row, c in zip(ids, classes, strict=True)}


def codes(dataset: Dataset) -> dict[str, str]:
    return {note.code: note.text for note in dataset.notes}


def bomb(width: int, height: int) -> bytes:
    """A PNG that declares so many pixels and has none."""
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(b"")), (b"IEND", b""))
    parts = [struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in chunks]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def test_files_are_stored_as_they_are_with_the_class_of_their_folder(tmp_path: Path) -> None:
    root = image_folder(tmp_path / "flowers", 3, 20)
    deep = root / "class-1" / "more" / "x.JPG"
    deep.parent.mkdir()
    deep.write_bytes(encoded(texture(7, 30, 90), "JPEG"))
    dataset = ingest(root, tmp_path / "d.zarr", block_rows=8)
    files = sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
    assert content(dataset) == {row: (root / file).read_bytes() for row, file in enumerate(files)}
    assert labels_by_row(dataset) == {row: file.split("/")[0] for row, file in enumerate(files)}
    facts = (dataset.body, dataset.dtype, dataset.n_features, dataset.n_rows, dataset.n_classes)
    assert facts == ("images", "uint8", 0, 61, 3)
    assert longest_side_of(dataset.rows_store) == 90
    assert not list(dataset.problems())
    assert ingest(root, tmp_path / "again.zarr", block_rows=8).digest == dataset.digest


def test_parts_that_come_apart(tmp_path: Path) -> None:
    train, test = image_folder(tmp_path / "train", 2, 6), image_folder(tmp_path / "test", 2, 3)
    dataset = ingest(train, tmp_path / "d.zarr", test_source=test, validation=0.0)
    assert dataset.split_counts == {"train": 12, "validation": 0, "test": 6}


def test_a_table_names_files_and_their_labels(tmp_path: Path) -> None:
    root = image_folder(tmp_path / "all", 2, 5)
    (root / "alone.png").write_bytes(encoded(texture(3)))
    lines = ["label\tfile\tcolour", "cat\tclass-1/03.png\tred", "dog\t./alone.png\tblue", "cat\tclass-0/00.png\tred"]
    table = tmp_path / "labels.tsv"
    table.write_text("\n".join(lines) + "\n\n")
    dataset = ingest(root, tmp_path / "d.zarr", labels=f"{table}:label", validation=0.0, test=0.0)
    assert labels_by_row(dataset) == {0: "cat", 1: "dog", 2: "cat"}
    assert content(dataset)[1] == (root / "alone.png").read_bytes()
    assert codes(dataset)["PassedOver"] == "all: 8 images that labels.tsv does not name"


@pytest.mark.parametrize(
    ("lines", "error", "words"),
    [
        ("file\tlabel\nclass-0/77.png\ta", "SourceMissing", ("line 2", "class-0/77.png")),
        ("file\tlabel\nclass-0/00.png\ta\nclass-0/00.png\ta", "UnknownInput", ("class-0/00.png", "twice")),
        ("file\tlabel\nclass-0/00.png", "UnknownInput", ("line 2", "1 fields")),
        ("file\ta\tb\nclass-0/00.png\t1\t2", "UnknownInput", ("labels.tsv:COLUMN", "'a'")),
        ("file\nclass-0/00.png", "UnknownInput", ("labels.tsv:COLUMN",)),
        ("id\tlabel\n1\ta", "UnknownInput", ("none of its columns, 'id', 'label', names the files", "call it file")),
    ],
)
def test_tables_that_do_not_fit(tmp_path: Path, lines: str, error: str, words: tuple[str, ...]) -> None:
    root = image_folder(tmp_path / "all", 2, 2)
    table = tmp_path / "labels.tsv"
    table.write_text(lines + "\n")
    with pytest.raises(getattr(errors, error)) as caught:
        ingest(root, tmp_path / "d.zarr", labels=table)
    assert all(word in str(caught.value) for word in words)
    assert not list(tmp_path.glob("d.zarr*"))


def test_labels_one_a_file_in_the_order_of_their_paths(tmp_path: Path) -> None:
    root = tmp_path / "flat"
    root.mkdir()
    for i in range(6):
        (root / f"{i}.png").write_bytes(encoded(texture(i)))
    with pytest.raises(errors.LabelsMissing, match="--labels"):
        ingest(root, tmp_path / "d.zarr")
    dataset = ingest(root, tmp_path / "d.zarr", labels=["a", "b"] * 3, validation=0.0, test=0.0)
    assert labels_by_row(dataset) == {row: "ab"[row % 2] for row in range(6)}
    assert codes(dataset)["LabelsInOrder"].startswith("flat: labels that name no files are taken in the order")
    with pytest.raises(errors.LengthMismatch):
        ingest(root, tmp_path / "e.zarr", labels=["a", "b"])


DAMAGED = {
    "cut.jpg": encoded(texture(1), "JPEG")[:700],
    "cut.png": encoded(texture(1))[:900],
    "text.jpg": b"no image at all",
    "empty.png": b"",
    "bomb.png": bomb(60_000, 60_000),
    "large.png": bomb(9_000, 9_000),
    "head.bmp": encoded(texture(1), "BMP")[:40],
}


def test_damaged_images_are_counted_and_listed_and_left_out(tmp_path: Path) -> None:
    root = image_folder(tmp_path / "all", 2, 10)
    for name, data in DAMAGED.items():
        (root / "class-1" / name).write_bytes(data)
    dataset = ingest(root, tmp_path / "d.zarr")
    assert dataset.n_rows == 20
    said = codes(dataset)["DamagedImage"]
    assert said.startswith(f"images that were left out, {len(DAMAGED)}: ")
    assert all(f"{root}/class-1/{name}: " in said for name in DAMAGED)
    files = sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
    kept = {row: (root / file).read_bytes() for row, file in enumerate(files) if Path(file).name not in DAMAGED}
    assert content(dataset) == kept
    listed = pq.read_table(tmp_path / "d.zarr" / "files.parquet").to_pylist()
    assert [line["row"] for line in listed] == list(range(27))
    assert [line["file"] for line in listed] == [f"all/{file}" for file in files]
    assert {Path(line["file"]).name for line in listed if line["left_out"]} == DAMAGED.keys()
    assert {Path(line["file"]).name: line["left_out"] for line in listed}["empty.png"] == "the file is empty"


def test_damaged_images_are_refused_when_asked(tmp_path: Path) -> None:
    root = image_folder(tmp_path / "all", 2, 3)
    (root / "class-0" / "x.png").write_bytes(b"")
    with pytest.raises(errors.DamagedImage, match=r"1 of 7 images(.|\n)*class-0/x.png: the file is empty"):
        ingest(root, tmp_path / "d.zarr", on_corrupt="refuse")
    assert not list(tmp_path.glob("d.zarr*"))
    with pytest.raises(ParamError, match="on_corrupt"):
        ingest(root, tmp_path / "d.zarr", on_corrupt="mend")


@pytest.mark.parametrize(
    ("name", "why"), [("bomb.png", "pixels"), ("large.png", "9,000 x 9,000"), ("cut.jpg", "trunc")]
)
def test_what_is_wrong_is_said_before_pixels_are_decoded(name: str, why: str) -> None:
    assert why in look(np.frombuffer(DAMAGED[name], np.uint8)).wrong
    assert MOST_PIXELS < 9_000**2


def test_parts_are_no_classes(tmp_path: Path) -> None:
    for part in ("train", "val"):
        image_folder(tmp_path / "set" / part, 2, 2)
    with pytest.raises(errors.UnknownInput, match=r"train, val(.|\n)*--test-source"):
        ingest(tmp_path / "set", tmp_path / "d.zarr")


def test_other_files_are_passed_over(tmp_path: Path) -> None:
    root = image_folder(tmp_path / "all", 2, 3)
    (root / "class-0" / "notes.txt").write_text("hello")
    (root / ".thumbs").mkdir()
    (root / ".thumbs" / "0.png").write_bytes(b"")
    (root / "class-1" / "._00.png").write_bytes(b"")
    dataset = ingest(root, tmp_path / "d.zarr", validation=0.0, test=0.0)
    assert dataset.n_rows == 6
    assert codes(dataset)["PassedOver"] == "all: 1 files of no format of images that is read (1 .txt)"


def test_images_and_numbers_are_not_mixed(tmp_path: Path) -> None:
    root = image_folder(tmp_path / "all", 2, 3)
    with pytest.raises(errors.ColumnMismatch, match="images"):
        ingest(root, tmp_path / "d.zarr", test_source=np.zeros((2, 3), np.float32), test_labels=["class-0", "class-1"])
    with pytest.raises(ParamError, match="dtype"):
        ingest(root, tmp_path / "d.zarr", dtype="float16")
    with pytest.raises(errors.ColumnMismatch, match="these are images, the model takes rows of 5 columns"):
        open_source(root, tmp_path / "spool", n_features=5)


def test_a_folder_that_is_stated_to_be_of_images_and_holds_none(tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    with pytest.raises(errors.SourceMissing, match="no images"):
        ingest(tmp_path / "none", tmp_path / "d.zarr", fmt="images")
    two = [image_folder(tmp_path / name, 2, 2) for name in ("a", "b")]
    with pytest.raises(errors.UnknownInput, match="one folder"):
        ingest(two, tmp_path / "d.zarr")


def test_a_file_that_changes_meanwhile_is_named(tmp_path: Path) -> None:
    source = open_source(image_folder(tmp_path / "all", 2, 2), tmp_path / "spool")
    with open(tmp_path / "all" / "class-1" / "00.png", "ab") as file:
        file.write(b"x")
    with pytest.raises(errors.SourceMissing, match=r"bytes when the folder was listed(.|\n)*class-1/00.png"):
        source.take(np.arange(4), "uint8")
    (tmp_path / "all" / "class-0" / "01.png").unlink()
    with pytest.raises(errors.SourceMissing, match=r"class-0/01\.png"):
        source.take(np.arange(2), "uint8")


@pytest.mark.parametrize("part", ["data", "offsets"])
@pytest.mark.parametrize("damage", [delete, flip], ids=lambda damage: damage.__name__)
def test_damage_to_stored_images_is_found(tmp_path: Path, part: str, damage: object) -> None:
    dataset = ingest(image_folder(tmp_path / "all", 2, 20), tmp_path / "d.zarr", block_rows=16)
    damage(Path(dataset.rows_store) / "00001" / part / "c" / "0")  # type: ignore[operator]
    problems = [str(problem) for problem in Dataset.open(dataset.path).problems()]
    assert len(problems) == 1
    assert "rows 16..31" in problems[0]


def test_images_that_are_named_one_by_one(tmp_path: Path) -> None:
    root = image_folder(tmp_path / "all", 2, 4)
    files = [root / "class-1" / "03.png", root / "class-0" / "00.png", root / "class-1" / "00.png"]
    labels = ["b", "a", "b"]
    dataset = ingest(files, tmp_path / "d.zarr", labels=labels, validation=0.0, test=0.0)
    assert content(dataset) == {row: path.read_bytes() for row, path in enumerate(files)}
    assert labels_by_row(dataset) == dict(enumerate(labels))
    source = open_source(str(root / "class-1" / "*.png"), tmp_path / "spool")
    assert isinstance(source, ImageSource)
    assert source.files == ["00.png", "01.png", "02.png", "03.png"]


def test_columns_of_files_go_by_several_names(tmp_path: Path) -> None:
    root = image_folder(tmp_path / "all", 2, 2)
    for heading in ("File", "filename", "IMAGE", "path"):
        (tmp_path / "t.csv").write_text(f"{heading},kind\nclass-1/01.png,a\nclass-0/00.png,b\n")
        made = ingest(root, tmp_path / "d.zarr", labels=tmp_path / "t.csv", validation=0.0, test=0.0, force=True)
        assert labels_by_row(made) == {0: "a", 1: "b"}


def test_links_are_followed_once_and_odd_files_passed_over(tmp_path: Path) -> None:
    root, other = image_folder(tmp_path / "all", 2, 2), image_folder(tmp_path / "other", 1, 3)
    (root / "linked").symlink_to(other / "class-0")
    (root / "class-1" / "back").symlink_to(root)
    (root / "class-0" / "gone.png").symlink_to(tmp_path / "nowhere.png")
    os.mkfifo(root / "class-0" / "pipe.png")
    (root / "class-1" / "photo.heic").write_bytes(b"")
    with open(os.fsencode(root / "class-1") + b"/x\xfe.png", "wb") as file:
        file.write(encoded(texture(0)))
    dataset = ingest(root, tmp_path / "d.zarr", validation=0.0, test=0.0)
    assert labels_by_row(dataset) == dict(enumerate(["class-0"] * 2 + ["class-1"] * 2 + ["linked"] * 3))
    said = [note.text for note in dataset.notes if note.code == "PassedOver"]
    assert said[0] == "all: 1 files of no format of images that is read (1 .heic)"
    assert said[1].startswith("all: 3 files that cannot be read: class-0/gone.png (no regular file), class-0/pipe.png")
    assert "class-1/x\\udcfe.png (its name is no UTF-8)" in said[1]
    assert {note.level for note in dataset.notes if note.code == "PassedOver"} == {"warning"}


def test_images_beside_the_folders_of_classes_are_named(tmp_path: Path) -> None:
    root = image_folder(tmp_path / "all", 2, 2)
    (root / "cover.jpg").write_bytes(encoded(texture(1), "JPEG"))
    with pytest.raises(errors.LabelsMissing, match=r"1 of its images lie beside the folders of classes: cover\.jpg"):
        ingest(root, tmp_path / "d.zarr")


@pytest.mark.parametrize("kind", ["GIF", "JPEG2000", "WEBP"])
def test_further_formats(tmp_path: Path, kind: str) -> None:
    root = image_folder(tmp_path / "all", 2, 2)
    ending = {"GIF": "gif", "JPEG2000": "jp2", "WEBP": "webp"}[kind]
    (root / "class-0" / f"x.{ending}").write_bytes(encoded(texture(5), kind))
    assert ingest(root, tmp_path / "d.zarr", validation=0.0, test=0.0).n_rows == 5
