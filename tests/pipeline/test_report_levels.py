"""The first levels of a relaxed hierarchy on the page, and how its nodes' objectives fall."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.report.page import write_report
from pipeline.report.relaxed_descent import descent_plot, remaining, rises_of
from pipeline.report.relaxed_levels import (
    LETTERS,
    MOST_NAMES,
    Node,
    classes_of,
    levels_csv,
    levels_of,
    shown_members,
    some_of,
)
from pipeline.report.relaxed_members import Member, relaxed_members
from pipeline.report.summary import RunSummary
from pipeline.report.trees_order import ClassOrder
from tests.pipeline.figures import table, texts
from tests.pipeline.relaxed_runs import Model, grown, leaf_record, model, run_of, split_record, three_levels
from tests.pipeline.test_report import Page

NAMES = ("ant", "bee", "cat", "dog", "elk", "fox")


def run_with(*records: list[dict[str, object]], family: str = "relaxed-hierarchy", n_classes: int = 6) -> RunSummary:
    """One hierarchy for each list of records."""
    models: dict[str, Model] = {
        f"h{i}": model(family, 0.8, 0.2, n_classes=n_classes, records=one) for i, one in enumerate(records)
    }
    return run_of(models, n_classes, class_names=NAMES)


def root_of(run: RunSummary) -> Node:
    (found,) = levels_of(run, relaxed_members(run))
    return found.root


def outline(node: Node) -> tuple[str, str, dict[str, list[str]], list[Any]]:
    """(side, head up to the first comma, {mark: names}, children)."""
    groups = {group.mark: list(group.names) for group in node.groups}
    return (node.side, node.head.split(",")[0], groups, [outline(child) for child in node.children])


# ---- Figure 6 ------------------------------------------------------------------------------------------------------


def test_children_stand_inside_their_parents_with_colors_and_names() -> None:
    leaf = ("\N{MINUS SIGN}", "one-vs-all leaf", {"\N{WHITE CIRCLE}": ["ant", "bee", "cat", "dog"]}, [])
    last = ("+", "3 classes", {"+": ["cat", "fox"], "\N{MINUS SIGN}": ["dog"]})
    below = ("+", "leaf: elk", {}, [])
    assert outline(root_of(run_with(three_levels()))) == (
        "",
        "6 classes",
        {"+": ["elk", "fox"], "\N{MINUS SIGN}": ["ant", "bee"], "\N{WHITE CIRCLE}": ["cat", "dog"]},
        [
            (
                "+",
                "4 classes",
                {"+": ["elk"], "\N{MINUS SIGN}": ["cat", "dog", "fox"]},
                [
                    below,
                    (
                        "\N{MINUS SIGN}",
                        last[1],
                        last[2],
                        [
                            ("+", "2 classes", {}, []),
                            ("\N{MINUS SIGN}", "leaf: dog", {}, []),
                        ],
                    ),
                ],
            ),
            leaf,
        ],
    )


def test_a_head_says_what_a_node_is() -> None:
    root = root_of(run_with(three_levels()))
    assert root.head == "6 classes, 60 rows, 42 support vectors, 30 initialisations tried"
    assert root.children[1].head == "one-vs-all leaf, 4 classes, 40 rows"
    assert (root.opened, root.children[0].opened) == (True, False)


def test_a_root_that_could_not_be_split_is_a_leaf() -> None:
    assert outline(root_of(run_with([leaf_record(0, [0, 1])]))) == (
        "",
        "one-vs-all leaf",
        {"\N{WHITE CIRCLE}": ["ant", "bee"]},
        [],
    )


def test_a_node_of_two_parents_stands_below_both_and_no_deeper_than_others() -> None:
    root = split_record(0, [3, 4], [0], [1, 2])
    first, second = split_record(1, [3], [4], [1, 2]), split_record(1, [0], [1, 2], [])
    shared, other = split_record(2, [1], [2], []), split_record(2, [3], [1, 2], [])
    run = run_with([root, first, second, other, split_record(2, [4], [1, 2], []), shared])
    minus, lone = "\N{MINUS SIGN}", ("+", "leaf: ant", {}, [])
    below = [("+", "leaf: bee", {}, []), (minus, "leaf: cat", {}, [])]
    told = outline(root_of(run))
    assert told[3][1] == (
        minus,
        "3 classes",
        {"+": ["ant"], minus: ["bee", "cat"]},
        [lone, (minus, "2 classes", {"+": ["bee"], minus: ["cat"]}, below)],
    )
    # below other nodes of depth 2 it is met again, where its children would be a fourth level
    deeper = root_of(run).children[0].children
    assert [child.children[1].head for child in deeper] == 2 * ["2 classes, not told further"]


@pytest.mark.parametrize("seed", range(5))
def test_every_node_of_a_grown_hierarchy_is_found_below_its_parent(seed: int) -> None:
    records = grown(60, seed)
    run = run_of({"h": model("relaxed-hierarchy", 0.8, 0.2, n_classes=60, records=records)}, 60)

    def heads(node: Node) -> list[str]:
        told = [node.head] if node.groups else []
        return told + [head for child in node.children for head in heads(child)]

    def expected(record: dict[str, object]) -> str:
        leaf = "one-vs-all leaf, " if record["kind"] == "one-vs-all" else ""
        return f"{leaf}{len(classes_of(record))} classes"

    found = [head.split(" classes")[0] + " classes" for head in heads(root_of(run))]
    assert sorted(found) == sorted(expected(record) for record in records)


def test_of_many_classes_some_are_named_and_the_rest_is_counted() -> None:
    names = [f"{i:02d} " + "x" * 60 for i in range(60)]
    record = split_record(0, range(40), range(40, 60), [])
    run = run_of({"h": model("relaxed-hierarchy", 0.8, 0.2, n_classes=60, records=[record])}, 60, class_names=names)
    plus, minus = root_of(run).groups
    assert (plus.count, len(plus.names), plus.more) == (40, MOST_NAMES, 40 - MOST_NAMES)
    assert (plus.names[0][:2], plus.names[-1][:2], minus.names[0][:2]) == ("00", "39", "40")
    assert {len(name) for name in plus.names} == {LETTERS}


@pytest.mark.parametrize("n", [0, 1, 11, 12, 13, 25, 500])
def test_names_are_taken_evenly(n: int) -> None:
    found = some_of(list(range(n)))
    assert len(found) == min(n, MOST_NAMES) == len(set(found))
    if n > MOST_NAMES:
        assert (found[0], found[-1]) == (0, n - 1)
        steps = np.diff(found)
        assert steps.max() - steps.min() <= 1


def test_classes_stand_in_the_taxonomys_order() -> None:
    run = run_of(
        {"h": model("relaxed-hierarchy", 0.8, 0.2, n_classes=6, records=three_levels())},
        6,
        class_names=NAMES,
        class_order=ClassOrder(np.array([5, 4, 3, 2, 1, 0])),
    )
    assert [list(group.names) for group in root_of(run).groups] == [["fox", "elk"], ["bee", "ant"], ["dog", "cat"]]


def test_the_first_of_every_kernel_is_shown_and_rivals_where_nobody_else_is() -> None:
    def shown(*told: tuple[str, str, bool]) -> list[str]:
        models = {
            f"{family}-{kernel}-{i}": model(family, 0.8, 0.2, kernel=kernel, records=three_levels() if has else [])
            for i, (family, kernel, has) in enumerate(told)
        }
        return [one.name for one in shown_members(relaxed_members(run_of(models)))]

    own = [("relaxed-hierarchy", kernel, True) for kernel in ("linear", "linear", "rbf")]
    assert shown(*own) == ["relaxed-hierarchy-linear-0", "relaxed-hierarchy-rbf-2"]
    rival = ("spectral-tree", "linear", True)
    assert shown(rival, own[0]) == ["relaxed-hierarchy-linear-1"]
    assert shown(rival, ("relaxed-hierarchy", "linear", False)) == ["spectral-tree-linear-0"]


def test_the_csv_has_the_color_of_every_class_in_every_node() -> None:
    run = run_with(three_levels())
    text = levels_csv(run, relaxed_members(run))
    assert text is not None
    rows = list(csv.DictReader(io.StringIO(text)))
    root = {int(row["class"]): int(row["color"]) for row in rows if row["node"] == "0"}
    assert root == {0: -1, 1: -1, 2: 0, 3: 0, 4: 1, 5: 1}
    assert {row["kind"] for row in rows if row["node"] == "1"} == {"one-vs-all"}
    assert len(rows) == 6 + 4 + 4 + 3
    bare = run_with([])
    assert levels_csv(bare, relaxed_members(bare)) is None


def test_the_page_nests_what_can_be_unfolded(tmp_path: Path) -> None:
    write_report(tmp_path / "r.html", run_with(three_levels()))
    page = Page((tmp_path / "r.html").read_text("utf-8"))
    nodes = [attributes for tag, attributes in page.tags if tag == "details" and attributes.get("class") == "node"]
    assert ["open" in attributes for attributes in nodes] == [True, False, False, False]
    told = page.text[page.text.index("Which classes go where") :]
    places = [told.index(text) for text in ("positive, 2", "negative, 2", "ignored, in both children, 2", "leaf: elk")]
    assert places == sorted(places)


# ---- the objective -------------------------------------------------------------------------------------------------


def members(*records: dict[str, object]) -> list[Member]:
    return relaxed_members(run_with(list(records)))


def test_what_remains_of_the_fall_is_told_per_depth() -> None:
    falls = {"objective": [3.0, 2.0, -1.0], "steps": ["svm", "coloring", "svm"]}
    plot = descent_plot(members(*three_levels()[:3], split_record(1, [0], [1], [], **falls)))
    assert plot is not None
    assert {"depth 0 (1 node)", "depth 1 (2 nodes)"} <= set(texts(plot.svg))
    rows = table(plot)
    assert [(row["half_step"], row["step"], float(row["objective"])) for row in rows if row["node"] == "3"] == [
        ("0", "svm", 3.0),
        ("1", "coloring", 2.0),
        ("2", "svm", -1.0),
    ]
    assert {row["node"] for row in rows} == {"0", "2", "3"}  # leaves have no objective
    # of the falls 6, 2, 0.5, 0.5 twice and 1, 3, those with new colors are 6, 0.5 twice and 1
    assert f"No half step rises. {100 * 14 / 22:.0f} % of all falls came with new colors" in plot.caption


def test_shares_run_from_all_to_nothing() -> None:
    assert remaining([10.0, 4.0, 2.0]) == [1.0, 0.25, 0.0]
    assert remaining([-1.0, -3.0, -5.0]) == [1.0, 0.5, 0.0]
    assert remaining([2.0, 2.0]) == [0.0, 0.0]


def test_rises_are_told_and_rounding_is_none() -> None:
    assert rises_of([10.0, 5.0, 6.0, 1.0]) == [0.1]
    assert rises_of([10.0, 5.0, 5.0 + 1e-12, 1.0]) == []
    assert rises_of([0.0, 0.0]) == []
    rising = {"objective": [10.0, 5.0, 6.0], "steps": []}
    plot = descent_plot(members(split_record(0, [0], [1], [], **rising)))
    assert plot is not None
    assert plot.caption.endswith("1 half step rises, by 0.1 of the objective at most.")


def test_without_objectives_there_is_no_figure_of_them() -> None:
    assert descent_plot(members(leaf_record(0, [0, 1]))) is None
    assert descent_plot([]) is None
