"""Averages of models, and the outer loop: rounds, resuming, restarts with a shorter step."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tasks.errors import Diverged
from tasks.fit.average import ModelSum
from tasks.fit.fit import NoTrainingRows, fit
from tasks.fit.local import LocalOracle
from tasks.fit.local_pass import Chunk, local_passes
from tasks.rows import Dense
from tasks.sums import tree_sum
from tests.tasks.fit_problems import accuracy, problem_of, separable, trial


class Memory:
    """A checkpoint in memory that breaks off after some rounds."""

    def __init__(self, last: int | None = None) -> None:
        self.saved, self.last = None, last

    def load(self):
        return self.saved

    def save(self, round_index, parameters, history):
        self.saved = (round_index, {name: values.copy() for name, values in parameters.items()}, list(history))
        if round_index == self.last:
            raise KeyboardInterrupt


class Steep(LocalOracle):
    """An oracle whose sample is harmless and whose rows are not: steps above a limit diverge or go uphill."""

    def __init__(self, *args, limit: float, how: str) -> None:
        super().__init__(*args)
        self.limit, self.how = limit, how

    def trial(self, _problem):
        return trial(step=1.0)

    def round(self, problem, parameters, round_index):
        if problem.settled().step > self.limit and round_index == 1:
            if self.how == "raises":
                raise Diverged("too long")
            worse = super().round(problem, parameters, round_index)
            return replace(worse, loss=float("nan") if self.how == "nan" else 1e12)
        return super().round(problem, parameters, round_index)


@pytest.mark.parametrize("seed", range(3))
def test_mean_is_weighted(seed):
    rng = np.random.default_rng(seed)
    models = [{"weights": rng.normal(size=(3, 2)), "bias": rng.normal(size=2)} for _ in range(5)]
    weights = rng.integers(1, 100, 5).astype(float)
    total = tree_sum([ModelSum.of(w, m, 2.0, 10, 4.0) for w, m in zip(weights, models, strict=True)])
    for name in ("weights", "bias"):
        stack = np.stack([model[name] for model in models])
        np.testing.assert_allclose(total.mean()[name], np.average(stack, axis=0, weights=weights), atol=1e-12)
    assert (total.weight, total.loss, total.rows, total.operations) == (weights.sum(), 10, 50, 20)
    assert total.mean_loss() == pytest.approx(0.2)


def test_mean_keeps_float32():
    total = ModelSum.of(3.0, {"weights": np.ones((1, 1), np.float32)}, 0.0, 3, 0.0)
    assert total.mean()["weights"].dtype == np.float32


def test_no_rows_no_mean():
    empty = ModelSum.of(0.0, {"weights": np.ones((1, 1))}, 0.0, 0, 0.0)
    assert np.isnan(empty.mean_loss())
    with pytest.raises(ZeroDivisionError):
        empty.mean()


@pytest.mark.parametrize("weighted", [True, False])
def test_uneven_partitions(weighted):
    """By rows, or as equals (SPECS 5, reading 12); a partition without rows counts for nothing either way."""
    values, labels = separable(0)
    problem = problem_of(5, 3, weighted=weighted).with_trial(trial())
    zero = problem.scorer.initial(np.float32)
    parts = [np.arange(200), np.arange(200, 300), np.arange(0)]
    sums = [local_passes([Chunk(Dense(values), p, labels[p])], zero, problem, 0, i) for i, p in enumerate(parts)]
    assert [model.weight for model in sums] == ([200, 100, 0] if weighted else [1, 1, 0])
    means = [model.mean()["weights"] for model in sums[:2]]
    expected = np.average(means, axis=0, weights=[2, 1] if weighted else [1, 1])
    np.testing.assert_allclose(tree_sum(sums).mean()["weights"], expected, rtol=1e-5, atol=1e-6)


def test_one_round_with_a_constant_step_is_the_paper():
    values, labels = separable(0)
    problem = problem_of(5, 3, rounds=1, partitions=3, step=0.01, regularization=0.1)
    oracle = LocalOracle(Dense(values), labels, problem)
    result = fit(problem, oracle)
    problem = problem.with_trial(result.trial)
    zero = problem.scorer.initial(np.float32)
    runs = np.array_split(np.arange(300), 3)
    models = [
        local_passes([Chunk(Dense(values), run, labels[run])], zero, problem, 0, i).mean() for i, run in enumerate(runs)
    ]
    expected = np.mean([model["weights"] for model in models], axis=0)
    np.testing.assert_allclose(result.parameters["weights"], expected, rtol=1e-5, atol=1e-7)
    assert (result.step, result.trial.regularization, result.trial.tried) == (0.01, 0.1, ())


@pytest.mark.parametrize("last", [1, 2, 3])
def test_an_interrupted_fit_goes_on_to_the_same_bits(last):
    values, labels = separable(1)
    problem = problem_of(5, 3, rounds=4, partitions=2)
    oracle, memory = LocalOracle(Dense(values), labels, problem), Memory(last)
    whole = fit(problem, oracle)
    with pytest.raises(KeyboardInterrupt):
        fit(problem, oracle, checkpoint=memory)
    memory.last = None
    resumed = fit(problem, oracle, checkpoint=memory)
    for name, array in whole.parameters.items():
        np.testing.assert_array_equal(resumed.parameters[name], array)
    assert resumed.history == whole.history
    assert resumed.operations == whole.operations == 4 * 300 * 2 * 3
    assert [record["round"] for record in whole.history] == [0, 1, 2, 3]


@pytest.mark.parametrize("how", ["raises", "nan", "uphill"])
def test_a_step_too_long_for_the_whole_is_shortened(how):
    values, labels = separable(2)
    problem = problem_of(5, 3, rounds=3)
    problem = replace(problem, params=replace(problem.params, partitions=2))
    calm = fit(problem.with_trial(trial(step=1 / 16)), LocalOracle(Dense(values), labels, problem))
    steep = Steep(Dense(values), labels, problem, limit=0.1, how=how)
    memory = Memory()
    result = fit(problem, steep, checkpoint=memory)
    assert result.step == 1 / 16
    assert len(result.history) == 3
    np.testing.assert_array_equal(result.parameters["weights"], calm.parameters["weights"])
    assert fit(problem, steep, checkpoint=memory).step == 1 / 16  # a finished fit says the step it used


@pytest.mark.parametrize("last", [1, 2], ids=["before the restart", "after it"])
def test_interrupted_about_a_restart_goes_on_to_the_same_bits(last):
    values, labels = separable(2)
    problem = problem_of(5, 3, rounds=3)
    steep = Steep(Dense(values), labels, problem, limit=0.1, how="raises")
    whole, memory = fit(problem, steep), Memory(last)
    with pytest.raises(KeyboardInterrupt):
        fit(problem, steep, checkpoint=memory)
    memory.last = None
    resumed = fit(problem, steep, checkpoint=memory)
    assert resumed.step == whole.step
    assert resumed.history == whole.history
    np.testing.assert_array_equal(resumed.parameters["weights"], whole.parameters["weights"])


def test_a_fit_that_always_diverges_says_so():
    values, labels = separable(2)
    problem = problem_of(5, 3)
    with pytest.raises(Diverged):
        fit(problem, Steep(Dense(values), labels, problem, limit=0.0, how="raises"))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_step_that_was_asked_for_is_not_changed():
    values, labels = separable(2)
    problem = problem_of(5, 3, step=1e30)
    with pytest.raises(Diverged, match="1e\\+30"):
        fit(problem, LocalOracle(Dense(values), labels, problem))


def test_starts_where_it_is_told():
    values, labels = separable(3)
    problem = problem_of(5, 3, rounds=1, step=1e-12, regularization=0.0)
    start = {"weights": np.full((5, 3), 2.0, np.float32), "bias": np.ones(3, np.float32)}
    result = fit(problem, LocalOracle(Dense(values), labels, problem), start)
    np.testing.assert_allclose(result.parameters["weights"], 2.0, rtol=1e-6)
    assert result.parameters["weights"] is not start["weights"]


def test_no_training_rows():
    problem = problem_of(5, 3)
    with pytest.raises(NoTrainingRows, match="test"):
        fit(problem, LocalOracle(Dense(np.zeros((0, 5), np.float32)), np.zeros(0, np.int32), problem))


@pytest.mark.parametrize("partitions", [1, 2, 8])
def test_learns_separable_classes(partitions):
    values, labels = separable(4)
    problem = problem_of(5, 3, rounds=5, partitions=partitions, least_rows=10_000)
    result = fit(problem, LocalOracle(Dense(values), labels, problem))
    assert accuracy(problem, result.parameters, Dense(values), labels) > 0.98
    assert result.history[-1]["loss"] < result.history[0]["loss"]
