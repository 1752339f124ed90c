"""A taxonomy per purpose: a file over a dataset's classes, as at ingest; and trees of odd shapes through the scorer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.dataset import Dataset, taxonomy_digest
from pipeline.ingest import errors, ingest
from pipeline.ingest.class_table import read_classes
from pipeline.ingest.taxonomy_file import read_taxonomy
from pipeline.ingest.taxonomy_tree import build_taxonomy
from pipeline.taxonomies import read_taxonomy_for, taxonomy_for
from tasks.classes import ClassTable
from tasks.errors import InputError, ParamError
from tasks.hashing.heshing import HashedScorer
from tasks.rows import Dense
from tasks.taxonomy import Taxonomy
from tests.bodies import csr_of, sparse_values
from tests.naive import hashing as naive
from tests.naive import taxonomy as naive_taxonomy

NAMES = ["ant", "bee", "cat", "dog"]
OWN = {"life": {"insects": ["ant", "bee"], "mammals": ["cat", "dog"]}}
OTHER = {"life": {"house": ["cat", "ant"], "yard": {"air": ["bee"], "ground": ["dog"]}}}
WHERE = "t.toml, [evaluate] taxonomy"


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    rows = np.arange(24, dtype=np.float32).reshape(12, 2)
    return ingest(rows, tmp_path / "d.zarr", labels=NAMES * 3, taxonomy=OWN, test=0, validation=0)


def write(folder: Path, content: Any, name: str = "t.json") -> Path:
    (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))
    return folder / name


# ---- a file over a dataset's classes -----------------------------------------------------------------------------


def test_without_a_file_it_is_the_datasets_own(dataset: Dataset, tmp_path: Path) -> None:
    own = taxonomy_for(None, dataset, WHERE)
    assert own is not None
    assert taxonomy_digest(own) == taxonomy_digest(dataset.taxonomy)
    bare = ingest(np.eye(12), tmp_path / "bare.zarr", labels=NAMES * 3, test=0, validation=0)
    assert taxonomy_for(None, bare, WHERE) is None


def test_a_file_is_read_over_the_datasets_classes(dataset: Dataset, tmp_path: Path) -> None:
    found = taxonomy_for(write(tmp_path, OTHER), dataset, WHERE)
    assert found is not None
    assert found.names == ("life", "house", "yard", "cat", "ant", "air", "ground", "bee", "dog")
    assert [found.names[leaf] for leaf in found.leaf_of_class] == NAMES
    assert found.n_nodes != dataset.taxonomy.n_nodes  # type: ignore[union-attr]


def test_digests_are_of_the_content(dataset: Dataset, tmp_path: Path) -> None:
    lines = "".join(f"{above}\t{below}\n" for above, listed in OWN["life"].items() for below in listed)
    copy = write(tmp_path, "life\tinsects\nlife\tmammals\n" + lines, "elsewhere.tsv")
    same, other = (read_taxonomy_for(path, dataset.classes, WHERE) for path in (copy, write(tmp_path, OTHER)))
    assert taxonomy_digest(same) == taxonomy_digest(dataset.taxonomy)
    assert taxonomy_digest(other) != taxonomy_digest(dataset.taxonomy)


@pytest.mark.parametrize("words", [["n1", "n2", "n3"], ["crane", "egret", "heron"]], ids=["ids", "names"])
def test_classes_by_id_or_by_name(tmp_path: Path, words: list[str]) -> None:
    table = ClassTable(("n1", "n2", "n3"), ("crane", "egret", "heron"))
    path = write(tmp_path, "".join(f"birds\t{word}\n" for word in reversed(words)), "t.tsv")
    assert read_taxonomy_for(path, table, WHERE).leaf_of_class.tolist() == [3, 2, 1]


def test_numbers_as_classes(tmp_path: Path) -> None:
    table = ClassTable(("0", "1", "2"), ("0", "1", "2"))
    found = read_taxonomy_for(write(tmp_path, {"r": {"a": [2, 0], "1": None}}), table, WHERE)
    assert [found.names[leaf] for leaf in found.leaf_of_class] == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("error", "content", "words"),
    [
        ("TaxonomyFormat", "{", ("t.json",)),
        ("TaxonomyFormat", {"r": [1.5]}, ("t.json", "1.5")),
        ("TaxonomyMissingClass", {"r": NAMES[:3]}, ("t.json", "'dog'", "the dataset")),
        ("TaxonomyUnknownClass", {"r": [*NAMES, "elk"]}, ("t.json", "'elk'")),
        ("TaxonomyInnerLabel", {"r": {"ant": ["bee", "cat", "dog"]}}, ("t.json", "'ant'")),
        ("TaxonomyMultiParent", {"r": {"a": NAMES, "b": ["ant"]}}, ("t.json", "'ant'")),
        ("TaxonomyRoots", {"edges_child_parent": [["ant", "r"], ["bee", "r"], ["cat", "s"], ["dog", "s"]]}, ("'s'",)),
        ("TaxonomyCycle", {"edges_child_parent": [["a", "b"], ["b", "a"], *([name, "a"] for name in NAMES)]}, ("'b'",)),
    ],
)
def test_what_does_not_fit_is_refused_by_file_and_place(
    dataset: Dataset, tmp_path: Path, error: str, content: Any, words: tuple[str, ...]
) -> None:
    with pytest.raises(getattr(errors, error)) as caught:
        taxonomy_for(write(tmp_path, content), dataset, WHERE)
    assert all(word in str(caught.value) for word in (*words, f", for {WHERE}"))
    assert caught.value.hint
    assert (caught.value.exit_code, isinstance(caught.value, InputError)) == (3, True)


def test_files_that_are_not_there(dataset: Dataset, tmp_path: Path) -> None:
    for path in (tmp_path / "none.tsv", Path(dataset.path)):
        with pytest.raises(errors.TaxonomyFormat) as caught:
            taxonomy_for(path, dataset, WHERE)
        assert str(path) in caught.value.where
        assert WHERE in caught.value.where


def test_several_parents_by_a_rule(dataset: Dataset, tmp_path: Path) -> None:
    edges = [["a", "r"], ["b", "a"], *([name, "b"] for name in NAMES), ["ant", "r"]]
    path = write(tmp_path, {"edges_child_parent": edges})
    with pytest.raises(errors.TaxonomyMultiParent) as caught:
        taxonomy_for(path, dataset, WHERE)
    assert "keep one parent of each node in this file" in caught.value.hint
    levels = {}
    for rule in ("first", "shortest", "longest"):
        found = read_taxonomy_for(path, dataset.classes, WHERE, rule)
        levels[rule] = int(found.level[found.leaf_of_class[0]])
    assert levels == {"first": 3, "shortest": 1, "longest": 3}
    with pytest.raises(ParamError):
        taxonomy_for(path, dataset, WHERE, "any")


# ---- trees of odd shapes through hierarchical hashing and its error ----------------------------------------------


def tree_of(nested: dict[str, Any], classes: list[str], rule: str = "refuse") -> Taxonomy:
    return build_taxonomy(read_taxonomy(nested), read_classes(classes), rule)


DAG = {"edges_child_parent": [["a", "r"], ["b", "a"], ["0", "b"], ["0", "r"], ["1", "b"], ["2", "a"], ["2", "b"]]}
SHAPES = {
    "one level": tree_of({"r": ["0", "1", "2"]}, ["0", "1", "2"]),
    "a class under the root": tree_of({"r": {"0": None, "a": {"b": ["1", "2"]}}}, ["2", "0", "1"]),
    "a chain above all": tree_of({"r": {"a": {"b": ["0", "1"]}}}, ["0", "1"]),
    "chains down to classes": tree_of({"r": {"a": {"b": {"c": ["0"]}}, "d": {"e": ["1"]}, "2": None}}, ["0", "1", "2"]),
    "a node with one child": tree_of({"r": {"a": ["0"], "b": ["1", "2"]}}, ["0", "1", "2"]),
    "every depth": tree_of({"r": {"0": None, "a": {"1": None, "b": {"2": None, "c": ["3", "4"]}}}}, list("01234")),
    "a single class": tree_of({"r": ["0"]}, ["0"]),
    "graph, shortest": tree_of(DAG, ["0", "1", "2"], "shortest"),
    "graph, longest": tree_of(DAG, ["0", "1", "2"], "longest"),
}


@pytest.mark.usefixtures("lookups")
@pytest.mark.parametrize("m", [3, 16])
@pytest.mark.parametrize("name", SHAPES)
def test_scores_and_gradient_equal_psi_written_out(name: str, m: int) -> None:
    """Psi without the root's block, which cancels between classes."""
    tree, rng = SHAPES[name], np.random.default_rng(m)
    values = sparse_values(m, n_rows=5, n_features=7)
    paths = [naive.path(tree.parent.tolist(), int(leaf), tree.n_levels) for leaf in tree.leaf_of_class]
    written = np.array([[naive.psi(row, path, m)[1:].ravel() for path in paths] for row in values])
    scorer = HashedScorer.hierarchical(tree, m, 7)
    parameters = {"table": rng.standard_normal((scorer.n_tables, m))}
    residuals = rng.standard_normal((5, tree.n_classes))
    expected = parameters["table"].ravel() - 0.5 * np.einsum("ic,icf->f", residuals, written)
    for rows in (Dense(values), csr_of(values)):
        scores = scorer.scores(parameters, rows)
        np.testing.assert_allclose(scores, written @ parameters["table"].ravel(), atol=1e-12)
        after = {"table": parameters["table"].copy()}
        scorer.subtract(after, rows, residuals, 0.5)
        np.testing.assert_allclose(after["table"].ravel(), expected, atol=1e-12)


