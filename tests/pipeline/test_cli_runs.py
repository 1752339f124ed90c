"""What a user sees of runs: which config the results are of, models left out, refusals beforehand, signs of life."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest

from pipeline import runner
from pipeline.config import load_config
from pipeline.connection.cluster import dashboard_text
from pipeline.connection.own_workers import free_dashboard
from pipeline.connection.profile import Profile
from pipeline.errors import ClusterLost
from pipeline.lock import locked
from pipeline.plan import PlannedStep
from pipeline.progress import PlainView
from pipeline.runner import View
from pipeline.stages.predict import PredictStage
from pipeline.store import MANIFEST, read_sealed, write_sealed
from tests.pipeline.cli_caller import Said, gaussian, labelgrove, make_run, metrics, snapshot, succeeds

CONFIG = """\
name = "t"
[data]
path = "d.zarr"
[[encode]]
name = "pq"
kind = "pq"
bits = 1
[[train]]
name = "ovr"
kind = "ovr"
rounds = 1
least_rows = 100
[[train]]
name = "tree"
kind = "label-tree"
rows = "pq"
test_rows = "x"
depth = 2
rounds = 1
least_rows = 100
"""
RUN = Path("runs") / "t"
TYPED = ("--scheduler", "serial")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of CONFIG."""
    folder = tmp_path_factory.mktemp("made")
    make_run(folder, *gaussian(300, 8, 6), config=CONFIG)
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A copy of the finished run, to be spoilt."""
    return shutil.copytree(made, tmp_path / "copy")


@contextmanager
def interrupted_at(monkeypatch: pytest.MonkeyPatch, stage: type[Any]) -> Iterator[None]:
    """Ctrl-C as soon as such a stage begins."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(stage, "run", interrupt)
        yield


def reason(said: Said, step: str) -> str:
    return re.search(rf"^  \w+ +{step} +(.*)$", said.out, re.MULTILINE)[1]  # type: ignore[index]


# ---- which config the results are of -----------------------------------------------------------------------------


def test_after_an_interrupted_override_results_are_said_to_be_of_an_earlier_config(folder, monkeypatch) -> None:
    config, before = folder / "c.toml", metrics(folder)
    with interrupted_at(monkeypatch, PredictStage):
        said = labelgrove("run", config, *TYPED, "-s", "tree.depth=1")
    assert said.code == 130
    assert metrics(folder) == before
    asked = read_sealed(folder / RUN / MANIFEST)["asked"]
    assert asked["overrides"] == ["tree.depth=1"]
    status = succeeds("status", config).out
    assert ": interrupted\nasked for with -s tree.depth=1\n" in status
    assert "results are of an earlier config; since then tree.depth: 2 -> 1\n" in status
    assert re.search("to do +predict_tree", status)
    assert not re.search("done +predict_tree", status)
    assert re.search("done +predict_ovr", status)
    found = json.loads(succeeds("status", folder / RUN, "--json").out)
    assert found["results"]["state"] == "earlier"
    assert found["to_do"] == ["predict_tree", "evaluate_tree", "report"]
    assert "note: results are of an earlier config; since then tree.depth: 2 -> 1" in succeeds("report", config).err
    assert "nothing to run" in succeeds("plan", config).out  # the results are still those of the plain config
    succeeds("run", config, *TYPED)
    assert "earlier config" not in succeeds("status", config).out + succeeds("report", config).err


def test_after_an_override_the_plain_plan_says_what_differs(folder: Path) -> None:
    config = folder / "c.toml"
    succeeds("run", config, *TYPED, "-s", "tree.depth=1", "-s", "report.title=Flat")
    assert metrics(folder)["made_from"]["overrides"] == ["tree.depth=1", "report.title=Flat"]
    assert "-s tree.depth=1" in (folder / RUN / "report.html").read_text()
    assert "note: results were run with -s tree.depth=1 -s report.title=Flat" in succeeds("report", config).err
    plan = succeeds("plan", config)
    assert "the results are of another config: tree.depth: 1 -> 2; report.title: Flat -> " in reason(plan, "report")
    assert plan.out.count("  reuse  ") == 7
    (folder / RUN / "metrics.json").unlink()
    assert reason(succeeds("plan", config), "report").startswith("metrics.json is missing")


@pytest.mark.parametrize(("text", "why"), [(None, "report.html is missing"), ("x", "report.html was changed")])
def test_results_that_somebody_has_changed_are_told_from_those_of_another_config(folder, text, why) -> None:
    page = folder / RUN / "report.html"
    page.unlink() if text is None else page.write_text(text)
    assert reason(succeeds("plan", folder / "c.toml"), "report").startswith(why)
    assert f"{why} [" in labelgrove("verify", folder / RUN).out


