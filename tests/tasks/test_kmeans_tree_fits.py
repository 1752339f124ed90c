"""Classifiers of a k-means tree's node: dual ascent against its twin and its optimum, softmax against its optimum."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from tasks.errors import ParamError
from tasks.fit import hinge_ascent, softmax_newton
from tasks.fit.hinge_ascent import ascend
from tasks.fit.prune import prune
from tasks.fit.softmax_newton import fit_softmax
from tasks.losses.child_softmax import ChildSoftmax, child_of
from tasks.rows import Dense, PqCodes
from tasks.trees.kmeans.node_fit import add_likelihoods, fit_whole, sum_likelihoods
from tasks.trees.kmeans.params import KMeansTreeParams
from tests.bodies import csr_of, random_codes, sparse_values
from tests.naive import kmeans_tree as naive
from tests.naive.losses import derivative

CHILDREN = np.array([[1, 0, 0, 0, 1], [0, 1, 0, 0, 0], [0, 0, 0, 1, 0]], bool)  # class 2: no child has it


@pytest.mark.parametrize("reference", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_loss_is_its_formula_and_residuals_its_derivative(seed: int, reference: bool) -> None:
    rng = np.random.default_rng(seed)
    scores, labels = rng.normal(0, 3, (14, 3)), rng.integers(-1, 5, 14).astype(np.int32)
    total, residuals = ChildSoftmax(CHILDREN, reference).residuals(scores, labels)
    own = child_of(CHILDREN, labels)
    assert total == pytest.approx(sum(naive.child_softmax(s, c, reference) for s, c in zip(scores, own, strict=True)))
    slopes = [
        derivative(lambda s, c=c: naive.child_softmax(s, c, reference), row) for row, c in zip(scores, own, strict=True)
    ]
    np.testing.assert_allclose(residuals, slopes, atol=1e-6)


def test_child_of_tells_none() -> None:
    assert child_of(CHILDREN, np.array([0, 1, 2, 3, 4, -1], np.int32)).tolist() == [0, 1, -1, 2, 0, -1]


def test_a_class_in_two_children_is_refused() -> None:
    with pytest.raises(ParamError, match="children"):
        ChildSoftmax(np.ones((2, 3), bool))


@pytest.mark.parametrize("float_type", [np.float32, np.float64])
def test_large_scores_do_not_overflow(float_type: type) -> None:
    scores = np.array([[800.0, -800.0, 0.0], [-800.0, -900.0, -850.0]], float_type)
    total, residuals = ChildSoftmax(CHILDREN, True).residuals(scores, np.array([1, -1], np.int32))
    assert total == pytest.approx(1600.0)
    np.testing.assert_allclose(residuals, [[1, -1, 0], [0, 0, 0]], atol=1e-12)


# ---- dual ascent ---------------------------------------------------------------------------------------------------


def problem(seed: int, n_rows: int = 25, n_features: int = 6, n_children: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """(rows, children): some rows of no child, some without any feature."""
    rng = np.random.default_rng(1000 + seed)
    return sparse_values(seed, n_rows, n_features), rng.integers(-1, n_children, n_rows).astype(np.int32)


@pytest.mark.parametrize(("n_children", "abreast"), [(3, 128), (40, 128), (40, 16)])
@pytest.mark.parametrize("seed", range(3))
def test_ascent_is_its_twin(seed: int, n_children: int, abreast: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row changes nearly all of few outputs, and few of many; many may be fitted in parts."""
    monkeypatch.setattr(hinge_ascent, "ABREAST", abreast)
    monkeypatch.setattr(hinge_ascent, "ENOUGH", 0.0)
    monkeypatch.setattr(hinge_ascent, "SWEEPS", 6)
    rows, children = problem(seed, n_children=n_children)
    fitted = ascend(csr_of(rows), children, n_children, 2.0, 0.5, np.random.default_rng(seed))
    rng = np.random.default_rng(seed)
    orders = [rng.permutation(len(rows)) for _ in range(6)]
    constant = np.full((len(rows), 1), 0.5)
    weights, changes = naive.dual_ascent(np.hstack([rows, constant]), children, n_children, 2.0, orders)
    np.testing.assert_allclose(fitted.weights, weights[:-1], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(fitted.bias, 0.5 * weights[-1], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(fitted.changes, changes, rtol=1e-4)


@pytest.mark.parametrize("seed", range(2))
def test_ascent_comes_to_the_optimum(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hinge_ascent, "ENOUGH", 1e-7)
    monkeypatch.setattr(hinge_ascent, "SWEEPS", 400)
    rows, children = problem(seed)
    fitted = ascend(csr_of(rows), children, 3, 1.5, 0.0, np.random.default_rng(seed))
    assert fitted.sweeps < 400
    for q in range(3):
        signs = np.where(children == q, 1.0, -1.0)
        best = minimize(lambda w, y=signs: naive.hinge_objective(rows, y, w, 1.5), np.zeros(6), tol=1e-9)
        mine = naive.hinge_objective(rows, signs, fitted.weights[:, q].astype(np.float64), 1.5)
        assert mine == pytest.approx(float(best.fun), rel=1e-4)


def test_ascent_leaves_features_of_satisfied_rows_at_zero() -> None:
    rows = csr_of(np.array([[1.0, 0.0, 5.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]))
    fitted = ascend(rows, np.array([0, 1, -1], np.int32), 2, 1.0, 0.0, np.random.default_rng(0))
    assert (fitted.weights[[0, 2]] != 0).all()
    alone = ascend(rows, np.array([-1, -1, -1], np.int32), 1, 1.0, 2.0, np.random.default_rng(0))
    assert alone.bias[0] < 0  # with no row of its own an output says no


def test_sweeps_end_when_little_changes() -> None:
    rows, children = problem(0)
    assert 1 < ascend(csr_of(rows), children, 3, 1.0, 1.0, np.random.default_rng(0)).sweeps <= hinge_ascent.SWEEPS


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3])
@pytest.mark.parametrize("seed", range(3))
def test_pruning_drops_the_smallest(seed: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    weights = (rng.normal(size=(30, 7)) * 10.0 ** rng.integers(-4, 3, (30, 7))).astype(np.float32)
    weights[rng.random(weights.shape) < 0.3] = 0.0
    found, expected = weights.copy(), naive.pruned(weights.astype(np.float64), share)
    prune(found, share)
    assert ((found == weights) | (found == 0)).all()
    lost = float(((weights - found).astype(np.float64) ** 2).sum())
    assert lost <= share * float((weights.astype(np.float64) ** 2).sum())
    smallest_kept = np.abs(found[found != 0]).min()
    assert np.abs(weights[(found == 0) & (weights != 0)]).max(initial=0.0) < smallest_kept
    assert np.abs(expected[expected != 0]).min() >= smallest_kept  # never more than one by one ...
    twice = 1.0 + 2.0**-3  # ... and all that are clearly smaller
    assert (found[np.abs(weights) * twice < np.abs(expected[expected != 0]).min()] == 0).all()


def test_weights_that_are_all_zero_stay() -> None:
    weights = np.zeros((3, 2), np.float32)
    prune(weights, 0.01)
    assert (weights == 0).all()


# ---- softmax -------------------------------------------------------------------------------------------------------


def softmax_optimum(rows: np.ndarray, children: np.ndarray, n: int, reference: bool, decay: float, bias: bool) -> float:
    wide = np.hstack([rows, np.ones((len(rows), 1))])

    def objective(flat: np.ndarray) -> float:
        point = flat.reshape(-1, n)
        scores = (wide if bias else rows) @ point
        losses = [naive.child_softmax(s, c, reference) for s, c in zip(scores, children, strict=True)]
        weights = point[:-1] if bias else point
        return float(np.mean(losses)) + 0.5 * decay * float((weights**2).sum())

    return float(minimize(objective, np.zeros((rows.shape[1] + bias) * n)).fun)


@pytest.mark.parametrize("widest", [2048, 2])  # the rows' covariance, and its diagonal
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("reference", [True, False])
def test_softmax_comes_to_the_optimum(
    reference: bool, bias: bool, widest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(softmax_newton, "WIDEST", widest)
    monkeypatch.setattr(softmax_newton, "ENOUGH", 1e-8)
    monkeypatch.setattr(softmax_newton, "PASSES", 200)
    monkeypatch.setattr(softmax_newton, "SLICE_ROWS", 16)
    rng = np.random.default_rng(5)
    rows = rng.normal(1.0, 1.0, (40, 3)) * np.array([10.0, 1.0, 0.1])
    children = rng.integers(-1 if reference else 0, 3, 40).astype(np.int32)
    fitted = fit_softmax(Dense(rows.astype(np.float32)), children, 3, reference, 0.05, bias)
    assert fitted.objective == pytest.approx(softmax_optimum(rows, children, 3, reference, 0.05, bias), abs=2e-4)
    scores = rows @ fitted.weights + fitted.bias
    value = np.mean([naive.child_softmax(s, c, reference) for s, c in zip(scores, children, strict=True)])
    assert value + 0.025 * float((fitted.weights**2).sum()) == pytest.approx(fitted.objective, abs=1e-4)
    assert bias or (fitted.bias == 0).all()


def test_few_passes_come_near_the_optimum_of_unlike_features() -> None:
    rng = np.random.default_rng(2)
    children = rng.integers(0, 4, 300).astype(np.int32)
    rows = (rng.normal(size=(4, 8))[children] + rng.normal(size=(300, 8))) * np.logspace(0, 3, 8) + 50.0
    fitted = fit_softmax(Dense(rows.astype(np.float32)), children, 4, False, 1e-4, True)
    again = [fit_softmax(Dense(rows.astype(np.float32)), children, 4, False, 1e-4, True).weights for _ in range(2)]
    assert fitted.passes <= 2 * softmax_newton.PASSES
    assert fitted.objective < 0.7 * np.log(4)
    np.testing.assert_array_equal(*again)


# ---- whole nodes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [1e-3, 1e3])
@pytest.mark.parametrize("body", ["csr", "dense"])
def test_the_scale_of_rows_changes_no_answer(body: str, factor: float) -> None:
    rows, children = problem(3, 60, 8)
    make = csr_of if body == "csr" else Dense
    scores = []
    for scaled in (rows, factor * rows):
        given = make(scaled.astype(np.float32))
        fitted = fit_whole(given, children, 3, True, KMeansTreeParams(), 0, "node")
        scores.append(given.scores(fitted.parameters["weights"]) + fitted.parameters["bias"])
    np.testing.assert_allclose(*scores, rtol=2e-2, atol=2e-2)


def test_codes_are_learnt_as_the_rows_that_they_are() -> None:
    codes = random_codes(4, 50, 6)
    assert isinstance(codes, PqCodes)
    children = np.random.default_rng(0).integers(-1, 3, 50).astype(np.int32)
    params = KMeansTreeParams()
    fits = [fit_whole(rows, children, 3, True, params, 0, "node") for rows in (codes, codes.decoded())]
    np.testing.assert_allclose(fits[0].parameters["weights"], fits[1].parameters["weights"], rtol=1e-5, atol=1e-6)


def test_operations_and_penalty_are_told() -> None:
    rows, children = problem(1)
    fitted = fit_whole(csr_of(rows.astype(np.float32)), children, 3, True, KMeansTreeParams(regularization=0.5), 0, "n")
    assert fitted.trial.regularization == 0.5
    assert fitted.operations == 2 * fitted.trial.passes * 25 * 3


@pytest.mark.parametrize("reference", [False, True])
def test_likelihoods_are_their_sums(reference: bool) -> None:
    rng = np.random.default_rng(8)
    rows, weights = rng.normal(size=(30, 4)).astype(np.float32), rng.normal(size=(4, 3)).astype(np.float32)
    bias, children = rng.normal(size=3).astype(np.float32), rng.integers(-1, 3, 30).astype(np.int32)
    scales = np.array([0.5, 0.75, 1.0, 1.5, 2.0])
    found = sum_likelihoods(Dense(rows), {"weights": weights, "bias": bias}, children, reference, scales)
    scores = rows.astype(np.float64) @ weights + bias
    told = [(s, c) for s, c in zip(scores, children, strict=True) if reference or c >= 0]
    expected = [-sum(naive.child_softmax(scale * s, c, reference) for s, c in told) for scale in scales]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    total = np.zeros(scales.size)
    add_likelihoods(np.zeros((0, 3), np.float32), np.zeros(0, np.int32), reference, scales, total)
    assert (total == 0).all()
