"""Labels of every kind come back as they were given; those that are none are named, with their row."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import pytest

from pipeline import AveragedSGDClassifier, HeshingClassifier, TrainedClassifier
from pipeline.estimators import BadParameter, BadRows
from pipeline.estimators.given_labels import refuse_labels
from pipeline.estimators.labels import name_of
from pipeline.estimators.saving import take_model
from tasks.models.errors import ModelFormat

QUICK: dict[str, Any] = {"rounds": 1, "least_rows": 500}
EYE = np.eye(2, dtype=np.float32)
ACCENT, COMBINED = "\u00e9t\u00e9", "e\u0301te\u0301"  # the same word in two Unicode forms

KINDS: dict[str, Any] = {
    "bool": [True, False],
    "str": ["b", "a"],
    "str-wide": np.array(["b", "a"], "U40"),
    "str-big-endian": np.array(["b", "a"], ">U3"),
    "int": [7, -3],
    "int8": np.array([-128, 127], np.int8),
    "uint8": np.array([250, 3], np.uint8),
    "uint64": np.array([2**64 - 1, 2**63], np.uint64),
    "float": [2.0, 5.0],
    "float32": np.array([-2.0, 2.0**30], np.float32),
    "longdouble": np.array([2, 5], np.longdouble),
    "object-of-text": np.array(["oak", "rye"], object),
    "unicode-forms": np.array([ACCENT, COMBINED]),
    "object-unicode-forms": np.array([COMBINED, "oak"], object),
    "days": np.array(["2020-01-02", "1900-12-31"], "M8[D]"),
    "seconds": np.array(["2020-01-02T03:04:05", "1900-12-31"], "M8[s]"),
    "nanoseconds": np.array(["2020-01-02T03:04:05.123456789", "1970-01-01"], "M8[ns]"),
    "far-years": np.array(["20000-01", "-0400-05"], "M8[M]"),
    "spans": np.array([3, -400], "m8[D]"),
    "spans-nanoseconds": np.array([3, 10**15], "m8[ns]"),
    "pandas-category": pd.Series(["oak", "rye"], dtype="category"),
    "pandas-string": pd.Series(["oak", "rye"], dtype="string"),
    "pandas-Int64": pd.Series([4, 2], dtype="Int64"),
    "pandas-dates": pd.Series(pd.to_datetime(["2020-01-02", "1999-01-01"])),
}


@pytest.mark.parametrize("kind", KINDS)
def test_labels_come_back_as_they_were(kind: str, tmp_path: Path) -> None:
    """Of two rows, each alone in its class."""
    given = KINDS[kind]
    expected = np.asarray(given)
    model = AveragedSGDClassifier(**QUICK).fit(EYE, given)
    model.save(tmp_path / "m")
    for one in (model, AveragedSGDClassifier.load(tmp_path / "m"), TrainedClassifier.load(tmp_path / "m")):
        predicted = one.predict(EYE)
        assert predicted.dtype == one.classes_.dtype == expected.dtype
        np.testing.assert_array_equal(predicted, expected)


REFUSED: dict[str, tuple[Any, str]] = {
    "text-and-numbers": (["a", "b", 3, "a"], r"the label 3 is a number, that of row 0 is text \[y, row 2\]"),
    "objects-mixed": (np.array(["a", "b", 3, "a"], object), r"label 3 is a number.*\[y, row 2\]"),
    "numbers-and-booleans": ([2, 1, True, 2], r"label True is a boolean, that of row 0 is a number \[y, row 2\]"),
    "none": (["a", None, "b", "a"], r"the label is None: the row has no label \[y, row 1\]"),
    "nan": ([1.0, 2.0, np.nan, 1.0], r"Input y contains NaN: the row has no label \[y, row 2\]"),
    "nan-beside-text": (np.array(["a", "b", np.nan, "a"], object), r"contains NaN.*\[y, row 2\]"),
    "pandas-na": (pd.Series([1, None, 2, 1], dtype="Int64"), r"Input y contains NaN.*\[y, row 1\]"),
    "pandas-na-text": (pd.Series(["a", None, "b", "a"], dtype="string"), r"the label is <NA>.*\[y, row 1\]"),
    "nat": (np.array(["2020-01-01", "NaT", "2020-01-02", "2020-01-01"], "M8[D]"), r"NaT.*\[y, row 1\]"),
    "surrogate": (np.array(["a", "b", "\ud800c", "a"]), r"'\\ud800c' is no Unicode text \[y, row 2\]"),
    "surrogate-in-a-list": (["a", "b", "\ud800c", "a"], r"is no Unicode text \[y, row 2\]"),
    "bytes": (np.array([b"a", b"b", b"a", b"b"]), r"a label of type \|S1 \[y, row 0\]"),
    "bytes-in-a-list": (["a", b"b", "a", "b"], r"the label b'b' is bytes \[y, row 1\]"),
    "objects": (np.array([1, 2, 1, 2], object), r"Unknown label type: y is an array of objects \(int\)"),
    "huge": ([2**80, 1, 2**80, 1], r"array of objects \(int\)"),
    "masked": (np.ma.array([1, 2, 1, 2], mask=[0, 0, 0, 1]), r"1 values of the masked array y.*\[y, row 3\]"),
    "one-class": (["a"] * 4, r"y holds 1 class \(\['a'\]\)"),
    "string-dtype": (np.array(["a", "b", "a", "b"], np.dtypes.StringDType()), r"a label of type StringDType"),
    "records": (np.zeros(4, [("a", int)]), "a label of type"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_labels_that_are_none_are_refused(kind: str) -> None:
    labels, said = REFUSED[kind]
    rows = np.eye(4, dtype=np.float32)
    for model in (AveragedSGDClassifier(**QUICK), HeshingClassifier(bits=4, **QUICK)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # one of NumPy about what it made of them would be too late
            with pytest.raises(BadRows, match=said):
                model.fit(rows, labels)
        assert not [name for name in vars(model) if name.endswith("_")]
    with pytest.raises(BadRows, match=said):
        AveragedSGDClassifier(**QUICK).fit(da.from_array(rows, chunks=2), labels)
    with pytest.raises(BadRows, match=re.sub(r"\by\b", "classes", said)):
        AveragedSGDClassifier(**QUICK).partial_fit(rows, ["a", "b", "a", "b"], classes=labels)


def test_labels_of_one_kind_pass() -> None:
    for labels in (*KINDS.values(), [1, 2.0], [np.str_("a"), "b"], [[1], [2]], [], "text", 3, None):
        before = repr(labels)
        refuse_labels(labels)
        assert repr(labels) == before


def test_the_first_partial_fit_names_all_classes() -> None:
    labels = np.array(["b", "a"])
    model = AveragedSGDClassifier(**QUICK)
    with pytest.raises(BadParameter, match="classes must be passed on the first call to partial_fit") as found:
        model.partial_fit(EYE, labels)
    assert isinstance(found.value, ValueError)
    assert not hasattr(model, "n_features_in_")
    with pytest.raises(BadRows, match=r"labels \['b'\], which are none of `classes` \[y, row 0\]"):
        model.partial_fit(EYE, labels, classes=["a", "c"])
    assert not hasattr(model, "classes_")
    model.partial_fit(EYE, labels, classes=["c", "b", "a"])
    with pytest.raises(BadRows, match="others than the 3"):
        model.partial_fit(EYE, labels, classes=["a", "b"])
    for later, said in ((["a", "z"], r"\['z'\].*row 1"), ([1, 2], "a number: none of `classes`, which are each text")):
        with pytest.raises(BadRows, match=said):
            model.partial_fit(EYE, np.array(later))
    assert model.partial_fit(EYE, labels).classes_.tolist() == ["a", "b", "c"]


@pytest.mark.parametrize("note", [{"labels": "<i8"}, {"labels": "rubbish"}, {"labels": 3.5}, {"spelled": [1]}], ids=str)
def test_a_note_that_does_not_fit_is_named(note: dict[str, Any]) -> None:
    saved = AveragedSGDClassifier(**QUICK).fit(EYE, ["oak", "rye"]).model_
    other = replace(saved, header={**saved.header, "provenance": {"estimator": note}}, folder="place")
    with pytest.raises(ModelFormat, match=r"\[place\]"):
        take_model(TrainedClassifier(), other)


@pytest.mark.parametrize(
    ("value", "name"),
    [(2.0, "2"), (np.float32(2), "2"), (1.5, "1.5"), (np.nan, "nan"), (3, "3"), (True, "True"), ("a", "a")],
    ids=str,
)
def test_names_of_labels(value: Any, name: str) -> None:
    assert name_of(value) == name
