"""Metrics: their names stand in REFERENCE.md, their values are those of the state, their labels are bounded."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from pipeline.dashboard.board import LOST, MOST_RUNS, Board
from pipeline.dashboard.metrics import METRICS, MOST_STEPS, families
from tests.pipeline.dashboard.told import NOW, batch, begins, full_board, said

REFERENCE = (Path(__file__).resolve().parents[3] / "REFERENCE.md").read_text(encoding="utf-8")


class Collector:
    def __init__(self, board: Board) -> None:
        self.board = board

    def collect(self):
        return families(self.board)


def exposed(board: Board) -> dict[str, dict[tuple[str, ...], float]]:
    """Name -> values by labels, as a scraper reads them."""
    registry = CollectorRegistry()
    registry.register(Collector(board))
    text = generate_latest(registry).decode()
    labels = {one.full_name: one.labels for one in METRICS}
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = tuple(sample.labels[label] for label in labels[sample.name])
            found.setdefault(sample.name, {})[key] = sample.value
    return found


def test_the_table_of_the_reference_is_that_of_the_code() -> None:
    listed = re.findall(r"^\| `(labelgrove_\w+)` \| ([^|]*) \| ([^|]*) \|$", REFERENCE, re.MULTILINE)
    wanted = [(one.full_name, " ".join(f"`{label}`" for label in one.labels), one.meaning) for one in METRICS]
    assert listed == wanted


def test_values_are_those_of_the_state() -> None:
    board = full_board()
    board.incident(LOST, 2, NOW)
    found = exposed(board)
    run = "flowers/t1"
    assert found["labelgrove_run_state"][run, "running"] == 1
    assert found["labelgrove_run_state"][run, "failed"] == 0
    assert found["labelgrove_run_steps"][run, "done"] == 1
    assert found["labelgrove_step_tasks_done"][run, "train_trace"] == 3
    assert found["labelgrove_rows_per_second"][run,] == 250
    assert found["labelgrove_objective"][run, "trace"] == 2
    assert found["labelgrove_relative_gap"][run, "trace"] == pytest.approx(0.05)
    assert found["labelgrove_round_loss"][run, "ovr"] == pytest.approx(1 / 3)
    assert found["labelgrove_tree_nodes"][run, "tree", "1"] == 4
    assert found["labelgrove_tree_accuracy"] == {(run, "tree", "0"): 0.9}
    assert found["labelgrove_worker_planned_bytes"][run,] == 3 << 28
    assert found["labelgrove_worker_used_bytes"]["w0",] == 1 << 28
    assert found["labelgrove_cluster_faults_total"]["workers lost",] == 2
    assert found["labelgrove_run_faults_total"][run, "damaged"] == 1


def test_labels_are_bounded() -> None:
    board = Board()
    for i in range(2 * MOST_RUNS):
        steps = [{"step": f"s{j}"} for j in range(2 * MOST_STEPS)]
        board.take(batch(begins(f"r{i}", steps=steps), run=f"t{i}"), NOW)
    assert len(exposed(board)["labelgrove_step_state"]) == MOST_RUNS * MOST_STEPS


def test_any_name_is_a_label() -> None:
    board = Board()
    board.take(batch(begins('a"b\\c\nd é', steps=[{"step": '"'}]), said("step", step='"')), NOW)
    assert exposed(board)["labelgrove_step_state"]['a"b\\c d é/t1', '"'] == 1