@pytest.mark.parametrize("name", SHAPES)
def test_one_table_for_all_levels_takes_each_node_once(name: str) -> None:
    tree, m = SHAPES[name], 5
    values = sparse_values(1, n_rows=4, n_features=7)
    paths = [naive_taxonomy.ancestors(tree.parent.tolist(), leaf)[:-1] for leaf in tree.leaf_of_class.tolist()]
    written = np.array([[sum(naive.phi(row, node, m) for node in path) for path in paths] for row in values])
    scorer = HashedScorer.shared(tree, m, 7)
    table = np.random.default_rng(0).standard_normal((1, m))
    scores = scorer.scores({"table": table}, csr_of(values))
    np.testing.assert_allclose(scores, written @ table[0] / np.sqrt(tree.n_levels), atol=1e-12)


@pytest.mark.parametrize("name", SHAPES)
def test_heights_of_common_ancestors(name: str) -> None:
    tree = SHAPES[name]
    parent, leaves = tree.parent.tolist(), tree.leaf_of_class.tolist()
    first, second = (grid.ravel() for grid in np.meshgrid(range(tree.n_classes), range(tree.n_classes)))
    expected = [
        naive_taxonomy.height(parent, naive_taxonomy.lca(parent, leaves[a], leaves[b]))
        for a, b in zip(first, second, strict=True)
    ]
    assert tree.lca_heights(first, second).tolist() == expected
