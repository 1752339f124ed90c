"""One-vs-all squared hinges: turns of dense and sparse rows against the naive ones, optima, ranges, large costs."""

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
from tasks.svm.dense_one_vs_all import DenseAscent
from tasks.svm.one_vs_all import Ascent, one_vs_all
from tasks.svm.sparse_one_vs_all import SparseAscent
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


def ascents(values: Array, labels: Array, n_outputs: int, unit: float) -> list[Ascent]:
    """Of blocks of several sizes, and of sparse rows."""
    found: list[Ascent] = [SparseAscent(csr_of(values), labels, n_outputs, unit)]
    for size in BLOCKS:
        dense = DenseAscent(values, labels, n_outputs, unit)
        dense.size, dense.moves = size, np.empty((size, n_outputs), np.float32)
        found.append(dense)
    return found


@pytest.mark.parametrize("body", range(1 + len(BLOCKS)))
@pytest.mark.parametrize("n", [2, 13, 24])
def test_rows_take_turns_one_after_another(body: int, n: int) -> None:
    """Whatever the body and the size of the block: the duals, the weights they make, and the gap and losses seen."""
    values, labels = problem(n, n, 4, 3)
    values[np.random.default_rng(n).random(values.shape) < 0.4] = 0.0
    labels[0] = -1
    ascent = ascents(values, labels, 3, 1.5)[body]
    expected, unit = np.zeros((n, 3)), 1.5
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(n)
        before = expected.copy()
        gaps, losses = ascent.sweep(order, 0.7)
        for q in range(3):
            side, x = np.where(labels == q, 1.0, -1.0), values.astype(float)
            expected[:, q], seen = naive.squared_sweep(x, side, 0.7, unit, before[:, q], order)
            assert gaps[q] == pytest.approx(seen, rel=1e-3, abs=1e-3)
            assert losses[q] == pytest.approx(losses_seen(x, side, unit, before[:, q], expected[:, q], order), rel=1e-3)
        np.testing.assert_allclose(ascent.duals, expected, rtol=2e-3, atol=2e-4)
        signed = expected * np.where(labels[:, None] == np.arange(3), 1.0, -1.0)
        np.testing.assert_allclose(ascent.weights, values.T @ signed, atol=2e-3)
        np.testing.assert_allclose(ascent.constant, unit * signed.sum(axis=0), atol=2e-3)


def losses_seen(x: Array, side: Array, unit: float, before: Array, after: Array, order: Array) -> float:
    """Sum of the squared hinges of each row as the duals are when its turn comes."""
    duals, total = before.copy(), 0.0
    for i in order:
        total += max(0.0, 1.0 - side[i] * float((duals * side) @ (x @ x[i] + unit * unit))) ** 2
        duals[i] = after[i]
    return total


