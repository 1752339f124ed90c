"""The steps of SGD against a loop that decays every weight every time, and against the papers' updates."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tasks.errors import Diverged, ParamError
from tasks.fit.average import ModelSum
from tasks.fit.linear import LinearScorer
from tasks.fit.local_pass import Chunk, falling_steps, local_passes
from tasks.fit.scaled import ScaledParameters
from tasks.fit.sgd import SgdParams, descend
from tasks.fit.step_trial import objective
from tasks.hashing.heshing import HashedScorer
from tasks.losses.crammer_singer import CrammerSinger
from tasks.losses.hinge import OneVsRestHinge
from tasks.losses.multinomial import Multinomial
from tasks.losses.overlap_hinge import OverlapHinge
from tasks.rows import Dense
from tasks.taxonomy import Taxonomy
from tests.naive import fit as naive
from tests.shared import shared_path
from tests.tasks.fit_problems import bodies, problem_of, separable, trial


@pytest.mark.parametrize("batch", [1, 3, 7])
@pytest.mark.parametrize("body", ["dense", "half", "csr", "pq"])
@pytest.mark.parametrize("seed", range(3))
def test_matches_the_slow_loop(body, batch, seed):
    rng = np.random.default_rng(seed)
    rows, labels = bodies(seed)[body], rng.integers(0, 4, 40).astype(np.int32)
    order, start = rng.integers(0, 40, 50), rng.normal(size=(6, 4))
    steps = rng.uniform(0.01, 0.3, -(-50 // batch))
    state = ScaledParameters({"weights": start})
    loss = descend(LinearScorer(6, 4, bias=False), Multinomial(), state, rows, labels, order, steps, batch, 0.7)
    values = rows.to_array(np.float64)
    expected, total = naive.sgd(values, labels, start, Multinomial(), order, steps, batch, 0.7)
    np.testing.assert_allclose(state.settle()["weights"], expected, rtol=1e-6, atol=1e-9)
    assert loss == pytest.approx(total, rel=1e-6)


@pytest.mark.parametrize("body", ["dense", "half", "pq"])
def test_a_centre_is_taken_away_from_every_row(body):
    rng = np.random.default_rng(2)
    rows, labels = bodies(2)[body], rng.integers(0, 4, 40).astype(np.int32)
    centre, order, steps = rng.normal(size=6).astype(np.float32), np.arange(40), np.full(8, 0.1)
    state = ScaledParameters({"weights": np.zeros((6, 4))})
    scorer = LinearScorer(6, 4, bias=False)
    descend(scorer, Multinomial(), state, rows, labels, order, steps, 5, 0.2, 0.0, centre)
    values = rows.to_array(np.float64) - centre
    expected, _ = naive.sgd(values, labels, np.zeros((6, 4)), Multinomial(), order, steps, 5, 0.2)
    np.testing.assert_allclose(state.settle()["weights"], expected, rtol=1e-5, atol=1e-7)


def test_centred_parameters_score_centred_rows_the_same():
    rng = np.random.default_rng(3)
    scorer, values, centre = LinearScorer(4, 3), rng.normal(size=(5, 4)), rng.normal(size=4)
    plain = {"weights": rng.normal(size=(4, 3)), "bias": rng.normal(size=3)}
    centred = scorer.centred(plain, centre)
    expected = scorer.scores(plain, Dense(values))
    np.testing.assert_allclose(scorer.scores(centred, Dense(values - centre)), expected, atol=1e-12)
    np.testing.assert_allclose(scorer.centred(centred, centre, -1.0)["bias"], plain["bias"], atol=1e-12)
    with pytest.raises(ValueError, match="bias"):
        LinearScorer(4, 3, bias=False).centred(plain, centre)


def test_the_bias_is_the_weight_of_a_constant_feature():
    rng = np.random.default_rng(1)
    values, labels = rng.normal(size=(20, 3)), rng.integers(0, 2, 20).astype(np.int32)
    wide = np.concatenate([values, np.full((20, 1), 3.0)], axis=1)
    steps, order = np.full(5, 0.02), np.arange(20)
    one = ScaledParameters(LinearScorer(3, 2, True, 9.0).initial(np.float64))
    two = ScaledParameters(LinearScorer(4, 2, False).initial(np.float64))
    descend(LinearScorer(3, 2, True, 9.0), OneVsRestHinge(), one, Dense(values), labels, order, steps, 4, 0.1)
    descend(LinearScorer(4, 2, False), OneVsRestHinge(), two, Dense(wide), labels, order, steps, 4, 0.1)
    weights = two.settle()["weights"]
    np.testing.assert_allclose(one.settle()["weights"], weights[:3], atol=1e-12)
    np.testing.assert_allclose(one.settle()["bias"], 3.0 * weights[3], atol=1e-12)


def test_parallel_sgd_of_the_reference_case():
    """lt-11: Zinkevich's algorithm on OP2 (Deng et al.): two shards, constant step, plain mean."""
    case = json.loads(shared_path("cases/lt-11.json").read_text())
    inputs, expected = case["inputs"], case["expected"]
    values, labels = np.array(inputs["X"]), np.array(inputs["y"], np.int32)
    scorer, loss = LinearScorer(3, 2, bias=False), OverlapHinge(np.array(inputs["P"], bool))
    models = []
    for shard in inputs["shards"]:
        state = ScaledParameters(scorer.initial(np.float64))
        steps = np.full(len(shard), inputs["eta"])
        descend(scorer, loss, state, Dense(values), labels, np.array(shard), steps, 1, 2 * inputs["lam"])
        models.append(ModelSum.of(1.0, state.settle(), 0.0, len(shard), 0.0))
    for model, weights in zip(models, expected["per_shard"], strict=True):
        np.testing.assert_allclose(model.parameters["weights"].T, weights, atol=case["tolerance"])
    mean = (models[0] + models[1]).mean()
    np.testing.assert_allclose(mean["weights"].T, expected["average"], atol=case["tolerance"])
    problem = problem_of(3, 2, loss, bias=False, doubled=True, step=0.1).with_trial(trial(0.1, inputs["lam"]))
    chunk = Chunk(Dense(values), np.arange(len(labels)), labels)
    assert objective([chunk], mean, problem) == pytest.approx(expected["objective"], abs=case["tolerance"])


