"""What `plan` tells of a path of penalties before it is walked, `status` and `logs` on the way."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.lock import locked
from pipeline.stages.trace import pair_bytes
from pipeline.state import pair_under_way
from tests.pipeline.cli_caller import gaussian, labelgrove, make_run, succeeds

CONFIG = """\
name = "t"
[data]
path = "d.zarr"
[[train]]
name = "tr"
kind = "trace-norm"
lambda1_steps = 4
patience = 0
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("path")
    rows, labels = gaussian(200, 6, 5)
    make_run(folder, rows, labels, config=CONFIG)
    return folder


def events(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "runs" / "t" / "events.jsonl").read_text().splitlines()]


def test_status_tells_the_pair_and_how_far_it_is(made: Path) -> None:
    run = made / "runs" / "t"
    whole = (run / "events.jsonl").read_text()
    found = events(made)
    ends = [i for i, event in enumerate(found) if event["event"] == "pair"]
    last = max(i for i in range(ends[2]) if found[i]["event"] == "iteration")
    done = next(run.glob("steps/train_tr-*/DONE.json"))
    kept = done.read_text()
    try:
        (run / "events.jsonl").write_text("".join(f"{line}\n" for line in whole.splitlines()[: last + 1]))
        done.unlink()
        with locked(run):
            text, state = succeeds("status", run).out, json.loads(succeeds("status", run, "--json").out)
        stopped = succeeds("status", run).out
    finally:
        (run / "events.jsonl").write_text(whole)
        done.write_text(kept)
    at, pair = state["solving"], found[ends[2]]
    assert (at["pair"], at["pairs"], at["lambda1"]) == (3, 4, pair["lambda1"])
    assert at["gap"] == found[last]["gap"]
    assert f"now       train_tr: pair 3 of 4 at most, lambda1 {pair['lambda1']:.3g}, lambda2 0, iteration" in text
    assert f"rank {found[last]['rank']:.0f}\n" in text
    assert f"  was at    pair 3 of 4 at most, lambda1 {pair['lambda1']:.3g}" in stopped
    assert "solved pairs are kept\n" in stopped
    assert "  now " not in stopped
    assert "solving" not in json.loads(succeeds("status", run, "--json").out)


def test_logs_print_six_digits(made: Path) -> None:
    text = succeeds("logs", made / "runs" / "t").out
    assert "iteration {" in text
    numbers = re.findall(r"\d+\.\d+(?:e-?\d+)?", text.replace("\n", " \n"))
    assert len(numbers) > 20
    digits = [len(one.split("e")[0].replace(".", "").lstrip("0")) for one in numbers]
    assert max(digits) <= 6


def test_what_this_process_will_hold_is_planned(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = (made / "c.toml", "--runs", tmp_path)
    plan = json.loads(succeeds("plan", *arguments, "--json").out)
    need = next(step["driver_bytes"] for step in plan["steps"] if step["step"] == "train_tr")
    assert plan["driver_peak_bytes"] > need > 0
    assert "memory of this process  at most " in succeeds("plan", *arguments).out
    assert "this process" not in succeeds("plan", made / "c.toml").out  # nothing is to run
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(total=need, available=need))
    for command in ("run", "plan", "check"):
        said = labelgrove(command, *arguments, "--memory", "2 GiB")
        assert said.code == 5
        assert "MemoryTooSmall: this process would hold" in said.err + said.out
    assert list(tmp_path.iterdir()) == []


def test_models_that_may_be_chosen_lie_on_the_disk(made: Path, tmp_path: Path) -> None:
    def disk(*more: object) -> int:
        plan = json.loads(succeeds("plan", made / "c.toml", "--runs", tmp_path, "--json", *more).out)
        return int(plan["disk_bytes"])

    assert disk("-s", "tr.standard_errors=1.0") - disk() == 2 * pair_bytes(6, 5)


def event(kind: str, **more: Any) -> dict[str, Any]:
    return {"event": kind, **more}


SOLVING = event("solving", pair=1, pairs=4, lambda1=0.5, lambda2=0.0)
ITERATION = event("iteration", pair=1, iteration=2.0, objective=2.0, gap=0.5, rank=3.0)


def test_the_last_iteration_of_the_last_pair_counts() -> None:
    step = event("step", step="train_a")
    assert pair_under_way([]) == pair_under_way([step]) == pair_under_way([SOLVING, ITERATION, step]) == {}
    begun = {"pair": 1, "pairs": 4, "lambda1": 0.5, "lambda2": 0.0}
    assert pair_under_way([step, ITERATION, SOLVING]) == begun
    assert pair_under_way([step, SOLVING, ITERATION]) == begun | {
        "iteration": 2.0,
        "objective": 2.0,
        "gap": 0.5,
        "rank": 3.0,
    }
    assert pair_under_way([step, {**SOLVING, "lambda1": None}, ITERATION]) == {}
    assert pair_under_way([step, SOLVING, event("iteration", model="other")]) == begun