@pytest.mark.parametrize(("body", "step"), [(DenseAscent, 5), (SparseAscent, 1)])
def test_mean_weights_are_those_after_each_step(body: type[DenseAscent], step: int) -> None:
    """A step is a block of dense rows, or one sparse row; the second sweep begins where the first one ended."""
    values, labels = problem(1, 40, 3, 2)
    labels[3] = -1
    rows = values if body is DenseAscent else csr_of(values)
    whole, twin = body(rows, labels, 2, 1.3), body(rows, labels, 2, 1.3)
    for seed in range(2):
        order, after = np.random.default_rng(seed).permutation(40), []
        whole.sweep(order, 1.0)
        mean, constant = whole.mean()
        for start in range(0, 40, step):
            twin.sweep(order[start : start + step], 1.0)
            after.append((twin.weights.copy(), twin.constant.copy()))
        np.testing.assert_allclose(mean, np.mean([w for w, _ in after], axis=0), rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(constant, np.mean([c for _, c in after], axis=0), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("body", [0, 1])
def test_losses_are_those_of_the_weights(body: int) -> None:
    values, labels = problem(8, 50, 6, 3)
    labels[:4] = -1
    weights, bias = (np.random.default_rng(0).normal(size=shape).astype(np.float32) for shape in ((6, 3), 3))
    sides = np.where(labels[:, None] == np.arange(3), 1.0, -1.0)
    hinges = np.maximum(0.0, 1.0 - sides * (values.astype(float) @ weights + bias))
    found = ascents(values, labels, 3, 1.0)[body].losses(weights, bias)
    np.testing.assert_allclose(found, (hinges**2).sum(axis=0), rtol=1e-5)


def test_a_feature_that_no_row_has_weighs_nothing() -> None:
    values, labels = problem(9, 60, 8, 3)
    values[:, 5] = 0.0
    weights, _ = one_vs_all(csr_of(values), labels, 3, 1.0, rng(0))
    assert not weights[5].any()
    assert weights.any(axis=1).sum() == 7


@settings(max_examples=20)
@given(seed=seeds, n=st.integers(1, 20), d=st.integers(1, 4), cost=st.sampled_from([1e-3, 0.1, 1.0]))
def test_few_rows_end_near_the_optimum(seed: int, n: int, d: int, cost: float) -> None:
    values, labels = problem(seed, n, d, 3)
    best = least(values, labels, 3, cost).sum()
    for rows in (Dense(values), csr_of(values)):
        found = objectives(values, labels, *one_vs_all(rows, labels, 3, cost, rng(0)), cost).sum()
        assert best * (1 - 1e-5) <= found <= 1.06 * best + 1e-9


@pytest.mark.parametrize("cost", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("sparse", [False, True])
def test_the_objective_is_that_of_liblinear(cost: float, sparse: bool) -> None:
    """Also where duals are far from their ends when the sweeps do."""
    values, labels = problem(2, 400, 12, 5, apart=0.6)
    rows = csr_of(values) if sparse else Dense(values)
    weights, bias = one_vs_all(rows, labels, 5, cost, rng(0))
    theirs = LinearSVC(C=cost, dual=False, tol=1e-8, intercept_scaling=unit_of(values)).fit(values, labels)
    best = objectives(values, labels, theirs.coef_.T, theirs.intercept_, cost)
    found = objectives(values, labels, weights, bias, cost)
    assert found.sum() <= 1.04 * best.sum()
    assert (found >= best * (1 - 1e-4)).all()


@pytest.mark.parametrize("sparse", [False, True])
def test_few_narrow_rows_of_a_high_cost_have_the_sweeps_they_need(sparse: bool) -> None:
    """Nearly apart, they need hundreds, and meanwhile the objective may even go up."""
    values, labels = problem(12, 40, 8, 3, apart=1.5)
    rows = csr_of(values) if sparse else Dense(values)
    found = objectives(values, labels, *one_vs_all(rows, labels, 3, 100.0, rng(0)), 100.0).sum()
    assert found <= 1.1 * least(values, labels, 3, 100.0).sum()


@pytest.mark.parametrize("cost", [1.0, 300.0])
def test_more_sweeps_are_not_worse(monkeypatch: pytest.MonkeyPatch, cost: float) -> None:
    """Of each output the best that was looked at is kept."""
    values, labels = problem(3, 300, 20, 4, apart=0.5)
    monkeypatch.setattr(module, "WORTH", -1.0)
    monkeypatch.setattr(module, "GAP", 0.0)
    monkeypatch.setattr(module, "TURNS", 0)
    before = np.full(4, np.inf)
    for sweeps in (4, 8, 16, 32):
        monkeypatch.setattr(module, "SWEEPS", sweeps)
        found = objectives(values, labels, *one_vs_all(Dense(values), labels, 4, cost, rng(0)), cost)
        assert (found <= before * (1 + 1e-5)).all()
        before = found
    assert before.sum() <= 1.04 * least(values, labels, 4, cost).sum()


@settings(max_examples=25)
@given(
    seed=seeds,
    n=st.integers(2, 80),
    d=st.integers(2, 30),
    n_labels=st.integers(1, 6),
    cost=st.sampled_from([0.01, 0.1, 1.0, 10.0]),
    density=st.sampled_from([0.1, 0.5, 1.0]),
)
def test_sparse_rows_reach_what_dense_ones_do(
    seed: int, n: int, d: int, n_labels: int, cost: float, density: float
) -> None:
    """Of any problem, where both go on until the gap is small."""
    values, labels = problem(seed, n, d, n_labels)
    values[np.random.default_rng([seed, 1]).random((n, d)) >= density] = 0.0
    values[0, 0] = 1.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "GAP", 0.005)
        patch.setattr(module, "TURNS", 2**17)
        dense, sparse = (one_vs_all(rows, labels, n_labels, cost, rng(0)) for rows in (Dense(values), csr_of(values)))
    found = [objectives(values, labels, *fit, cost).sum() for fit in (dense, sparse)]
    assert found[1] == pytest.approx(found[0], rel=0.01)


@pytest.mark.parametrize("cost", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("per_label", [6, 100])
def test_of_narrow_rows_sparse_ones_are_not_worse(cost: float, per_label: int) -> None:
    values, labels = problem(4, 8 * per_label, 8, 8, apart=0.6)
    dense, sparse = (one_vs_all(rows, labels, 8, cost, rng(0)) for rows in (Dense(values), csr_of(values)))
    found = [objectives(values, labels, *fit, cost).sum() for fit in (dense, sparse)]
    right = [((values @ w + b).argmax(axis=1) == labels).mean() for w, b in (dense, sparse)]
    assert found[1] == pytest.approx(found[0], rel=0.01)
    assert right[1] == pytest.approx(right[0], abs=0.03)


@pytest.mark.parametrize("sparse", [False, True])
def test_a_range_of_outputs_has_the_bits_of_the_whole(monkeypatch: pytest.MonkeyPatch, sparse: bool) -> None:
    monkeypatch.setattr(module, "ABREAST", 4)
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


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_that_are_no_numbers_are_told(sparse: bool) -> None:
    values, labels = problem(1, 30, 2, 2)
    values[4, 1] = np.nan
    with pytest.raises(Diverged):
        one_vs_all(csr_of(values) if sparse else Dense(values), labels, 2, 1.0, rng(0))


@pytest.mark.parametrize("offset", [1e2, 1e4])
@pytest.mark.parametrize("columns", [1, 6])
def test_rows_far_from_zero_are_told_apart_as_well(offset: float, columns: int) -> None:
    values, labels = problem(6, 600, 8, 6, apart=4.0)
    near = one_vs_all(Dense(values), labels, 6, 1.0, rng(0))
    moved = values.copy()
    moved[:, :columns] += np.float32(offset)
    weights, bias = one_vs_all(Dense(moved), labels, 6, 1.0, rng(0))
    right = [
        ((rows @ w + b).argmax(axis=1) == labels).mean() for rows, w, b in ((values, *near), (moved, weights, bias))
    ]
    assert right[1] >= right[0] - 0.02
