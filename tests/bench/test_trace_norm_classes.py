"""The parts of the trace-norm study that are more than running commands."""

from __future__ import annotations

import math
import tomllib
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

from tests.bench.class_samples import Case, drawn_classes, root_normalised, rows_of
from tests.bench.trace_norm_classes import config_text
from tests.bench.trace_norm_tables import compression_table, finished, got_back, numerical_rank


@pytest.mark.parametrize("sample", range(3))
def test_larger_samples_contain_the_smaller(sample: int) -> None:
    small, large = (set(drawn_classes(200, wanted, sample).tolist()) for wanted in (10, 25))
    assert len(small) == 10
    assert len(large) == 25
    assert small < large


def test_every_sample_draws_other_classes() -> None:
    assert len({tuple(drawn_classes(200, 10, sample)) for sample in range(5)}) == 5


def test_labels_are_numbers_among_the_drawn_classes() -> None:
    index, labels = rows_of(np.array([7, 2, 9, 2, 5]), np.array([2, 7]))
    assert index.tolist() == [0, 1, 3]
    assert labels.tolist() == [1, 0, 0]


def test_roots_of_counts_have_norm_one_and_keep_their_zeros() -> None:
    counts = np.array([[4.0, 0, 9], [0, 0, 0], [1, 1, 2]])
    found = root_normalised(scipy.sparse.csr_matrix(counts)).toarray()
    expected = np.sqrt(counts / np.array([[13.0], [1], [4]]))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_the_config_learns_on_codes_and_tests_on_what_they_were_made_from() -> None:
    config = tomllib.loads(config_text(Case("tiny", 10, 3), 256, ["pq16", "pca-pq8"], ["gap = 0.01"]))
    assert config["seed"] == 3
    assert [one["gap"] for one in config["train"] if one["kind"] == "trace-norm"] == [0.01] * 5
    assert {one["name"]: one.get("subquantizers") for one in config["encode"]} == {
        "pq16": 16,
        "pca-pq8-rows": None,
        "pca-pq8": 32,
    }
    tested = {one["name"]: (one.get("rows", "x"), one.get("test_rows")) for one in config["train"]}
    assert tested["trace-norm"] == ("x", None)
    assert len(tested) == 11
    assert tested["ovr-pq16-semi"] == ("pq16", "x")
    assert tested["ovr-pq16-pq"] == ("pq16", "pq16")
    assert tested["trace-norm-pca-pq8-semi"] == ("pca-pq8", "pca-pq8-rows")


def test_what_is_got_back() -> None:
    assert got_back(80.0, 70.0, 75.0) == 0.5
    assert got_back(80.0, 70.0, 69.0) < 0 < 1 < got_back(80.0, 70.0, 81.0)
    assert math.isnan(got_back(80.0, 80.0, 80.0))


def test_the_table_of_codes_takes_means_over_samples() -> None:
    accuracy = {"ovr": (0.8, 0.9), "ovr-pq16-pq": (0.6, 0.7), "ovr-pq16-semi": (0.7, 0.85)}
    rows = [
        {"set": "tiny", "classes": 10, "sample": sample, "model": model, "top1": values[sample]}
        for sample in range(2)
        for model, values in accuracy.items()
    ]
    line = compression_table(rows).splitlines()[1].split()
    assert line[:4] == ["tiny", "10", "pq16", "ovr"]
    assert line[4:] == ["85.00", "+-", "5.00", "65.00", "+-", "5.00", "77.50", "+-", "7.50", "62%", "50%"]


def test_rank_of_a_spectrum() -> None:
    assert numerical_rank([5.0, 1.0, 0.004]) == 2
    assert numerical_rank([]) == 0


def test_finished_cases_are_told_by_the_names_of_their_runs(tmp_path: Path) -> None:
    cases = [Case("clinc-dense", 150, 0), Case("tiny-sift", 10, 2), Case("tiny-sift", 200, 0)]
    for case in reversed(cases):
        place = tmp_path / "runs" / case.name
        place.mkdir(parents=True)
        (place / "metrics.json").write_text(f'{{"sample": {case.sample}}}')
    (tmp_path / "runs" / "tiny-50-0").mkdir()
    assert finished(tmp_path) == [(case, {"sample": case.sample}) for case in cases]
