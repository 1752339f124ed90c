"""The mean distance of rows: the definition's, however the rows are cut."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tasks.rows import Dense
from tasks.svm import kernel_width
from tasks.svm.kernels import OF_DISTANCES, NoKernelWidth, mean_distance
from tests.bodies import csr_of
from tests.naive import kernels as naive


@pytest.mark.parametrize("body", [Dense, csr_of])
@pytest.mark.parametrize("kind", OF_DISTANCES)
@pytest.mark.parametrize("n_rows", [2, 3, 9])
def test_mean_over_all_pairs(kind: Any, body: Any, n_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(n_rows)
    values = rng.random((n_rows, 5)) * (rng.random((n_rows, 5)) < 0.7)
    expected = naive.mean_distance(kind, values)
    assert mean_distance(kind, body(values)) == pytest.approx(expected, rel=1e-12)
    monkeypatch.setattr(kernel_width, "ROWS_AT_ONCE", 2)
    assert mean_distance(kind, body(values)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("kind", ["linear", "histogram-intersection"])
def test_kernels_without_a_width_have_1(kind: Any) -> None:
    assert mean_distance(kind, Dense(np.ones((0, 2)))) == 1.0


@pytest.mark.parametrize("kind", OF_DISTANCES)
@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.ones((0, 2)), "0 rows"),
        (np.ones((1, 2)), "1 rows"),
        (np.ones((4, 2)), "is 0.0"),
        (np.zeros((4, 2)), "is 0.0"),
    ],
)
def test_rows_without_distances_are_named(kind: Any, values: np.ndarray, message: str) -> None:
    with pytest.raises(NoKernelWidth, match=message) as caught:
        mean_distance(kind, Dense(values))
    assert "width" in caught.value.hint
