"""Least-squares machines: the bordered system's own solution, and what is right about a class's scores."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.errors import Diverged, ParamError
from tasks.rows import Dense
from tasks.rows.base import Array
from tasks.svm.kernel_solver import KernelSolver
from tasks.svm.kernels import Kernel
from tasks.svm.least_squares import (
    held_out_scores,
    least_squares_bytes,
    one_vs_all_duals,
    pair_votes_accuracy,
    solve_ridge,
)
from tests.naive import kernel_svm as naive

seeds = st.integers(0, 2**32 - 1)


def drawn(seed: int, n_train: int, n_test: int, n_classes: int) -> tuple[Array, Array, Array, Array]:
    """(gram of the training rows, of the test rows with them, labels, labels of the test rows)."""
    rng = np.random.default_rng(seed)
    labels, test_labels = rng.integers(0, n_classes, n_train), rng.integers(0, n_classes, n_test)
    centres = 2.0 * rng.standard_normal((n_classes, 3))
    train = Dense(centres[labels] + 0.4 * rng.standard_normal((n_train, 3)))
    test = Dense(centres[test_labels] + 0.4 * rng.standard_normal((n_test, 3)))
    kernel = Kernel("rbf", 4.0)
    return kernel.block(train, train).astype(np.float64), kernel.block(test, train), labels, test_labels


@settings(max_examples=50, deadline=None)
@given(seed=seeds, n=st.integers(1, 20), t=st.integers(0, 6), k=st.integers(1, 5), cost=st.sampled_from([0.1, 1, 50]))
def test_solves_the_bordered_system(seed: int, n: int, t: int, k: int, cost: float) -> None:
    gram, gram_test, labels, _ = drawn(seed, n, t, k)
    scores = held_out_scores(gram, gram_test, labels, k, cost)
    assert scores.shape == (t, k)
    assert scores.dtype == np.float64
    for label in range(k):
        alpha, bias = naive.least_squares(gram, np.where(labels == label, 1.0, -1.0), cost)
        np.testing.assert_allclose(scores[:, label], gram_test @ alpha + bias, atol=1e-7)


@settings(max_examples=20, deadline=None)
@given(seed=seeds)
def test_duals_are_the_residuals(seed: int) -> None:
    gram, _, labels, _ = drawn(seed, 15, 0, 4)
    duals, bias = one_vs_all_duals(gram, labels, 4, 3.0)
    targets = np.where(labels[:, None] == np.arange(4), 1.0, -1.0)
    np.testing.assert_allclose(duals, 3.0 * (targets - gram @ duals - bias), atol=1e-7)
    np.testing.assert_allclose(duals.sum(axis=0), 0.0, atol=1e-8)


def test_scores_find_separated_classes_and_a_class_without_rows_never_wins() -> None:
    gram, gram_test, labels, test_labels = drawn(1, 60, 40, 5)
    scores = held_out_scores(gram, gram_test, labels, 7, 10.0)
    assert np.mean(np.argmax(scores, axis=1) == test_labels) > 0.9
    np.testing.assert_allclose(scores[:, 5:], -1.0, atol=1e-9)


def test_arguments_stay_as_they_were() -> None:
    gram, gram_test, labels, _ = drawn(2, 20, 5, 3)
    before = gram.copy(), gram_test.copy(), labels.copy()
    first = held_out_scores(gram, gram_test, labels, 3, 1.0)
    np.testing.assert_array_equal(held_out_scores(gram, gram_test, labels, 3, 1.0), first)
    for now, then in zip((gram, gram_test, labels), before, strict=True):
        np.testing.assert_array_equal(now, then)


def test_a_ridge_below_the_rounding_of_kernel_values_is_raised() -> None:
    gram = np.ones((40, 40)) - 1e-6 * np.eye(40)  # equal rows, rounded: eigenvalues of -1e-6
    targets = np.eye(40)[:, :1]
    solved = solve_ridge(gram, 1e-9, targets)
    raised = 1e-9 + 40 * float(np.finfo(np.float32).eps) * (1 - 1e-6)
    np.testing.assert_allclose((gram + raised * np.eye(40)) @ solved, targets, atol=1e-6)


@pytest.mark.parametrize("gram", [np.full((4, 4), np.nan), -np.eye(4), np.diag([1.0, 1.0, -5.0, 1.0])])
def test_what_is_no_kernel_is_named(gram: Array) -> None:
    with pytest.raises(Diverged, match="of no kernel"):
        solve_ridge(gram, 0.1, np.eye(4))


@pytest.mark.parametrize("cost", [0.0, -1.0, np.inf, np.nan])
def test_costs_out_of_range_are_refused(cost: float) -> None:
    with pytest.raises(ParamError, match="cost"):
        one_vs_all_duals(np.eye(3), np.array([0, 1, 1]), 2, cost)


def test_bytes_cover_the_factor_and_the_targets() -> None:
    assert least_squares_bytes(100, 50, 9) == 8 * (100 * 100 + 300 * 10 + 100 * 10)


@pytest.mark.parametrize("seed", range(4))
def test_votes_of_pairs_are_counted(seed: int) -> None:
    gram, gram_test, labels, test_labels = drawn(seed, 40, 30, 4)
    found = pair_votes_accuracy(gram, gram_test, labels, test_labels, 2.0)
    margins = {(i, j): pair_margins(gram, gram_test, labels, i, j) for i in range(4) for j in range(i + 1, 4)}
    winners = [naive.votes({pair: float(m[row]) for pair, m in margins.items()}, 4) for row in range(30)]
    assert found == np.mean(np.array(winners) == test_labels)


def pair_margins(gram: Array, gram_test: Array, labels: Array, i: int, j: int) -> Any:
    """Of the machine of two classes on the test rows; above 0: class i."""
    solver = KernelSolver(gram, np.full(len(gram), 2.0, np.float32), np.arange(len(gram)))
    sides = np.select([labels == i, labels == j], [1, -1], 0).astype(np.int8)
    kept = solver.classifier(solver.solve(sides), sides)
    return gram_test[:, kept.support] @ kept.coefficients + kept.bias


def test_modules_load_no_solver_before_a_fit() -> None:
    code = "import sys, tasks.svm.least_squares, tasks.svm.kernel_solver; print('sklearn' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "False\n"
