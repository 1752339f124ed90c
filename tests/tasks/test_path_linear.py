"""Hierarchical SVM: one vector per taxonomy node against equation (24) with a vector for every copy of a leaf."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

from tasks.fit.fit import fit
from tasks.fit.linear import LinearScorer
from tasks.fit.local import LocalOracle
from tasks.fit.path_linear import PathScorer
from tasks.fit.problem import SgdProblem
from tasks.fit.scorer import Scorer
from tasks.fit.sgd import SgdParams
from tasks.hashing.heshing import HashedScorer
from tasks.losses.crammer_singer import CrammerSinger
from tasks.rows import Dense
from tasks.rows.base import Array
from tasks.taxonomy import Taxonomy
from tests.naive import hierarchy as naive
from tests.shared import shared_path
from tests.tasks.fit_problems import bodies

WIDTH = 6
EVEN = ([-1, 0, 0, 1, 1, 1, 2, 2], [3, 4, 5, 6, 7])
FLAT = ([-1, 0, 0, 0], [2, 1, 3])
CHAIN = ([-1, 0, 1, 2, 3, 3], [4, 5])  # two classes below a chain
LONELY = ([-1, 0, 0, 1, 3, 4, 4], [2, 5, 6])  # a class at the top of a narrow, deep tree
TREES = {"even": EVEN, "flat": FLAT, "chain": CHAIN, "lonely": LONELY} | {
    f"random {seed}": naive.random_tree(seed) for seed in range(4)
}


def taxonomy_of(tree: tuple[list[int], list[int]]) -> Taxonomy:
    parent, leaves = tree
    return Taxonomy(np.array(parent, np.int32), ("",) * len(parent), np.array(leaves, np.int32))


def copies_of(scorer: PathScorer, weights: Array) -> Array:
    """(n_levels, n_nodes, n_features): the same vector for each copy of a leaf, none for the root."""
    every = np.concatenate([np.zeros((1, WIDTH)), weights.T])
    vectors: Array = np.tile(every / np.sqrt(scorer.copies)[:, None], (scorer.n_levels, 1, 1))
    return vectors


def random_case(name: str, seed: int = 0) -> tuple[PathScorer, Array, np.random.Generator]:
    rng = np.random.default_rng(seed)
    scorer = PathScorer.of(taxonomy_of(TREES[name]), WIDTH)
    return scorer, rng.normal(size=(WIDTH, scorer.n_scored)), rng


@pytest.mark.parametrize("name", TREES)
def test_scores_are_those_of_a_vector_per_level_and_node(name: str) -> None:
    scorer, weights, rng = random_case(name)
    rows = rng.normal(size=(5, WIDTH))
    vectors = copies_of(scorer, weights)
    expected = [naive.level_scores(row, vectors, *TREES[name]) for row in rows]
    np.testing.assert_allclose(scorer.scores({"weights": weights}, Dense(rows)), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", TREES)
def test_one_vector_for_all_copies_scores_as_they_do_and_is_penalised_no_more(name: str) -> None:
    """Whatever vectors the copies have, one vector gives the same scores for at most the same penalty (SPECS 1.3)."""
    parent, leaves = TREES[name]
    scorer, _, rng = random_case(name)
    vectors = rng.normal(size=(scorer.n_levels, len(parent), WIDTH))
    used = {(t, u) for leaf in leaves for t, u in enumerate(naive.node_of_each_level(parent, leaf))}
    columns = [sum(vectors[t, u] for t, node in used if node == u) for u in range(1, len(parent))]
    weights = np.array(columns).T / np.sqrt(scorer.copies[1:])
    rows = rng.normal(size=(5, WIDTH))
    expected = np.array([naive.level_scores(row, vectors, parent, leaves) for row in rows])
    found = scorer.scores({"weights": weights}, Dense(rows))
    root = rows @ vectors[0, 0] / np.sqrt(scorer.n_levels)  # equal for all classes
    np.testing.assert_allclose(found + root[:, None], expected, rtol=1e-12, atol=1e-12)
    penalty = sum(float(vectors[t, u] @ vectors[t, u]) for t, u in used if u > 0)
    assert (weights**2).sum() <= penalty * (1 + 1e-12)


@pytest.mark.parametrize("name", TREES)
def test_subtracts_the_gradient(name: str) -> None:
    scorer, weights, rng = random_case(name)
    rows, residuals = Dense(rng.normal(size=(5, WIDTH))), rng.normal(size=(5, scorer.n_outputs))
    slopes = np.zeros_like(weights)
    for place in np.ndindex(*weights.shape):
        unit = np.zeros_like(weights)
        unit[place] = 1.0
        slopes[place] = (scorer.scores({"weights": unit}, rows) * residuals).sum()  # linear: exact
    changed = {"weights": weights.copy()}
    scorer.subtract(changed, rows, residuals, 0.3)
    np.testing.assert_allclose(changed["weights"], weights - 0.3 * slopes, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("body", ["dense", "half", "csr", "pq"])
def test_every_body_of_rows(body: str) -> None:
    scorer, weights, rng = random_case("lonely")
    rows = bodies(1)[body]
    plain = Dense(rows.to_array(np.float64))
    single = {"weights": weights.astype(np.float32)}
    scores = scorer.scores(single, rows)
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, scorer.scores({"weights": weights}, plain), rtol=1e-4, atol=1e-5)
    residuals = rng.normal(size=scores.shape)
    scorer.subtract(single, rows, residuals.astype(np.float32), 0.1)
    expected = {"weights": weights.copy()}
    scorer.subtract(expected, plain, residuals, 0.1)
    np.testing.assert_allclose(single["weights"], expected["weights"], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", TREES)
def test_prototypes_score_as_the_paths_do(name: str) -> None:
    scorer, weights, rng = random_case(name)
    rows = rng.normal(size=(5, WIDTH))
    prototypes = scorer.prototypes({"weights": weights})
    np.testing.assert_allclose(rows @ prototypes, scorer.scores({"weights": weights}, Dense(rows)), atol=1e-12)


@pytest.mark.parametrize("name", TREES)
def test_scale_of_the_step_is_that_of_the_hashed_scorer(name: str) -> None:
    taxonomy = taxonomy_of(TREES[name])
    hashed = HashedScorer.hierarchical(taxonomy, 16, WIDTH)
    assert PathScorer.of(taxonomy, WIDTH).squared_scale == pytest.approx(hashed.squared_scale)


def test_scorer_travels_small() -> None:
    """It goes to every task: a few numbers per node, whatever the rows' width, and as it was."""
    wide = PathScorer.of(taxonomy_of(EVEN), 1_000_000)
    wide.scores({"weights": np.zeros((2, wide.n_scored), np.float32)}, Dense(np.zeros((1, 2), np.float32)))
    sent = pickle.dumps(wide)
    assert len(sent) < 1000
    assert pickle.loads(sent).n_scored == wide.n_scored == 7


