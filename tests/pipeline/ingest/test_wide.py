"""Text tables with a column for each feature are refused with the line of Python that makes a matrix of them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy
import pandas
import pytest

from pipeline.ingest import ingest
from pipeline.ingest.errors import UnknownInput
from pipeline.ingest.wide import longest_run
from tests.pipeline.ingest.samples import X, Y, stored

FRAME = pandas.DataFrame(X, columns=[f"f{i}" for i in range(X.shape[1])])
LABELLED = pandas.concat([pandas.DataFrame({"id": [f"r{i}" for i in range(len(X))], "species": Y}), FRAME], axis=1)


def write(frame: pandas.DataFrame, name: str, **options: object) -> Path:
    frame.to_csv(name, sep="\t" if name.endswith(".tsv") else ",", index=False, **options)
    return Path(name)


@pytest.mark.parametrize("name", ["x.csv", "x.tsv"])
def test_what_is_proposed_works(assert_refused, tmp_path, name):
    source = write(LABELLED, name)
    words = ["columns 'f0' .. 'f2' hold single numbers", f"--labels {name}:species"]
    said = str(assert_refused(UnknownInput, *words, source=source, labels=None))
    line = re.search(r"in Python: (numpy\.save\(.*?\)\))", said)[1]
    exec(line, {"numpy": numpy, "pandas": pandas})
    made = ingest("x.npy", tmp_path / "d.zarr", labels=f"{name}:species")
    rows, y, _, order = stored(made)
    numpy.testing.assert_array_equal(rows[numpy.argsort(order)], X)
    numpy.testing.assert_array_equal(y[numpy.argsort(order)], Y)


def test_numbers_without_a_heading(assert_refused):
    source = write(FRAME, "x.csv", header=False)
    said = str(assert_refused(UnknownInput, "a .csv file holds labels or classes, not rows", source=source))
    exec(re.search(r"in Python: (numpy\.save\(.*?\)\))", said)[1], {"numpy": numpy})
    numpy.testing.assert_array_equal(numpy.load("x.npy"), X)


def test_tables_of_something_else(assert_refused):
    Path("files.csv").write_text("file,label\na.png,cat\n")
    assert_refused(UnknownInput, "not rows", "this file as --labels", source="files.csv")
    Path("empty.tsv").write_text("")
    assert_refused(UnknownInput, "a .tsv file", source="empty.tsv")
    pandas.DataFrame({"a": Y}).to_parquet("y.parquet")
    assert_refused(UnknownInput, "no place of rows", source="y.parquet")


def test_the_columns_that_are_features():
    columns = [("label", "number"), *((f"f{i}", "number") for i in range(4)), ("who", "text"), ("x", "number")]
    assert longest_run(columns) == ["f0", "f1", "f2", "f3"]
    assert longest_run([("a", "whole"), ("b", "number"), ("c", "number")]) == ["b", "c"]
    assert longest_run([("a", "text")]) == []
