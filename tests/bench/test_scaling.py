"""What deploy/SCALING.md says of hours is what its formulas give, and the command prints them and keeps them beside."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.bench.record import FOLDER
from tests.bench.scaling import hours, main

PAGE = (Path(__file__).resolve().parents[2] / "deploy" / "SCALING.md").read_text(encoding="utf-8")


def rows_of(heading: str) -> dict[str, list[str]]:
    """First cell -> the others, of the lines of the tables below a heading."""
    text = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = [line.strip("|").split("|") for line in text.splitlines() if line[:1] == "|"]
    return {first.strip().strip("`"): [cell.strip() for cell in others] for first, *others in lines}


def test_the_formulas_give_the_hours_of_the_page() -> None:
    found, page = hours(9_000_000, 10_000, 1024), rows_of("Hours")
    steps = ["encode_pq", "train_ovr-pq", "train_tree-pq", "predict_ovr-pq"]
    for step in steps:
        least, *most = map(float, page[step][1].split(" to "))
        assert found[step] == (pytest.approx(least, rel=0.06), pytest.approx((most or [least])[0], rel=0.06))


def test_the_page_answers_for_other_sizes() -> None:
    found, page = hours(2_000_000, 5_000, 768), rows_of("Your own numbers")
    assert page["one-vs-rest"][1] == f"{found['train_ovr'][0]:.1f} h"
    assert page["encoding"][1].startswith(f"{60 * found['encode_pq'][0]:.1f} min")
    least, most = (round(60 * found_hours) for found_hours in found["train_tree-pq"])
    assert page["label tree of depth 2"][1] == f"{least} to {most} min"


def test_a_plan_prints_hours_and_keeps_its_figures_in_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(FOLDER, "set so that it is as it was afterwards")
    monkeypatch.delenv(FOLDER)
    monkeypatch.chdir(tmp_path)
    command = ["scaling", "plan", "here", "--rows", "20000", "--classes", "30", "--features", "64"]
    for _ in range(2):  # what the first has left is no obstacle
        monkeypatch.setattr("sys.argv", command)
        main()
    said = capsys.readouterr().out
    assert re.search(r"train_ovr +\d+ tasks, .* h of a processor", said)
    figures = json.loads((tmp_path / "here" / "scaling_plan.json").read_text())
    assert len(figures["steps"]["train_ovr"]["processor_hours"]) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here"]
