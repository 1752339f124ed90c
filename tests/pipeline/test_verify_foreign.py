"""`verify` names what lies in a dataset or a model and is no part of it; what is a part of it is never named."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from PIL import Image

from pipeline.dataset import Dataset
from pipeline.foreign import SHOWN, foreign_note, foreign_to_dataset, foreign_to_model
from pipeline.ingest import ingest
from tasks.classes import ClassTable
from tasks.models.folder import save_model
from tasks.models.linear import LinearModel
from tests.pipeline.cli_caller import labelgrove, succeeds

VALUES = np.arange(80, dtype=np.float32).reshape(20, 4)
TAXONOMY = {"root": {"a": ["0", "1"], "2": None}}


def made(folder: Path | str, body: str, photos: Path) -> Dataset:
    """20 rows in blocks of 6, of three classes."""
    if body == "images":
        for number in range(20):
            place = photos / str(number % 3)
            place.mkdir(parents=True, exist_ok=True)
            Image.fromarray(np.full((4, 4, 3), number, np.uint8)).save(place / f"{number}.png")
        return ingest(photos, folder, block_rows=6, taxonomy=TAXONOMY)
    rows: Any = scipy.sparse.csr_matrix(VALUES) if body == "csr" else VALUES
    return ingest(rows, folder, labels=[i % 3 for i in range(20)], block_rows=6, taxonomy=TAXONOMY)


@pytest.mark.parametrize("body", ["dense", "csr", "images"])
def test_strangers_in_a_dataset_are_named_and_are_no_damage(body: str, tmp_path: Path) -> None:
    place = tmp_path / "d.zarr"
    dataset = made(place, body, tmp_path / "photos")
    assert foreign_to_dataset(dataset) == []
    assert succeeds("verify", place).err == ""
    (place / "zarr.json~").write_text("{}")
    (place / "model").mkdir()
    (place / "model" / "model.json").write_text("{}")
    (place / "X" / "c").mkdir(exist_ok=True)
    (place / "X" / "c" / "4").mkdir()  # a fifth block of four
    (place / "y" / "c" / "0.bak").write_text("")
    block = [] if body == "dense" else ["X/00004/"]
    if block:
        shutil.copytree(place / "X" / "00003", place / "X" / "00004")
    block = ["X/c/4/"] if body == "dense" else [*block, "X/c/"]
    said = succeeds("verify", place)
    assert said.out == f"{place}: every digest holds\n"
    named = ", ".join([*block, "model/", "y/c/0.bak", "zarr.json~"])
    assert said.err == f"note: {place}: no part of it, and not judged: {named}\n"
    (place / "split" / "c" / "0").unlink()
    broken = labelgrove("verify", place)
    assert (broken.code, "MissingChunk" in broken.out, "model/, " in broken.err) == (4, True, True)


def test_in_an_object_store(tmp_path: Path, memory: Any) -> None:
    dataset = made("memory://lg/d.zarr", "csr", tmp_path)
    assert foreign_to_dataset(dataset) == []
    memory.pipe("/lg/d.zarr/model/weights/a", b"1")
    memory.pipe("/lg/d.zarr/model/weights/b", b"1")
    memory.pipe("/lg/d.zarr/X/00000/data/c/1", b"1")
    assert foreign_to_dataset(dataset) == ["X/00000/data/c/1", "model/"]


def test_strangers_in_a_model(tmp_path: Path) -> None:
    place = tmp_path / "m"
    classes = ClassTable(("0", "1", "2"), ("a", "b", "c"))
    save_model(place, LinearModel(np.ones((4, 3), np.float32), np.zeros(3, np.float32)), classes)
    assert foreign_to_model(place) == []
    (place / "model.json.orig").write_text("{}")
    said = succeeds("verify", place)
    assert said.err == f"note: {place}: no part of it, and not judged: model.json.orig\n"


def test_of_many_a_few_are_named() -> None:
    assert foreign_note([]) == ""
    assert foreign_note([str(i) for i in range(SHOWN)]).endswith("8, 9")
    assert foreign_note([str(i) for i in range(SHOWN + 1002)]).endswith("8, 9 and 1,002 more")
