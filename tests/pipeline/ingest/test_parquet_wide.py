"""Parquet files with a column for each feature: what is read of them, and what is refused because it can be doubted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.ingest import errors, ingest
from pipeline.ingest.build import open_source
from pipeline.ingest.candidates import says_only_what_it_is
from tests.pipeline.ingest.samples import X, Y, notes, stored

NAMES = [f"f.{i}" for i in range(X.shape[1])]
FLOATS = dict(zip(NAMES, X.T, strict=True))
IDS = [f"r{i}" for i in range(len(X))]
SPECIES = np.array(["oak", "elm", "ash"])[Y]
WHOLE = {f"p{i}": column for i, column in enumerate(np.random.default_rng(1).integers(0, 256, (3, 12), np.uint8))}


def write(name: str | Path, columns: dict[str, Any], **options: Any) -> str:
    pq.write_table(pa.table(columns), name, **options)
    return str(name)


def read(folder: Path, source: Any, **options: Any) -> tuple[np.ndarray, np.ndarray, dict[str, str]]:
    """Rows and labels in the order of the source, and notes."""
    made = ingest(source, folder / "d.zarr", force=True, **options)
    rows, y, _, order = stored(made)
    back = np.argsort(order)
    return rows[back], y[back], notes(made)


@pytest.mark.parametrize(
    "label", [Y, SPECIES, pa.array(SPECIES).dictionary_encode()], ids=["ids", "names", "categories"]
)
def test_numbers_beside_labels_and_ids(tmp_path: Path, label: Any) -> None:
    name = write(
        tmp_path / "x.parquet", {"id": np.arange(12), "who": IDS, "species": label, **FLOATS}, row_group_size=5
    )
    with pytest.raises(errors.UnknownInput, match="which of 'species', 'who' holds the labels"):
        ingest(name, tmp_path / "d.zarr")
    rows, y, said = read(tmp_path, name, labels_at="species")
    np.testing.assert_array_equal(rows, X)
    np.testing.assert_array_equal(y, Y if label is Y else np.unique(SPECIES, return_inverse=True)[1][np.arange(12)])
    assert said["Columns"] == "x.parquet: 3 columns are features: 'f.0' .. 'f.2'; not read: 'id', 'who'"
    made, alone = ingest(name, tmp_path / "e.zarr", labels_at="species"), pd.DataFrame(X).rename(columns=str)
    assert made.feature_names is not None
    assert made.feature_names.names == tuple(NAMES)
    made.verify()
    alone["species"] = label
    alone.to_parquet(tmp_path / "alone.parquet")  # columns that are only numbered have no names
    numbered = ingest(tmp_path / "alone.parquet", tmp_path / "n.zarr", labels_at="species")
    assert numbered.feature_names is None
    assert numbered.digest == ingest(X, tmp_path / "m.zarr", labels=list(np.asarray(label))).digest != made.digest


def test_labels_by_their_name_and_pixels_that_are_whole(tmp_path: Path) -> None:
    rows, y, _ = read(tmp_path, write(tmp_path / "x.parquet", {"label": Y, **WHOLE}))
    np.testing.assert_array_equal(rows, np.stack(list(WHOLE.values()), 1))
    np.testing.assert_array_equal(y, Y)


def test_what_pandas_writes(tmp_path: Path) -> None:
    frame = pd.DataFrame({**FLOATS, "species": Y}).set_index(pd.Index(np.arange(12)[::-1], name="stem"))
    frame.to_parquet(tmp_path / "x.parquet")
    rows, _, said = read(tmp_path, tmp_path / "x.parquet")
    np.testing.assert_array_equal(rows, X)
    assert said["Columns"].endswith("not read: 'stem'")


def test_kinds_of_numbers_come_together(tmp_path: Path) -> None:
    columns = {"a": X[:, 0].astype(np.float16), "b": Y > 1, "c": Y.astype(np.int8), "d": X[:, 1].astype(np.float64)}
    rows, _, _ = read(tmp_path, write(tmp_path / "x.parquet", columns | {"label": Y}))
    assert rows.dtype == np.float32
    np.testing.assert_array_equal(rows, np.stack([value.astype(np.float32) for value in columns.values()], 1))


def test_named_columns(tmp_path: Path, assert_refused) -> None:
    name = write("x.parquet", {"a": Y, **FLOATS, "b": X[:, 0], "t": IDS})
    rows, y, _ = read(tmp_path, name, rows_at="f.0..b", labels_at="a")
    np.testing.assert_array_equal(rows, np.c_[X, X[:, 0]])
    np.testing.assert_array_equal(y, Y)
    rows, _, _ = read(tmp_path, name, rows_at="a..f.1", labels=Y)
    np.testing.assert_array_equal(rows, np.c_[Y, X[:, :2]].astype(np.float32))
    (tmp_path / "d.zarr").rename(tmp_path / "done")
    for span in ("f.0", "f.2..f.0", "x..f.1"):
        assert_refused(
            errors.UnknownInput, f"{span!r} names no columns", "--rows-at FIRST..LAST", source=name, rows_at=span
        )
    assert_refused(errors.FeatureDtype, "string", "column 't'", source=name, rows_at="f.0..t")


def test_what_can_be_doubted_is_refused(assert_refused) -> None:
    refused = errors.UnknownInput
    name = write("x.parquet", {**FLOATS, "digit": Y})
    said = ("are 'digit' features, or labels?", "--rows-at f.0..f.2; or the labels: --labels-at digit")
    assert_refused(refused, *said, source=name, labels=None)
    assert_refused(refused, *said, source=name)
    name = write("y.parquet", {**FLOATS, "y": X[:, 0]})
    assert_refused(refused, "is 'y' a feature?", "--rows-at f.0..f.2; labels are integers or names", source=name)
    name = write("z.parquet", {"f": X[:, 0], "g": Y, "id": Y})
    assert_refused(refused, "which of 'f', 'id' are the features?", source=name, labels=None, labels_at="g")
    pq.write_table(pa.Table.from_arrays([pa.array(X[:, i % 3]) for i in range(4)], ["a", "b", "a", "c"]), "t.parquet")
    assert_refused(refused, "such as 'a'", source="t.parquet")
    assert_refused(errors.LabelsMissing, source=write("u.parquet", FLOATS), labels=None)
    columns = {**FLOATS, "d": pa.array([1] * 12, pa.decimal128(5, 2))}
    assert_refused(errors.FeatureDtype, "decimal128", "column 'd'", source=write("v.parquet", columns))


def test_gaps_and_bombs(assert_refused) -> None:
    gap = pa.array([None if i == 7 else float(i) for i in range(12)], pa.float32())
    name = write("x.parquet", {**FLOATS, "g": gap}, row_group_size=5)
    assert_refused(errors.RaggedEmbedding, "null", "x.parquet, row 7, column 'g'", source=name)
    wrong = {**FLOATS, "g": np.where(np.arange(12) == 7, np.nan, 1).astype(np.float32)}
    assert_refused(errors.NonFiniteFeature, "row 7: columns 3", source=write("y.parquet", wrong))
    name = write("z.parquet", FLOATS)
    assert_refused(errors.DeclaredTooLarge, "row group 0", source=name, max_bytes=100, exit_code=5)


def test_files_have_the_same_columns_in_the_same_order(tmp_path: Path, assert_refused) -> None:
    first = write("a-1.parquet", {"label": Y, **FLOATS})
    second = write("a-2.parquet", {**FLOATS, "label": Y})  # labels may stand elsewhere
    rows, y, _ = read(tmp_path, [first, second])
    np.testing.assert_array_equal(rows, np.r_[X, X])
    np.testing.assert_array_equal(y, [*Y, *Y])
    (tmp_path / "d.zarr").rename(tmp_path / "done")
    turned = write("b.parquet", {"label": Y, **dict(reversed(FLOATS.items()))})
    said = "feature 0 is 'f.2', and 'f.0' in a-1.parquet"
    assert_refused(errors.ColumnMismatch, said, "b.parquet", source=[first, turned], labels=None)
    more = write("c.parquet", {"label": Y, **FLOATS, "g": X[:, 0]})
    assert_refused(errors.ColumnMismatch, "'g' is in this file alone", source=[first, more], labels=None)
    assert_refused(errors.ColumnMismatch, "'g' is in c.parquet alone", source=[more, first], labels=None)


def test_rows_of_a_model_are_known_by_their_number(tmp_path: Path) -> None:
    """`predict` knows how many features there are: whole numbers among fractions are then in no doubt."""
    name = write(tmp_path / "x.parquet", {**FLOATS, "age": Y})
    opened = open_source(name, tmp_path / "spool", n_features=4, labelled=True)
    assert (opened.n_features, opened.labels) == (4, None)
    with pytest.raises(errors.UnknownInput, match="are 'age' features, or labels"):
        open_source(name, tmp_path / "spool", n_features=3, labelled=True)


def test_memory_does_not_grow_with_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some rows are decoded at a time, and what was cut off goes on from there."""
    monkeypatch.setattr("pipeline.ingest.parquet_wide.SLAB_BYTES", 4 * X.itemsize * X.shape[1])
    name = write(tmp_path / "x.parquet", FLOATS, row_group_size=6)
    from pipeline.ingest.parquet_wide import WideStream
    from pipeline.ingest.stream import Job

    stream = WideStream(Path(name), Job(tmp_path, 1 << 20, labelled=False))
    assert [slab.n_rows for slab in stream.slabs(0)] == [4, 2, 4, 2]
    for start in range(13):
        rows = [slab.to_array() for slab in stream.slabs(start)]
        np.testing.assert_array_equal(np.vstack([np.empty((0, 3), np.float32), *rows]), X[start:])


