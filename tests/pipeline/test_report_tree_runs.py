"""The page's part on trees in a run: held against the models and predictions that the run has published."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from pipeline.stages.tree_walks import LOST, RIGHT, WRONG, chosen_rows
from tasks.models.folder import load_model
from tasks.trees.tree import LabelTree
from tests.pipeline.cli_caller import gaussian, make_run, metrics, succeeds
from tests.pipeline.test_report_trees import lines

CONFIG = """\
name = "t"
[data]
path = "d.zarr"
[predict]
top = 3
[report]
title = "trees"
[[encode]]
name = "pq"
kind = "pq"
bits = 2
[[train]]
name = "ovr"
kind = "ovr"
[[train]]
name = "tree"
kind = "label-tree"
branching = 4
[[train]]
name = "wide"
kind = "label-tree"
branching = 4
beam = 3
[[train]]
name = "coded"
kind = "label-tree"
branching = 3
depth = 3
rows = "pq"
[[train]]
name = "given"
kind = "tree-svm"
[[train]]
name = "forest"
kind = "kmeans-tree"
trees = 2
branching = 4
beam = 2
"""
PARTS = "".join(f"r\tp{part}\n" for part in range(4)) + "".join(f"p{c // 4}\tc{c}\n" for c in range(16))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trees")
    rows, labels = gaussian(480, 6, 16)
    rows = rows + 2.5 * np.random.default_rng(5).standard_normal(rows.shape).astype(np.float32)  # some are wrong
    named = [f"c{label}" for label in labels]
    options = ("--taxonomy", "{folder}/tree.tsv", "--block-rows", 64, "--split", "0.5,0.2,0.3")
    make_run(folder, rows, named, *options, config=CONFIG, tree_tsv=PARTS)
    return folder


def published(folder: Path, name: str) -> list[dict[str, str]]:
    return lines((folder / "runs" / "t" / "report-figures" / f"{name}.csv").read_text("utf-8"))


def tree_model(folder: Path, name: str) -> LabelTree:
    model = load_model(folder / "runs" / "t" / "models" / name).model
    assert isinstance(model, LabelTree)
    return model


def test_a_runs_depths_are_those_of_its_predictions(made: Path) -> None:
    found = metrics(made)
    for name in ("tree", "wide", "coded", "given"):
        tree = tree_model(made, name)
        told = pq.read_table(made / "runs" / "t" / "predictions" / f"{name}.parquet")
        kept = 1.0
        for one in found["details"][name]["by_depth"]:
            depth = one["depth"]
            steps = [(p[depth], p[depth + 1], y) for p, y in walked(told) if len(p) > depth + 1]
            alive = [(node, child, y) for node, child, y in steps if y in tree.label_set(node)]
            lost = sum(y not in tree.label_set(child) for _, child, y in alive)
            assert (one["rows"], one["survivors"], one["lost"]) == (len(steps), len(alive), lost)
            kept *= 1 - lost / len(alive)
            assert one["kept"] == pytest.approx(kept)
            assert one["loss"] == found["models"][name][f"loss_depth_{depth}"]
    assert found["details"]["tree"]["by_depth"][-1]["kept"] == pytest.approx(found["models"]["tree"]["top1"])
    assert "by_depth" not in found["details"]["ovr"]


def walked(told: Any) -> list[tuple[list[int], int]]:
    return list(zip(told["path"].to_pylist(), told["label"].to_pylist(), strict=True))


def test_a_runs_pictures_and_tables_are_of_its_models(made: Path) -> None:
    names = [row["model"] for row in published(made, "trees-costs")]
    assert names == ["ovr", "tree", "wide", "coded", "given", "forest"]
    shapes = [row["shape"] for row in published(made, "trees-costs")]
    assert shapes == ["", "T(4, 2)", "T(4, 2), beam 3", "T(3, 3)", "", "2 x T(4, 2), beam 2"]
    assert {row["model"] for row in published(made, "trees-depths")} == {"tree", "wide", "coded", "given"}
    assert {row["model"] for row in published(made, "trees-nodes")} == {"tree", "coded"}  # a taxonomy chooses nothing
    tree, first = tree_model(made, "tree"), published(made, "partition-1")
    for child in range(int(tree.n_children[0])):
        held = {int(row["class"]) for row in first if int(row["child"]) == child}
        assert held == set(tree.label_set(int(tree.first_child[0]) + child).tolist())
    assert not (made / "runs" / "t" / "report-figures" / "partition-3.csv").exists()
    told = {row["model"]: float(row["speedup"]) for row in published(made, "trees-speedup")}
    assert told == {name: metrics(made)["models"][name]["speedup"] for name in names}
    page = (made / "runs" / "t" / "report.html").read_text("utf-8")
    assert page.count('<figure class="broad">') == 2
    assert len(page) < 2_000_000


def test_ways_of_rows_are_those_of_the_predictions(made: Path) -> None:
    for name in ("tree", "coded", "given"):
        tree = tree_model(made, name)
        told = pq.read_table(made / "runs" / "t" / "predictions" / f"{name}.parquet").to_pylist()
        by_row = {one["row"]: one for one in told}
        ways = [row for row in published(made, "trees-paths") if row["model"] == name]
        shown = list(dict.fromkeys(int(row["row"]) for row in ways))
        assert len(shown) == 4
        for number in shown:
            row, steps = by_row[number], [one for one in ways if int(one["row"]) == number]
            assert [int(one["classes"]) for one in steps] == [tree.label_set(node).size for node in row["path"]]
            right, lost = row["classes"][0] == row["label"], row["label"] not in tree.label_set(row["path"][1])
            assert {one["why"] for one in steps} == {RIGHT if right else LOST if lost else WRONG}
            assert [one["holds"] == "1" for one in steps] == [row["label"] in tree.label_set(n) for n in row["path"]]
            assert all(float(one["ahead"]) >= 0 for one in steps if one["ahead"])  # a walk takes the best child
            last = next(one for one in reversed(steps) if one["score"])
            assert float(last["score"]) == pytest.approx(row["scores"][0], rel=1e-4, abs=1e-5)


def test_rows_that_are_chosen_are_of_several_classes_in_a_drawn_order(made: Path) -> None:
    tree, told = tree_model(made, "tree"), made / "runs" / "t" / "predictions" / "tree.parquet"
    table_of = pq.read_table(told).to_pylist()
    for seed in range(5):
        found = chosen_rows(told, tree, seed)
        assert [one.why for one in found[:2]] == [RIGHT, RIGHT]
        assert found[0].label != found[1].label
        for one in found:
            row = table_of[one.place]
            assert (row["row"], row["label"], row["classes"][0]) == (one.row, one.label, one.answer)
            assert row["path"] == one.path.tolist()
            if one.why == RIGHT:  # the first of its class
                alike = [i for i, r in enumerate(table_of) if r["label"] == r["classes"][0] == one.label]
                assert one.place == alike[0]
    assert len({chosen_rows(told, tree, seed)[0].row for seed in range(8)}) > 1


def test_rows_can_be_asked_for(made: Path) -> None:
    numbers = sorted(one["row"] for one in pq.read_table(made / "runs/t/predictions/tree.parquet").to_pylist())[2:4]
    config = (made / "c.toml").read_text()
    asked = config.replace('title = "trees"', f"rows = [{numbers[1]}, 999999, {numbers[0]}]")
    try:
        (made / "c.toml").write_text(asked)
        said = succeeds("run", made / "c.toml", "--scheduler", "serial")
        assert "1 of " in said.err  # the page alone is made again
        ways = published(made, "trees-paths")
        assert list(dict.fromkeys(int(row["row"]) for row in ways)) == [numbers[1], numbers[0]]
        assert {row["why"] for row in ways} == {"asked for"}
        page = (made / "runs" / "t" / "report.html").read_text("utf-8")
        assert "no test row has the number 999,999" in page
    finally:
        (made / "c.toml").write_text(config)
        succeeds("run", made / "c.toml", "--scheduler", "serial")
