"""What a change reruns, what belongs to another run, and what damage is found: never another result in silence."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from pipeline.commands.data import verify
from pipeline.config import load_config
from pipeline.dataset import Dataset
from pipeline.plan import Plan, make_plan
from pipeline.run_check import run_problems
from pipeline.stages.problems import Fitted
from pipeline.stages.train import SgdStage
from pipeline.store import DONE, RunFolder, read_json, read_sealed, write_sealed
from tasks.errors import ArtefactError
from tests.damage import damage
from tests.systems.conftest import make_dataset, write_config
from tests.systems.digests import differences, digests_of
from tests.systems.harness import labelgrove, plan_of, run_here

RUN = Path("runs") / "small"


def planned(config: Path, *overrides: str) -> Plan:
    return make_plan(load_config(config, overrides))


def to_run(config: Path, *overrides: str) -> dict[str, str]:
    """step -> why it runs."""
    return {step.name: step.reason for step in planned(config, *overrides).to_run}


def change(config: Path, old: str, new: str) -> None:
    text = config.read_text()
    assert old in text
    config.write_text(text.replace(old, new, 1))


# ---- what reruns -------------------------------------------------------------------------------------------------


def test_nothing_reruns_when_nothing_changed(copied: Path) -> None:
    assert to_run(copied) == {}
    before = {path: path.stat().st_mtime_ns for path in (copied.parent / RUN / "steps").rglob("*") if path.is_file()}
    run_here(copied)
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_a_report_setting_reruns_the_report_alone(copied: Path) -> None:
    expected = digests_of(copied.parent / RUN)
    with open(copied, "a") as file:
        file.write('[report]\ntitle = "Another title"\nworst_classes = 3\n')
    plan = plan_of(copied)
    assert [name for name, step in plan.items() if step["action"] == "run"] == ["report"]
    assert "worst_classes: 20 -> 3" in plan["report"]["reason"]
    assert "title:  -> Another title" in plan["report"]["reason"]
    run = run_here(copied)
    assert "Another title" in (run / "report.html").read_text()
    assert differences(expected, digests_of(run)) == []


def test_a_trees_depth_reruns_that_tree_alone_and_going_back_reruns_the_report(copied: Path) -> None:
    expected = digests_of(copied.parent / RUN)
    change(copied, 'name = "tree"\nkind = "label-tree"', 'name = "tree"\nkind = "label-tree"\ndepth = 3')
    plan = plan_of(copied)
    found = {name: step["reason"] for name, step in plan.items() if step["action"] == "run"}
    assert list(found) == ["train_tree", "predict_tree", "evaluate_tree", "report"]
    assert found["train_tree"] == "depth: not set -> 3"
    assert found["predict_tree"] == "train_tree changes"
    assert found["evaluate_tree"] == "train_tree changes; predict_tree changes"
    assert {step["reason"] for name, step in plan.items() if name not in found} == {"finished, digests hold"}
    deeper = digests_of(run_here(copied))
    assert {name for name in differences(expected, deeper) if "tree-pq" in name or "ovr" in name} == set()
    assert "model tree" in differences(expected, deeper)
    change(copied, "\ndepth = 3", "")
    assert list(to_run(copied)) == ["report"]
    assert differences(expected, digests_of(run_here(copied))) == []


def test_an_encoding_reruns_what_is_made_of_it(copied: Path) -> None:
    found = to_run(copied, "pq.bits=3")
    expected = [f"{kind}_{name}" for name in ("ovr-pq", "tree-pq") for kind in ("train", "predict", "evaluate")]
    assert set(found) == {"encode_pq", *expected, "report"}
    assert found["encode_pq"] == "bits: 4 -> 3"
    assert found["train_ovr-pq"] == "encode_pq changes"


def test_code_of_another_version_reruns(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SgdStage, "version", SgdStage.version + 1)
    found = to_run(copied)
    assert found["train_ovr"] == f"code version {SgdStage.version - 1} -> {SgdStage.version}"
    assert "train_tree" not in found


def test_what_was_made_from_another_outcome_is_made_anew(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A damaged model that comes out otherwise (another machine's bits) must not stand beside old predictions."""
    run = RunFolder(copied.parent / RUN)
    step = next(step for step in planned(copied).steps if step.name == "train_ovr")
    damage(run.step_folder(step.name, step.fingerprint) / "model" / "weights.safetensors", "flip", random.Random(0))
    learn = Fitted.model

    def otherwise(fitted: Fitted, scorer: Any, result: Any) -> Any:
        if fitted.learner.name == "ovr":
            result.parameters["weights"] = result.parameters["weights"] * 1.5
        return learn(fitted, scorer, result)

    monkeypatch.setattr(Fitted, "model", otherwise)
    assert list(to_run(copied)) == ["train_ovr"]  # the rest may stay if it comes out the same
    done = run_here(copied)
    events = [event for event in RunFolder(done).events() if event["event"] == "step"]
    redone = {event["step"]: event["reason"] for event in events[-4:]}
    assert redone["predict_ovr"] == "train_ovr came out otherwise than before"
    assert redone["evaluate_ovr"] == "train_ovr, predict_ovr came out otherwise than before"
    assert "train_ovr" in redone["report"]
    assert list(run_problems(RunFolder(done))) == []