def test_heshing_sgd_of_the_reference_case():
    """hsh-19: steps 1 / (lam (t + 1)), the first of which forgets the start entirely."""
    case = json.loads(shared_path("cases/hsh-19.json").read_text())
    inputs, expected = case["inputs"], case["expected"]
    values, labels, order = np.array(inputs["X"]), np.array(inputs["y"], np.int32), np.array(inputs["order"])
    parent = [0 if above is None else above for above in inputs["parent"].values()]
    scorer = hashed(np.array(parent) - 1, inputs["m"], values.shape[1])
    state = ScaledParameters(scorer.initial(np.float64))
    steps = 1.0 / (inputs["lam"] * np.arange(1, order.size + 1))
    descend(scorer, CrammerSinger(), state, Dense(values), labels, order, steps, 1, inputs["lam"])
    np.testing.assert_allclose(scorer.whole_vector(state.settle()["table"]), expected["w"], atol=case["tolerance"])
    predicted = scorer.scores(state.values, Dense(values)).argmax(axis=1)
    assert predicted.tolist() == expected["predicted_class"]


def hashed(parent: np.ndarray, m: int, n_features: int) -> HashedScorer:
    """A hashed scorer over nodes whose ids, the seeds, count from 1."""
    taxonomy = Taxonomy(parent.astype(np.int32), [str(i) for i in range(parent.size)], leaves(parent))
    scorer = HashedScorer.hierarchical(taxonomy, m, n_features)
    seeds = np.arange(1, parent.size + 1, dtype=np.uint32)
    return HashedScorer(
        seeds, scorer.parent, scorer.level, scorer.leaf_of_class, scorer.n_levels, m, n_features, scorer.scale
    )


def leaves(parent: np.ndarray) -> np.ndarray:
    return np.setdiff1d(np.arange(parent.size), parent).astype(np.int32)


def test_small_scales_are_multiplied_in():
    state = ScaledParameters({"weights": np.ones((2, 2), np.float32)})
    for _ in range(40):
        state.decay(0.5)
        assert state.scale >= ScaledParameters.SMALLEST
    np.testing.assert_allclose(state.settle()["weights"], 0.5**40, rtol=1e-6)
    state.decay(-3.0)  # a step beyond 1 / regularization
    assert not state.settle()["weights"].any()