def test_an_interrupted_publication_leaves_no_results_rather_than_mixed_ones(folder, monkeypatch) -> None:
    config = folder / "c.toml"

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("pipeline.stages.publish.publish_model", interrupt)
        assert labelgrove("run", config, *TYPED, "-s", "tree.depth=1").code == 130
    assert "no results yet" in succeeds("status", config).out
    said = labelgrove("report", config)
    assert (said.code, said.out) == (2, "")
    assert "RunMissing: the run has no results yet" in said.err
    succeeds("run", config, *TYPED)
    assert succeeds("verify", folder / RUN)


def test_a_model_that_the_config_has_no_more_is_named_and_cleaned(folder: Path) -> None:
    config = folder / "c.toml"
    config.write_text(CONFIG.replace('name = "ovr"', 'name = "flat"'))
    assert "is not what this run was asked for" in succeeds("status", config).out
    succeeds("run", config, *TYPED)
    stale = "models/ and predictions/ still hold ovr of an earlier config"
    assert stale in succeeds("status", config).out
    assert stale in succeeds("report", config).err
    assert str(folder / RUN / "models" / "ovr") in succeeds("clean", config).out
    assert (folder / RUN / "models" / "ovr").exists()
    succeeds("clean", config, "--yes")
    assert sorted(path.name for path in (folder / RUN / "models").iterdir()) == ["flat", "tree"]
    assert sorted(path.name for path in (folder / RUN / "predictions").iterdir()) == ["flat.parquet", "tree.parquet"]
    assert stale not in succeeds("status", config).out


# ---- some of the models ------------------------------------------------------------------------------------------


def test_only_and_skip_train_what_they_say_and_the_rest_is_said_to_be_left_out(made: Path, tmp_path: Path) -> None:
    config, runs = made / "c.toml", ("--runs", tmp_path)
    plan = succeeds("plan", config, *runs, "--only", "ovr")
    assert "left out  tree" in plan.out
    assert "encode_pq" not in plan.out  # only the tree reads it
    said = succeeds("run", config, *TYPED, *runs, "--only", "ovr")
    assert "not trained (left out): tree" in said.out
    assert " tree " not in said.out
    assert "Not trained, left out on the command line: <bdi>tree" in (tmp_path / "t" / "report.html").read_text()
    assert "left out  tree: not trained" in succeeds("status", tmp_path / "t").out
    assert json.loads((tmp_path / "t" / "metrics.json").read_text())["run"]["left_out"] == ["tree"]
    assert succeeds("report", tmp_path / "t").out == said.out
    said = succeeds("run", config, *TYPED, *runs, "--skip", "ovr")  # finished: it stays in the table
    assert "[2/8] train_ovr: reused" in said.err
    assert "left out" not in said.out
    names = [line.split()[-9 if "*" in line else 0] for line in said.out.splitlines()[2:4]]
    assert len(names) == 2
    assert "nothing to run" in succeeds("plan", config, *runs).out


def test_a_model_that_is_left_out_is_not_trained_when_its_files_are_damaged(folder: Path) -> None:
    config = folder / "c.toml"
    for weights in (folder / RUN / "steps").glob("train_ovr-*/model/weights.safetensors"):
        weights.write_bytes(b"")
    assert "left out  ovr" in succeeds("plan", config, "--only", "tree").out
    assert "train_ovr" not in succeeds("plan", config, "--only", "tree").out
    assert "damaged" in reason(succeeds("plan", config), "train_ovr")


def test_a_model_that_the_data_do_not_allow_can_be_left_out(made: Path, tmp_path: Path) -> None:
    config = tmp_path / "c.toml"
    wrong = CONFIG.replace("d.zarr", str(made / "d.zarr")).replace("bits = 1", "bits = 1\nsubquantizers = 5")
    config.write_text(wrong)
    assert labelgrove("plan", config).code == 2
    assert labelgrove("check", config).code == 2
    succeeds("plan", config, "--skip", "tree")
    succeeds("check", config, "--skip", "tree")
    succeeds("run", config, *TYPED, "--skip", "tree")


@pytest.mark.parametrize("words", [["--only", "oak"], ["--skip", "oak"], ["--skip", "ovr,tree"]])
@pytest.mark.parametrize("command", ["run", "plan", "check"])
def test_choices_that_the_config_does_not_offer(folder: Path, command: str, words: list[str]) -> None:
    before = snapshot(folder)
    said = labelgrove(command, folder / "c.toml", *words)
    assert said.code == 2
    assert "models of the config: ovr, tree" in said.err + said.out
    assert snapshot(folder) == before