def test_the_plan_finds_a_step_that_was_made_from_another_outcome(copied: Path) -> None:
    """As when the client is killed between a step that came out otherwise and the next."""
    run = RunFolder(copied.parent / RUN)
    step = next(step for step in planned(copied).steps if step.name == "train_ovr")
    path = run.step_folder(step.name, step.fingerprint) / DONE
    write_sealed(path, {**read_sealed(path), "digest": "0" * 32})
    assert to_run(copied)["predict_ovr"] == "train_ovr came out otherwise than before"


# ---- what belongs to another run ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("seed", "seed: 3 in the folder, 4 now"),
        ("dataset", "dataset: "),
        ("blocks", "block_rows: 128 in the folder, 200 now"),
    ],
)
def test_another_seed_dataset_or_block_shape_is_refused(
    finished_runs: dict[str, Path], tmp_path: Path, what: str, said: str
) -> None:
    dataset = load_config(finished_runs["dense"].parent.parent / "config.toml").dataset_path
    if what != "seed":
        changed = {"dataset": 9, "blocks": 200}[what]
        made = make_dataset(tmp_path, seed=changed) if what == "dataset" else make_dataset(tmp_path, block_rows=changed)
        dataset = Path(made.path)
    config = write_config(tmp_path, dataset, *([("seed = 3", "seed = 4")] if what == "seed" else []))
    shutil.copytree(finished_runs["dense"], tmp_path / RUN)
    before = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*"))
    for command in ("run", "plan"):
        ended = labelgrove(command, config, "--scheduler", "serial")
        assert ended.code == 7
        assert "OtherRun" in ended.err
        assert said in ended.err
    assert sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*")) == before


# ---- damage of a finished run ------------------------------------------------------------------------------------


