"""What is shown while a run works: counts that never run back, and rates of what was done meanwhile."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from pipeline import progress
from pipeline.kept_kernels import first_run_here
from pipeline.progress import COMPILING, BarView, PlainView, Said, shown_name
from pipeline.runner import View
from pipeline.watching import pace
from pipeline.watching.pace import Going, Pace


def bars() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, console=Console(file=io.StringIO()), disable=True)


def shown(view: View) -> tuple[int, int]:
    """(done, total) as the view tells them."""
    if isinstance(view, PlainView):
        done, total = view.counts.removeprefix(": ").partition(" tasks")[0].split("/")
        return int(done), int(total)
    assert isinstance(view, BarView)
    (task,) = view.bars.tasks
    return int(task.completed), int(task.total or 0)


@pytest.mark.parametrize("kind", ["plain", "bars"])
def test_a_call_that_is_made_again_and_again_never_runs_back(kind: str) -> None:
    view: View = PlainView(every=1e9) if kind == "plain" else BarView(bars())
    told = []
    for _ in range(3):
        for done in range(5):
            view.progress("sums_x", done, 4, 10 * done, 40)
            told.append(shown(view))
    assert [done for done, _ in told] == [0, 1, 2, 3, 4, 4, 5, 6, 7, 8, 8, 9, 10, 11, 12]
    assert [total for _, total in told] == [4] * 5 + [8] * 5 + [12] * 5


def test_a_call_that_was_given_up_counts_with_what_it_has_done() -> None:
    going = Going()
    assert [going("x", done, 4) for done in (0, 1, 2)] == [(0, 4), (1, 4), (2, 4)]
    assert going("y", 0, 9) == (0, 9)
    assert [going("x", done, 4) for done in (0, 4)] == [(2, 6), (6, 6)]


def test_what_was_done_before_the_clock_started_counts_for_no_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(pace.time, "monotonic", lambda: now[0])
    told = Pace()
    assert told("sgd_x", 60, 100, 6000) == (0.0, None)  # a fit that goes on after a kill
    for done in range(61, 71):
        now[0] += 2.0
        rate, eta = told("sgd_x", done, 100, 100 * done)
    assert rate == pytest.approx(50.0)
    assert eta == pytest.approx(2.0 * 30)


def test_nothing_is_said_to_be_left_of_a_tree_that_still_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(pace.time, "monotonic", lambda: now[0])
    told, left = Pace(), []
    for done in range(40):
        total = min(2 * done + 1, 40)
        now[0] += 1.0
        left.append(told("learn_x", done, total, done)[1])
    assert left[:21] == [None] * 21
    assert left[39] == pytest.approx(1.0)


def test_what_is_left_runs_down_until_it_has_proved_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    said = Said(3791.4, 20.0, 17, first_run=True)
    texts = []
    for later in (0.0, 15.0, 20.5, 90.0):
        now[0] = 100.0 + later
        texts.append(str(said))
    assert texts == ["3,791 rows/s, 0:20 left", "3,791 rows/s, 0:05 left", "3,791 rows/s, 0:00 left", "3,791 rows/s"]


def test_a_first_run_says_that_kernels_are_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert str(Said(0.0, None, 0, first_run_here())) == COMPILING
    assert str(Said(5.0, None, 1, first_run_here())) == "5 rows/s"
    (tmp_path / "trees_ab12").mkdir()
    (tmp_path / "trees_ab12" / "place.sweep-10.py311.nbi").touch()
    assert str(Said(0.0, None, 0, first_run_here())) == ""


@pytest.mark.parametrize(
    ("name", "shown_as"),
    [
        ("scores_trace-norm_pair04of14_relgap0.028159_rank69", "trace-norm pair 4 of at most 14: scores"),
        ("gradient_my_model_pair112of200", "my_model pair 112 of at most 200: gradient"),
        ("train_tree", "train_tree"),
        ("sgd_a_pair", "sgd_a_pair"),
    ],
    ids=["iteration", "first", "step", "a-name"],
)
def test_names_of_a_path_are_those_that_people_read(name: str, shown_as: str) -> None:
    assert shown_name(name) == shown_as
    view = PlainView(every=1e9)
    for done in range(3):
        view.progress(name, done, 2, done, 2)
    assert f"{view.call}{view.counts}".startswith(f"{shown_as}: 2/2 tasks")


def test_the_iterations_of_a_pair_are_one_call() -> None:
    view = PlainView(every=1e9)
    for gap in ("0.5", "0.25"):
        for done in range(5):
            view.progress(f"scores_t_pair01of02_relgap{gap}_rank3", done, 4, done, 4)
    assert shown(view) == (8, 8)