# ---- finding a run -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["status", "report", "logs"])
def test_a_run_is_found_by_its_config_its_folder_and_its_files(made, command, monkeypatch) -> None:
    expected = succeeds(command, made / RUN)
    for path in (made / "c.toml", made / RUN / "config.toml", made / RUN / "report.html"):
        assert succeeds(command, path).out == expected.out
    monkeypatch.chdir(made / RUN / "steps")
    assert succeeds(command, "../../../c.toml").out == expected.out
    assert succeeds(command, "..").out == expected.out
    assert succeeds(command, made / "c.toml", "--runs", made / "runs").out == expected.out


@pytest.mark.parametrize("command", ["status", "report", "logs"])
def test_a_config_that_has_not_been_run_is_no_damage(tmp_path: Path, command: str) -> None:
    config = tmp_path / "c.toml"
    config.write_text(CONFIG)
    said = labelgrove(command, config)
    assert said.code == 2
    assert f"RunMissing: {config} has not been run yet" in said.err
    config.write_text("name = 3\n")
    assert "ConfigError: the config has no usable `name`" in labelgrove(command, config).err
    assert list(tmp_path.iterdir()) == [config]


LOOKS = ("status", "report", "logs")


@pytest.mark.parametrize("text", ["", "{", '{"version": 1}', "[]"])
def test_a_broken_manifest_is_mended_as_the_hint_says(folder: Path, text: str) -> None:
    config, manifest = folder / "c.toml", folder / RUN / MANIFEST
    manifest.write_text(text)
    for command in (
        *((look, folder / RUN) for look in LOOKS),
        ("plan", config),
        ("run", config),
        ("verify", folder / RUN),
    ):
        said = labelgrove(*command)
        assert said.code == 4, (command, said)
        assert "remove this file and type the same `labelgrove run` again" in said.err, command
    manifest.unlink()
    for look in LOOKS:
        said = labelgrove(look, folder / RUN)
        assert (said.code, "type the same `labelgrove run` again" in said.err) == (4, True)
    assert "0 of 8 steps run, 8 reused" in succeeds("run", config, *TYPED).err
    assert "every digest holds" in succeeds("verify", folder / RUN).out


def test_a_run_folder_that_cannot_be_written_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system", "x")

    monkeypatch.setattr("pipeline.lock._take", refuse)
    for command in (("run", folder / "c.toml", *TYPED), ("clean", folder / "c.toml", "-s", "tree.depth=1", "--yes")):
        said = labelgrove(*command)
        assert said.code == 2
        assert f"FileAccess: the run folder cannot be written: Read-only file system [{folder / RUN}]" in said.err
    succeeds("status", folder / RUN)


@pytest.mark.parametrize("place", [RUN, RUN / "config.toml"])
@pytest.mark.parametrize("command", ["run", "plan", "clean"])
def test_a_run_folder_is_no_config(folder: Path, command: str, place: Path) -> None:
    before = snapshot(folder)
    said = labelgrove(command, folder / place)
    assert (said.code, "UsageError: this is a run folder, or in one" in said.err) == (2, True)
    assert snapshot(folder) == before


def test_two_configs_of_one_name_are_told_apart(folder: Path) -> None:
    other = folder / "other.toml"
    other.write_text(CONFIG.replace("depth = 2", "depth = 1"))
    assert "other.toml is not what this run was asked for" in succeeds("status", other).out
    assert "other.toml is not what this run was asked for" in succeeds("report", other).err
    assert reason(succeeds("plan", other), "train_tree").startswith("depth: 2 -> 1")


def test_a_run_folder_of_a_newer_format_is_left_alone(folder: Path) -> None:
    manifest = folder / RUN / MANIFEST
    write_sealed(manifest, {"format": "labelgrove.run", "version": 2, "news": []})
    before = snapshot(folder)
    for command in (*((look, folder / RUN) for look in LOOKS), ("plan", folder / "c.toml"), ("run", folder / "c.toml")):
        said = labelgrove(*command)
        assert said.code == 4
        assert "RunFormat: the run folder is of format 2, this labelgrove knows 1" in said.err
        assert "remove" not in said.err
    assert snapshot(folder) == before


def test_a_manifest_of_before_still_tells_where_the_run_is(folder: Path) -> None:
    values = read_sealed(folder / RUN / MANIFEST)
    del values["asked"]
    write_sealed(folder / RUN / MANIFEST, values)
    assert "done      train_ovr" in succeeds("status", folder / RUN).out
    assert "ovr" in succeeds("report", folder / RUN).out