def test_verify_exits_4_and_names_the_file(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = copied.parent / RUN
    verify(run)
    assert "every digest holds" in capsys.readouterr().out
    damage(run / "metrics.json", "flip", random.Random(0))
    assert labelgrove("verify", run).code == 4
    (run / "manifest.json").unlink()
    ended = labelgrove("verify", run)
    assert ended.code == 4
    assert "manifest.json" in ended.err


def test_a_file_that_is_not_ours_counts_for_nothing(copied: Path) -> None:
    run = RunFolder(copied.parent / RUN)
    expected = digests_of(run.path)
    steps = {step.name: run.step_folder(step.name, step.fingerprint) for step in planned(copied).steps}
    parts = sorted((steps["predict_ovr"] / "parts").iterdir())
    shutil.copy(parts[0], parts[0].with_name("part-00099.parquet"))
    (steps["evaluate_ovr"] / DONE).unlink()
    assert differences(expected, digests_of(run_here(copied))) == []


def test_a_kept_intermediate_that_is_damaged_is_not_believed(data_folder: Path, tmp_path: Path) -> None:
    """Codebooks and rounds of an interrupted attempt: a flipped bit must not travel into the model."""
    config = write_config(tmp_path, data_folder / "dense-0-128.zarr")
    expected = digests_of(run_here(config, runs=tmp_path / "whole"))
    run = interrupted(config)
    for kept in run.glob("steps/*/progress/*.npz"):
        damage(kept, "flip", random.Random(1))
    assert list(run.glob("steps/*/progress/*.npz"))
    assert differences(expected, digests_of(run_here(config))) == []


def interrupted(config: Path) -> Path:
    """A run that was stopped before the last round of one-vs-rest; returns its folder."""
    from pipeline.pool import SerialPool

    total = SerialPool.sum
    with pytest.MonkeyPatch.context() as patch:

        def stop(pool: SerialPool, fn: Any, items: Any, *shared: Any, name: str, **other: Any) -> Any:
            if name == "sgd_ovr" and shared[2] == 2:
                raise KeyboardInterrupt
            return total(pool, fn, items, *shared, name=name, **other)

        patch.setattr(SerialPool, "sum", stop)
        with pytest.raises(KeyboardInterrupt):
            run_here(config)
    return config.parent / RUN


# ---- damage of the dataset ---------------------------------------------------------------------------------------


def chunk_of(dataset: Path, body: str, name: str, block: int) -> Path:
    if name != "X":
        return dataset / name / "c" / str(block)
    return dataset / "X" / "c" / str(block) / "0" if body == "dense" else dataset / "X" / f"{block:05d}" / "data/c/0"


@pytest.mark.parametrize("body", ["dense", "csr"])
@pytest.mark.parametrize("name", ["X", "y", "split", "row_id"])
@pytest.mark.parametrize("how", ["delete", "flip", "swap"])
def test_a_damaged_dataset_is_refused_before_training(
    data_folder: Path, tmp_path: Path, body: str, name: str, how: str
) -> None:
    dataset = tmp_path / "d.zarr"
    shutil.copytree(data_folder / f"{body}-0-128.zarr", dataset)
    blocks = (7, 8) if name == "split" else (1, 2)  # the split of earlier blocks is the same: all training rows
    first, second = (chunk_of(dataset, body, name, block) for block in blocks)
    if how == "swap":
        if body == "csr" and name == "X":
            first, second = first.parents[2], second.parents[2]
        first.rename(tmp_path / "aside")
        second.rename(first)
        (tmp_path / "aside").rename(second)
    else:
        damage(first, how, random.Random(0))
    config = write_config(tmp_path, dataset)
    with pytest.raises(ArtefactError) as caught:
        run_here(config)
    assert caught.value.exit_code == 4
    block = Dataset.open(dataset).blocks()[blocks[0]]
    for words in (f"d.zarr/{name}", f"rows {block.start}..{block.stop - 1}"):
        assert words in str(caught.value)
    assert [event["event"] for event in RunFolder(tmp_path / RUN).events()] == ["run", "failed"]


def test_damage_between_two_attempts_is_found_too(data_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(data_folder / "dense-0-128.zarr", tmp_path / "d.zarr")
    config = write_config(tmp_path, tmp_path / "d.zarr")
    interrupted(config)
    damage(tmp_path / "d.zarr" / "X" / "c" / "3" / "0", "flip", random.Random(0))
    with pytest.raises(ArtefactError, match=r"d.zarr/X.*rows 384\.\.511"):
        run_here(config)


def test_json_that_is_sealed_cannot_be_edited(tmp_path: Path) -> None:
    values = {"b": 1.5, "a": {"10": [1, None, "é"], "9": True}}
    write_sealed(tmp_path / "a.json", values)
    assert read_sealed(tmp_path / "a.json") == values
    changed = {**read_json(tmp_path / "a.json"), "b": 2.5}
    (tmp_path / "a.json").write_text(json.dumps(changed))
    with pytest.raises(ArtefactError, match="not what was written"):
        read_sealed(tmp_path / "a.json")
