"""One-vs-all squared hinges: turns of a block against row after row, optima, ranges, and large costs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.svm import LinearSVC

from tasks.errors import Diverged, ParamError
from tasks.rows import Dense
from tasks.rows.base import Array
from tasks.svm import one_vs_all as module
from tasks.svm.one_vs_all import Group, one_vs_all
from tests.bodies import csr_of
from tests.naive import svm as naive
from tests.strategies import seeds

BLOCKS = [1, 3, 8]


def problem(seed: int, n: int, d: int, n_labels: int, apart: float = 1.0) -> tuple[Array, Array]:
    """(values (n, d) float32, labels (n,) int32)."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_labels, n).astype(np.int32)
    centres = apart * rng.normal(size=(n_labels, d))
    return (rng.normal(size=(n, d)) + centres[labels]).astype(np.float32), labels


def unit_of(values: Array) -> float:
    return float(np.sqrt((values.astype(np.float64) ** 2).sum(axis=1).mean()))


def objectives(values: Array, labels: Array, weights: Array, bias: Array, cost: float) -> Array:
    """Of each output, in float64."""
    unit, n_labels = unit_of(values), bias.size
    sides = [np.where(labels == q, 1.0, -1.0) for q in range(n_labels)]
    x, w, b = values.astype(np.float64), weights.astype(np.float64), bias.astype(np.float64)
    of = naive.squared_objective
    return np.array([of(w[:, q], b[q] / unit, x, sides[q], cost, unit) for q in range(n_labels)])


def least(values: Array, labels: Array, n_labels: int, cost: float) -> Array:
    sides = [np.where(labels == q, 1.0, -1.0) for q in range(n_labels)]
    x = values.astype(np.float64)
    return np.array([naive.least_squared_objective(x, side, cost, unit_of(values)) for side in sides])


@pytest.mark.parametrize("size", BLOCKS)
@pytest.mark.parametrize("n", [2, 13, 24])
def test_a_block_takes_turns_as_rows_one_after_another(size: int, n: int) -> None:
    """Whatever the size of the block: the duals, the weights they make, and the gap that is seen on the way."""
    values, labels = problem(n, n, 4, 3)
    labels[0] = -1
    group = Group(values, labels, 3, 0.7, 1.5)
    group.size, group.moves = size, np.empty((size, 3), np.float32)
    expected = np.zeros((n, 3))
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(n)
        gap, seen = group.sweep(order)[2], 0.0
        for q in range(3):
            side = np.where(labels == q, 1.0, -1.0)
            expected[:, q], own = naive.squared_sweep(values.astype(float), side, 0.7, 1.5, expected[:, q], order)
            seen += own
        np.testing.assert_allclose(group.duals, expected, rtol=2e-3, atol=2e-4)
        signed = expected * np.where(labels[:, None] == np.arange(3), 1.0, -1.0)
        np.testing.assert_allclose(group.weights, values.T @ signed, atol=2e-3)
        np.testing.assert_allclose(group.constant, 1.5 * signed.sum(axis=0), atol=2e-3)
    norms = (group.weights.astype(np.float64) ** 2).sum() + (group.constant.astype(np.float64) ** 2).sum()
    assert gap > 0
    assert seen / gap >= 0.5 * norms * (1 - 1e-3)  # gap = seen / (1/2 |w|^2 + losses)


