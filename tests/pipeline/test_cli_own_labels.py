"""`predict` of files that hold labels: the only place of them is taken, several are named, odd ones are no error."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.classes import ClassTable
from tasks.models.folder import save_model
from tasks.models.linear import LinearModel
from tests.pipeline.cli_caller import Said, assert_refused, gaussian, succeeds
from tests.pipeline.ingest import formats

N_CLASSES = 12
NAMES = sorted(str(c) for c in range(N_CLASSES))  # 0 1 10 11 2 ...
ROWS, Y = gaussian(60, 20, N_CLASSES)


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A model that knows every row; its classes are called by numerals, sorted as text is."""
    place = np.array([NAMES.index(str(y)) for y in Y])
    weights = (np.linalg.pinv(ROWS) @ np.eye(N_CLASSES)[place]).astype(np.float32)
    table = ClassTable(tuple(str(c) for c in range(N_CLASSES)), tuple(NAMES))
    save_model(tmp_path / "model", LinearModel(weights, np.zeros(N_CLASSES, np.float32)), table)
    return tmp_path


def predicted(made: Path, source: str | Path, *options: object) -> Said:
    return succeeds("predict", made / "model", source, "-o", made / "p.parquet", "--force", *options)


def accuracy(made: Path) -> float:
    found: dict[str, Any] = json.loads((made / "p.metrics.json").read_text())
    return float(found["metrics"]["all rows"]["top1"])


@pytest.mark.parametrize("name", ["npz", "parquet fixed", "hdf5 contiguous", "hdf5 chunks", "h5ad", "tar"])
def test_the_only_labels_of_a_file_are_taken(made: Path, name: str) -> None:
    """Integers 0 to 11, of which 10 is the class '10' and not that of number 10: as accurate as labels apart."""
    source, _ = formats.DENSE[name](made, ROWS, Y)
    said = predicted(made, source)
    assert "labels are those in x" in said.err
    assert "LabelsAreNames" in said.err
    own = accuracy(made)
    np.save(made / "y.npy", Y)
    predicted(made, source, "--labels", made / "y.npy")
    assert accuracy(made) == own > 0.9


def parquet(made: Path, **columns: Any) -> Path:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(ROWS.reshape(-1)), ROWS.shape[1])
    pq.write_table(pa.table({"v": vectors, **columns}), made / "x.parquet")
    return made / "x.parquet"


def hdf5(made: Path, **arrays: Any) -> Path:
    with h5py.File(made / "x.h5", "w") as file:
        file.create_dataset("v", data=ROWS, chunks=(8, 20))
        for name, values in arrays.items():
            file[name] = values
    return made / "x.h5"


def npz(made: Path, **arrays: Any) -> Path:
    np.savez(made / "x.npz", v=ROWS, **arrays)
    return made / "x.npz"


@pytest.mark.parametrize("write", [parquet, hdf5, npz])
def test_which_of_several_is_asked_on_one_line(made: Path, write: Callable[..., Path]) -> None:
    source = write(made, a=Y, sample_id=Y, class_id=Y)
    said = predicted(made, source)
    assert said.out == ""
    (line,) = [line for line in said.err.splitlines() if "not read" in line]
    assert line.endswith("labels are not read: which of 'class_id', 'a', 'sample_id'? (--labels-at)")
    assert predicted(made, source, "--labels-at", "class_id").out != ""
    assert accuracy(made) > 0.9


@pytest.mark.parametrize("write", [parquet, hdf5, npz])
def test_what_tells_rows_apart_is_no_label_unless_named(made: Path, write: Callable[..., Path]) -> None:
    said = predicted(made, write(made, row_id=Y))
    assert said.out == ""
    assert "'row_id' seems to tell rows apart, not classes (--labels-at row_id)" in said.err
    assert predicted(made, write(made)).out == ""


def test_labels_that_are_none_of_the_model_are_said_and_left(made: Path) -> None:
    said = predicted(made, parquet(made, label=[f"n{y}" for y in Y]))
    assert said.out == ""
    assert "the labels in x.parquet:label were not used: label 'n0' is not in the class table" in said.err
    gaps = pa.array([None if i == 7 else int(y) for i, y in enumerate(Y)])
    said = predicted(made, parquet(made, label=gaps))
    assert said.out == ""
    assert "labels are not read: the label is null [x.parquet:label, row 7]" in said.err
    by = ("predict", made / "model", made / "x.parquet", "-o", made / "q.parquet", "--labels-at", "label")
    assert_refused(made, 3, "LabelOutOfRange", "null", "row 7", by=by)


@pytest.mark.parametrize(
    ("content", "word"), [(None, "no member for 'cls'"), (b"\xe9", "UTF-8"), (b"1" * 2**21, "bytes")]
)
def test_samples_of_a_tar_without_a_label(made: Path, content: bytes | None, word: str) -> None:
    members = [member for member in formats.samples(ROWS, Y) if member[0] != "rows/000030.cls"]
    at = next(i for i, (name, _) in enumerate(members) if name == "rows/000030.npy")
    members[at:at] = [("rows/000030.cls", content)] if content else []
    formats.write_tar(made / "x.tar", members)
    said = predicted(made, made / "x.tar")
    assert said.out == ""
    (line,) = [line for line in said.err.splitlines() if "labels are not read" in line]
    assert word in line
    assert "000030" in line
    assert pq.read_metadata(made / "p.parquet").num_rows == len(ROWS)


def test_another_array_that_cannot_be_read_is_no_error(made: Path) -> None:
    source = hdf5(made, y=Y)
    with h5py.File(source, "a") as file:
        layout = h5py.VirtualLayout((60,), "i8")
        layout[:] = h5py.VirtualSource(str(made / "elsewhere.h5"), "y", (60,))
        file.create_virtual_dataset("virtual", layout)
    said = predicted(made, source, "--rows-at", "v")
    assert said.out == ""
    assert "labels are not read: its values stand in other files" in said.err


def test_a_taxonomy_needs_labels_wherever_they_are(made: Path) -> None:
    (made / "t.tsv").write_text("root\ta\nroot\tb\n" + "".join(f"{'ab'[c % 2]}\t{c}\n" for c in range(N_CLASSES)))
    said = predicted(made, parquet(made, label=Y), "--taxonomy", made / "t.tsv")
    assert "hier. error" in said.out
    source = parquet(made, a=Y, b=Y)
    by = ("predict", made / "model", source, "-o", made / "q.parquet", "--taxonomy", made / "t.tsv")
    assert_refused(made, 2, "UsageError", "--taxonomy has no meaning without labels", "which of 'a', 'b'", by=by)
