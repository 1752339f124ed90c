"""The scorer that hashes on the fly against Psi written out, and against the reference runs."""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tasks.hashing import heshing
from tasks.hashing.heshing import HashedScorer
from tasks.losses.crammer_singer import CrammerSinger
from tasks.losses.multinomial import Multinomial
from tasks.rows import Dense, PqCodes, Rows
from tasks.rows.base import Array
from tests.bodies import csr_of, sparse_values
from tests.naive import hashing as naive
from tests.shared import shared_path


@dataclass
class Nodes:
    """A tree as plain arrays."""

    node_seeds: Array
    parent: Array
    level: Array
    leaf_of_class: Array

    @classmethod
    def of(cls, parent: list[int], seeds: list[int] | None = None) -> Nodes:
        level: list[int] = []
        for above in parent:
            level.append(0 if above < 0 else level[above] + 1)
        leaves = [u for u in range(len(parent)) if u not in parent]
        return cls(
            np.array(range(len(parent)) if seeds is None else seeds, np.uint32),
            np.array(parent, np.int32),
            np.array(level, np.int32),
            np.array(leaves, np.int32),
        )

    def paths(self) -> list[list[int]]:
        """Seeds of each class's path, leaves replicated."""
        n_levels = int(self.level.max()) + 1
        nodes = [naive.path(self.parent.tolist(), int(leaf), n_levels) for leaf in self.leaf_of_class]
        return [[int(self.node_seeds[u]) for u in path] for path in nodes]


EVEN = Nodes.of([-1, 0, 0, 1, 1, 1, 2, 2])
UNEVEN = Nodes.of([-1, 0, 0, 0, 1, 1, 3, 3, 6, 6, 7])  # leaves at levels 1, 2 and 3, a single child
TREES = {"even": EVEN, "uneven": UNEVEN, "flat": Nodes.of([-1, 0, 0, 0])}


def of_case(inputs: dict[str, Any]) -> Nodes:
    """The tree of a reference case: its node ids are the seeds, class r is the r-th smallest leaf id."""
    ids = sorted(int(u) for u in inputs["parent"])
    above = [inputs["parent"][str(u)] for u in ids]
    return Nodes.of([-1 if u is None else ids.index(u) for u in above], ids)


def features(nodes: Nodes, values: np.ndarray, m: int) -> np.ndarray:
    """Psi without the root's block, (n_rows, n_classes, (n_levels - 1) * m): the root cancels between classes."""
    psis = [[naive.psi(row, seeds, m)[1:].ravel() for seeds in nodes.paths()] for row in values]
    return np.array(psis).reshape(len(values), len(nodes.leaf_of_class), -1)


def bodies(values: np.ndarray) -> dict[str, Rows]:
    codebooks = values[None, :, :].astype(np.float32)  # every row is a centroid of one wide sub-vector
    codes = np.arange(len(values), dtype=np.uint8)[:, None]
    return {"dense": Dense(values), "csr": csr_of(values), "pq": PqCodes(codes, codebooks)}


@pytest.mark.usefixtures("lookups")
@pytest.mark.parametrize("m", [1, 5, 8])
@pytest.mark.parametrize("body", ["dense", "csr", "pq"])
@pytest.mark.parametrize("tree", TREES)
def test_scores_and_gradient_equal_psi_written_out(tree: str, body: str, m: int) -> None:
    nodes, rng = TREES[tree], np.random.default_rng(m)
    values = sparse_values(m, n_rows=6, n_features=9).astype(np.float32).astype(np.float64)
    scorer = HashedScorer.hierarchical(nodes, m, 9)
    written, rows = features(nodes, values, m), bodies(values)[body]
    parameters = {"table": rng.standard_normal((scorer.n_tables, m))}
    expected = written @ parameters["table"].ravel()
    np.testing.assert_allclose(scorer.scores(parameters, rows), expected, atol=1e-6 if body == "pq" else 1e-12)

    residuals = rng.standard_normal(expected.shape) * (rng.random(expected.shape) < 0.5)
    after = {"table": parameters["table"].copy()}
    scorer.subtract(after, rows, residuals, 0.25)
    change = np.einsum("ic,icf->f", residuals, written)
    np.testing.assert_allclose(after["table"].ravel(), parameters["table"].ravel() - 0.25 * change, atol=1e-6)