def test_mean_weights_are_those_after_each_block() -> None:
    values, labels = problem(1, 40, 3, 2)
    group, twin = (Group(values, labels, 2, 1.0, 1.0) for _ in range(2))
    order = np.random.default_rng(0).permutation(40)
    mean, constant, _ = group.sweep(order)
    after = []
    for start in range(0, 40, group.size):
        twin.sweep(order[start : start + group.size])
        after.append((twin.weights.copy(), twin.constant.copy()))
    assert len(after) > 2
    np.testing.assert_allclose(mean, np.mean([w for w, _ in after], axis=0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(constant, np.mean([c for _, c in after], axis=0), rtol=1e-4, atol=1e-5)


@settings(max_examples=20)
@given(seed=seeds, n=st.integers(1, 20), d=st.integers(1, 4), cost=st.sampled_from([1e-3, 0.1, 1.0]))
def test_few_rows_end_near_the_optimum(seed: int, n: int, d: int, cost: float) -> None:
    values, labels = problem(seed, n, d, 3)
    weights, bias = one_vs_all(Dense(values), labels, 3, cost, np.random.default_rng(0))
    found, best = objectives(values, labels, weights, bias, cost).sum(), least(values, labels, 3, cost).sum()
    assert best * (1 - 1e-5) <= found <= 1.06 * best + 1e-9


@pytest.mark.parametrize("cost", [0.01, 1.0, 100.0])
def test_the_objective_is_that_of_liblinear(cost: float) -> None:
    """Also where duals are far from their ends when the sweeps do."""
    values, labels = problem(2, 400, 12, 5, apart=0.6)
    weights, bias = one_vs_all(Dense(values), labels, 5, cost, np.random.default_rng(0))
    theirs = LinearSVC(C=cost, dual=False, tol=1e-8, intercept_scaling=unit_of(values)).fit(values, labels)
    best = objectives(values, labels, theirs.coef_.T, theirs.intercept_, cost)
    found = objectives(values, labels, weights, bias, cost)
    assert found.sum() <= 1.04 * best.sum()
    assert (found >= best * (1 - 1e-4)).all()


@pytest.mark.parametrize("cost", [1.0, 300.0])
def test_more_sweeps_are_not_worse(monkeypatch: pytest.MonkeyPatch, cost: float) -> None:
    """Of each output the best that was looked at is kept."""
    values, labels = problem(3, 300, 20, 4, apart=0.5)
    monkeypatch.setattr(module, "WORTH", -1.0)
    monkeypatch.setattr(module, "GAP", 0.0)
    before = np.full(4, np.inf)
    for sweeps in (4, 8, 16, 32):
        monkeypatch.setattr(module, "SWEEPS", sweeps)
        found = objectives(values, labels, *one_vs_all(Dense(values), labels, 4, cost, np.random.default_rng(0)), cost)
        assert (found <= before * (1 + 1e-5)).all()
        before = found
    assert before.sum() <= 1.04 * least(values, labels, 4, cost).sum()


def test_sparse_rows_reach_what_dense_ones_do() -> None:
    values, labels = problem(4, 200, 10, 4)
    dense = one_vs_all(Dense(values), labels, 4, 0.05, np.random.default_rng(0))
    sparse = one_vs_all(csr_of(values), labels, 4, 0.05, np.random.default_rng(0))
    found = [objectives(values, labels, *fit, 0.05).sum() for fit in (dense, sparse)]
    assert found[1] == pytest.approx(found[0], rel=0.03)


@pytest.mark.parametrize("sparse", [False, True])
def test_a_range_of_outputs_has_the_bits_of_the_whole(monkeypatch: pytest.MonkeyPatch, sparse: bool) -> None:
    monkeypatch.setattr(module, "ABREAST", 4)
    monkeypatch.setattr("tasks.fit.hinge_ascent.ABREAST", 4)
    values, labels = problem(5, 150, 6, 11)
    rows = csr_of(values) if sparse else Dense(values)
    weights, bias = one_vs_all(rows, labels, 11, 0.5, np.random.default_rng(7))
    for part in (range(4), range(4, 11), range(8, 11), range(8)):
        own = one_vs_all(rows, labels, 11, 0.5, np.random.default_rng(7), part)
        np.testing.assert_array_equal(own[0], weights[:, part.start : part.stop])
        np.testing.assert_array_equal(own[1], bias[part.start : part.stop])


def test_the_labels_are_found_again() -> None:
    values, labels = problem(6, 600, 8, 6, apart=4.0)
    weights, bias = one_vs_all(Dense(values), labels, 6, 1.0, np.random.default_rng(0))
    assert weights.dtype == bias.dtype == np.float32
    assert ((values @ weights + bias).argmax(axis=1) == labels).mean() > 0.97


def test_a_label_without_rows_and_rows_without_length() -> None:
    weights, bias = one_vs_all(Dense(np.zeros((5, 2), np.float32)), np.array([0, 0, 0, 1, 1]), 3, 1.0, rng(0))
    assert not weights.any()
    assert bias[2] < bias[1] < bias[0]


def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("cost", [0.0, -1.0, np.nan, np.inf])
def test_costs_are_checked(cost: float) -> None:
    with pytest.raises(ParamError, match="C = "):
        one_vs_all(Dense(np.ones((2, 1), np.float32)), np.array([0, 1]), 2, cost, rng(0))


@pytest.mark.parametrize("outputs", [range(1, 5), range(3)])
def test_ranges_are_checked(outputs: range) -> None:
    with pytest.raises(ParamError, match="outputs"):
        one_vs_all(Dense(np.ones((2, 1), np.float32)), np.array([0, 1]), 5, 1.0, rng(0), outputs)


def test_rows_that_are_no_numbers_are_told() -> None:
    values, labels = problem(1, 30, 2, 2)
    values[4, 1] = np.nan
    with pytest.raises(Diverged):
        one_vs_all(Dense(values), labels, 2, 1.0, rng(0))
