"""Folders and links in the place of files and folders of a run: mended where nothing can be lost, else named."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tasks.files import remove_all
from tests.pipeline.cli_caller import assert_refused, first_run, labelgrove, succeeds


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `init` writes, ingested and run by the commands it prints."""
    return first_run(tmp_path_factory.mktemp("first") / "my first")


@pytest.mark.parametrize("odd", ["folder", "loop"])
@pytest.mark.parametrize("name", ["metrics.json", "events.jsonl", "manifest.json", "lock.json", "step"])
def test_a_folder_or_a_loop_in_the_place_of_a_file(tiny: Path, tmp_path: Path, name: str, odd: str) -> None:
    run = shutil.copytree(tiny / "runs" / "tiny", tmp_path / "tiny")
    place = next((run / "steps").iterdir()) / "DONE.json" if name == "step" else run / name
    place.unlink(missing_ok=True)
    place.mkdir() if odd == "folder" else place.symlink_to(place.name)
    for command in ("status", "logs", "verify"):
        said = labelgrove(command, run)
        whole = name == "lock.json" or (command != "verify" and name != "manifest.json")
        assert said.code == (0 if whole else 4), (command, said)
    again = ("run", tiny / "config.toml", "--runs", tmp_path, "--scheduler", "serial")
    if name == "manifest.json":
        assert_refused(tmp_path, 4, "RunFormat", "remove this file", by=again)
        remove_all(place)
    succeeds(*again)
    succeeds("verify", run)
    assert not (run / "lock.json").exists()


def test_a_folder_with_something_in_it_is_named_and_not_removed(tiny: Path, tmp_path: Path) -> None:
    for name in ("events.jsonl", "lock.json", "metrics.json"):
        run = shutil.copytree(tiny / "runs" / "tiny", tmp_path / name / "tiny")
        (run / name).unlink(missing_ok=True)
        (run / name).mkdir()
        (run / name / "mine.txt").write_text("kept")
        said = labelgrove("run", tiny / "config.toml", "--runs", tmp_path / name, "--scheduler", "serial")
        assert (said.code, said.err.count("InTheWay: "), str(run / name) in said.err) == (2, 1, True), said
        assert (run / name / "mine.txt").read_text() == "kept"


@pytest.mark.parametrize("target", ["good", "nowhere", "ovr", "file"])
def test_a_link_in_the_place_of_a_published_folder_is_replaced_and_not_followed(
    tiny: Path, tmp_path: Path, target: str
) -> None:
    run = shutil.copytree(tiny / "runs" / "tiny", tmp_path / "tiny")
    name = next((run / "models").iterdir()).name
    model, good = run / "models" / name, tmp_path / "good"
    shutil.move(model, good)
    (good / "README.md").write_text("changed")
    if target == "file":
        model.write_text("in the way")
    else:
        model.symlink_to({"good": good, "nowhere": tmp_path / "nowhere", "ovr": name}[target])
    succeeds("run", tiny / "config.toml", "--runs", tmp_path, "--scheduler", "serial")
    assert model.is_dir()
    assert not model.is_symlink()
    assert (good / "README.md").read_text() == "changed"
    assert [path.name for path in (run / "models").iterdir() if ".partial" in path.name] == []
    succeeds("verify", run)


@pytest.mark.parametrize("target", ["elsewhere", "nowhere", "loop"])
def test_a_link_in_the_place_of_a_step_is_replaced_and_not_followed(tiny: Path, tmp_path: Path, target: str) -> None:
    run = shutil.copytree(tiny / "runs" / "tiny", tmp_path / "tiny")
    step = next((run / "steps").iterdir())
    shutil.rmtree(step)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "mine.txt").write_text("kept")
    step.symlink_to(step.name if target == "loop" else tmp_path / target)
    succeeds("run", tiny / "config.toml", "--runs", tmp_path, "--scheduler", "serial")
    assert not step.is_symlink()
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["mine.txt"]
    succeeds("verify", run)
