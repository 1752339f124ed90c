"""What the page says of trees: its tables, the root's partition, ways of rows, accuracy against speed-up."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.config import RunConfig
from pipeline.report.page import write_report
from pipeline.report.summary import RunSummary
from pipeline.report.sweeps import beams_of
from pipeline.report.trees import tree_part
from pipeline.report.trees_curves import speedup_plot
from pipeline.report.trees_order import MOST_GROUPS, ClassOrder, Group, class_order
from pipeline.report.trees_partition import SHADES, held_matrix, matrix_of, partition_plots, partition_svg
from pipeline.report.trees_tables import TreeTable, share, tree_tables
from pipeline.report.trees_walks import walks_of
from pipeline.stages.tree_details import depths_of_metrics
from pipeline.stages.tree_walks import WRONG, Chosen, walk_record
from tasks.rows import Dense
from tasks.taxonomy import Taxonomy
from tasks.trees.tree import LabelTree, Split, assemble
from tests.pipeline.figures import table, texts
from tests.pipeline.test_report import EVIL, Page

NODES = [
    {"node": "0", "lp_value": 0.2, "value": 0.25, "bound": 0.3, "loss": 0.25, "ambiguity": 0.5, "given_up": [3]},
    {"node": "0.0", "lp_value": 0.1, "value": 0.1, "bound": 0.5, "loss": 0.1, "ambiguity": 0.4, "given_up": []},
    {"node": "0.1", "lp_value": 0.3, "value": 0.4, "bound": 0.4, "loss": 0.4, "ambiguity": 0.6, "given_up": []},
    {"node": "0.1.0", "loss": 0.0, "ambiguity": 0.5, "given_up": []},  # a full split has no partition to choose
]
DEPTHS = [
    {"depth": 0, "rows": 90, "survivors": 90, "lost": 9, "loss": 0.1, "ambiguity": 0.5, "survivors_ambiguity": 0.5},
    {"depth": 1, "rows": 90, "survivors": 81, "lost": 27, "loss": 1 / 3, "ambiguity": 0.25, "survivors_ambiguity": 0.3},
]
SIZES = {"nodes": 1, "leaves": 0, "empty": 0, "min_classes": 4, "max_classes": 4, "mean_classes": 4.0}
STEPS: list[dict[str, Any]] = [
    {"depth": 0, "node": "0", "classes": 4, "holds": True, "sample": [0, 1, 2]},
    {"depth": 1, "node": "0.1", "classes": 1, "holds": False, "sample": [2], "score": 0.5, "ahead": -0.25},
]
WALK = {"row": 17, "why": "lost at the root", "label": 1, "answer": 2, "steps": STEPS}
TREE: dict[str, Any] = {
    "by_depth": [{**one, "kept": kept} for one, kept in zip(DEPTHS, (0.9, 0.6), strict=True)],
    "judged": [{"depth": 0, "rows": 9, "loss": 0.2, "ambiguity": 0.4}],
    "sizes": [{"depth": 0, **SIZES, "overlap": 1.5, "given_up": 1}],
    "unreachable": [3],
    "nodes": NODES,
    "root": [[0, 1], [1, 2]],
    "walks": [WALK],
}
NUMBERS = {"top1": 0.6, "speedup": 4.0, "test_ops_per_row": 1.0, "train_ops_per_row": 12.0, "ambiguity_depth_0": 0.5}


def run_of(trees: dict[str, dict[str, Any]], **more: Any) -> RunSummary:
    """A run of one-vs-rest and trees; of each its kind, and its details if it has any."""
    kinds = {"ovr": "ovr", **{name: str(tree["kind"]) for name, tree in trees.items()}}
    models = {name: {**NUMBERS, **trees.get(name, {}).get("metrics", {})} for name in kinds}
    details = {name: {"tree": tree["tree"]} for name, tree in trees.items() if "tree" in tree}
    return RunSummary("r", models, 4, kinds, details=details, **({"class_names": ("a", "b", "c", "d")} | more))


def label_tree(**metrics: float) -> dict[str, Any]:
    return {"kind": "label-tree", "tree": TREE, "metrics": {"branching": 2.0, "depth": 3.0, **metrics}}


def tables_of(run: RunSummary) -> dict[str, TreeTable]:
    return {one.name: one for one in tree_tables(run)}


def lines(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


# ---- tables ------------------------------------------------------------------------------------------------------


def test_costs_are_those_of_every_tree_and_of_one_vs_rest() -> None:
    forest = {"kind": "kmeans-tree on pq", "metrics": {"trees": 3.0, "branching": 4.0, "depth": 2.0, "beam": 5.0}}
    found = tables_of(run_of({"t": label_tree(ovr_ops_per_row=80.0), "f": forest, "svm": {"kind": "tree-svm"}}))
    costs = found["trees-costs"].table
    shapes = [row[:3] for row in costs.rows]
    assert shapes[:2] == [("ovr", "ovr", "-"), ("t", "label-tree", "T(2, 3)")]
    assert shapes[2:] == [("f", "kmeans-tree", "3 x T(4, 2), beam 5"), ("svm", "tree-svm", "-")]
    before = costs.heading.index("one-vs-rest before")
    assert [row[before] for row in costs.rows] == ["-", "80", "-", "-"]
    assert "2 K = 8 a pass" in costs.note
    assert [float(row["train_ops_per_row"]) for row in lines(found["trees-costs"].csv)] == 4 * [12.0]
    assert {row["model"] for row in lines(found["trees-depths"].csv)} == {"t"}  # what is no single tree has no depths


def test_a_run_without_trees_has_no_part_on_them(tmp_path: Path) -> None:
    run = run_of({})
    assert not tree_part(run)
    assert speedup_plot(run) is None
    written = write_report(tmp_path / "report.html", run)
    assert "<h2>Trees</h2>" not in (tmp_path / "report.html").read_text("utf-8")
    assert not [path for path in written if path.name.startswith(("trees", "partition"))]


def test_loss_and_ambiguity_by_depth_beside_what_judged_the_tree() -> None:
    found = tables_of(run_of({"t": label_tree()}))["trees-depths"]
    assert found.table.rows == [
        ("t", "0", "90", "10.0 %", "50.0 %", "50.0 %", "90.0 %", "20.0 %", "40.0 %"),
        ("", "1", "90", "33.3 %", "25.0 %", "30.0 %", "60.0 %", "-", "-"),
    ]
    assert [row["lost"] for row in lines(found.csv)] == ["9", "27"]


def test_depths_of_older_evaluations_come_from_their_metrics() -> None:
    old = {"loss_depth_0": 0.5, "ambiguity_depth_0": 0.25, "loss_depth_1": 0.5, "ambiguity_depth_1": 0.125, "top1": 0.2}
    found = depths_of_metrics(old)
    assert [(one["loss"], one["ambiguity"], one["kept"]) for one in found] == [(0.5, 0.25, 0.5), (0.5, 0.125, 0.25)]
    run = run_of({"t": {"kind": "label-tree", "tree": {"by_depth": found}}})
    (row, _) = tables_of(run)["trees-depths"].table.rows
    assert row == ("t", "0", "-", "50.0 %", "25.0 %", "-", "50.0 %", "-", "-")


def test_bounds_are_told_by_depth_and_every_node_is_in_the_table() -> None:
    found = tables_of(run_of({"t": label_tree()}))["trees-nodes"]
    assert found.table.rows == [
        ("t", "loss", "0", "1", "20.0 %", "25.0 %", "30.0 %", "5.00 %", "10.0 %"),
        ("", "loss", "1", "2", "20.0 %", "25.0 %", "45.0 %", "10.0 %", "40.0 %"),
    ]
    assert [(row["node"], row["bound"], row["given_up"]) for row in lines(found.csv)] == [
        ("0", "0.3", "1"),
        ("0.0", "0.5", "0"),
        ("0.1", "0.4", "0"),
    ]
    capped = {"kind": "label-tree", "tree": {**TREE, "loss_cap": 0.1}}
    assert tables_of(run_of({"t": capped}))["trees-nodes"].table.rows[0][1] == "ambiguity"


def test_balance_tells_overlap_and_classes_that_are_never_answered() -> None:
    found = tables_of(run_of({"t": label_tree()}))["trees-sizes"].table
    assert found.rows == [("t", "0", "1", "0", "0", "4", "4.0", "4", "1.50", "1")]
    assert "never answered: t 1." in found.note
    fine = {"kind": "label-tree", "tree": {key: value for key, value in TREE.items() if key != "unreachable"}}
    assert "never" not in tables_of(run_of({"t": fine}))["trees-sizes"].table.note


def test_shares_have_three_digits_and_no_negative_zero() -> None:
    told = [share(value) for value in (0.5, 0.0649, 0.0155, -1e-16, 0.0, -0.01, 0.09951)]
    assert told == ["50.0 %", "6.49 %", "1.55 %", "0.00 %", "0.00 %", "-1.00 %", "10.0 %"]


# ---- the order of classes ------------------------------------------------------------------------------------------


def taxonomy(parents: list[int], leaf_of_class: list[int]) -> Taxonomy:
    return Taxonomy(np.array(parents), tuple(f"n{i}" for i in range(len(parents))), np.array(leaf_of_class))


def test_classes_stand_in_the_order_of_a_depth_first_walk() -> None:
    #      0 -> 1 2 3; 1 -> 4 5; 3 -> 6 7; 5 -> 8 9      leaves in this order: 4 8 9 2 6 7
    tree = taxonomy([-1, 0, 0, 0, 1, 1, 3, 3, 5, 5], [2, 4, 6, 7, 9, 8])
    order = class_order(tree, 6)
    assert order.classes.tolist() == [1, 5, 4, 0, 2, 3]
    assert order.places[order.classes].tolist() == list(range(6))
    # node 1 has half of the classes, node 3 a third: both are opened as long as something inside has two
    assert [(g.name, g.start, g.stop, g.n_classes) for g in order.groups] == [("n5", 1, 3, 2), ("n3", 4, 6, 2)]


def test_without_groups_classes_stand_by_number() -> None:
    for tree in (None, Taxonomy.flat(5)):
        order = class_order(tree, 5)
        assert (order.classes.tolist(), order.groups) == ([0, 1, 2, 3, 4], ())


@pytest.mark.parametrize("seed", range(6))
def test_groups_are_subtrees_that_share_no_class(seed: int) -> None:
    rng = np.random.default_rng(seed)
    parents = [-1, *sorted(int(rng.integers(0, max(1, i // 2))) for i in range(1, 400))]
    leaves = np.setdiff1d(np.arange(400), parents)
    level = [0]
    for parent in parents[1:]:
        level.append(level[parent] + 1)
    if np.any(np.diff(level) < 0):
        pytest.fail(f"seed {seed}: parents ascend, so levels do")
    tree = taxonomy(parents, rng.permutation(leaves).tolist())
    order = class_order(tree, leaves.size)
    assert sorted(order.classes.tolist()) == list(range(leaves.size))
    assert 0 < len(order.groups) <= MOST_GROUPS
    for group in order.groups:
        node = int(group.name[1:])
        below = {
            int(np.flatnonzero(tree.leaf_of_class == leaf)[0]) for leaf in leaves if node in ancestors(parents, leaf)
        }
        assert set(order.classes[group.start : group.stop].tolist()) == below
    for one, other in zip(order.groups, order.groups[1:], strict=False):
        assert one.stop <= other.start


def ancestors(parents: list[int], node: int) -> set[int]:
    return {int(node)} | (ancestors(parents, parents[node]) if node else set())


# ---- the partition as a picture ------------------------------------------------------------------------------------

RUN = re.compile(r"(?:M(\d+) (\d+)\.5|m(\d+) 0)h(\d+)")


def drawn(svg: str, shape: tuple[int, int]) -> np.ndarray:
    """The opacity of every cell of a picture, read off its paths."""
    cells = np.zeros(shape)
    for opacity, runs in re.findall(r'<path stroke-opacity="([\d.]+)" d="([^"]*)"', svg):
        assert RUN.sub("", runs) == ""
        row = end = 0
        for start, place, further, width in RUN.findall(runs):
            row, begin = (int(place), int(start)) if place else (row, end + int(further))
            end = begin + int(width)
            here = cells[row, begin:end]
            assert not here.any()  # nothing is drawn twice
            here[:] = float(opacity)
    return cells


@pytest.mark.parametrize("seed", range(5))
def test_every_cell_of_the_picture_is_an_entry_of_the_partition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    held = rng.random((5, 17)) < 0.4
    matrix = matrix_of(held)
    cells = drawn(partition_svg(matrix, (), 17), held.shape)
    np.testing.assert_array_equal(cells > 0, held[matrix.rows])
    assert set(np.unique(cells)) <= {0.0, 1.0}
    middles = [np.flatnonzero(held[row]).mean() for row in matrix.rows if held[row].any()]
    assert middles == sorted(middles)


def test_many_classes_share_columns_whose_shade_says_how_many_are_held() -> None:
    held = np.zeros((2, 10), bool)
    held[0, [0, 1, 2, 4, 8]] = True  # of columns of four classes: 3 of 4, 1 of 4, 1 of 2
    matrix = matrix_of(held, most=3)
    assert matrix.cells.tolist() == [[0.75, 0.25, 0.5], [0.0, 0.0, 0.0]]
    assert matrix.counts.tolist() == [5, 0]
    assert drawn(partition_svg(matrix, (), 10), (2, 3)).tolist() == [[SHADES[2], SHADES[0], SHADES[1]], [0, 0, 0]]


def test_ten_thousand_classes_take_little_of_the_page() -> None:
    rng = np.random.default_rng(0)
    held = rng.random((101, 10_000)) < 0.015
    assert len(partition_svg(matrix_of(held), (), 10_000)) < 150_000


def test_columns_follow_the_order_and_boxes_its_groups() -> None:
    order = ClassOrder(np.array([3, 1, 0, 2]), (Group(EVIL[0], 0, 2), Group("second", 2, 4)))
    assert held_matrix([[0, 1], [3]], order).tolist() == [[False, True, True, False], [True, False, False, False]]
    (plot,) = partition_plots(run_of({"t": label_tree()}, class_order=order, class_ids=("i", "j", "k", "l")))
    assert [(row["child"], row["class"], row["id"], row["column"]) for row in table(plot)] == [
        ("0", "0", "i", "2"),
        ("0", "1", "j", "1"),
        ("1", "1", "j", "1"),
        ("1", "2", "k", "3"),
    ]
    assert plot.svg.count('stroke="var(--other)" stroke-width="1.6"') == 2
    assert "second" in texts(plot.svg)
    assert "<script>" not in plot.svg
    assert "held by 1.33 children in the mean, 1 by none." in plot.caption
    assert plot.caption.endswith(f"from the left {EVIL[0]} (2), second (2).")


def test_names_of_boxes_stand_on_lines_of_their_own_where_they_would_meet() -> None:
    groups = [Group(f"a long name of a subtree {i}", 3 * i, 3 * i + 3) for i in range(5)]
    svg = partition_svg(matrix_of(np.ones((2, 100), bool)), groups, 100)
    found = re.findall(r'<text x="([\d.]+)" y="([\d.]+)" text-anchor="start"[^>]*>([^<]*)', svg)
    names = [name for _, _, name in found]
    assert names == [group.name for group in groups[:3]]  # no line has room for the fourth and the fifth
    assert len({y for _, y, _ in found}) == 3
    assert svg.count('stroke-width="1.6"') == 5


def test_rivals_stand_one_below_the_other_and_beams_of_one_tree_once() -> None:
    trees = {
        name: label_tree() | {"kind": name.rstrip("12")} for name in ("label-tree1", "label-tree2", "bengio-tree1")
    }
    names = [plot.title for plot in partition_plots(run_of(trees))]
    assert names == ["Root of label-tree1", "Root of bengio-tree1", "Root of label-tree2"]
    alike = run_of(trees, beams=[("label-tree1", "label-tree2")])
    assert [plot.title for plot in partition_plots(alike)] == names[:2]
    assert [row[0] for row in tables_of(alike)["trees-sizes"].table.rows] == ["label-tree1", "bengio-tree1"]
    assert len(tables_of(alike)["trees-depths"].table.rows) == 6  # another beam, other rows lost


# ---- accuracy against speed-up -------------------------------------------------------------------------------------


def test_beams_of_one_tree_make_a_line() -> None:
    trees = {f"k{beam}": {"kind": "kmeans-tree", "metrics": {"beam": beam, "speedup": 9 / beam}} for beam in (1.0, 3.0)}
    run = run_of({**trees, "t": label_tree()}, beams=[("k1.0", "k3.0")])
    plot = speedup_plot(run)
    assert plot is not None
    assert [(row["model"], float(row["speedup"])) for row in table(plot)] == [
        ("ovr", 4.0),
        ("k1.0", 9.0),
        ("k3.0", 3.0),
        ("t", 4.0),
    ]
    assert {"k1.0", "k3.0", "t", "ovr", "kmeans-tree", "label-tree"} <= set(texts(plot.svg))
    assert "Lines join" in plot.caption
    alone = speedup_plot(run_of(trees))
    assert alone is not None
    assert "Lines join" not in alone.caption


def test_beams_are_found_from_the_settings() -> None:
    train = [
        {"name": "a", "kind": "kmeans-tree", "beam": 1},
        {"name": "b", "kind": "kmeans-tree", "beam": 4},
        {"name": "c", "kind": "kmeans-tree", "beam": 4, "branching": 3},
        {"name": "d", "kind": "label-tree", "beam": 1},
        {"name": "e", "kind": "ovr"},
    ]
    values = {"name": "c", "data": {"path": "d"}, "train": train}
    assert beams_of(RunConfig.model_validate_json(json.dumps(values))) == [("a", "b")]


# ---- ways of rows --------------------------------------------------------------------------------------------------


def test_a_way_names_some_of_every_label_set_and_marks_the_true_class() -> None:
    run = run_of({"t": label_tree()}, class_names=("a", EVIL[0], "", "d"), class_ids=("i", "j", "k", "l"))
    ((walk,),) = [one.walks for one in walks_of(run)]
    assert (walk.row, walk.true, walk.answer, walk.right) == (17, EVIL[0], "k", False)
    assert [step.classes for step in walk.steps] == ["4 classes", "1 class"]
    assert [step.score for step in walk.steps] == ["", "score 0.5, 0.25 behind"]
    assert [[(name.text, name.true) for name in step.names] for step in walk.steps] == [
        [("a", False), (EVIL[0], True), ("k", False)],
        [("k", False)],
    ]
    assert [step.more for step in walk.steps] == [1, 0]


def two_levels(link: str) -> LabelTree:
    """Over one feature: the root's children hold two classes and one, the first child's one each."""
    bias = np.zeros(2, np.float32)
    root = Split(
        np.arange(3, dtype=np.int32), np.array([[1, 1, 0], [0, 0, 1]], bool), np.array([[2.0, -4.0]], np.float32), bias
    )
    below = Split(np.arange(2, dtype=np.int32), np.eye(2, dtype=bool), np.array([[1.0, 3.0]], np.float32), bias, 0.5)
    facts = {"probabilistic": True}
    return assemble({(): root, (0,): below}, 1, 3, facts, root.classes, kind="kmeans-tree", link=link)


@pytest.mark.parametrize("link", ["softmax", "sigmoid", "reach"])
def test_ways_down_a_probabilistic_tree_tell_probabilities(link: str) -> None:
    chosen = Chosen(0, 9, WRONG, 1, 0, np.array([0, 1, 3]))
    way = walk_record(chosen, Dense(np.ones((1, 1), np.float32)), two_levels(link), 0)
    for step, scores in zip(way["steps"][1:], ((2.0, -4.0), (0.5, 1.5)), strict=True):
        powers = [math.exp(score) for score in scores]
        total = sum(powers) + (link == "reach" and step["depth"] == 2)  # below the root there is "none of these", too
        expected = [p / (1 + p) if link == "sigmoid" else p / total for p in powers]
        assert step["score"] == pytest.approx(expected[0], rel=1e-5)
        assert step["ahead"] == pytest.approx(expected[0] - expected[1], rel=1e-5)
    run = run_of({"t": {"kind": "kmeans-tree", "tree": {"probabilistic": True, "walks": [way]}}})
    assert walks_of(run)[0].walks[0].steps[1].score.startswith("probability 0.")


def test_names_on_the_page_are_text(tmp_path: Path) -> None:
    order = ClassOrder(np.arange(4), (Group(EVIL[0], 0, 2), Group(EVIL[5], 2, 4)))
    more = {"class_order": order, "class_names": EVIL[:4], "class_ids": EVIL[:4]}
    run = run_of({EVIL[0]: label_tree(), EVIL[4]: label_tree()}, **more)
    files = write_report(tmp_path / "report.html", run)
    text = (tmp_path / "report.html").read_text("utf-8")
    page = Page(text)
    assert "script" not in {tag for tag, _ in page.tags}
    assert not set(text) & {"\x00", "\x1b", "\u202e"}
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    linked = {a["href"] for tag, a in page.tags if tag == "a"}
    assert {f"report-figures/{path.name}" for path in files if path.suffix == ".csv"} == linked
