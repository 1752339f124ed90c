"""Trace norm on every body of rows: the same content on every pool, after interruptions, and with no room to keep."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.store import read_json
from pipeline.trace_oracle import PoolRisk
from tasks.trace import blocks
from tasks.trace.kept import KEPT
from tests.systems.digests import assert_same, digests_of
from tests.systems.harness import events_of, run_here

CONFIG = """\
name = "trace"
seed = 5
[data]
path = "{data}"
[[encode]]
name = "dwta"
kind = "dwta"
hashes = 20
"""
PQ = """\
[[encode]]
name = "pq"
kind = "pq"
subquantizers = 8
bits = 4
"""
LEARNERS = {
    "grid": "lambda1_steps = 3\nlambda2_steps = 2\nstandard_errors = 2",
    "r1d": 'lambda1 = 0.02\nsolver = "r1d"\nbias = false\nepsilon = 0.02',
    "codes": 'rows = "dwta"\nlambda1_steps = 2\nlambda1 = 0.05',
}
ON_PQ = {
    "pq": 'rows = "pq"\nlambda1_steps = 3',
    "semi-pq": 'rows = "pq"\ntest_rows = "x"\nlambda1_steps = 3',
    "ridge": "lambda1 = 0\nlambda2 = 0.01\ngap = 0.01",
}


def learners_of(named: dict[str, str]) -> str:
    return "".join(f'[[train]]\nname = "{name}"\nkind = "trace-norm"\n{keys}\n' for name, keys in named.items())


@pytest.fixture(scope="module")
def configs(data_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("trace")
    found = {}
    for body, more in (("dense", PQ + learners_of(ON_PQ)), ("csr", "")):
        found[body] = folder / f"{body}.toml"
        found[body].write_text(CONFIG.format(data=data_folder / f"{body}-0-128.zarr") + more + learners_of(LEARNERS))
    return found


@pytest.fixture(scope="module", autouse=True)
def small_spans() -> Iterator[None]:
    """Several sums a call, as large data have. Of this process: it makes the spans, workers get them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "SPAN_WORK", 1 << 13)
        yield


@pytest.fixture(scope="module")
def serial(configs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """body -> the run of the serial pool."""
    runs = tmp_path_factory.mktemp("serial")
    return {body: run_here(config, runs=runs / body) for body, config in configs.items()}


@pytest.fixture(scope="module")
def expected(serial: dict[str, Path]) -> dict[str, dict[str, str]]:
    return {body: digests_of(run) for body, run in serial.items()}


@pytest.mark.parametrize(
    ("body", "workers"), [("csr", 2), *(pytest.param("dense", n, marks=pytest.mark.slow) for n in (1, 4))]
)
def test_workers(configs: dict[str, Path], expected: dict[str, Any], tmp_path: Path, body: str, workers: int) -> None:
    assert_same(expected[body], run_here(configs[body], f"local:{workers}", 1, tmp_path))


@pytest.mark.parametrize("body", ["csr", pytest.param("dense", marks=pytest.mark.slow)])
def test_threads_without_room_for_projections(
    configs: dict[str, Path], expected: dict[str, Any], tmp_path: Path, body: str
) -> None:
    assert_same(expected[body], run_here(configs[body], "local:1", 2, tmp_path, cache="0 B"))


def test_every_kind_of_artefact_was_compared(serial: dict[str, Path], expected: dict[str, Any]) -> None:
    for body, names in (("dense", LEARNERS | ON_PQ), ("csr", LEARNERS)):
        assert {f"weights of {name}" for name in names} <= expected[body].keys()
        metrics = read_json(serial[body] / "metrics.json")["models"]
        assert all(metrics[name]["gap"] >= 0 and metrics[name]["log_loss"] > 0 for name in names)
        assert metrics["r1d"]["c1"] <= 0.02
        assert metrics["r1d"]["c2"] <= 0.02


def test_the_path_is_in_the_results_and_its_iterations_in_the_events(serial: dict[str, Path]) -> None:
    found = [event for event in events_of(serial["dense"]) if event.get("model") == "grid"]
    pairs = [event for event in found if event["event"] == "pair"]
    assert [event["pair"] for event in pairs] == list(range(1, 7))
    assert [event["lambda1"] for event in pairs] == [event["lambda1"] for event in pairs[:3]] * 2
    assert all(event["relative_gap"] <= 5e-3 and event["converged"] for event in pairs)
    kinds = {"objective", "gap", "rank", "atoms", "step", "seconds"}
    assert all(kinds <= event.keys() for event in found if event["event"] == "iteration")


@pytest.fixture(scope="module")
def sums_of_a_run(configs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> int:
    """How often a run that nobody disturbs asks the pool for a sum."""
    asked: list[str] = []
    honest = PoolRisk._sum

    def counted(self: PoolRisk, fn: Any, what: str, *more: Any) -> Any:
        asked.append(what)
        return honest(self, fn, what, *more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PoolRisk, "_sum", counted)
        run_here(configs["csr"], runs=tmp_path_factory.mktemp("counted"))
    return len(asked)


@pytest.mark.parametrize("call", [31, *(pytest.param(call, marks=pytest.mark.slow) for call in (1, 9, 80))])
def test_an_interrupted_path_goes_on_to_the_same_end(
    configs: dict[str, Path],
    expected: dict[str, Any],
    sums_of_a_run: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    call: int,
) -> None:
    asked: list[str] = []
    honest = PoolRisk._sum

    def stopped(self: PoolRisk, fn: Any, what: str, *more: Any) -> Any:
        asked.append(what)
        if len(asked) == call:
            raise KeyboardInterrupt
        return honest(self, fn, what, *more)

    monkeypatch.setattr(PoolRisk, "_sum", stopped)
    with pytest.raises(KeyboardInterrupt):
        run_here(configs["csr"], runs=tmp_path)
    KEPT.clear()
    first, asked[:] = len(asked), ["begun again"] * call
    assert_same(expected["csr"], run_here(configs["csr"], runs=tmp_path))
    assert first - 1 + len(asked) - call == sums_of_a_run  # nothing was asked for twice
