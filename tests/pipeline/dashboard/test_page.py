"""The page is drawn from the state: every text escaped, every figure with its units, nothing where nothing is known."""

from __future__ import annotations

import re
from typing import Any

import pytest
from bokeh.document import Document

from pipeline.dashboard import page as page_module
from pipeline.dashboard.board import Board
from pipeline.dashboard.figures import COLOURS, MOST_LINES, MOST_WORKERS, MemoryFigure, line_figures
from pipeline.dashboard.page import NEWEST, Page, page
from pipeline.dashboard.plugin import NAME, BoardPlugin
from pipeline.dashboard.state import RunState
from pipeline.dashboard.tables import MOST_LINES as MOST_STEPS_SHOWN
from pipeline.dashboard.tables import faults_table, head, steps_table, tree_tables
from tests.pipeline.dashboard.told import NOW, batch, begins, full_board, nodes, said

EVIL = "<script>alert('x')</script>\"&"


class Scheduler:
    """As much of a scheduler as the page asks for."""

    address = "tcp://127.0.0.1:8786"

    def __init__(self, board: Board) -> None:
        plugin = BoardPlugin.__new__(BoardPlugin)
        plugin.board = board
        self.plugins = {NAME: plugin}


def drawn(board: Board) -> Page:
    made = Page(Scheduler(board))
    made.update()
    return made


def shown(made: Page) -> dict[str, bool]:
    return {figure.name: figure.visible for figure in made.figures()}


def test_an_empty_page_says_what_to_type() -> None:
    made = drawn(Board())
    assert "labelgrove run flowers.toml --scheduler tcp://127.0.0.1:8786" in made.head.text
    assert not any(shown(made).values())
    assert not made.steps.visible
    assert not made.trees.visible


def test_every_panel_of_a_run_is_filled() -> None:
    made = drawn(full_board())
    assert shown(made) == dict.fromkeys(("objective", "gap", "rank", "loss", "tree_nodes", "tree_right"), True)
    for word in ("train_trace", "running", "pair 2 of 5", "3 / 12", "250", "4.0 s", "reused"):
        assert word in made.steps.text, word
    assert "Tree tree: 5 nodes, 2 waiting" in made.trees.text
    assert "90.0 %" in made.trees.text
    assert "a.npy is missing" in made.faults.text
    assert made.memory.made.title.text == "Memory: most seen 256.0 MiB of 768.0 MiB planned"
    gap = next(lines for kind, lines in made.lines if lines.name == "gap")
    assert gap.sources[0].data["y"] == [0.25, pytest.approx(0.05)]


def test_a_page_draws_what_has_come_since() -> None:
    board = full_board()
    made = drawn(board)
    before = made.head.text
    board.take(batch(said("step", step="train_tree"), nodes("tree", (0, 1, 0.9), (1, 6, 0.5))), NOW + 5)
    made.update()
    assert "now train_tree" in made.head.text
    assert before != made.head.text
    assert made.tree.source.data["nodes"] == [1, 6]


def test_of_several_runs_one_is_chosen() -> None:
    board = full_board()
    board.take(batch(begins("moss"), run="t2"), NOW + 5)
    made = drawn(board)
    assert made.choice.visible
    assert [label.split(",")[0] for _, label in made.choice.options] == ["the newest", "moss", "flowers"]
    assert ">moss<" in made.head.text
    made.choice.value = "t1"
    assert ">flowers<" in made.head.text
    del board.runs["t1"]
    board.version += 1
    made.update()
    assert made.choice.value == NEWEST
    assert ">moss<" in made.head.text