def objective(scorer: Scorer, weights: Array, rows: Dense, labels: Array, lam: float) -> float:
    loss, _ = CrammerSinger().residuals(scorer.scores({"weights": weights}, rows), labels)
    return float(lam / 2 * (weights**2).sum() + loss / len(labels))


@pytest.mark.parametrize("system", ["HieSVM", "MSVM"])
def test_reference_optimum_is_reached_from_above(system: str) -> None:
    case = json.loads(shared_path("cases/hsh-21.json").read_text())
    inputs, optimum = case["inputs"], case["expected"][system]
    ids = sorted(int(u) for u in inputs["parent"])
    parent = [-1 if inputs["parent"][str(u)] is None else ids.index(inputs["parent"][str(u)]) for u in ids]
    leaves = [u for u in range(len(parent)) if u not in parent]
    rows, labels, lam = Dense(np.array(inputs["X"])), np.array(inputs["y"], np.int32), inputs["lam"]
    taxonomy = taxonomy_of((parent, leaves))
    scorer: Scorer = PathScorer.of(taxonomy, WIDTH) if system == "HieSVM" else LinearScorer(WIDTH, len(leaves), False)
    params = SgdParams(regularization=lam, rounds=40, partitions=1, batch=1, least_rows=8000)
    problem = SgdProblem(scorer, CrammerSinger(), params, 0, "case")
    result = fit(problem, LocalOracle(rows, labels, problem), scorer.initial(np.float64))
    found = objective(scorer, result.parameters["weights"], rows, labels, lam)
    assert optimum - case["tolerance"] <= found <= optimum * 1.02
