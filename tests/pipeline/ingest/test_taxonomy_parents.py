"""Taxonomies whose nodes have several parents: refused with the choice offered, or made a tree by a stated rule."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pipeline.dataset import Dataset
from pipeline.ingest import errors, ingest
from pipeline.ingest.class_table import read_classes
from pipeline.ingest.taxonomy_file import read_taxonomy
from pipeline.ingest.taxonomy_tree import build_taxonomy, taxonomy_and_notes
from tasks.errors import ParamError
from tasks.taxonomy import Taxonomy
from tests.pipeline.cli_caller import assert_refused, succeeds
from tests.shared import shared_path

RULES = ("first", "shortest", "longest")
Graph = dict[str, list[str]]  # the parents of each node, in the order of the file; none of a root

# a diamond with a long and a short way down to cat and to oak; the long one is named first for cat, last for oak
DIAMOND: Graph = {
    "r": [], "a": ["r"], "b": ["a"], "c": ["r"],
    "cat": ["b", "c"], "oak": ["c", "b"], "dog": ["b"], "elm": ["c"],
}  # fmt: skip
CLASSES = ["cat", "dog", "oak", "elm"]


def edges(graph: Graph) -> dict[str, Any]:
    return {"edges_child_parent": [[child, parent] for child, above in graph.items() for parent in above]}


def as_nodes(graph: Graph) -> dict[str, Any]:
    return {"nodes": [{"id": key, "parent": above or None} for key, above in graph.items()]}


def as_lines(graph: Graph) -> str:
    return "".join(f"{parent}\t{child}\n" for child, above in graph.items() for parent in above)


def built(graph: Graph, classes: Sequence[str], rule: str) -> Taxonomy:
    return build_taxonomy(read_taxonomy(edges(graph)), read_classes(list(classes)), rule)


def parents_of(tree: Taxonomy) -> dict[str, str | None]:
    return {name: tree.names[p] if p >= 0 else None for name, p in zip(tree.names, tree.parent, strict=True)}


def leaves_of(tree: Taxonomy) -> list[str]:
    return [tree.names[leaf] for leaf in tree.leaf_of_class]


# ---- the rules ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rule", "cat", "oak"), [("first", "b", "c"), ("shortest", "c", "c"), ("longest", "b", "b")])
def test_each_rule_keeps_its_parent(rule: str, cat: str, oak: str) -> None:
    tree = built(DIAMOND, CLASSES, rule)
    found = parents_of(tree)
    assert (found["cat"], found["oak"], found["dog"], found["elm"]) == (cat, oak, "b", "c")
    assert leaves_of(tree) == CLASSES


@pytest.mark.parametrize("rule", RULES)
def test_equally_long_paths_go_by_the_order_of_the_file(rule: str) -> None:
    for above in (["a", "b"], ["b", "a"]):
        tree = built({"r": [], "a": ["r"], "b": ["r"], "x": ["a"], "y": ["b"], "cat": above}, ["cat", "x", "y"], rule)
        assert parents_of(tree)["cat"] == above[0]


def root_paths(graph: Graph, node: str) -> list[list[str]]:
    """Every path from a root down to the node."""
    if not graph[node]:
        return [[node]]
    return [[*path, node] for parent in graph[node] for path in root_paths(graph, parent)]


def kept_by_definition(graph: Graph, node: str, rule: str) -> str | None:
    """The parent whose own paths from the root are the shortest (longest), the first of them."""
    extreme = {"shortest": min, "longest": max}.get(rule)
    if not graph[node] or extreme is None:
        return graph[node][0] if graph[node] else None
    lengths = [extreme(len(path) for path in root_paths(graph, parent)) for parent in graph[node]]
    return graph[node][lengths.index(extreme(lengths))]


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Graph, list[str]]:
    """A graph with one root, and some of its childless nodes as classes."""
    n_nodes = draw(st.integers(3, 11))
    above = [
        draw(st.lists(st.integers(0, node - 1), min_size=1, max_size=3, unique=True)) if node else []
        for node in range(n_nodes)
    ]
    childless = [node for node in range(n_nodes) if not any(node in listed for listed in above)]
    classes = draw(st.lists(st.sampled_from(childless), min_size=1, unique=True))
    return {f"n{node}": [f"n{p}" for p in listed] for node, listed in enumerate(above)}, [f"n{c}" for c in classes]


@given(drawn=graphs(), rule=st.sampled_from(RULES))
def test_rules_equal_their_definition_over_all_paths(drawn: tuple[Graph, list[str]], rule: str) -> None:
    graph, classes = drawn
    expected: dict[str, str | None] = {}
    for node in classes:  # the kept parents, upwards from the classes: whatever is not met is left out
        walk: str | None = node
        while walk is not None and walk not in expected:
            expected[walk] = kept_by_definition(graph, walk, rule)
            walk = expected[walk]
    tree = built(graph, classes, rule)
    assert parents_of(tree) == expected
    assert leaves_of(tree) == classes
    for node in classes:
        lengths = {len(path) for path in root_paths(graph, node)}
        level = int(tree.level[tree.names.index(node)])
        assert {"shortest": level + 1 == min(lengths), "longest": level + 1 == max(lengths)}.get(rule, True)


@given(drawn=graphs(), rule=st.sampled_from(RULES))
def test_every_form_gives_the_same_parents(
    drawn: tuple[Graph, list[str]], rule: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    graph, classes = drawn
    assume(sum(map(len, graph.values())) > 1)
    folder, table = tmp_path_factory.mktemp("forms"), read_classes(classes)
    (folder / "t.tsv").write_text(as_lines(graph))
    (folder / "edges.json").write_text(json.dumps(edges(graph)))
    (folder / "nodes.json").write_text(json.dumps(as_nodes(graph)))
    expected = parents_of(built(graph, classes, rule))
    for name in ("t.tsv", "edges.json", "nodes.json"):
        assert parents_of(build_taxonomy(read_taxonomy(folder / name), table, rule)) == expected, name


def test_a_class_at_several_places_of_nested_json() -> None:
    nested = {"r": {"a": {"b": ["cat", "dog"]}, "c": ["cat", "oak"]}}
    for rule, parent in (("first", "b"), ("shortest", "c"), ("longest", "b")):
        tree = build_taxonomy(read_taxonomy(nested), read_classes(["cat", "dog", "oak"]), rule)
        assert (parents_of(tree)["cat"], tree.names.count("cat")) == (parent, 1)


def test_a_tree_stays_as_it_is_under_every_rule() -> None:
    nested = {"r": {"a": {"b": ["cat", "dog"]}, "c": {"oak": None}}}
    table = read_classes(["oak", "cat", "dog"])
    plain = build_taxonomy(read_taxonomy(nested), table)
    for rule in RULES:
        tree, notes = taxonomy_and_notes(read_taxonomy(nested), table, rule)
        assert (tree.names, tree.parent.tolist()) == (plain.names, plain.parent.tolist())
        assert [note.text for note in notes] == ["no node of taxonomy has several parents"]


# ---- what is left out, what is refused ---------------------------------------------------------------------------


def test_nodes_above_no_class_are_left_out_and_named() -> None:
    graph = DIAMOND | {"idle": ["c"], "rye": ["idle"], "other root": [], "moss": ["other root"]}
    tree, notes = taxonomy_and_notes(read_taxonomy(edges(graph)), read_classes(CLASSES), "first")
    assert parents_of(tree) == parents_of(built(DIAMOND, CLASSES, "first"))
    assert [note.code for note in notes] == ["SeveralParents", "NodesLeftOut"]
    assert "2 of 12 nodes" in notes[0].text
    assert "the parent named first (--several-parents first)" in notes[0].text
    assert "4 nodes" in notes[1].text
    assert all(repr(name) in notes[1].text for name in ("idle", "rye", "other root", "moss"))


def test_a_class_above_other_nodes_is_a_leaf_when_none_of_them_is_a_class() -> None:
    graph = DIAMOND | {"pug": ["dog", "cat"]}
    assert leaves_of(built(graph, CLASSES, "shortest")) == CLASSES
    with pytest.raises(errors.TaxonomyInnerLabel, match="'dog' is an inner node, above 'pug'"):
        built(graph, [*CLASSES, "pug"], "first")


def test_two_roots_above_classes_are_refused() -> None:
    graph = DIAMOND | {"s": [], "moss": ["s", "c"]}
    with pytest.raises(errors.TaxonomyRoots, match="'r', 's'"):
        built(graph, [*CLASSES, "moss"], "first")
    assert leaves_of(built(graph, [*CLASSES, "moss"], "longest"))[-1] == "moss"


@pytest.mark.parametrize("rule", ["refuse", *RULES])
def test_a_cycle_is_refused_also_where_the_rule_would_not_follow_it(rule: str) -> None:
    graph = {"r": [], "a": ["r", "b"], "b": ["a"], "cat": ["a"], "dog": ["b"]}
    with pytest.raises(errors.TaxonomyCycle) as caught:
        built(graph, ["cat", "dog"], rule)
    around = caught.value.what.split(": ")[1]
    assert around in ("'a' -> 'b' -> 'a'", "'b' -> 'a' -> 'b'")


def test_by_default_several_parents_are_refused_and_the_choice_is_offered() -> None:
    with pytest.raises(errors.TaxonomyMultiParent, match="'cat' stands under 'b' and under 'c', and 1 more") as caught:
        built(DIAMOND, CLASSES, "refuse")
    assert all(word in caught.value.hint for word in ("--several-parents", *RULES))
    nested = {"r": {"a": ["cat", "dog"], "c": ["cat", "oak"]}}
    with pytest.raises(errors.TaxonomyMultiParent) as caught:
        build_taxonomy(read_taxonomy(nested), read_classes(["cat", "dog", "oak"]))
    assert "--several-parents" in caught.value.hint


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"edges_child_parent": [["cat", "r"], ["dog"]]}, "edge 1"),
        ({"edges_child_parent": [["cat", "r"], {"dog": "r"}]}, "edge 1"),
        ({"edges_child_parent": [["cat", 1.5]]}, "1.5"),
        ({"edges_child_parent": []}, "no nodes"),
        ({"names": ["cat"]}, "names"),
        ({"names": {"cat": None}}, "'cat'"),
        ({"leaves": 3}, "leaves"),
    ],
)
def test_edges_that_cannot_be_read(change: dict[str, Any], words: str) -> None:
    content = {"edges_child_parent": [["cat", "r"], ["dog", "r"]]} | change
    with pytest.raises(errors.TaxonomyFormat, match=words):
        build_taxonomy(read_taxonomy(content), read_classes(["cat", "dog"]))


def test_names_and_leaves_of_edges() -> None:
    content = edges({"r": [], "n2": ["r"], "n1": ["r"]}) | {"names": {"n1": "crane", "n2": "egret", "r": "bird"}}
    tree = build_taxonomy(read_taxonomy(content), read_classes([{"id": "n1"}, {"id": "n2"}]))
    assert (tree.names, tree.leaf_of_class.tolist()) == (("bird", "egret", "crane"), [2, 1])
    by_name = build_taxonomy(read_taxonomy(content), read_classes(["egret", "crane"]))
    assert by_name.leaf_of_class.tolist() == [1, 2]
    listed = build_taxonomy(read_taxonomy(content | {"leaves": ["n1", "n2"]}), read_classes(["any", "word"]))
    assert listed.leaf_of_class.tolist() == [2, 1]
    with pytest.raises(errors.TaxonomyUnknownClass, match="'n9'"):
        read_taxonomy(content | {"leaves": ["n1", "n9"]})


def test_the_edges_in_the_guide_are_read() -> None:
    guide = (Path(__file__).resolve().parents[3] / "GUIDE.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"`(\{\"edges_child_parent\".*?\})`", guide)
    nodes = read_taxonomy(json.loads(text))
    assert (nodes.keys, nodes.names) == (["trees", "oak", "timber"], ["trees", "Quercus", "timber"])
    assert nodes.parents == [[], [0, 2], []]


# ---- the command -------------------------------------------------------------------------------------------------


def test_the_command_line_takes_the_rule_and_says_what_it_did(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(json.dumps(edges(DIAMOND)))
    (tmp_path / "y.txt").write_text("\n".join(CLASSES * 3))
    np.save(tmp_path / "x.npy", np.arange(24, dtype=np.float32).reshape(12, 2))
    made = ("ingest", tmp_path / "x.npy", tmp_path / "d.zarr", "--labels", tmp_path / "y.txt", "--test", "0")
    by = (*made, "--taxonomy", tmp_path / "t.json")
    assert_refused(tmp_path, 3, "TaxonomyMultiParent", "--several-parents first, shortest or longest", by=by)
    assert_refused(tmp_path, 2, "ParamError", "'first'", "a taxonomy", by=(*made, "--several-parents", "first"))
    assert_refused(tmp_path, 2, "ParamError", "'nearest'", by=(*by, "--several-parents", "nearest"))
    said = succeeds(*by, "--several-parents", "longest").err
    assert "SeveralParents: 2 of 8 nodes of t.json" in said
    dataset = Dataset.open(tmp_path / "d.zarr")
    assert dataset.taxonomy is not None
    assert parents_of(dataset.taxonomy) == parents_of(built(DIAMOND, CLASSES, "longest"))
    assert [note.code for note in dataset.notes if note.code == "SeveralParents"]


def test_a_rule_without_a_taxonomy_or_of_another_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ParamError, match="a taxonomy beside it"):
        ingest(np.eye(4), tmp_path / "d", labels=[0, 1, 0, 1], several_parents="first")
    with pytest.raises(ParamError, match="refuse, first, shortest or longest"):
        built(DIAMOND, CLASSES, "any")


# ---- WordNet -----------------------------------------------------------------------------------------------------


def depths_by_rounds(above: Graph, rule: str) -> dict[str, int]:
    """Depth of every node, by relaxing all edges until nothing changes."""
    depth = dict.fromkeys(above, 0) if rule == "longest" else {node: 0 if not above[node] else 10**6 for node in above}
    extreme = max if rule == "longest" else min
    while True:
        after = {node: extreme(depth[p] + 1 for p in above[node]) if above[node] else 0 for node in above}
        if after == depth:
            return depth
        depth = after


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", ["tinyimagenet-effnet", "ilsvrc1000-taxonomy"])
def test_real_graphs(name: str, rule: str) -> None:
    folder = shared_path(f"data/{name}")
    content = json.loads((folder / "hypernym_dag.json").read_text())
    synsets = json.loads((folder / "class_synsets.json").read_text())
    called = json.loads((folder / "classes.json").read_text())
    above: Graph = {}
    for child, parent in content["edges_child_parent"]:
        above.setdefault(parent, [])
        above.setdefault(child, []).append(parent)
    nodes = read_taxonomy(folder / "hypernym_dag.json")
    assert sorted(nodes.keys) == sorted(above)
    table = read_classes([{"id": synset, "name": words} for synset, words in zip(synsets, called, strict=True)])
    nodes.names = list(nodes.keys)  # so that the tree below speaks of ids
    tree, notes = taxonomy_and_notes(nodes, table, rule)
    assert leaves_of(tree) == synsets
    several = sum(len(listed) > 1 for listed in above.values())
    assert f"{several} of {len(above):,} nodes" in notes[0].text
    assert f"{len(above) - tree.n_nodes} nodes" in notes[1].text
    depth = None if rule == "first" else depths_by_rounds(above, rule)
    for node, parent in parents_of(tree).items():
        assert parent in above[node] if parent is not None else not above[node]
        if depth is None:
            assert parent == (above[node][0] if above[node] else None)
        else:
            assert tree.level[tree.names.index(node)] == depth[node]
    by_list = build_taxonomy(
        read_taxonomy(folder / "hypernym_dag.json"), read_classes(folder / "class_synsets.json"), rule
    )
    assert by_list.parent.tolist() == tree.parent.tolist()
    assert {by_list.names[leaf] for leaf in by_list.leaf_of_class} == {content["names"][synset] for synset in synsets}