@pytest.mark.parametrize("m", [3, 16])
def test_flat_hash_equals_phi_of_the_leaves(m: int) -> None:
    values, seeds, rng = sparse_values(4, n_rows=5, n_features=7), [11, 4, 2**32 - 1], np.random.default_rng(0)
    scorer = HashedScorer.flat(np.array(seeds, np.uint32), m, 7)
    assert (scorer.n_levels, scorer.n_outputs, scorer.operations_per_row()) == (1, 3, 3.0)
    parameters = {"table": rng.standard_normal((1, m))}
    written = np.array([[naive.phi(row, u, m) for u in seeds] for row in values])
    for rows in (Dense(values), csr_of(values)):
        np.testing.assert_allclose(scorer.scores(parameters, rows), written @ parameters["table"][0], atol=1e-12)
        after, residuals = scorer.initial(np.float64), rng.standard_normal((5, 3))
        scorer.subtract(after, rows, residuals, 1.0)
        np.testing.assert_allclose(after["table"][0], -np.einsum("ic,icf->f", residuals, written), atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gradient_is_the_derivative_of_the_scores(dtype: type) -> None:
    """<residuals, scores> is linear in the table, so a step along the gradient lowers it by its squared norm."""
    rng = np.random.default_rng(8)
    scorer = HashedScorer.hierarchical(UNEVEN, 6, 10)
    rows = Dense(rng.standard_normal((7, 10)).astype(dtype))
    residuals: Array = rng.standard_normal((7, 6)).astype(dtype)
    parameters: dict[str, Array] = {"table": rng.standard_normal((scorer.n_tables, 6)).astype(dtype)}
    before = {"table": parameters["table"].copy()}
    first = float((residuals * scorer.scores(parameters, rows)).sum())
    scorer.subtract(parameters, rows, residuals, 1.0)
    gradient = before["table"] - parameters["table"]
    fall = first - float((residuals * scorer.scores(parameters, rows)).sum())
    assert fall == pytest.approx(float((gradient**2).sum()), rel=1e-4)
    assert parameters["table"].dtype == dtype


def test_classes_that_cancel_leave_shared_nodes_alone() -> None:
    """A max-hinge pushes one class up and one down: nodes above both have residual exactly 0, also in float32."""
    scorer = HashedScorer.hierarchical(EVEN, 64, 12)
    rows = Dense(np.random.default_rng(1).standard_normal((1, 12)).astype(np.float32))
    residuals = np.zeros((1, 5), np.float32)
    residuals[0, 0], residuals[0, 2] = 0.3, -0.3  # siblings under node 1
    parameters = scorer.initial(np.float32)
    scorer.subtract(parameters, rows, residuals, 0.7)
    assert not parameters["table"][0].any()
    assert parameters["table"][1].any()


def test_slices_of_rows_and_tiles_of_nodes_join(monkeypatch: pytest.MonkeyPatch) -> None:
    values, rng = sparse_values(2, n_rows=11, n_features=6), np.random.default_rng(2)
    scorer = HashedScorer.hierarchical(UNEVEN, 8, 6)
    parameters, residuals = {"table": rng.standard_normal((3, 8))}, rng.standard_normal((11, 6))
    results = []
    for rows_at_once, most in ((1024, 256), (3, 2)):
        monkeypatch.setattr(heshing, "ROWS_AT_ONCE", rows_at_once)
        monkeypatch.setattr(heshing, "TILE_NODES", (1, most))
        for rows in (Dense(values), csr_of(values)):
            after = {"table": parameters["table"].copy()}
            scorer.subtract(after, rows, residuals, 0.1)
            results.append((scorer.scores(parameters, rows), after["table"]))
    for scores, table in results[1:]:
        np.testing.assert_allclose(scores, results[0][0], atol=1e-12)
        np.testing.assert_allclose(table, results[0][1], atol=1e-12)


def test_empty_batches_and_a_single_class() -> None:
    scorer = HashedScorer.hierarchical(UNEVEN, 4, 3)
    parameters = scorer.initial(np.float32)
    for rows in (Dense(np.empty((0, 3), np.float32)), csr_of(np.empty((0, 3)))):
        assert scorer.scores(parameters, rows).shape == (0, 6)
        scorer.subtract(parameters, rows, np.empty((0, 6), np.float32), 1.0)
    alone = HashedScorer.hierarchical(Nodes.of([-1]), 4, 3)
    assert alone.scores(alone.initial(np.float64), Dense(np.ones((2, 3)))).tolist() == [[0.0], [0.0]]


def test_squared_scale_is_what_siblings_differ_by() -> None:
    """Half the squared distance of the features of two classes under one parent, without collisions, over |x|^2."""
    rng, m = np.random.default_rng(3), 1 << 16
    values = rng.standard_normal((1, 30))
    for nodes in (EVEN, UNEVEN):
        scorer, written = HashedScorer.hierarchical(nodes, m, 30), features(nodes, values, m)[0]
        parents = nodes.parent[nodes.leaf_of_class]
        levels = nodes.level[nodes.leaf_of_class]
        shares = []
        for c, above in enumerate(parents):
            for other in np.flatnonzero((parents == above) & (levels == levels[c])):
                if other != c:
                    shares.append(((written[c] - written[other]) ** 2).sum() / 2 / (values**2).sum())
                    break
        assert scorer.squared_scale == pytest.approx(scorer.scale**2 * (scorer.n_levels - levels).mean())
        assert min(shares) >= scorer.scale**2 * 0.9
        assert max(shares) <= scorer.scale**2 * (scorer.n_levels - levels.min()) * 1.1


def test_travels_small_and_equal() -> None:
    scorer = HashedScorer.hierarchical(UNEVEN, 2**20, 10**6)
    assert scorer.operations_per_row() == 10
    travelled = pickle.dumps(scorer)
    assert len(travelled) < 2000
    again = pickle.loads(travelled)
    rows = Dense(np.ones((1, 4), np.float32))
    small = HashedScorer.hierarchical(UNEVEN, 16, 4)
    parameters = {"table": np.random.default_rng(0).standard_normal((3, 16)).astype(np.float32)}
    scores = small.scores(parameters, rows)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(small)).scores(parameters, rows), scores)
    assert again.operations_per_row() == 10


