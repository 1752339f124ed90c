"""Messages of runs become a state of bounded size, whatever they say and in whatever order they come."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import pytest

from pipeline.dashboard.board import MOST_INCIDENTS, MOST_RUNS, MOST_WORKERS, RETRIED, Board
from pipeline.dashboard.facts import MOST_TEXT
from pipeline.dashboard.series import MOST_POINTS, Series
from pipeline.dashboard.state import FOLDS, MOST_MODELS, MOST_NEWS, MOST_STEPS, RunState
from tests.pipeline.dashboard.told import NOW, batch, begins, full_board, nodes, progress, said


def the_run(board: Board) -> RunState:
    (run,) = board.newest_first()
    return run


def test_a_run_is_what_it_has_told() -> None:
    run = the_run(full_board()).as_json(NOW + 10)
    assert (run["run"], run["state"], run["seconds"], run["planned_worker_bytes"]) == (
        "flowers",
        "running",
        10,
        3 << 28,
    )
    states = {step["step"]: step["state"] for step in run["steps"]}
    assert states == {"encode_pq": "reused", "train_ovr": "done", "train_trace": "running", "train_tree": "to do"}
    trace = next(step for step in run["steps"] if step["step"] == "train_trace")
    assert (trace["tasks"], trace["tasks_expected"], trace["rows"], trace["rows_per_second"]) == (3, 12, 300, 250.0)
    assert trace["call"] == {"name": "sgd_train_trace", "done": 3, "total": 12}
    assert trace["part"] == {"name": "pair", "done": 1, "of": 5}
    assert trace["share"] == pytest.approx((1 + 3 / 12) / 5)
    assert run["rounds"]["ovr"]["rows"] == [[1, 1.0, 0.1], [2, 0.5, 0.1], [3, 1 / 3, 0.1]]
    assert run["iterations"]["trace"]["rows"] == [[1, 2, 1, 4.0, 0.25, 3], [2, 2, 2, 2.0, 0.05, 4]]
    assert [depth["nodes"] for depth in run["trees"]["tree"]["depths"]] == [1, 4]
    assert run["faults"] == {"damaged": 1}


def test_rounds_tell_how_long_the_step_will_take() -> None:
    board = Board()
    fit = said("step", step="train_ovr"), said("fitting", model="ovr", rounds=4)
    board.take(batch(begins(), *fit), NOW)
    board.take(batch(said("round", model="ovr", rounds=4, round=1, loss=1.0)), NOW + 20)
    step = the_run(board).steps["train_ovr"]
    assert (step.share(), step.eta(NOW + 20)) == (0.5, 0.0 + 20.0)
    board.take(batch(progress("train_ovr", 2, 4)), NOW + 30)
    assert step.share() == pytest.approx(2.5 / 4)
    assert step.eta(NOW + 30) == pytest.approx(30 * 1.5 / 2.5)


def test_a_fit_that_begins_anew_draws_a_new_line() -> None:
    board = Board()
    rounds = [said("round", model="ovr", rounds=3, round=i, loss=9.0) for i in (0, 1, 0)]
    board.take(batch(begins(), said("step", step="train_ovr"), *rounds), NOW)
    assert the_run(board).rounds["ovr"].column("round") == [1]


@pytest.mark.parametrize("end", ["finished", "failed", "interrupted"])
def test_how_it_ends(end: str) -> None:
    board = full_board()
    more = {"error": "DiskFull", "message": "no space"} if end == "failed" else {}
    board.take(batch(said(end, **more)), NOW + 60)
    board.client_gone("c1", NOW + 61)
    run = the_run(board)
    assert (run.state, run.seconds(NOW + 999)) == (end, 60)
    assert run.error == ("DiskFull: no space" if more else "")
    assert run.steps["train_trace"].state == "stopped"


def test_a_driver_that_leaves_without_a_word_was_killed() -> None:
    board = full_board()
    board.client_gone("another", NOW + 1)
    assert the_run(board).live
    board.client_gone("c1", NOW + 2)
    assert the_run(board).state == "driver gone"


def test_times_are_of_the_scheduler_whatever_the_clock_of_the_driver() -> None:
    board = Board()
    board.take(batch(begins(time=50.0), said("step", time=55.0, step="train_ovr"), sent=57.0), NOW)
    run = the_run(board)
    assert (run.started, run.steps["train_ovr"].started) == (NOW - 7, NOW - 2)


def test_live_runs_come_first_then_the_newest() -> None:
    board = Board()
    for i in range(3):
        board.take(batch(begins(f"run{i}"), run=f"t{i}"), NOW + i)
    board.take(batch(said("finished"), run="t2"), NOW + 9)
    assert [run.name for run in board.newest_first()] == ["run1", "run0", "run2"]


def test_a_run_of_which_the_beginning_was_not_heard_is_passed_over() -> None:
    board = Board()
    board.take(batch(progress("train_ovr", 1, 2)), NOW)
    assert board.runs == {}


def test_many_runs_steps_models_points_and_faults_are_bounded() -> None:
    board = Board()
    for i in range(3 * MOST_RUNS):
        board.take(batch(begins(), run=f"t{i}"), NOW + i)
    board.take(batch(begins(steps=[{"step": f"s{i}"} for i in range(2 * MOST_STEPS)]), run="big"), NOW + 99)
    run = board.runs["big"]
    for i in range(2 * MOST_STEPS):
        run.fold(said("step", step=f"other{i}"), NOW)
    for i in range(2 * MOST_MODELS):
        run.fold(said("round", model=f"m{i}", rounds=9, round=0, loss=1.0), NOW)
        run.fold(said("iteration", model=f"m{i}", objective=1.0, gap=0.1, rank=1), NOW)
        run.fold(nodes(f"m{i}", *((depth, 1, None) for depth in range(1000))), NOW)
        run.fold(said("fault", kind=f"kind {i}", count=1, said="x" * 10_000), NOW)
    for i in range(3 * MOST_POINTS):
        run.fold(said("iteration", model="m0", objective=float(i), gap=0.1, rank=1), NOW)
    for i in range(2 * MOST_WORKERS):
        board.see_memory(f"tcp://{i}", f"w{i}", 1, 1)
        board.incident(RETRIED, 1, NOW, "y")
    assert len(board.runs) == MOST_RUNS
    assert len(run.steps) == MOST_STEPS
    assert len(run.rounds) == len(run.iterations) == len(run.trees) == MOST_MODELS
    assert len(run.news) == MOST_NEWS >= len(run.faults)
    assert all(len(text) <= MOST_TEXT for _, text in run.news)
    assert (len(board.workers), len(board.incidents)) == (MOST_WORKERS, MOST_INCIDENTS)
    assert max(len(series.rows) for series in run.iterations.values()) <= MOST_POINTS
    assert run.iterations["m0"].last("objective") == 3 * MOST_POINTS - 1
    assert len(json.dumps(run.as_json(NOW))) < 2_000_000


def test_a_series_keeps_its_ends_and_an_even_share_of_the_rest() -> None:
    series = Series(("x",))
    for i in range(5 * MOST_POINTS):
        series.add(x=float(i))
    kept = [x for x in series.column("x") if x is not None]
    steps = [later - earlier for earlier, later in itertools.pairwise(kept)]
    assert (kept[0], kept[-1], series.seen) == (0.0, 5 * MOST_POINTS - 1, 5 * MOST_POINTS)
    assert kept == sorted(kept)
    assert len(kept) > MOST_POINTS // 2 - 1
    assert max(steps) == 8


FOLD_KEYS = (
    "step model rounds round loss pair pairs iteration objective gap rank depths measure waiting found kind count",
    "done total rate eta tasks expected rows call seconds steps name folder client planned_bytes error time",
)


def anything(rng: random.Random, depth: int = 0) -> Any:
    """A value of any kind that a message can hold."""
    plain: list[Any] = [None, True, -1, 3, 1e308, float("nan"), float("inf"), -0.5, "", "train_ovr", "\n<b>", 10**400]
    if depth > 2 or rng.random() < 0.6:
        return rng.choice(plain)
    if rng.random() < 0.5:
        return [anything(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {rng.choice(["step", "depth", "nodes", "x"]): anything(rng, depth + 1) for _ in range(rng.randrange(4))}


def test_no_message_breaks_the_state() -> None:
    seed = random.randrange(1 << 30)
    print("seed", seed)
    rng = random.Random(seed)
    keys = [key for fold in FOLD_KEYS for key in fold.split()]
    board = full_board()
    for _ in range(2000):
        kind = rng.choice([*FOLDS, "unknown", anything(rng)])
        event = {key: anything(rng) for key in rng.sample(keys, 8)}
        board.take(batch({**event, "event": kind}, run=rng.choice(["t1", "t2"])), NOW)
    for message in (None, 3, [], {}, {"run": "t1"}, {"run": 7, "events": "x"}, {"run": "t1", "events": [1, None]}):
        board.take(message, NOW)
    text = json.dumps(board.as_json(NOW), allow_nan=False)
    assert json.loads(text)["format"] == "labelgrove.dashboard"