def test_names_of_labels_and_of_rows() -> None:
    assert all(map(says_only_what_it_is, ["y", "Label", "class_id", "index"]))
    assert not any(map(says_only_what_it_is, ["body_mass_index", "cell_type_score", "x"]))


def test_named_columns_beside_one_of_lists_and_around_the_labels(tmp_path: Path, assert_refused) -> None:
    lists = pa.array([["a"]] * 12)
    name = write(tmp_path / "x.parquet", {"f.0": X[:, 0], "kind": IDS, "f.1": X[:, 1], "tags": lists})
    rows, _, _ = read(tmp_path, name, rows_at="f.0..f.1", labels_at="kind")
    np.testing.assert_array_equal(rows, X[:, :2])
    rows, _, said = read(tmp_path, name, labels_at="kind")  # lists of words are no rows
    np.testing.assert_array_equal(rows, X[:, :2])
    assert said["Columns"] == "x.parquet: 2 columns are features: 'f.0' .. 'f.1'; not read: 'tags'"
    (tmp_path / "d.zarr").rename(tmp_path / "done")
    said = ("string", "column 'kind'", "if it holds the labels: --labels-at kind")
    assert_refused(errors.FeatureDtype, *said, source=name, labels=Y, rows_at="f.0..f.1")


def test_a_column_of_lists_beside_numbers_is_said_to_be_the_rows(tmp_path: Path, assert_refused) -> None:
    lists = {"vector": pa.array(X[:, ::-1].tolist()), "tags": pa.array([["a"]] * 12)}
    name = write(tmp_path / "x.parquet", {**FLOATS, **lists, "label": Y})
    rows, y, said = read(tmp_path, name)
    np.testing.assert_array_equal(rows, X[:, ::-1])
    np.testing.assert_array_equal(y, Y)
    left = "'f.0', 'f.1', 'f.2', 'tags'"
    assert said["Columns"] == f"x.parquet: each row is the list in column 'vector'; not read: {left}"
    assert "Columns" not in read(tmp_path, write(tmp_path / "y.parquet", {"v": lists["vector"], "label": Y}))[2]
    (tmp_path / "d.zarr").rename(tmp_path / "done")
    said = ("string", "column 'tags'")
    assert_refused(errors.FeatureDtype, *said, source=name, labels=Y, rows_at="tags")
    two = write(tmp_path / "z.parquet", {**FLOATS, **lists, "other": lists["vector"]})
    assert_refused(errors.UnknownInput, "which of 'vector', 'other' holds the rows?", source=two)


def test_many_columns_are_told_apart_in_one_look(tmp_path: Path) -> None:
    """With a look at all columns for each, 10,000 of them would take minutes."""
    values = np.random.default_rng(3).normal(size=(12, 10_000)).astype(np.float32)
    name = write(tmp_path / "x.parquet", {"label": Y, **{f"f.{i}": column for i, column in enumerate(values.T)}})
    rows, _, _ = read(tmp_path, name)
    np.testing.assert_array_equal(rows, values)
