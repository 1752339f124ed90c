"""What `plan` says of the number of tasks, against the tasks that a run then did."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipeline.config import load_config
from pipeline.plan import make_plan
from pipeline.stages import grow
from tests.systems.conftest import write_config
from tests.systems.harness import run_here


def assert_near(config: Path) -> None:
    """Within a third, or four tasks, of every step."""
    planned = {step.name: step.estimate.tasks for step in make_plan(load_config(config)).steps}
    done = Counter(pq.read_table(run_here(config) / "tasks.parquet").column("step").to_pylist())
    assert done["encode_pq"] > 12
    far = {
        name: (planned[name], done[name])
        for name in planned
        if abs(planned[name] - done[name]) > max(4, done[name] / 3)
    }
    assert not far


@pytest.mark.parametrize("body", ["dense", "csr"])
def test_the_tasks_that_plan_names_are_near_those_of_the_run(data_folder: Path, tmp_path: Path, body: str) -> None:
    assert_near(write_config(tmp_path, data_folder / f"{body}-0-128.zarr"))


def test_those_of_trees_whose_root_is_trained_by_blocks(
    data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = grow.tree_params
    monkeypatch.setattr(grow, "tree_params", lambda *given: replace(told(*given), whole_root_bytes=0))
    assert_near(write_config(tmp_path, data_folder / "dense-0-128.zarr"))