def test_a_read_only_table_scores() -> None:
    scorer = HashedScorer.hierarchical(UNEVEN, 16, 4)
    table = np.random.default_rng(0).standard_normal((3, 16)).astype(np.float32)
    rows = Dense(np.ones((3, 4), np.float32))
    expected = scorer.scores({"table": table}, rows)
    table.setflags(write=False)
    np.testing.assert_array_equal(scorer.scores({"table": table}, rows), expected)


# ---- the learning problem (2), one example per step --------------------------------------------------------------


def sgd(scorer: HashedScorer, values: np.ndarray, labels: list[int], lam: float, order: list[int]) -> Array:
    """Pegasos steps of reading SPECS 1.10; returns the table."""
    parameters = scorer.initial(np.float64)
    for t, i in enumerate(order):
        rows, step = Dense(values[i : i + 1]), 1 / (lam * (t + 1))
        margin = np.arange(scorer.n_outputs) != labels[i]
        rival = int((scorer.scores(parameters, rows)[0] + margin).argmax())
        residuals = np.zeros((1, scorer.n_outputs))
        residuals[0, rival] += 1
        residuals[0, labels[i]] -= 1
        parameters["table"] *= 1 - step * lam
        scorer.subtract(parameters, rows, residuals, step)
    return parameters["table"]


def objective(scorer: HashedScorer, table: Array, values: np.ndarray, labels: list[int], lam: float) -> float:
    scores = scorer.scores({"table": table}, Dense(values))
    right = scores[np.arange(len(labels)), labels]
    margins = np.arange(scorer.n_outputs)[None, :] != np.array(labels)[:, None]
    return float(lam / 2 * (table**2).sum() + (margins + scores - right[:, None]).max(axis=1).mean())


def test_reference_sgd_run() -> None:
    case = json.loads(shared_path("cases/hsh-19.json").read_text())
    inputs, expected = case["inputs"], case["expected"]
    values = np.array(inputs["X"])
    scorer = HashedScorer.hierarchical(of_case(inputs), inputs["m"], values.shape[1])
    table = sgd(scorer, values, inputs["y"], inputs["lam"], inputs["order"])
    np.testing.assert_allclose(scorer.whole_vector(table), expected["w"], rtol=0, atol=case["tolerance"])
    assert objective(scorer, table, values, inputs["y"], inputs["lam"]) == pytest.approx(
        expected["objective"], abs=1e-9
    )
    assert scorer.scores({"table": table}, Dense(values)).argmax(axis=1).tolist() == expected["predicted_class"]


@pytest.mark.parametrize("system", ["HESHING", "FlatHash"])
def test_reference_optimum_is_approached_from_above(system: str) -> None:
    case = json.loads(shared_path("cases/hsh-21.json").read_text())
    inputs, optimum = case["inputs"], case["expected"][system]
    nodes, values, lam = of_case(inputs), np.array(inputs["X"]), inputs["lam"]
    if system == "HESHING":
        scorer = HashedScorer.hierarchical(nodes, inputs["m"], values.shape[1])
    else:
        scorer = HashedScorer.flat(nodes.node_seeds[nodes.leaf_of_class], inputs["m"], values.shape[1])
    order = np.concatenate([np.random.default_rng(epoch).permutation(len(values)) for epoch in range(40)])
    found = objective(scorer, sgd(scorer, values, inputs["y"], lam, order.tolist()), values, inputs["y"], lam)
    assert optimum - case["tolerance"] <= found <= optimum * 1.1


