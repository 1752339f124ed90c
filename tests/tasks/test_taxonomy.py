"""Taxonomies: the paper's example, random trees against the slow twin, refusals."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tasks.taxonomy import NO_CLASS, ROOT, Taxonomy, TaxonomyInvalid
from tests.naive import taxonomy as naive
from tests.shared import shared_path


def random_taxonomy(seed: int) -> Taxonomy:
    """A random breadth-first tree of 1 to 40 nodes with every childless node a class, in shuffled order."""
    rng = np.random.default_rng(seed)
    n_nodes = int(rng.integers(1, 41))
    parent = np.concatenate([[-1], np.sort([rng.integers(0, max(1, i)) for i in range(n_nodes - 1)])])
    parent = parent[:n_nodes]
    leaves = np.setdiff1d(np.arange(n_nodes), parent[1:])
    return Taxonomy(parent.astype(np.int32), tuple(map(str, range(n_nodes))), rng.permutation(leaves).astype(np.int32))


def test_figure_2a() -> None:
    case = json.loads(shared_path("cases/hsh-10.json").read_text())
    given, expected = case["inputs"]["parent"], case["expected"]
    ids = sorted(map(int, given))
    parent = np.array([-1 if given[str(u)] is None else ids.index(given[str(u)]) for u in ids], np.int32)
    leaves = np.array([ids.index(leaf) for leaf in expected["leaves"]], np.int32)
    taxonomy = Taxonomy(parent, tuple(map(str, ids)), leaves)
    a, b = (side.ravel() for side in np.indices((leaves.size, leaves.size)))
    shape = (leaves.size, leaves.size)
    np.testing.assert_array_equal(np.array(ids)[taxonomy.lca(a, b)].reshape(shape), expected["lca"])
    np.testing.assert_array_equal(taxonomy.lca_heights(a, b).reshape(shape), expected["longest"])
    np.testing.assert_array_equal(taxonomy.lca_heights(a, b, "padded").reshape(shape), expected["padded"])


@pytest.mark.parametrize("seed", range(25))
def test_matches_the_definitions(seed: int) -> None:
    taxonomy = random_taxonomy(seed)
    parent, leaves = taxonomy.parent.tolist(), taxonomy.leaf_of_class.tolist()
    levels = [naive.level(parent, node) for node in range(taxonomy.n_nodes)]
    heights = [naive.height(parent, node) for node in range(taxonomy.n_nodes)]
    assert taxonomy.level.tolist() == levels
    assert taxonomy.heights().tolist() == heights
    assert taxonomy.n_levels == max(levels) + 1
    assert taxonomy.paths().tolist() == [naive.path(parent, leaf, taxonomy.n_levels) for leaf in leaves]
    for node in range(taxonomy.n_nodes):
        assert taxonomy.children(node).tolist() == [c for c, p in enumerate(parent) if p == node]
    for a, leaf_a in enumerate(leaves):
        others = np.arange(len(leaves))
        nodes = [naive.lca(parent, leaf_a, leaf_b) for leaf_b in leaves]
        assert taxonomy.lca(np.full(len(leaves), a), others).tolist() == nodes
        longest = [0 if a == b else heights[node] for b, node in enumerate(nodes)]
        padded = [0 if a == b else taxonomy.n_levels - 1 - levels[node] for b, node in enumerate(nodes)]
        assert taxonomy.lca_heights(np.full(len(leaves), a), others).tolist() == longest
        assert taxonomy.lca_heights(np.full(len(leaves), a), others, "padded").tolist() == padded


def test_no_class_meets_all_at_the_root() -> None:
    taxonomy = Taxonomy(np.array([-1, 0, 0, 1, 1]), ("r", "a", "b", "c", "d"), np.array([2, 3, 4]))
    pairs = np.array([1, NO_CLASS, NO_CLASS]), np.array([NO_CLASS, 2, NO_CLASS])
    assert taxonomy.lca(*pairs).tolist() == [ROOT, ROOT, ROOT]
    assert taxonomy.lca_heights(*pairs).tolist() == [2, 2, 2]


def test_flat() -> None:
    taxonomy = Taxonomy.flat(3)
    assert taxonomy.n_levels == 2
    assert taxonomy.node_seeds.tolist() == [0, 1, 2, 3]
    assert taxonomy.lca_heights(np.array([0, 1]), np.array([2, 1])).tolist() == [1, 0]


@pytest.mark.parametrize(
    ("parent", "leaves", "place"),
    [
        ([0, 0], [1], "taxonomy.parent"),
        ([-1, 0, 3, 0], [1, 2], "taxonomy.parent[2]"),  # a child before its parent
        ([-1, 0, 1, 0], [2, 3], "taxonomy.parent[3]"),  # not breadth-first
        ([-1, 0, -1], [1, 2], "taxonomy.parent[2]"),  # two roots
        ([-1, 0, 0], [1, 3], "taxonomy.leaf_of_class[1]"),
        ([-1, 0, 0, 1], [1, 2], "taxonomy.leaf_of_class[0]"),  # class on an inner node
        ([-1, 0, 0], [2, 2], "taxonomy.leaf_of_class"),
        ([-1, 0], [], "taxonomy.leaf_of_class"),
    ],
)
def test_refusals(parent: list[int], leaves: list[int], place: str) -> None:
    with pytest.raises(TaxonomyInvalid) as caught:
        Taxonomy(np.array(parent), tuple("x" * len(parent)), np.array(leaves, np.int32))
    assert caught.value.where == place


def test_names_are_counted() -> None:
    with pytest.raises(TaxonomyInvalid, match="1 names for 2 nodes"):
        Taxonomy(np.array([-1, 0]), ("root",), np.array([1]))