def test_every_text_of_a_run_is_escaped() -> None:
    board = Board()
    step = {"step": EVIL, "reason": EVIL}
    board.take(
        batch(
            begins(EVIL, folder=EVIL, steps=[step]),
            said("step", step=EVIL),
            said("progress", step=EVIL, call=EVIL, done=1, total=2, tasks=1, expected=2, rows=1),
            said("nodes", model=EVIL, measure=EVIL, depths=[{"depth": 0, "nodes": 1, "rows": 1}]),
            said("fault", kind="damaged", count=1, said=EVIL),
            said("failed", error=EVIL, message=EVIL),
        ),
        NOW,
    )
    made = drawn(board)
    for part in (made.head, made.steps, made.trees, made.faults):
        assert "&lt;script&gt;" in part.text, part.name
        assert "<script" not in part.text
        assert part.disable_math


def test_a_long_list_of_steps_shows_those_around_the_one_in_hand() -> None:
    board = Board()
    steps = [{"step": f"step{i:03d}", "reused": i < 50} for i in range(100)]
    board.take(batch(begins(steps=steps), said("step", step="step050")), NOW)
    (run,) = board.newest_first()
    text = steps_table(run, NOW)
    found = re.findall(r"step\d{3}", text)
    assert "step050" in found
    assert len(found) <= MOST_STEPS_SHOWN
    first, last = int(found[0][4:]), int(found[-1][4:])
    assert f"{first} before these are done" in text
    assert f"{99 - last} more to do" in text


def test_what_is_not_known_is_left_out() -> None:
    run = RunState("t", "flowers")
    for text in (head(run, NOW), steps_table(run, NOW), faults_table(Board(), None), tree_tables(run)):
        assert "None" not in text
        assert "nan" not in text


def test_lines_are_as_many_as_can_be_told_apart_and_every_axis_has_a_label() -> None:
    board = full_board()
    (run,) = board.newest_first()
    for i in range(2 * MOST_LINES):
        run.fold(said("round", model=f"m{i}", rounds=2, round=0, loss=1.0), NOW)
    figures = line_figures()
    for kind, lines in figures:
        lines.show(getattr(run, kind))
        assert lines.made.xaxis[0].axis_label
        assert lines.made.yaxis[0].axis_label
    loss = {lines.name: lines for _, lines in figures}["loss"]
    assert len(loss.sources) == len(set(COLOURS)) == MOST_LINES
    assert [item.label["value"] for item in loss.items] == [f"m{i}" for i in range(MOST_LINES, 2 * MOST_LINES)]


def test_lines_break_between_pairs_and_at_values_a_log_axis_lacks() -> None:
    board = full_board()
    (run,) = board.newest_first()
    run.fold(said("iteration", model="trace", pair=3, iteration=1, objective=1.0, gap=0.0, rank=4), NOW)
    lines = {lines.name: lines for _, lines in line_figures()}
    for name in ("objective", "gap"):
        lines[name].show(run.iterations)
    assert [str(y) for y in lines["objective"].sources[0].data["y"]] == ["4.0", "2.0", "nan", "1.0"]
    assert str(lines["gap"].sources[0].data["y"][-1]) == "nan"


def test_of_many_workers_those_that_hold_most_are_drawn() -> None:
    board, figure = full_board(), MemoryFigure()
    for i in range(3 * MOST_WORKERS):
        board.see_memory(f"tcp://{i}", "same name", i << 20, 1 << 30)
    figure.show(board, board.newest_first()[0])
    names = figure.source.data["worker"]
    assert len(names) == len(set(names)) == MOST_WORKERS
    assert figure.marks["limit"].data["x"] == [1.0]
    assert figure.marks["plan"].data["x"] == [0.75]


def test_it_is_a_document_in_the_frame_of_the_dashboard() -> None:
    document = Document()
    extra: dict[str, Any] = {"pages": ["status"], "plots": [], "jupyter": False, "prefix": "/"}
    page(Scheduler(full_board()), extra, document)
    names = {root.name for root in document.roots}
    wanted = set(re.findall(r"roots\.(\w+)", page_module.TEMPLATE)) | set(document.template_variables["figures"])
    assert names == wanted
    assert document.template_variables["pages"] == ["status"]
    assert len(document.session_callbacks) == 1
