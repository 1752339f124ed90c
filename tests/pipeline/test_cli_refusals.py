"""What plan, check and run refuse before anything is done: steps too large for a worker, a disk too small."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from pipeline.config import load_config
from pipeline.connection.profile import Profile
from pipeline.ingest import ingest
from pipeline.plan import make_plan, memory_plan
from pipeline.resources import DiskTooSmall, refusals
from pipeline.rows_facts import rows_facts
from pipeline.stage import Facts
from pipeline.stages.svm_ways import smaller_svm
from pipeline.store import PROGRESS
from pipeline.systems import stages_of
from tests.pipeline.cli_caller import gaussian, labelgrove, make_run, snapshot, succeeds

CONFIG = """\
name = "t"
[data]
path = "d.zarr"
[[train]]
name = "ovr"
kind = "ovr"
rounds = 1
least_rows = 100
"""
HASHES = """\
[[train]]
name = "wide"
kind = "flat-hash"
bits = 27
[[train]]
name = "vast"
kind = "heshing"
bits = 28
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of CONFIG."""
    folder = tmp_path_factory.mktemp("made")
    make_run(folder, *gaussian(300, 8, 6), config=CONFIG)
    return folder


def test_plan_check_and_run_refuse_alike_and_name_every_step_too_large(made: Path, tmp_path: Path) -> None:
    config = tmp_path / "c.toml"
    config.write_text((CONFIG + HASHES).replace("d.zarr", str(made / "d.zarr")))
    room = ("--scheduler", "local:1", "--memory", "900 MiB")
    before = snapshot(tmp_path)
    for command in ("run", "plan", "check"):
        said = labelgrove(command, config, *room)
        assert said.code == 5, said
        text = said.err + said.out
        for step in ("train_vast", "train_wide", "predict_vast", "predict_wide"):
            assert re.search(rf"{step} +needs [0-9.]+ GiB", text), said
        assert not re.search("train_ovr +needs", text)
        assert "--skip vast,wide to run the rest" in text
    assert snapshot(tmp_path) == before
    plan = labelgrove("plan", config, *room, "--json")
    assert plan.code == 5
    assert json.loads(plan.out)["refusals"][0]["code"] == "MemoryTooSmall"
    assert labelgrove("run", config, *room, "--dry-run").code == 5
    assert labelgrove("run", config, *room, "--dry-run", "--force").code == 0
    succeeds("check", config, *room, "--skip", "vast,wide")
    succeeds("plan", config, *room, "--skip", "vast", "--skip", "wide")


def test_a_full_disk_is_foreseen(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.resources.free_bytes", lambda _: 1000)
    for command in ("run", "plan", "check"):
        said = labelgrove(command, made / "c.toml", "-s", "ovr.rounds=2")
        assert said.code == 5
        assert "DiskTooSmall: the run needs about" in said.err + said.out


def test_what_an_interrupted_run_has_written_needs_no_room_again(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(made, tmp_path / "copy")
    config = load_config(tmp_path / "copy" / "c.toml", ("ovr.rounds=2",))
    plan = make_plan(config)
    monkeypatch.setattr("pipeline.resources.free_bytes", lambda _: plan.disk_bytes - 50_000)
    (refusal,) = refusals(plan, memory_plan(plan, Profile()))
    assert isinstance(refusal, DiskTooSmall)
    step = next(step for step in plan.to_run if step.name == "train_ovr")
    progress = plan.folder.step_folder(step.name, step.fingerprint) / PROGRESS
    progress.mkdir(parents=True)
    (progress / "round.npz").write_bytes(bytes(100_000))
    assert 50_000 < make_plan(config).begun_bytes <= step.estimate.most_disk_bytes
    assert refusals(make_plan(config), memory_plan(plan, Profile())) == []
    said = succeeds("plan", tmp_path / "copy" / "c.toml", "-s", "ovr.rounds=2")
    assert "KiB are there already" in said.out


def machines(name: str, kind: str, kernel: str) -> str:
    return f'[[train]]\nname = "{name}"\nkind = "{kind}"\nkernel = "{kernel}"\n'


KERNELS = [
    machines("k", "ovr", "chi2"),
    machines("r", "relaxed-hierarchy", "rbf"),
    machines("lin", "marszalek", "linear"),
]


def test_what_helps_kernels_is_said_of_kernels(tmp_path: Path) -> None:
    """Too large are what two of them settle first; all models that wait for that are left out together."""
    rows, labels = gaussian(6000, 4, 6)
    dataset = ingest(rows, tmp_path / "d.zarr", labels=labels, split="0.8,0,0.2")
    config = tmp_path / "c.toml"
    config.write_text(CONFIG + "".join(KERNELS))
    room = ("--scheduler", "local:1", "--memory", "1000 MiB")
    hint = labelgrove("plan", config, *room).err.split("what to do: ")[1]
    assert "--skip k,r to run the rest" in hint
    assert "fewer training rows a class at ingest (memory for chi2 and rbf grows with their square)" in hint
    assert "a linear learner on a feature map (an encoding of kind chi2-map or hi-map)" in hint
    assert [word for word in ("bits", "--block-rows", "rows_per_node", "pca") if word in hint] == []
    succeeds("plan", config, *room, "--skip", "k,r")
    hint = labelgrove("plan", config, *room, "--only", "r").err.split("what to do: ")[1]
    assert 'kernel = "linear"' in hint
    assert "chi2-map" not in hint
    run = load_config(config).run
    stages = {one.name: one for one in stages_of(run, Facts(dataset, rows_facts(run, dataset)))}
    assert smaller_svm([stages["train_ovr"], stages["predict_ovr"]]) == []
    assert smaller_svm([stages["train_r"]])[0] == "a smaller `rows_per_node`"
    assert [way.split(" (")[0] for way in smaller_svm([stages["train_lin"], stages["predict_lin"]])] == [
        "a smaller `rows_per_node`",
        "fewer features for the linear kernel",
    ]
