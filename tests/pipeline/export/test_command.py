"""labelgrove export: what it writes, and what it refuses before anything is written."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from pipeline.byte_sizes import human_bytes
from pipeline.commands import export
from pipeline.export.npz import stored_bytes
from pipeline.export.onnx_file import constant_bytes
from tasks.trees.tree import Split, assemble
from tasks.trees.weights import SparseWeights
from tests.pipeline.cli_caller import assert_refused, labelgrove, snapshot, succeeds
from tests.pipeline.export.agreement import saved_model, session_of
from tests.tasks.model_samples import hashed, linear, small_rows
from tests.tasks.tree_samples import Drawn, random_tree


@pytest.fixture
def model(tmp_path: Path) -> Path:
    saved_model(tmp_path / "ovr", linear(1))
    return tmp_path / "ovr"


def test_both_formats_are_written_and_their_folder_is_made(tmp_path: Path, model: Path) -> None:
    before = snapshot(model)
    said = succeeds("export", model, "--to", "onnx", "-o", tmp_path / "new" / "ovr.onnx", "--top", 3)
    size = (tmp_path / "new" / "ovr.onnx").stat().st_size
    assert f"ovr.onnx will take {human_bytes(size)}\n" in said.err
    assert "warning" not in said.err
    assert f"{tmp_path / 'new' / 'ovr.onnx'}: " in said.err
    assert said.out == ""
    classes = session_of(tmp_path / "new" / "ovr.onnx").run(["classes"], {"rows": small_rows(1)})[0]
    np.testing.assert_array_equal(classes[:, 0], np.argmax(small_rows(1) @ linear(1).weights + linear(1).bias, axis=1))
    assert classes.shape == (7, 3)
    said = succeeds("export", model, "--to", "npz", "-o", tmp_path / "new" / "ovr.npz")
    size = (tmp_path / "new" / "ovr.npz").stat().st_size
    assert f"ovr.npz will take {human_bytes(size)}\n" in said.err
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["ovr.npz", "ovr.onnx"]
    assert snapshot(model) == before


def test_a_sparse_tree_says_first_how_large_its_graph_will_be(tmp_path: Path) -> None:
    """ONNX holds its zeros; sizes come from shapes and are those of the files, but for names and nodes."""
    classes, few = np.arange(9, dtype=np.int32), np.zeros((20_000, 9), np.float32)
    few[::50] = 1
    split = Split(classes, np.eye(9, dtype=bool), SparseWeights.of(few, 20_000), np.zeros(9, np.float32), 1.0)
    saved = saved_model(
        tmp_path / "t", assemble({(): split}, 20_000, 9, {}, classes, kind="kmeans-tree", link="softmax")
    )
    said = succeeds("export", tmp_path / "t", "--to", "onnx", "-o", tmp_path / "t.onnx")
    size = (tmp_path / "t.onnx").stat().st_size
    assert abs(constant_bytes(saved) - size) < 0.05 * size
    warning, second, _ = said.err.splitlines()
    assert second == f"t.onnx will take {human_bytes(size)}"
    assert f"the {human_bytes(stored_bytes(saved))} of the model; --to npz" in warning
    said = succeeds("export", tmp_path / "t", "--to", "npz", "-o", tmp_path / "t.npz")
    assert abs(stored_bytes(saved) - (tmp_path / "t.npz").stat().st_size) < 10_000
    assert "warning" not in said.err


@pytest.mark.parametrize("to", ["npz", "onnx"])
def test_a_kill_in_mid_write_leaves_no_half_file(tmp_path: Path, model: Path, to: str) -> None:
    """What stood there stays; the folder that was written in says what it is of, and the next export removes it."""
    place = tmp_path / "out" / f"m.{to}"
    place.parent.mkdir()
    place.write_text("what stood there")
    child = os.fork()
    if not child:  # dies with the file written and not yet in its place
        np.savez = onnx.checker.check_model = _dying_of(np.savez)
        export(model, to, place, force=True)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    assert place.read_text() == "what stood there"
    assert sorted(path.name for path in place.parent.iterdir()) == [f".m.{to}.partial-{child}", f"m.{to}"]
    assert (place.parent / f".m.{to}.partial-{child}" / f"m.{to}").stat().st_size > 0
    export(model, to, place, force=True)
    assert [path.name for path in place.parent.iterdir()] == [f"m.{to}"]
    assert place.read_bytes().startswith(b"PK" if to == "npz" else b"\x08")


def _dying_of(write: Callable[..., Any]) -> Callable[..., Any]:
    """Of numpy.savez half of its file, of the checker nothing: then the process is killed."""

    def dies(place: Any, **arrays: Any) -> None:
        if "full_check" not in arrays:
            write(place, **arrays)
            os.truncate(place, os.path.getsize(place) // 2)
        os.kill(os.getpid(), signal.SIGKILL)

    return dies


def test_more_classes_than_there_are_means_all(tmp_path: Path, model: Path) -> None:
    export(model, "onnx", tmp_path / "ovr.onnx", top=1000)
    assert session_of(tmp_path / "ovr.onnx").get_outputs()[0].shape == ["n", 9]


def test_a_file_that_is_there_is_replaced_only_with_force(tmp_path: Path, model: Path) -> None:
    (tmp_path / "ovr.npz").write_text("mine")
    command = ("export", model, "--to", "npz", "-o", tmp_path / "ovr.npz")
    assert_refused(tmp_path, 2, "OutputExists", "--force", by=command)
    succeeds(*command, "--force")
    assert "weights" in np.load(tmp_path / "ovr.npz")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--to", "csv", "-o", "m.csv"), "expected one of npz, onnx"),
        (("--to", "onnx", "-o", "m.npz"), ".onnx"),
        (("--to", "npz", "-o", "m.onnx"), ".npz"),
        (("--to", "npz", "-o", "m"), ".npz"),
        (("--to", "npz", "-o", "m.npz", "--top", "3"), "--top has no meaning for npz"),
        (("--to", "npz", "-o", "m.npz", "--beam", "3"), "--beam has no meaning for npz"),
        (("--to", "onnx", "-o", "m.onnx", "--top", "0"), "--top 0"),
        (("--to", "onnx", "-o", "m.onnx", "--beam", "0"), "--beam 0"),
        (("--to", "onnx", "-o", "m.onnx", "--beam", "2"), "kind ovr, which is not searched"),
    ],
    ids=lambda value: "-".join(value).replace("--", "") if isinstance(value, tuple) else "",
)
def test_what_cannot_be_is_refused(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert_refused(tmp_path, 2, "UsageError", said, by=("export", model, *words))


def test_kinds_that_have_no_graph_say_which_have(tmp_path: Path) -> None:
    saved_model(tmp_path / "h", hashed("heshing"))
    command = ("export", tmp_path / "h", "--to", "onnx", "-o", tmp_path / "h.onnx")
    assert_refused(tmp_path, 2, "ExportUnsupported", "ovr", "--to npz", by=command)
    succeeds("export", tmp_path / "h", "--to", "npz", "-o", tmp_path / "h.npz")


def test_margins_are_not_searched(tmp_path: Path) -> None:
    tree = random_tree(1, Drawn(probabilistic=False, kind="label-tree"))
    object.__setattr__(tree, "scales", None)
    saved_model(tmp_path / "t", tree)
    command = ("export", tmp_path / "t", "--to", "onnx", "-o", tmp_path / "t.onnx", "--beam", 4)
    assert_refused(tmp_path, 2, "UsageError", "a wider beam would misguide it", by=command)


def test_without_the_package_npz_still_works(tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "onnx"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "onnx", None)
    command = ("export", model, "--to", "onnx", "-o", tmp_path / "m.onnx")
    assert_refused(tmp_path, 2, "PackageMissing", 'pip install "labelgrove[onnx]"', by=command)
    succeeds("export", model, "--to", "npz", "-o", tmp_path / "m.npz")


def test_a_damaged_model_is_not_exported(tmp_path: Path, model: Path) -> None:
    weights = model / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"?")
    said = labelgrove("export", model, "--to", "onnx", "-o", tmp_path / "m.onnx")
    assert said.code == 4
    assert "ModelDamaged" in said.err
    assert not (tmp_path / "m.onnx").exists()


def test_a_folder_of_models_is_none(tmp_path: Path, model: Path) -> None:
    command = ("export", model.parent, "--to", "npz", "-o", tmp_path / "m.npz")
    assert_refused(tmp_path, 4, "ModelMissing", str(model), by=command)


def test_the_beam_of_the_file_is_that_asked_for(tmp_path: Path) -> None:
    saved_model(tmp_path / "t", random_tree(1, Drawn()))
    succeeds("export", tmp_path / "t", "--to", "onnx", "-o", tmp_path / "t.onnx", "--beam", 3)
    facts = {one.key: one.value for one in onnx.load(str(tmp_path / "t.onnx")).metadata_props}
    assert facts["beam"] == "3"
