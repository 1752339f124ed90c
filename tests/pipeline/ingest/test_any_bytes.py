"""Whatever bytes a file holds, it is used or refused by name."""

from __future__ import annotations

import io as streams
import pickle
import warnings

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pipeline.ingest import errors, ingest
from tasks.errors import InputError, LabelgroveError
from tests.pipeline.ingest.samples import X, Y


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=120), kind=st.sampled_from(["x.npy", "x.npz", "x.svm"]), magic=st.booleans())
def test_any_bytes_as_a_source_are_refused_by_name(tmp_path, content, kind, magic):
    start = {"x.npy": b"\x93NUMPY\x01\x00", "x.npz": b"PK\x03\x04", "x.svm": b"0 1:1\n"}[kind]
    (tmp_path / kind).write_bytes(start * magic + content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(InputError):
            ingest(tmp_path / kind, tmp_path / "d.zarr", labels=None)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("d.zarr")] == []


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.one_of(st.binary(max_size=60), st.text('{}[]:,"abcx12\t\n', max_size=60).map(str.encode)),
    ending=st.sampled_from([".json", ".tsv", ".csv", ".txt"]),
    option=st.sampled_from(["labels", "classes", "taxonomy", "split"]),
)
@example(content=b"\n\x00\t", ending=".tsv", option="classes")
@example(content=b'"' + 140_000 * b"x", ending=".csv", option="labels")
def test_any_bytes_as_a_side_file_are_used_or_refused_by_name(tmp_path, content, ending, option):
    path = tmp_path / f"side{ending}"
    path.write_bytes(content)
    options = {"labels": Y, "validation": 0, "test": 0} | {option: path}
    try:
        ingest(X, tmp_path / "d.zarr", force=True, **options).verify()
    except LabelgroveError as error:
        assert error.exit_code in (2, 3)  # noqa: PT017


def test_errors_come_back_from_pickling():
    error = errors.LabelOutOfRange("label 7", "y.npy, row 4", "look there")
    again = pickle.load(streams.BytesIO(pickle.dumps(error)))
    assert (type(again), str(again)) == (type(error), str(error))