@pytest.mark.parametrize("body", ["dense", "csr"])
@pytest.mark.parametrize("tree", sorted(TREES))
def test_a_shared_table_scores_every_node_of_the_path_once_without_the_root(tree: str, body: str) -> None:
    nodes, m = TREES[tree], 7
    values = np.random.default_rng(4).normal(size=(9, 6)) * (np.random.default_rng(5).random((9, 6)) < 0.5)
    rows: Rows = Dense(values) if body == "dense" else csr_of(values)
    scorer = HashedScorer.shared(nodes, m, 6)
    table = np.random.default_rng(5).normal(size=(1, m))
    phi = {
        u: np.array([naive.phi(row.tolist(), int(nodes.node_seeds[u]), m) for row in values])
        for u in range(1, len(nodes.parent))
    }
    scale = 1 / np.sqrt(int(nodes.level.max()) + 1)
    paths = [
        [u for u in dict.fromkeys(naive.path(nodes.parent.tolist(), int(leaf), 1)) if u != 0]
        for leaf in nodes.leaf_of_class
    ]
    expected = np.array([[scale * sum(phi[u][i] @ table[0] for u in path) for path in paths] for i in range(9)])
    np.testing.assert_allclose(scorer.scores({"table": table}, rows), expected, rtol=1e-12, atol=1e-12)
    residuals = np.random.default_rng(6).normal(size=expected.shape)
    changed = {"table": table.copy()}
    scorer.subtract(changed, rows, residuals, 0.5)
    gradient = scale * sum(residuals[i, c] * phi[u][i] for i in range(9) for c, path in enumerate(paths) for u in path)
    np.testing.assert_allclose(changed["table"][0], table[0] - 0.5 * gradient, rtol=1e-12, atol=1e-12)


def products(nodes: Nodes, m: int, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """<Psi(one, y), Psi(other, 0)> without the root's block, of every class y, by the scorer itself."""
    scorer = HashedScorer.hierarchical(nodes, m, one.size)
    table = scorer.initial(np.float64)
    scorer.subtract(table, Dense(other[None]), -np.eye(1, scorer.n_outputs), 1.0)  # now Psi(other, 0)
    return np.asarray(scorer.scores(table, Dense(one[None]))[0])


@pytest.mark.parametrize("seed", [0, 1])
def test_products_of_hashed_rows_have_the_mean_and_variance_of_theory(seed: int) -> None:
    """Theorem 1 as it holds (SPECS 1, misprint 4): (s / T) <x, x'> over s levels with one hash, unbiased, and its
    variance; levels with two hashes add variance alone. Each within five standard errors."""
    rng, m, draws = np.random.default_rng(seed), 6, 500
    one, other = rng.standard_normal((2, 9))
    words = rng.choice(2**32, (draws, EVEN.parent.size), replace=False)
    trees = [Nodes.of(EVEN.parent.tolist(), list(seeds)) for seeds in words]
    found = np.array([products(nodes, m, one, other) for nodes in trees])
    inner, squares = float(one @ other), float((one @ one) * (other @ other))
    same = (squares + inner**2 - 2 * float((one**2) @ (other**2))) / m  # variance under one hash
    levels = 3
    for y, shared in ((0, 2), (1, 1), (3, 0)):  # itself, a sibling, a class below another node
        expected = shared * inner / levels
        variance = (shared * same + (2 - shared) * squares / m) / levels**2
        off = found[:, y] - expected
        assert abs(off.mean()) < 5 * np.sqrt(variance / draws)
        assert abs((off**2).mean() - variance) < 5 * (off**2).std() / np.sqrt(draws)


@pytest.mark.parametrize("tree", TREES)
def test_the_roots_block_only_adds_to_the_penalty(tree: str) -> None:
    """All classes share it (SPECS 1, 5): it moves all scores of a row alike, no loss sees it, and 0 is best there."""
    nodes, rng, m = TREES[tree], np.random.default_rng(7), 5
    values = rng.standard_normal((6, 8))
    scorer = HashedScorer.hierarchical(nodes, m, 8)
    table = rng.standard_normal((scorer.n_tables, m))
    whole, root = scorer.whole_vector(table), rng.standard_normal(m)
    assert not whole[:m].any()
    psis = np.array([[naive.psi(row, seeds, m).ravel() for seeds in nodes.paths()] for row in values])
    scores, labels = scorer.scores({"table": table}, Dense(values)), rng.integers(0, scorer.n_outputs, 6)
    np.testing.assert_allclose(psis @ whole, scores, atol=1e-12)
    moved = psis @ np.concatenate([root, whole[m:]])
    np.testing.assert_allclose(moved - moved[:, :1], scores - scores[:, :1], atol=1e-12)
    for loss in (CrammerSinger(), Multinomial()):
        (before, residuals), (after, _) = loss.residuals(scores, labels), loss.residuals(moved, labels)
        assert after == pytest.approx(before)
        np.testing.assert_allclose(np.einsum("ic,icf->f", residuals, psis)[:m], 0, atol=1e-12)
        assert np.abs(residuals).max() > 0
