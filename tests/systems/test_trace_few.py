"""Trace norm over very many rows: pairs that are solved on few of them first, and on all to the gap that is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipeline import trace_oracle
from pipeline.store import read_json
from pipeline.trace_oracle import PoolRisk
from tests.systems.digests import assert_same, digests_of
from tests.systems.harness import run_here

CONFIG = """\
name = "few"
[data]
path = "{data}"
[[train]]
name = "path"
kind = "trace-norm"
lambda1_steps = 3
gap = 0.01
[[train]]
name = "r1d"
kind = "trace-norm"
solver = "r1d"
lambda1 = 0.02
epsilon = 0.02
[[train]]
name = "paper"
kind = "trace-norm"
solver = "r1d-paper"
lambda1 = 0.05
bias = false
"""


@pytest.fixture(scope="module")
def config(data_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("few") / "few.toml"
    path.write_text(CONFIG.format(data=data_folder / "dense-0-128.zarr"))
    return path


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every sum that is asked for: rows it goes over, and of which learner; of few rows are 2 a class."""
    found: list[str] = []
    honest = PoolRisk._sum

    def heard(self: PoolRisk, fn: Any, what: str, *more: Any) -> Any:
        found.append(f"{self.name} {self.n_rows}")
        return honest(self, fn, what, *more)

    for name, value in (("MANY_CELLS", 1), ("FEW_A_CLASS", 2), ("MANY_A_CLASS", 4)):
        monkeypatch.setattr(trace_oracle, name, value)
    monkeypatch.setattr(PoolRisk, "_sum", heard)
    return found


def test_pairs_begin_on_few_rows_and_end_where_they_would(config: Path, tmp_path: Path, asked: list[str]) -> None:
    run = run_here(config, runs=tmp_path / "few")
    rows = {name: sorted({int(line.split()[1]) for line in asked if line.startswith(name)}) for name in ("path", "r1d")}
    for few, whole in rows.values():
        assert 2 * few < whole
    assert len({line for line in asked if line.startswith("paper")}) == 1  # the paper's algorithm as it stands
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PoolRisk, "few", lambda _: None)
        plain = run_here(config, runs=tmp_path / "plain")
    found, other = (read_json(path / "metrics.json")["models"] for path in (run, plain))
    for name, metrics in found.items():
        objective = other[name]["objective"]
        assert abs(metrics["objective"] - objective) <= 0.02 * objective, name
    assert found["path"]["relative_gap"] <= 0.01
    assert found["paper"]["objective"] == other["paper"]["objective"]
    assert not list(run.rglob("few"))  # nothing is left of it


def test_workers_and_an_attempt_that_was_stopped(
    config: Path, tmp_path: Path, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = digests_of(run_here(config, runs=tmp_path / "first"))
    assert_same(expected, run_here(config, "local:2", 1, tmp_path / "two"))
    heard, asked[:] = PoolRisk._sum, []

    def stopped(self: PoolRisk, *more: Any) -> Any:
        if len(asked) == 25:
            raise KeyboardInterrupt
        return heard(self, *more)

    with monkeypatch.context() as patch:
        patch.setattr(PoolRisk, "_sum", stopped)
        with pytest.raises(KeyboardInterrupt):
            run_here(config, runs=tmp_path / "third")
    assert len(set(asked)) == 2  # few rows and all
    assert_same(expected, run_here(config, runs=tmp_path / "third"))
