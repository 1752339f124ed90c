"""Nodes of trees on PQ codes: their loss, moments, sums and fits against decoded rows and the definitions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from tasks.errors import ParamError
from tasks.fit.fit import NoTrainingRows
from tasks.fit.quasi_newton import descend
from tasks.losses.overlap_hinge import OverlapHinge
from tasks.losses.smooth_overlap import SmoothOverlap
from tasks.rows import Dense, PqCodes
from tasks.trees.balance import class_sums
from tasks.trees.kmeans.params import KMeansTreeParams
from tasks.trees.local import Labelled, LocalNode, best_two
from tasks.trees.on_codes import fit as coded
from tasks.trees.on_codes.class_sums import add_by_class, folded_sums
from tasks.trees.on_codes.local import LocalPasses, evenly, fit_local
from tasks.trees.on_codes.moments import CodeFrame, counts_of, covariances, frame_of
from tasks.trees.on_codes.slices import slices
from tasks.trees.params import LabelTreeParams
from tests.naive import code_nodes as naive
from tests.naive.losses import derivative

SHAPES = [(1, 1, 1, 3), (40, 3, 5, 2), (57, 9, 16, 17)]  # rows, subquantizers, width, children


def random_rows(seed: int, n_rows: int, m: int, width: int, n_centroids: int = 11, far: float = 0.0) -> PqCodes:
    rng = np.random.default_rng(seed)
    books = (rng.normal(size=(m, n_centroids, width)) + far).astype(np.float32)
    return PqCodes(rng.integers(0, n_centroids, (n_rows, m)).astype(np.uint8), books)


def random_children(seed: int, n_children: int, n_classes: int) -> np.ndarray:
    """Children that share classes; class 0 is in none, the last in all."""
    children = np.random.default_rng(100 + seed).random((n_children, n_classes)) < 0.4
    children[:, 0], children[:, -1] = False, True
    return children


@pytest.mark.parametrize("width", [0.05, 0.3, 2.0])
@pytest.mark.parametrize("seed", range(3))
def test_the_rounded_loss_is_its_formula(seed: int, width: float) -> None:
    rng = np.random.default_rng(seed)
    n_children = [2, 7, 40][seed]
    children, labels = random_children(seed, n_children, 6), rng.integers(0, 6, 25).astype(np.int32)
    scores = rng.normal(0, 1.5, (25, n_children)).astype(np.float32)
    total, residuals = SmoothOverlap(children, width).residuals(scores, labels)
    each = [naive.smooth_overlap(s, children[:, k], width) for s, k in zip(scores, labels, strict=True)]
    assert total == pytest.approx(sum(each), rel=1e-5, abs=1e-5)
    for i in range(0, 25, 5):
        held = children[:, labels[i]]
        slopes = derivative(lambda s, held=held: naive.smooth_overlap(s, held, width), scores[i].astype(np.float64))
        np.testing.assert_allclose(residuals[i], slopes, atol=2e-4)


def test_the_rounded_loss_is_near_the_hinge_and_never_below() -> None:
    children, rng = random_children(0, 5, 6), np.random.default_rng(0)
    scores, labels = rng.normal(0, 2, (60, 5)).astype(np.float32), rng.integers(0, 6, 60).astype(np.int32)
    plain, rounded = (
        loss.residuals(scores, labels)[0] for loss in (OverlapHinge(children), SmoothOverlap(children, 0.1))
    )
    assert plain <= rounded + 1e-5 <= plain + 60 * 0.1 * np.log(1 + 6) + 1e-4
    wild = np.array([[1e30, -1e30, 0, 0, 0]], np.float32)
    lost, residuals = SmoothOverlap(children, 0.1).residuals(wild, np.array([1], np.int32))
    assert np.isfinite(lost)
    assert np.isfinite(residuals).all()


@pytest.mark.parametrize("bad", [[np.nan, 0, 0], [np.inf, 0, 0], [np.nan, np.nan, np.nan]])
def test_the_rounded_loss_of_what_is_no_number_is_none(bad: list[float]) -> None:
    """A class that no child holds costs 1; scores that have diverged are not to look like it."""
    children = np.array([[True, False], [False, False], [False, False]])
    loss, scores = SmoothOverlap(children, 0.1), np.array([bad], np.float32)
    lost, residuals = loss.residuals(scores, np.array([0], np.int32))
    assert np.isnan([lost, *residuals[0]]).all()
    assert loss.residuals(np.zeros((1, 3), np.float32), np.array([1], np.int32))[0] == 1.0


@pytest.mark.parametrize("what", [{"width": 0.0}, {"partition": np.ones(3, bool)}])
def test_a_loss_that_cannot_be_is_refused(what: dict[str, object]) -> None:
    with pytest.raises(ParamError):
        SmoothOverlap(**{"partition": np.ones((2, 3), bool), "width": 0.1, **what})  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("centred", [True, False])
def test_moments_are_those_of_the_decoded_rows(shape: tuple[int, int, int, int], centred: bool) -> None:
    n_rows, m, width, n_children = shape
    rows = random_rows(1, n_rows, m, width, far=3.0)
    values = naive.decoded(rows.codes, rows.codebooks.astype(np.float64))
    found = counts_of(rows)
    frame = frame_of(found, rows.codebooks, centred)
    mean = values.mean(axis=0) if centred else np.zeros(m * width)
    spread = float(((values - mean) ** 2).sum(axis=1).mean())
    np.testing.assert_allclose(frame.mean, mean, rtol=1e-5, atol=1e-6)
    assert frame.size == pytest.approx(np.sqrt(spread) if spread > 1e-9 else frame.size, rel=1e-5)
    seen = frame.seen(rows).to_array()
    np.testing.assert_allclose(seen, (values - frame.mean) / frame.size, rtol=1e-4, atol=1e-4)
    expected = naive.block_covariances(seen.astype(np.float64), width)
    np.testing.assert_allclose(covariances(found, frame.of(rows.codebooks)), expected, rtol=1e-3, atol=1e-5)
    both = counts_of(rows.part(0, n_rows // 2)) + counts_of(rows.part(n_rows // 2, n_rows))
    assert both.rows == n_rows
    np.testing.assert_array_equal(both.counts, found.counts)
    weights, bias = np.ones((m * width, n_children), np.float32), np.arange(n_children, dtype=np.float32)
    back = frame.outside(frame.inside(weights, bias))
    np.testing.assert_allclose(back[0], weights, rtol=1e-6)
    np.testing.assert_allclose(back[1], bias, atol=1e-3)


@pytest.mark.parametrize(("m", "width", "widest"), [(4, 3, 100), (9, 4, 10), (5, 16, 16)])
def test_class_sums_of_codes(m: int, width: int, widest: int) -> None:
    rows, columns = random_rows(2, 50, m, width), np.random.default_rng(0).integers(0, 4, 50).astype(np.int32)
    n_places = 7
    place = np.random.default_rng(1).integers(0, n_places, m)
    sums = np.zeros((4, n_places * width))
    add_by_class(rows.codes, columns, rows.codebooks.reshape(-1), width, place, sums)
    expected = naive.class_sums(rows.codes, columns, rows.codebooks.astype(np.float64), place, n_places, 4)
    np.testing.assert_allclose(sums, expected, rtol=1e-6, atol=1e-6)
    folded = folded_sums(rows, columns, 4, widest, seed=3)
    assert folded.shape == (4, m * width if m * width <= widest else widest // width * width)
    if m * width <= widest:
        np.testing.assert_allclose(folded, class_sums(Dense(rows.to_array()), columns, 4, 3).sums, atol=1e-4)


def test_folded_class_means_keep_their_distances() -> None:
    """As a count sketch: inner products of folded sums are unbiased, over many foldings near those of the rows."""
    rows, columns = random_rows(0, 40, 30, 4), np.repeat([0, 1], 20).astype(np.int32)
    plain = folded_sums(rows, columns, 2, 120, 0)
    folded = [folded_sums(rows, columns, 2, 40, seed) for seed in range(200)]
    gram = np.mean([one @ one.T for one in folded], axis=0)
    scale = float(np.trace(plain @ plain.T))
    np.testing.assert_allclose(gram, plain @ plain.T, atol=0.08 * scale)


@pytest.mark.parametrize(
    ("n", "share", "expected"), [(10, 0.3, [0, 3, 6]), (5, 1.0, [0, 1, 2, 3, 4]), (7, 0.01, [0]), (0, 0.5, [])]
)
def test_a_share_is_evenly_spread(n: int, share: float, expected: list[int]) -> None:
    assert evenly(n, share).tolist() == expected


def test_stages_end_on_all_rows_and_small_samples_are_left_out() -> None:
    large, again = coded.stages(1 << 20, False), coded.stages(1 << 20, True)
    assert [stage.share for stage in large] == [1 / 16, 1 / 4, 1.0]
    assert [stage.share for stage in again] == [1 / 4, 1.0]
    assert coded.stages(coded.LEAST_ROWS, False) == coded.stages(1, True) == coded.ALONE


# ---- fits ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("far", [0.0, 50.0])
def test_a_fit_comes_to_the_optimum(bias: bool, far: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coded, "ALONE", (coded.Stage(1.0, 400, 1e-8, 0.3),))
    rows, columns = random_rows(5, 60, 3, 2, far=far), np.random.default_rng(5).integers(0, 4, 60).astype(np.int32)
    children = np.array([[1, 0, 0, 1], [0, 1, 0, 1], [0, 0, 1, 0]], bool)
    params = LabelTreeParams(branching=3, bias=bias, regularization=0.05 if far == 0 else "auto")
    fitted = fit_local(rows, columns, children, params, 0)
    values = naive.decoded(rows.codes, rows.codebooks.astype(np.float64))
    decay = 2 * fitted.trial.regularization  # the penalty is doubled

    def value(flat: np.ndarray) -> float:
        point = flat.reshape(7, 3)
        if not bias:
            point[-1] = 0.0
        return naive.objective(values - (values.mean(axis=0) if bias else 0), columns, children, 0.3, decay, point)

    best = minimize(value, np.zeros(21), tol=1e-10)
    weights, shift = fitted.parameters["weights"], fitted.parameters["bias"]
    centre = values.mean(axis=0) if bias else np.zeros(6)
    mine = value(np.vstack([weights, shift + centre @ weights]).astype(np.float64).ravel())
    assert mine == pytest.approx(float(best.fun), rel=2e-3)
    if not bias:
        assert not shift.any()


def test_a_fit_on_samples_is_near_that_on_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coded, "LEAST_ROWS", 64)
    rng = np.random.default_rng(7)
    rows, columns = random_rows(7, 4096, 6, 2), np.zeros(4096, np.int32)
    columns[:] = (rows.to_array() @ rng.normal(size=(12, 5))).argmax(axis=1)
    children, params = np.eye(5, dtype=bool), LabelTreeParams(depth=1)
    sampled = fit_local(rows, columns, children, params, 0)
    monkeypatch.setattr(coded, "FIRST", coded.ALONE)
    whole = fit_local(rows, columns, children, params, 0)
    assert sampled.operations < whole.operations
    losses = [
        OverlapHinge(children).residuals(rows.scores(one.parameters["weights"]) + one.parameters["bias"], columns)[0]
        for one in (sampled, whole)
    ]
    assert losses[0] < 1.1 * losses[1]
    few = fit_local(rows, columns, children, LabelTreeParams(depth=1, most_rows=1024), 0)
    assert few.operations < whole.operations / 2
    again = fit_local(rows, columns, children, params, 0, whole.parameters)
    assert again.operations < whole.operations


def test_softmax_nodes_on_codes_learn_what_decoded_ones_do() -> None:
    """Of a k-means tree, with rows of other classes: its probabilities are nearly the same."""
    rng = np.random.default_rng(3)
    rows = random_rows(3, 600, 8, 2)
    labels = (rows.to_array() @ rng.normal(size=(16, 6))).argmax(axis=1).astype(np.int32)
    params = KMeansTreeParams(branching=4).settled(4)
    children, found = np.eye(4, dtype=bool), []
    for body in (rows, Dense(rows.to_array())):
        node = LocalNode(
            np.arange(4, dtype=np.int32), Labelled(body, labels), Labelled(body, labels), params, 0, "t", 1
        )
        fitted = node.learn(children, None, 0)
        scores = body.scores(fitted.parameters["weights"]) + fitted.parameters["bias"]
        powers = np.exp(np.hstack([scores, np.zeros((600, 1))]))
        found.append(powers / powers.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(found[0], found[1], atol=0.05)


def test_a_step_of_ones_own_is_plain_sgd() -> None:
    rows, labels = random_rows(1, 40, 2, 2), np.arange(40, dtype=np.int32) % 3
    params = LabelTreeParams(depth=1, step=0.01, rounds=2, least_rows=1).settled(3)
    node = LocalNode(np.arange(3, dtype=np.int32), Labelled(rows, labels), Labelled(rows, labels), params, 0, "t")
    assert node.learn(np.eye(3, dtype=bool), None, 0).step == 0.01


def test_no_rows_are_named() -> None:
    with pytest.raises(NoTrainingRows, match="no training row"):
        fit_local(random_rows(0, 0, 2, 2), np.zeros(0, np.int32), np.eye(2, dtype=bool), LabelTreeParams(depth=1), 0)


def test_a_descent_on_a_quadratic_needs_few_steps_with_its_metric() -> None:
    rng = np.random.default_rng(0)
    root = rng.normal(size=(6, 6))
    matrix, goal = root @ root.T + np.eye(6), rng.normal(size=6)

    def value_at(point: np.ndarray) -> tuple[float, np.ndarray]:
        gone = point - goal
        return float(1.0 + 0.5 * gone @ matrix @ gone), matrix @ gone

    exact = descend(value_at, np.zeros(6), lambda g: np.linalg.solve(matrix, g), 20, 1e-9)
    np.testing.assert_allclose(exact.point, goal, atol=1e-6)
    assert exact.passes <= 3
    blind = descend(value_at, np.zeros(6), lambda g: g, 60, 1e-9)
    np.testing.assert_allclose(blind.point, goal, atol=1e-3)


def test_slices_of_codes_give_the_scores_of_all() -> None:
    rows, weights = random_rows(4, 40, 3, 2), np.random.default_rng(0).normal(size=(6, 5)).astype(np.float32)
    parts = [part.scores(weights) for _, _, part in slices(rows, 5)]
    np.testing.assert_allclose(np.concatenate(parts), rows.to_array() @ weights, rtol=1e-4, atol=1e-4)
    best = best_two(rows, {"weights": weights})
    np.testing.assert_array_equal(best[0], (rows.to_array() @ weights).argmax(axis=1))


def test_passes_of_a_share_take_evenly_spread_rows() -> None:
    rows, columns = random_rows(4, 40, 3, 2), np.arange(40, dtype=np.int32) % 2
    passes = LocalPasses(rows, columns, np.eye(2, dtype=bool), LabelTreeParams(depth=1), 0)
    frame, point = CodeFrame(np.zeros(6), 1.0), np.random.default_rng(0).normal(size=(7, 2))
    half = passes.risk(frame, point, 0.2, 0.5)
    assert half.rows == 20
    own = LocalPasses(rows.take(np.arange(0, 40, 2)), columns[::2], np.eye(2, dtype=bool), LabelTreeParams(depth=1), 0)
    np.testing.assert_array_equal(half.gradient, own.risk(frame, point, 0.2, 1.0).gradient)
    assert passes.risk(frame, point, 0.2, 1.0).rows == 40
