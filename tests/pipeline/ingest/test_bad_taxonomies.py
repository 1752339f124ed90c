"""Taxonomies that are no tree over the classes: which rule is broken, where, by which node."""

from __future__ import annotations

import json

import pytest

from pipeline.ingest import errors
from tests.pipeline.ingest.samples import text

TABLE = ["cat", "dog", "oak"]


def tree(*lines: str) -> str:
    return text("t.tsv", "".join(f"{line}\n" for line in lines))


def test_a_cycle_is_printed(assert_refused):
    path = tree("root\tplant", "plant\toak", "a\tb", "b\tc", "c\ta", "c\tcat", "a\tdog")
    error = assert_refused(errors.TaxonomyCycle, "t.tsv", taxonomy=path, classes=TABLE)
    cycle = error.what.split(": ")[1].split(" -> ")
    assert cycle[0] == cycle[-1]
    assert sorted(cycle[1:]) == ["'a'", "'b'", "'c'"]
    order = "abcab"
    assert "".join(name.strip("'") for name in cycle[:2]) in order
    assert_refused(errors.TaxonomyCycle, "'a' -> 'a'", taxonomy=tree("a\ta"), classes=TABLE)


@pytest.mark.parametrize(
    ("error", "lines", "words"),
    [
        ("TaxonomyRoots", ["a\tcat", "a\tdog", "b\toak"], ("2 nodes", "'a'", "'b'")),
        ("TaxonomyMultiParent", ["r\ta", "r\tb", "a\tcat", "b\tcat", "b\tdog", "a\toak"], ("'cat'", "'a'", "'b'")),
        ("TaxonomyUnknownClass", ["r\tcat", "r\tdog", "r\toak", "r\telm", "r\tyew"], ("2 childless", "'elm', 'yew'")),
        ("TaxonomyMissingClass", ["r\tcat", "r\tdog"], ("1 of 3", "'oak'")),
        ("TaxonomyInnerLabel", ["r\tcat", "r\tdog", "dog\tpug", "r\toak"], ("'dog'", "'pug'")),
        ("TaxonomyFormat", ["r\tcat", "dog"], ("line 2",)),
        ("TaxonomyFormat", ["r\tcat", "r\t"], ("line 2",)),
        ("TaxonomyFormat", [], ("no nodes",)),
    ],
)
def test_taxonomies_that_do_not_fit(assert_refused, error, lines, words):
    assert_refused(getattr(errors, error), "t.tsv", *words, taxonomy=tree(*lines), classes=TABLE)


NODES = [{"id": "r", "parent": None}, {"id": "a", "parent": "r"}, *({"id": n, "parent": "a"} for n in "xyz")]


@pytest.mark.parametrize(
    ("error", "change", "words"),
    [
        ("TaxonomyMissingClass", {"leaves": ["x", "y"]}, ("2 leaves", "3 classes")),
        ("TaxonomyUnknownClass", {"leaves": ["x", "y", "z", "x"]}, ("4 leaves", "3 classes")),
        ("TaxonomyUnknownClass", {"leaves": ["x", "y", "q"]}, ("'q'", "leaf 2")),
        ("TaxonomyUnknownClass", {"leaves": ["x", "y", "y"]}, ("classes 1 and 2", "'y'")),
        ("TaxonomyInnerLabel", {"leaves": ["x", "y", "a"]}, ("'oak'", "inner node")),
        ("TaxonomyUnknownClass", {"nodes": [*NODES, {"id": "w", "parent": "nobody"}]}, ("'nobody'", "node 5")),
        ("TaxonomyMultiParent", {"nodes": [*NODES, {"id": "x", "parent": "r"}]}, ("'x'", "twice")),
        ("TaxonomyRoots", {"nodes": [*NODES, {"id": "w"}], "leaves": ["x", "y", "z"]}, ("'r'", "'w'")),
        ("TaxonomyCycle", {"nodes": [{"id": "p", "parent": "q"}, {"id": "q", "parent": "p"}, *NODES]}, ("'p'", "'q'")),
        ("TaxonomyFormat", {"nodes": [*NODES, {"name": "w"}]}, ("node 5",)),
        ("TaxonomyFormat", {"nodes": 3}, ("node 0",)),
        ("TaxonomyFormat", {"leaves": 3}, ("leaves",)),
        ("TaxonomyFormat", {"leaves": [1.5]}, ("1.5",)),
    ],
)
def test_node_lists_that_do_not_fit(assert_refused, error, change, words):
    content = {"nodes": NODES, "leaves": ["x", "y", "z"]} | change
    assert_refused(
        getattr(errors, error), "t.json", *words, taxonomy=text("t.json", json.dumps(content)), classes=TABLE
    )


@pytest.mark.parametrize("content", ["{", "[]", "3", '{"r": 1.5}', '{"r": {"name": []}}', '{"a": ' * 100_000])
def test_taxonomy_json_that_cannot_be_read(assert_refused, content):
    assert_refused(errors.TaxonomyFormat, "t.json", taxonomy=text("t.json", content), classes=TABLE)


def test_a_class_at_two_places_of_nested_json(assert_refused):
    taxonomy = {"r": {"a": ["cat", "dog"], "b": ["oak", "cat"]}}
    assert_refused(errors.TaxonomyMultiParent, "'cat'", "'a', 'b'", taxonomy=taxonomy, classes=TABLE)


def test_names_that_cannot_tell_classes_apart_in_a_taxonomy(assert_refused):
    path = tree("r\tcrane", "r\toak")
    assert_refused(errors.DuplicateClassName, "'crane'", taxonomy=path, classes=["crane", "oak", "crane"])
