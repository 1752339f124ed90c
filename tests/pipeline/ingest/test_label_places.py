"""Where labels may stand: likely places come first, and what is proposed can be typed."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest

from pipeline.ingest import errors, ingest
from pipeline.ingest.candidates import likely_first, tells_rows_apart
from tests.pipeline.ingest import formats
from tests.pipeline.ingest.samples import X, Y, notes


def test_likely_names_come_first_and_those_of_rows_last() -> None:
    names = ["id", "batch", "obs/cell_type", "sample_id", "json:class_id", "year", "label", "image_path", "y_true"]
    ordered = ["label", "y_true", "json:class_id", "obs/cell_type", "batch", "year", "id", "sample_id", "image_path"]
    assert likely_first(names) == ordered
    assert [name for name in names if tells_rows_apart(name)] == ["id", "sample_id", "image_path"]


@pytest.mark.parametrize("name", ["x.parquet", "x.h5", "y.csv"])
def test_a_label_is_proposed_and_never_an_id(assert_refused, name: str) -> None:
    columns = {"aid": [f"r{i}" for i in range(12)], "row_id": np.arange(12), "species": Y}
    options: dict = {"labels": name}
    if name == "x.h5":
        with h5py.File(name, "w") as file:
            file["v"] = X
            for key in ("row_id", "species"):
                file[key] = columns[key]
    elif name == "x.parquet":
        pd.DataFrame({"v": X.tolist(), **columns}).to_parquet(name)
    else:
        pd.DataFrame(columns).to_csv(name, index=False)
    assert_refused(errors.UnknownInput, "which of 'species'", f"name it: --labels {name}:species", **options)
    if name != "y.csv":
        options = {"labels": None, "source": name}
        assert_refused(errors.UnknownInput, "which of 'species'", "name it: --labels-at species", **options)


def test_places_of_rows_alone_propose_none(assert_refused) -> None:
    pd.DataFrame({"v": X.tolist(), "id": Y, "key": Y}).to_parquet("x.parquet")
    assert_refused(errors.UnknownInput, "--labels-at NAME; or give a file", source="x.parquet", labels=None)


def test_a_place_that_is_alone_in_a_file_of_labels_needs_no_name(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "y.h5", "w") as file:
        file["kinds"] = Y
    expected = ingest(X, tmp_path / "d.zarr", labels=Y).digest
    assert ingest(X, tmp_path / "e.zarr", labels=tmp_path / "y.h5").digest == expected


def test_labels_in_the_json_of_a_tar_are_offered(assert_refused) -> None:
    about = {"index": 3, "weight": 0.5, "none": None, "caption": "a cat", "label": "cat"}
    members = []
    for key, row in enumerate(X):
        content = {"npy": formats.npy_bytes(row), "json": json.dumps(about).encode(), "txt": b"cat", "jpg": b""}
        members += [(f"{key}.{ending}", content[ending]) for ending in content]
    formats.write_tar(Path("x.tar"), members)
    said = str(assert_refused(errors.LabelsMissing, "x.tar, key '0'", source="x.tar", labels=None))
    assert said.endswith("--labels-at json:label (or json:caption, txt, json:index)")


@pytest.mark.parametrize("labels", [[f"row {i}" for i in range(12)], list(range(12)), [*range(9), 0, 0, 1]])
def test_rows_that_are_alone_in_their_class_give_a_warning(tmp_path: Path, labels: list) -> None:
    made = ingest(X, tmp_path / "d.zarr", labels=labels)
    alone = sum(labels.count(label) == 1 for label in labels)
    assert notes(made)["RowsAlone"].startswith(f"{alone} of 12 rows are alone in their class")
    assert "RowsAlone" not in notes(ingest(X, tmp_path / "e.zarr", labels=Y))


def test_labels_of_another_length_are_refused(assert_refused) -> None:
    np.savez("x.npz", x=X, y=Y[:5], names=np.array(["a", "b"]))
    options = {"source": "x.npz", "labels": None}
    assert_refused(errors.LengthMismatch, "5 labels for 12 rows", labels_at="y", **options)
    np.savez("x.npz", x=X, y=Y, names=np.array(["a", "b"]))
    assert ingest("x.npz", "d.zarr").n_classes == 3  # names of classes are no labels of rows