# ---- terminals and signs of life ---------------------------------------------------------------------------------


def test_steps_and_the_run_say_how_long_they_took(folder: Path) -> None:
    said = succeeds("run", folder / "c.toml", *TYPED, "-s", "ovr.rounds=2")
    assert len(re.findall(r"^  done in [0-9.]+ s$", said.err, re.MULTILINE)) == 4
    assert re.search(r"^total: 4 of 8 steps run, 4 reused, in [0-9.]+ s$", said.err, re.MULTILINE)


def test_a_silent_call_shows_life(capsys: pytest.CaptureFixture[str]) -> None:
    view = PlainView(every=0.01)
    told = threading.Event()
    say = view.say

    def heard(text: str) -> None:
        say(text)
        told.set()

    view.say = heard  # type: ignore[method-assign]
    with view.alive():
        view.progress("step_ovr", 0, 1, 0, 0)
        assert told.wait(30)
    assert re.search(r"^  step_ovr: 0/1 tasks, 0:00 so far$", capsys.readouterr().err, re.MULTILINE)


def test_while_workers_are_waited_for_that_is_what_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    view = PlainView(every=0.0)
    view.waits("waiting for a worker of tcp://127.0.0.1:1")
    view._life()
    said = capsys.readouterr().err.splitlines()
    assert said == [
        "waiting for a worker of tcp://127.0.0.1:1",
        "  waiting for a worker of tcp://127.0.0.1:1, 0:00 so far",
    ]


def test_no_step_is_begun_before_there_are_workers(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Seen(View):
        begun: ClassVar[list[str]] = []

        def step(self, step: PlannedStep, number: int, count: int) -> None:
            del number, count
            self.begun.append(step.name)

    @contextmanager
    def nobody_comes(*asked: Any) -> Iterator[None]:
        del asked
        raise ClusterLost("no worker")
        yield

    monkeypatch.setattr(runner, "open_pool", nobody_comes)
    with pytest.raises(ClusterLost):
        runner.run_config(load_config(made / "c.toml"), Profile("serial"), tmp_path / "runs", view=Seen())
    assert Seen.begun == []


def test_a_taken_port_is_told_in_one_line_of_ours(recwarn: pytest.WarningsRecorder) -> None:
    class Client:
        dashboard_link = "http://127.0.0.1:4321/status"

    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert free_dashboard(f"127.0.0.1:{port}") == "127.0.0.1:0"
    assert free_dashboard(f"127.0.0.1:{port}") == f"127.0.0.1:{port}"
    profile = Profile(dashboard=f"127.0.0.1:{port}")
    assert dashboard_text(Client(), profile) == f"dashboard: http://127.0.0.1:4321/status (port {port} is taken)"
    assert dashboard_text(Client(), Profile(dashboard="127.0.0.1:4321")).endswith("/status")
    assert not recwarn.list


def test_status_while_another_process_runs(made: Path) -> None:
    with locked(made / RUN):
        text = succeeds("status", made / "c.toml").out
    assert f"running, process {os.getpid()} on " in text


def test_the_disk_that_plan_names_is_an_upper_bound_and_near(made: Path, tmp_path: Path) -> None:
    config = tmp_path / "c.toml"
    wide = CONFIG.replace("d.zarr", str(made / "d.zarr")) + '[[train]]\nname = "hash"\nkind = "flat-hash"\nbits = 20\n'
    config.write_text(wide)
    plan = json.loads(succeeds("plan", config, "--json").out)
    succeeds("run", config, *TYPED)
    run = tmp_path / RUN
    for step in plan["steps"]:
        place = run / "steps" / f"{step['step']}-{step['fingerprint'][:12]}"
        assert held(place) <= step["disk_bytes"], step
    assert 0.3 * plan["disk_bytes"] <= held(run) <= plan["disk_bytes"]


def held(folder: Path) -> int:
    """Bytes that the files below a folder take on the disk; those of several names once."""
    found = {path.stat().st_ino: path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file()}
    return sum(found.values())


def test_a_star_names_several_models(made: Path) -> None:
    said = succeeds("plan", made / "c.toml", "--only", "o*", "--json", *TYPED)
    steps = {step["step"] for step in json.loads(said.out)["steps"]}
    assert "train_ovr" in steps
    assert labelgrove("plan", made / "c.toml", "--skip", "x*", *TYPED).code == 2
    assert labelgrove("plan", made / "c.toml", "--skip", "*", *TYPED).code == 2
