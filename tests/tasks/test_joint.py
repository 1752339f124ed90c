"""Joint training of a tree's splits against the definitions, and against the general descent on the same scores."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings

from tasks.fit.fit import fit
from tasks.fit.local import LocalOracle
from tasks.fit.local_pass import Chunk
from tasks.fit.problem import SgdProblem, StepTrial
from tasks.fit.scaled import ScaledParameters
from tasks.fit.scorer import Parameters
from tasks.fit.sgd import Fused, SgdParams, descend
from tasks.fit.step_trial import objective
from tasks.rows import Csr, Dense, Rows
from tasks.rows.base import Array
from tasks.trees.bengio import joint
from tasks.trees.bengio.joint import JointScorer, layout_of, tree_hinge
from tasks.trees.bengio.joint_blocks import active_of, bold
from tasks.trees.bengio.joint_model import children_met, joint_model
from tasks.trees.bengio.skeleton import skeleton
from tasks.trees.params import LabelTreeParams
from tasks.trees.taxonomy_tree import TaxonomyTree
from tests.bodies import BODIES, csr_of
from tests.naive import bengio as naive
from tests.naive.losses import derivative
from tests.strategies import seeds
from tests.tasks.fit_problems import separable, trial

N_CLASSES, WIDTH = 11, 6


def tree_of(seed: int, n_classes: int = N_CLASSES, branching: int = 3, depth: int = 3) -> TaxonomyTree:
    """Random parts, uneven ones too; a part of one class is a leaf before its time."""

    def part(level: int, node_of: Array) -> Array:
        rng, parts = np.random.default_rng([seed, level]), np.full(node_of.size, -1, np.int32)
        for node in np.unique(node_of[node_of >= 0]):
            held = np.flatnonzero(node_of == node)
            own = np.concatenate([np.arange(branching), rng.integers(0, branching, held.size - branching) ** 2 // 2])
            parts[held] = rng.permutation(own)
        return parts

    return skeleton(n_classes, LabelTreeParams(branching=branching, depth=depth).settled(n_classes), part)


def scorer_of(tree: TaxonomyTree, rows: Rows, labels: Array, bias: bool = True, rate: float = 1.0) -> JointScorer:
    plain = layout_of(tree, rows.n_features)
    active = active_of(rows, labels, plain.starts, plain.node)
    columns = active.columns(tree.n_nodes, rows.n_features)
    layout = layout_of(tree, rows.n_features, columns)
    met = float(children_met(tree)[labels].mean())
    common = {"layout": layout, "sparse": active.sparse, "met": met}
    return JointScorer(rows.n_features, tree.n_columns, bias, rate, **common)


def steps_of(tree: TaxonomyTree) -> naive.Steps:
    """Of each class the columns of the splits on its path, and the right ones."""
    found = []
    for path in tree.paths():
        above = [int(tree.parent[node]) for node in path]
        columns = [list(range(tree.first_child[u] - 1, tree.first_child[u] - 1 + tree.n_children[u])) for u in above]
        found.append([(of, node - 1) for of, node in zip(columns, path, strict=True)])
    return found


def whole(scorer: JointScorer, parameters: Parameters) -> Array:
    """(n_features, n_columns): the weights of all columns, 0 where a split lacks a feature."""
    out = np.zeros((scorer.n_features, scorer.n_outputs), parameters["weights"].dtype)
    for node, columns in scorer.inner():
        features = scorer.features(node)
        out[slice(None) if features is None else features, columns] = scorer.matrix(parameters["weights"], node)
    return out


def labels_of(seed: int, n: int) -> Array:
    return np.random.default_rng(seed).integers(0, N_CLASSES, n).astype(np.int32)


# ---- the shape -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_learned_nodes_have_q_children_and_the_others_one_per_class(seed: int) -> None:
    tree = tree_of(seed)
    offsets, _ = tree.label_sets()
    depths = [0]
    for node in range(1, tree.n_nodes):
        depths.append(depths[tree.parent[node]] + 1)
    for node, size in enumerate(np.diff(offsets).tolist()):
        full = depths[node] == 2 or size < 3
        assert tree.n_children[node] == (0 if size == 1 else size if full else 3)
    assert tree.height() <= 3
    assert sorted(tree.leaf_of_class.tolist()) == np.flatnonzero(tree.n_children == 0).tolist()


def test_a_tree_of_one_split_asks_for_no_parts() -> None:
    tree = skeleton(5, LabelTreeParams(branching=2, depth=1).settled(5), lambda _, node_of: pytest.fail(str(node_of)))
    assert tree.n_children.tolist() == [5, 0, 0, 0, 0, 0]


def test_no_progress_ends_at_the_last_depth() -> None:
    """One part that takes all classes but Q - 1 of them, at every depth."""

    def part(_: int, node_of: Array) -> Array:
        parts = np.full(node_of.size, -1, np.int32)
        for node in np.unique(node_of[node_of >= 0]):
            held = np.flatnonzero(node_of == node)
            parts[held] = np.minimum(np.arange(held.size), 1)
        return parts

    tree = skeleton(12, LabelTreeParams(branching=2, depth=4).settled(12), part)
    assert tree.height() == 4
    assert tree.n_children.max() == 9


# ---- the loss --------------------------------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(seed=seeds)
def test_loss_and_residuals_are_those_of_the_definition(seed: int) -> None:
    tree = tree_of(seed % 7)
    rng = np.random.default_rng(seed)
    scores, labels = rng.normal(size=(8, tree.n_columns)), labels_of(seed, 8)
    loss = tree_hinge(layout_of(tree, WIDTH))
    value, residuals = loss.residuals(scores, labels)
    found = [naive.worst(row, steps_of(tree)[label]) for row, label in zip(scores, labels, strict=True)]
    assert value == pytest.approx(sum(one[0] for one in found))
    for row, (_, right, wrong) in zip(residuals, found, strict=True):
        assert np.flatnonzero(row).tolist() == sorted({right, wrong} - {-1})
    for i in range(8):
        slope = derivative(lambda s, i=i: loss.residuals(s[None], labels[i : i + 1])[0], scores[i])
        np.testing.assert_allclose(residuals[i], slope, atol=1e-5)


def test_ties_go_to_the_upper_split_and_the_lower_column() -> None:
    tree = tree_of(0)
    loss = tree_hinge(layout_of(tree, WIDTH))
    deep = int(np.argmax([len(path) for path in tree.paths()]))
    _, residuals = loss.residuals(np.zeros((1, tree.n_columns)), np.array([deep], np.int32))
    columns, right = steps_of(tree)[deep][0]
    wrong = min(c for c in columns if c != right)
    assert (residuals[0, wrong], residuals[0, right]) == (1, -1)
    assert np.count_nonzero(residuals) == 2


# ---- steps -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize("seed", range(3))
def test_steps_are_those_of_the_definition(seed: int, sparse: bool, batch: int) -> None:
    tree, labels = tree_of(seed), labels_of(seed, 30)
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(30, WIDTH)) * (rng.random((30, WIDTH)) < (0.4 if sparse else 1.0))
    rows: Rows = csr_of(values) if sparse else Dense(values)
    scorer = scorer_of(tree, rows, labels, rate=1.7)
    order, steps = rng.permutation(30), rng.uniform(0.1, 1.0, -(-30 // batch))
    state = ScaledParameters(scorer.initial(np.float64))
    loss = scorer.descend(tree_hinge(scorer.layout), state, rows, labels, order, steps, batch, 0.3)
    parameters = state.settle()
    of_classes = steps_of(tree)
    weights, bias, total = naive.descend(
        values[order], labels[order].tolist(), of_classes, steps.tolist(), batch, 0.3, 1.7
    )
    assert loss == pytest.approx(total)
    np.testing.assert_allclose(whole(scorer, parameters), weights, atol=1e-10)
    np.testing.assert_allclose(parameters["bias"], bias, atol=1e-10)


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no-bias"])
@pytest.mark.parametrize("body", BODIES)
def test_steps_are_those_of_the_general_descent(monkeypatch: pytest.MonkeyPatch, body: str, bias: bool) -> None:
    """Which scores every child of every split, and knows nothing of paths."""
    monkeypatch.setattr(joint, "ROWS_AT_ONCE", 8)
    rows, labels, tree = BODIES[body](3, 40, WIDTH), labels_of(3, 40), tree_of(3)
    scorer = scorer_of(tree, rows, labels, bias)
    assert isinstance(scorer, Fused)
    loss, order, steps = tree_hinge(scorer.layout), np.random.default_rng(3).permutation(40), np.full(10, 0.3)
    states = [ScaledParameters(scorer.initial(np.float64)) for _ in range(2)]
    own = scorer.descend(loss, states[0], rows, labels, order, steps, 4, 0.1)
    general = descend(scorer, loss, states[1], rows, labels, order, steps, 4, 0.1)
    assert own == pytest.approx(general)
    for name, values in states[0].settle().items():
        np.testing.assert_allclose(values, states[1].settle()[name], atol=1e-6)


@pytest.mark.parametrize("decay", [0.9, 1.0, 1.5])
def test_strong_decay_multiplies_the_factor_in_and_never_turns_the_weights(decay: float) -> None:
    rows, labels, tree = BODIES["float64"](5, 24, WIDTH), labels_of(5, 24), tree_of(5)
    scorer = scorer_of(tree, rows, labels)
    state = ScaledParameters(scorer.initial(np.float64))
    scorer.descend(tree_hinge(scorer.layout), state, rows, labels, np.arange(24), np.ones(24), 1, decay)
    weights, bias, _ = naive.descend(
        rows.to_array(np.float64), labels.tolist(), steps_of(tree), [1.0] * 24, 1, min(decay, 1.0), 1.0
    )
    parameters = state.settle()
    np.testing.assert_allclose(whole(scorer, parameters), weights, atol=1e-10)
    np.testing.assert_allclose(parameters["bias"], bias, atol=1e-10)


@pytest.mark.parametrize("body", ["float32", "csr"])
def test_sum_of_losses_is_that_of_all_scores(monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    monkeypatch.setattr(joint, "ROWS_AT_ONCE", 7)
    rows, labels, tree = BODIES[body](2, 20, WIDTH), labels_of(2, 20), tree_of(2)
    scorer = scorer_of(tree, rows, labels)
    loss, rng = tree_hinge(scorer.layout), np.random.default_rng(2)
    parameters = {name: rng.normal(size=values.shape) for name, values in scorer.initial(np.float64).items()}
    expected = loss.residuals(scorer.scores(parameters, rows), labels)[0]
    assert scorer.sum_of_losses(loss, parameters, rows, labels) == pytest.approx(expected)


def test_centred_parameters_score_centred_rows_alike() -> None:
    rows, labels, tree = BODIES["float64"](4, 10, WIDTH), labels_of(4, 10), tree_of(4)
    scorer, rng = scorer_of(tree, rows, labels), np.random.default_rng(4)
    parameters = {name: rng.normal(size=values.shape) for name, values in scorer.initial(np.float64).items()}
    centre = rng.normal(size=WIDTH)
    moved = scorer.centred(parameters, centre)
    expected = scorer.scores(parameters, rows)
    np.testing.assert_allclose(scorer.scores(moved, Dense(rows.to_array(np.float64) - centre)), expected)
    np.testing.assert_allclose(scorer.centred(moved, centre, -1.0)["bias"], parameters["bias"])


# ---- features of nodes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_nodes_have_the_features_of_their_rows_and_no_others(seed: int) -> None:
    rows, labels, tree = BODIES["csr"](seed, 15, 40), labels_of(seed, 15), tree_of(seed)
    layout = layout_of(tree, 40)
    cuts = [0, 4, 9, 15]
    parts = [active_of(rows.part(a, b), labels[a:b], layout.starts, layout.node) for a, b in pairwise(cuts)]
    columns, starts = (parts[0] + parts[1] + parts[2]).columns(tree.n_nodes, 40) or pytest.fail("dense")
    values = rows.to_array()
    _, classes = tree.label_sets()
    offsets, _ = tree.label_sets()
    for node in range(tree.n_nodes):
        own = np.isin(labels, classes[offsets[node] : offsets[node + 1]]) & (tree.n_children[node] > 0)
        expected = np.flatnonzero((values[own] != 0).any(axis=0))
        assert set(expected.tolist()) <= set(columns[starts[node] : starts[node + 1]].tolist())
        assert (np.diff(columns[starts[node] : starts[node + 1]]) > 0).all()
        if not own.any():
            assert starts[node] == starts[node + 1]


# ---- the whole fit ---------------------------------------------------------------------------------------------------


def fitted(rows: Rows, labels: Array, tree: TaxonomyTree, **params: int) -> tuple[SgdProblem, Parameters, float]:
    scorer = scorer_of(tree, rows, labels)
    sgd = SgdParams(**{"rounds": 4, "least_rows": 6000, "doubled": True, **params})
    problem = SgdProblem(scorer, tree_hinge(scorer.layout), sgd, 7, "joint")
    result = fit(problem, LocalOracle(rows, labels, problem))
    return problem.with_trial(result.trial), result.parameters, result.operations


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize("partitions", [1, 3])
def test_a_fit_tells_separable_classes_apart_down_the_tree(sparse: bool, partitions: int) -> None:
    values, labels = separable(3, 600, N_CLASSES)
    rows: Rows = csr_of(values) if sparse else Dense(values)
    tree = tree_of(1)
    problem, parameters, operations = fitted(rows, labels, tree, partitions=partitions)
    assert isinstance(problem.scorer, JointScorer)
    model = joint_model(tree, problem.scorer, parameters, {"operations": operations})
    ranking = model.rank(rows, 1)
    assert (ranking.classes[:, 0] == labels).mean() > 0.93
    right = ranking.classes[:, 0] == labels
    np.testing.assert_array_equal(ranking.evaluations[right], children_met(tree)[labels[right]])
    passes = problem.settled().passes * problem.params.rounds
    assert operations == pytest.approx(2 * passes * children_met(tree)[labels].sum())
    assert model.kind == "bengio-tree"
    assert isinstance(rows, Csr) == (model.columns is not None)


def test_a_fit_goes_near_the_least_objective() -> None:
    """Another fit that starts from there gains little."""
    values, labels = separable(5, 200, N_CLASSES)
    tree, rows = tree_of(2), Dense(values)
    problem, parameters, _ = fitted(rows, labels, tree, partitions=1, least_rows=60_000)
    chunks = [Chunk(rows, np.arange(200), labels)]
    reached = objective(chunks, parameters, problem)
    blank = objective(chunks, problem.scorer.initial(np.float32), problem)
    longer = fit(problem, LocalOracle(rows, labels, problem), parameters).parameters
    assert reached < 0.6 * blank
    assert reached <= 1.1 * objective(chunks, longer, problem)


def test_the_tree_of_a_model_keeps_its_nodes_and_their_scores() -> None:
    rows, labels, tree = BODIES["csr"](6, 30, WIDTH), labels_of(6, 30), tree_of(6)
    scorer, rng = scorer_of(tree, rows, labels), np.random.default_rng(6)
    parameters = {n: rng.normal(size=v.shape).astype(np.float32) for n, v in scorer.initial(np.float32).items()}
    model = joint_model(tree, scorer, parameters, {"operations": 0.0}, beam=2)
    np.testing.assert_array_equal(model.first_child, tree.first_child)
    np.testing.assert_array_equal(model.n_children, tree.n_children)
    assert model.beam == 2
    every = scorer.scores(parameters, rows)
    for node, columns in scorer.inner():
        np.testing.assert_allclose(model.node_scores(node, rows), every[:, columns], atol=1e-5)


@pytest.mark.parametrize("told", [0.5, 0.985])
def test_a_trial_that_tells_nothing_gives_way_to_the_usual_step(told: float) -> None:
    found = StepTrial(0.001, 0.01, 4.0, 1, 2.0, ((0.002, told), (0.004, 1.01)), 100)
    chosen = bold(found, SgdParams(batch=16))
    assert chosen.step == (0.001 if told < 0.9 else 1.0)
    assert replace(chosen, step=0.001) == found
    assert bold(replace(found, tried=()), SgdParams()).step == 0.001


def test_the_usual_step_is_of_no_more_rows_than_there_are() -> None:
    found = StepTrial(0.001, 0.01, 4.0, 1, 2.0, ((0.002, 1.0),), 100)
    steps = [bold(found, SgdParams(batch=batch)).step for batch in (100, 100_000)]
    assert steps[0] == steps[1]


def test_the_trial_measures_blow_ups_by_all_hinges_of_a_path() -> None:
    rows, labels, tree = Dense(np.ones((4, 2), np.float32)), labels_of(0, 4), tree_of(0)
    scorer = scorer_of(tree, rows, labels)
    paths = tree.paths()
    assert scorer.blank_loss(labels) == sum(len(paths[label]) for label in labels)
    assert trial().blank_loss > 0
