"""The step chosen on a sample: near the best, the same for any scale of the rows, never worse than standing still."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from tasks.fit import step_trial
from tasks.fit.fit import fit
from tasks.fit.local import LocalOracle
from tasks.fit.local_pass import Chunk
from tasks.fit.sgd import MOST_PASSES
from tasks.fit.step_trial import BRIEF, CAUTION, FAR_LESS, QUARTER, objective, penalty, try_steps
from tasks.losses.crammer_singer import CrammerSinger
from tasks.losses.hinge import OneVsRestHinge
from tasks.losses.logistic import OneVsRestLogistic
from tasks.losses.multinomial import Multinomial
from tasks.rows import Dense
from tests.tasks.fit_problems import accuracy, bodies, problem_of, separable, trial

LOSSES = [OneVsRestHinge(), OneVsRestHinge(squared=False), OneVsRestLogistic(), CrammerSinger(), Multinomial()]


def sample_of(values, labels):
    return [Chunk(Dense(values), np.arange(len(labels)), labels)]


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_half_the_best_of_those_tried_is_taken(loss):
    values, labels = separable(0)
    found = try_steps(sample_of(values, labels), problem_of(5, 3, loss, rounds=3), 300)
    values_tried = dict(found.tried)
    assert values_tried[found.step / CAUTION] == min(values_tried.values())
    assert len(values_tried) >= 3
    assert json.loads(json.dumps(found.as_json()))["step"] == found.step


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_rows_of_any_scale_need_no_tuning(loss):
    """Powers of two change no digits, so the fits are the same fit."""
    results = []
    for scale in (2.0**-7, 1.0, 2.0**10):
        values, labels = separable(1, scale=scale)
        problem = problem_of(5, 3, loss, rounds=4, least_rows=10_000)
        result = fit(problem, LocalOracle(Dense(values), labels, problem))
        assert accuracy(problem, result.parameters, Dense(values), labels) > 0.97
        results.append((result.step * scale**2, result.trial.regularization / scale**2))
    assert results[0] == pytest.approx(results[1], rel=1e-6)
    assert results[2] == pytest.approx(results[1], rel=1e-6)


@pytest.mark.parametrize("batch", [4, 16, 64])
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_a_brief_fit_takes_a_guess_that_is_steady(loss, batch):
    """A step of a round number of rows, shortened by fours where a fourth of it loses far less on the way."""
    values, labels = separable(0, n_rows=600)
    problem = problem_of(5, 3, loss, rounds=1, partitions=1, batch=batch)
    found = try_steps(sample_of(values, labels), problem, 6000)
    tried = dict(found.tried)
    assert tried[found.step] <= FAR_LESS * tried[QUARTER * found.step]
    assert all(tried[step] > FAR_LESS * tried[QUARTER * step] for step in tried if step > found.step)
    guess = found.step * found.squared_norm * 4 ** (len(tried) - 2)
    assert guess in [pytest.approx(min(each * batch, most)) for _, each, most in BRIEF]
    result = fit(problem, LocalOracle(Dense(values), labels, problem))
    assert accuracy(problem, result.parameters, Dense(values), labels) > 0.95


def test_a_brief_fit_takes_no_step_that_diverges(monkeypatch):
    """Neither does one where a fourth of it diverges, too."""
    monkeypatch.setattr(step_trial, "_loss_on_the_way", lambda _chunks, _problem, t: 1.0 if t.step < 1e-3 else np.inf)
    values, labels = separable(0, n_rows=600)
    found = try_steps(sample_of(values, labels), problem_of(5, 3, rounds=1, partitions=1), 6000)
    assert 1e-3 / 4 <= found.step < 1e-3
    assert dict(found.tried)[4 * found.step] == np.inf


def test_the_bias_of_a_brief_fit_is_shorter():
    values, labels = separable(0, n_rows=600)
    shares = []
    for n_rows, rounds, more in ((6000, 1, {}), (6000, 2, {}), (6000, 3, {}), (600, 1, {}), (6000, 1, {"step": 0.1})):
        problem = problem_of(5, 3, rounds=rounds, partitions=1, least_rows=1, **more)
        found = try_steps(sample_of(values, labels), problem, n_rows)
        shares.append(problem.with_trial(found).scorer.bias_rate / found.squared_norm)
    assert shares == [1 / 16, 1 / 4, 1.0, 1.0, 1.0]


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_rows_far_from_zero_need_no_tuning(loss):
    values, labels = separable(1)
    values += np.float32(200.0)
    problem = problem_of(5, 3, loss, rounds=4, least_rows=10_000)
    result = fit(problem, LocalOracle(Dense(values), labels, problem))
    np.testing.assert_allclose(result.trial.centre, values.mean(axis=0), rtol=1e-5)
    assert accuracy(problem, result.parameters, Dense(values), labels) > 0.97


@pytest.mark.parametrize(("body", "params"), [("csr", {}), ("dense", {"bias": False}), ("dense", {"step": 0.1})])
def test_what_is_not_centred(body, params):
    """Sparse rows, models that could not make up for it, and the plain method that a given step asks for."""
    rows = bodies(0)[body]
    labels = np.zeros(40, np.int32)
    found = try_steps([Chunk(rows, np.arange(40), labels)], problem_of(6, 2, **params), 40)
    assert found.centre is None
    assert found.squared_norm == pytest.approx(rows.squared_norms().mean())


@pytest.mark.parametrize("body", ["dense", "half", "pq"])
def test_dense_bodies_are_centred(body):
    rows = bodies(0)[body]
    found = try_steps([Chunk(rows, np.arange(40), np.zeros(40, np.int32))], problem_of(6, 2), 40)
    np.testing.assert_allclose(found.centre, rows.to_array().mean(axis=0), atol=1e-6)
    assert found.as_json()["centred"]


def test_a_bias_is_penalised_as_the_weight_of_its_feature():
    problem = problem_of(2, 1, rounds=3).with_trial(replace(trial(regularization=0.5), squared_norm=4.0))
    parameters = {"weights": np.full((2, 1), 3.0), "bias": np.array([2.0])}
    assert penalty(parameters, problem) == pytest.approx(0.25 * (18.0 + 4.0 / 4.0))


def test_objective_is_mean_loss_plus_penalty():
    values, labels = separable(0, n_rows=10)
    problem = problem_of(5, 3, bias=False).with_trial(trial(regularization=0.5))
    doubled = replace(problem, params=replace(problem.params, doubled=True))
    weights = np.random.default_rng(0).normal(size=(5, 3))
    mean = OneVsRestHinge().residuals(values.astype(np.float64) @ weights, labels)[0] / 10
    expected = mean + 0.25 * (weights**2).sum()
    assert objective(sample_of(values, labels), {"weights": weights}, problem) == pytest.approx(expected)
    assert objective(sample_of(values, labels), {"weights": weights}, doubled) == pytest.approx(2 * expected - mean)


def test_automatic_regularization_means_the_same_in_both_conventions():
    values, labels = separable(0)
    one, two = (problem_of(5, 3, doubled=doubled) for doubled in (False, True))
    first, second = (p.with_trial(try_steps(sample_of(values, labels), p, 300)) for p in (one, two))
    assert first.decay == second.decay
    assert first.decay == pytest.approx(Dense(values - values.mean(axis=0)).squared_norms().mean() / 300)


def test_what_was_asked_for_is_taken_as_it_is():
    values, labels = separable(0)
    found = try_steps(sample_of(values, labels), problem_of(5, 3, step=0.25, regularization=0.0, passes=3), 300)
    assert (found.step, found.regularization, found.passes, found.tried) == (0.25, 0.0, 3, ())


@pytest.mark.parametrize(
    ("n_rows", "passes"), [(10, MOST_PASSES), (4_000, 3), (1_000_000, 1)], ids=["few", "some", "many"]
)
def test_more_passes_over_few_rows(n_rows, passes):
    values, labels = separable(0, n_rows=50)
    problem = problem_of(5, 3, rounds=10, partitions=1, least_rows=120_000)
    assert try_steps(sample_of(values, labels), problem, n_rows).passes == passes


@pytest.mark.parametrize("values", [np.zeros((0, 5), np.float32), np.zeros((20, 5), np.float32)], ids=["none", "zeros"])
def test_a_sample_that_says_nothing(values):
    found = try_steps(sample_of(values, np.zeros(len(values), np.int32)), problem_of(5, 3), len(values))
    assert np.isfinite(found.step)
    assert found.step > 0
    assert found.squared_norm == 1.0


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_steps_that_diverge_are_tried_in_silence():
    values, labels = separable(0, scale=3.0)
    values[0] *= 1e6
    found = try_steps(sample_of(values, labels), problem_of(5, 3, rounds=3), 300)
    assert np.isfinite(dict(found.tried)[found.step / CAUTION])
    brief = try_steps(sample_of(values, labels), problem_of(5, 3, rounds=1), 3000)
    assert np.isfinite(dict(brief.tried)[brief.step])