def test_the_start_is_copied():
    start = {"weights": np.ones((6, 4), np.float32)}
    start["weights"].flags.writeable = False
    problem = problem_of(6, 4, bias=False).with_trial(trial())
    chunk = Chunk(bodies(0)["dense"], np.arange(40), np.zeros(40, np.int32))
    assert local_passes([chunk], start, problem, 0, 0).rows == 40
    assert (start["weights"] == 1).all()


def test_long_rows_do_not_overshoot():
    """One row a thousand times longer than the rest: the damped step stays on its side of the minimum."""
    values = np.array([[1000.0]])
    for curvature, overshoots in ((2.0, False), (0.0, True)):
        state = ScaledParameters({"weights": np.zeros((1, 1))})
        descend(
            LinearScorer(1, 1, bias=False), OneVsRestHinge(), state, Dense(values), np.zeros(1, np.int32),
            np.zeros(1, np.int64), np.ones(1), 1, 0.0, curvature,
        )  # fmt: skip
        assert (1000.0 * state.settle()["weights"][0, 0] > 1.0) == overshoots


def test_falling_steps_join_up():
    whole = falling_steps(0.5, 0.0, 1.0, 8)
    np.testing.assert_allclose(np.concatenate([falling_steps(0.5, 0, 0.5, 4), falling_steps(0.5, 0.5, 1, 4)]), whole)
    assert whole[0] == 0.5
    assert (np.diff(whole) < 0).all()
    assert whole[-1] > 0
    assert falling_steps(0.5, 0.0, 1.0, 0).size == 0
    np.testing.assert_allclose(falling_steps(0.5, 0.0, 1.0, 4, 0.5), [0.5, 0.5, 0.5, 0.25])


def test_same_seed_same_bits_other_place_other_order():
    values, labels = separable(0)
    chunks = [Chunk(Dense(values), np.arange(i, 300, 3), labels[i::3]) for i in range(3)]
    problem = problem_of(5, 3).with_trial(trial())
    zero = problem.scorer.initial(np.float32)
    one, again = (local_passes(chunks, zero, problem, 1, 2).mean()["weights"] for _ in range(2))
    np.testing.assert_array_equal(one, again)
    for round_index, partition in ((0, 2), (1, 1)):
        assert (local_passes(chunks, zero, problem, round_index, partition).mean()["weights"] != one).any()


def test_counts_rows_and_operations():
    values, labels = separable(0)
    problem = problem_of(5, 3).with_trial(trial(passes=2))
    index = np.arange(0, 300, 2)
    model = local_passes(
        [Chunk(Dense(values), index, labels[index])], problem.scorer.initial(np.float32), problem, 0, 0
    )
    assert (model.weight, model.rows, model.operations) == (150, 300, 2 * 300 * 3)


def test_only_the_rows_named_take_part():
    values, labels = separable(0)
    index = np.arange(0, 300, 2)
    spoiled = values.copy()
    spoiled[1::2] = np.nan
    problem = problem_of(5, 3).with_trial(trial())
    zero = problem.scorer.initial(np.float32)
    clean, other = (
        local_passes([Chunk(Dense(x), index, labels[index])], zero, problem, 0, 0).mean() for x in (values, spoiled)
    )
    np.testing.assert_array_equal(clean["weights"], other["weights"])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_divergence_names_fit_round_and_step():
    values, labels = separable(0)
    problem = problem_of(5, 3, step=1e30).with_trial(trial(1e30))
    chunk = Chunk(Dense(values), np.arange(300), labels)
    with pytest.raises(Diverged, match=r"test .* round 1, step 1e\+30"):
        local_passes([chunk], problem.scorer.initial(np.float32), problem, 1, 0)


@pytest.mark.parametrize("name", ["passes", "rounds", "partitions", "batch", "trial_rows", "least_rows"])
@pytest.mark.parametrize("value", [0, -1, 1.5, True])
def test_refuses_counts_that_train_nothing(name, value):
    with pytest.raises(ParamError, match=name):
        SgdParams(**{name: value})


BAD_STEPS = [("step", bad) for bad in (0.0, -1.0, float("nan"), "fast", True)]
BAD_PENALTIES = [("regularization", bad) for bad in (-1e-9, float("inf"), "none")]


@pytest.mark.parametrize(("name", "value"), [*BAD_STEPS, *BAD_PENALTIES])
def test_refuses_steps_and_penalties_out_of_range(name, value):
    with pytest.raises(ParamError, match=name):
        SgdParams(**{name: value})
