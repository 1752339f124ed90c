"""Splits drawn and given in all their forms; those that name no rows, and options out of range."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from pipeline.dataset import TEST, TRAIN, VALIDATION
from pipeline.ingest import errors, ingest
from pipeline.ingest.splits import draw_split
from tasks.errors import ParamError
from tests.pipeline.ingest.samples import X, notes, quick, stored, text


@quick
@given(
    counts=st.lists(st.integers(1, 30), min_size=2, max_size=12),
    validation=st.sampled_from([0, 0.1, 0.25]),
    test=st.sampled_from([0, 0.2, 0.5]),
    seed=st.integers(0, 99),
)
def test_drawn_parts_hold_their_share_of_every_class(counts, validation, test, seed):
    labels = np.repeat(np.arange(len(counts)), counts)
    split = draw_split(labels, validation, test, seed)
    np.testing.assert_array_equal(split, draw_split(labels, validation, test, seed))
    for c, count in enumerate(counts):
        parts = np.bincount(split[labels == c], minlength=3)
        assert parts[TRAIN] >= 1
        for part, share in ((VALIDATION, validation), (TEST, test)):
            assert parts[part] <= np.ceil(share * count)
            assert parts[part] >= np.floor(share * count) or parts[TRAIN] == 1
    if min(counts) > 3:  # else a class of one row keeps it for training
        assert abs((split == TEST).sum() - test * sum(counts)) <= 0.5


def test_small_classes_give_their_share_to_validation():
    """A tenth of 4 rows rounds to none; over 1,000 such classes 400 rows must come together."""
    split = draw_split(np.repeat(np.arange(1000), 4), 0.1, 0.0, 0)
    assert (split == VALIDATION).sum() == 400


@pytest.mark.parametrize("form", ["npy", "words", "txt", "rows.npy", "rows.json", "parts.json", "shares"])
def test_forms_of_a_split(tmp_path, small, form):
    matrix, labels = small
    split = np.tile([0, 0, 1, 0, 2], 8)
    validation, test = np.flatnonzero(split == 1), np.flatnonzero(split == 2)
    path = tmp_path / f"split.{form.rsplit('.', 1)[-1]}"
    if form == "npy":
        np.save(path, split)
    elif form == "words":
        path = np.array(["train", "validation", "test"])[split].tolist()
    elif form == "txt":
        path.write_text("".join(f"{word}\n" for word in np.array(["train", "val", "TEST"])[split]))
    elif form == "rows.npy":
        np.save(path, validation)
    elif form == "rows.json":
        path.write_text(json.dumps(validation.tolist()))
    elif form == "parts.json":
        path.write_text(json.dumps({"validation": validation.tolist(), "test": test.tolist()}))
    else:
        path = "0.6,0.2,0.2"
    made = ingest(matrix, tmp_path / "d", labels=labels, split=path)
    _, _, found, row_id = stored(made)
    if form == "shares":
        assert made.split_counts == {"train": 24, "validation": 8, "test": 8}
        return
    expected = np.where(split == 2, 0, split) if form.startswith("rows") else split
    np.testing.assert_array_equal(found, expected[row_id])
    assert ("EmptySplit" in notes(made)) == form.startswith("rows")


def test_shares_count_only_for_parts_that_are_drawn(tmp_path, small):
    """Most rows as validation, with test rows that come apart: the default share of test rows plays no part."""
    matrix, labels = small
    made = ingest(matrix, tmp_path / "d", labels=labels, test_source=matrix, test_labels=labels, validation=0.9)
    assert made.split_counts == {"train": 4, "validation": 36, "test": 40}


def test_what_is_drawn_is_said(tmp_path, small):
    matrix, labels = small
    made = ingest(matrix, tmp_path / "d", labels=labels, test_source=matrix, test_labels=labels, seed=9)
    assert made.split_counts == {"train": 36, "validation": 4, "test": 40}
    assert "0.1 as validation" in notes(made)["SplitDrawn"]
    assert "seed 9" in notes(made)["SplitDrawn"]
    assert "test" not in notes(made)["SplitDrawn"].split(":")[1]
    assert "--split" not in notes(made)["SplitDrawn"]
    said = notes(ingest(matrix, tmp_path / "e", labels=labels, split="0.7,0.1,0.2"))["SplitDrawn"]
    assert (
        said
        == "parts of the rows of array were drawn by class (seed 0), as --split says: 0.1 as validation, 0.2 as test"
    )


@pytest.mark.parametrize(
    ("split", "words"),
    [
        ([12], ("row 12", "entry 0")),
        ([-1], ("row -1",)),
        ([3, 5, 3], ("row 3", "twice")),
        ({"validation": [1], "test": [1]}, ("row 1", "twice")),
        ({"holdout": [1]}, ("'holdout'",)),
        ({"test": [0.5]}, ("'test'",)),
        (["train"] * 11 + ["holdout"], ("'holdout'", "row 11")),
        (np.zeros(12, np.float32), ("float32",)),
        (np.zeros((12, 1), int), ("(12, 1)",)),
    ],
)
def test_splits_that_name_no_rows(assert_refused, split, words):
    assert_refused(errors.SplitFormat, *words, split=split)


@pytest.mark.parametrize("content", ["{", "[[0], [1, 2]]", '"train"'])
def test_split_files_that_cannot_be_read(assert_refused, content):
    assert_refused(errors.SplitFormat, "s.json", split=text("s.json", content))


@pytest.mark.parametrize(
    "options",
    [
        {"validation": 1.0},
        {"validation": -0.1},
        {"test": 2},
        {"validation": 0.5, "test": 0.5},
        {"split": "0.5,0.5,0.5"},
        {"split": "0,0.5,0.5"},
        {"seed": -1},
        {"dtype": "float64"},
        {"index_base": 2},
        {"on_nonfinite": "ignore"},
        {"block_rows": 0},
        {"block_rows": 2**40},
        {"dtype": "float16", "source": scipy.sparse.csr_matrix(X)},
    ],
    ids=str,
)
def test_options_out_of_range(assert_refused, options):
    assert_refused(ParamError, exit_code=2, **options)
