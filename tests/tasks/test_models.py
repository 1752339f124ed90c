"""Models: ranking, and folders that are believed only after they were checked."""

from __future__ import annotations

import builtins
import json
import pickle
import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from tasks.errors import ArtefactError, Diverged
from tasks.models import folder as folder_module
from tasks.models import tensors as tensors_module
from tasks.models.card import markdown_text, yaml_text
from tasks.models.errors import (
    HashMismatch,
    ModelDamaged,
    ModelFormat,
    ModelMissing,
    UnsafeFormat,
    UnsafePath,
)
from tasks.models.folder import ClassTable, load_model, publish_model, save_model, verify_model
from tasks.models.linear import LinearModel
from tasks.models.registry import MODELS, class_of
from tasks.models.sums import sums_text
from tasks.rows import Dense
from tests.tasks.model_samples import change_header, class_table, linear, reseal, small_rows

# ---- folders -----------------------------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    place = tmp_path / "models" / "ovr"
    facts = {"dataset": "two cranes: *bold* <b>", "seed": 7, "score": float("nan")}
    save_model(place, linear(3), class_table(9), metrics={"top1": np.float64(0.5)}, provenance=facts)
    return place


def test_a_model_comes_back_as_it_was(saved: Path) -> None:
    loaded, values = load_model(saved), small_rows(2)
    model = linear(3)
    np.testing.assert_array_equal(loaded.model.tensors()["weights"], model.weights)
    np.testing.assert_array_equal(loaded.rank(Dense(values), 3).scores, model.rank(Dense(values), 3).scores)
    assert loaded.classes == class_table(9)
    assert (loaded.model.kind, loaded.model.n_features, loaded.model.n_classes) == ("ovr", 6, 9)
    assert verify_model(saved) == loaded.digest
    assert sorted(path.name for path in saved.iterdir()) == sorted(
        ["model.json", "weights.safetensors", "classes.parquet", "README.md", "SHA256SUMS"]
    )


def test_fortran_order_and_no_bias_come_back(tmp_path: Path) -> None:
    weights = np.asfortranarray(np.arange(12, dtype=np.float32).reshape(3, 4))
    save_model(tmp_path / "m", LinearModel(weights), class_table(4))
    loaded = load_model(tmp_path / "m").model
    np.testing.assert_array_equal(loaded.tensors()["weights"], weights)
    assert "bias" not in loaded.tensors()


def test_the_digest_is_of_the_content_alone(tmp_path: Path) -> None:
    first = save_model(tmp_path / "a", linear(3), class_table(9), metrics={"train_seconds": 1.5})
    again = save_model(tmp_path / "b", linear(3), class_table(9), provenance={"run": "other"})
    assert first == again
    assert save_model(tmp_path / "c", linear(4), class_table(9)) != first
    assert save_model(tmp_path / "d", linear(3), ClassTable(class_table(9).ids, ("x",) * 9)) != first
    assert save_model(tmp_path / "e", linear(3), class_table(9), rows="pq") != first
    assert save_model(tmp_path / "f", LinearModel(linear(3).weights, linear(3).bias, "msvm"), class_table(9)) != first


def test_publishing_adds_metrics_and_keeps_the_digest(saved: Path, tmp_path: Path) -> None:
    digest = publish_model(saved, tmp_path / "published", {"top1": 0.75, "speedup": float("inf")})
    published = load_model(tmp_path / "published")
    assert digest == load_model(saved).digest == published.digest
    assert published.header["metrics"] == {"top1": 0.75, "speedup": None}
    assert published.header["provenance"] == load_model(saved).header["provenance"]


def test_saving_again_replaces_and_leaves_nothing_else(saved: Path) -> None:
    save_model(saved, linear(5), class_table(9))
    np.testing.assert_array_equal(load_model(saved).model.tensors()["weights"], linear(5).weights)
    assert [path.name for path in saved.parent.iterdir()] == ["ovr"]


def test_a_save_that_fails_shows_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> str:
        raise OSError("disk gone")

    monkeypatch.setattr(folder_module, "model_card", fail)
    with pytest.raises(OSError, match="disk gone"):
        save_model(tmp_path / "m", linear(0), class_table(9))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_model_that_diverged_is_never_written(tmp_path: Path, bad: float) -> None:
    model = linear(0)
    model.weights[2, 3] = bad
    with pytest.raises(Diverged, match=r"1 of 54 weights of 'weights'"):
        save_model(tmp_path / "m", model, class_table(9))
    assert list(tmp_path.iterdir()) == []


def test_a_model_of_others_that_is_not_finite_does_not_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = linear(0)
    model.weights[2, 3] = np.nan
    with monkeypatch.context() as patch:
        for module in (folder_module, tensors_module):
            patch.setattr(module, "check_finite", lambda _: None)
        save_model(tmp_path / "m", model, class_table(9))
    with pytest.raises(ModelDamaged, match=r"1 of 54 numbers of 'weights' are not finite"):
        verify_model(tmp_path / "m")


def test_the_card_is_yaml_and_markdown_whatever_the_names(saved: Path) -> None:
    text = (saved / "README.md").read_text("utf-8")
    head = yaml.safe_load(text.split("---\n")[1])
    result = head["model-index"][0]["results"][0]
    assert result["metrics"] == [{"type": "top1", "value": 0.5}]
    assert result["dataset"]["name"] == "two cranes: *bold* <b>"
    body = text.split("---\n", 2)[2]
    assert "<b>" not in body
    assert r"\*bold\* &lt;b&gt;" in body


@given(st.text())
def test_yaml_text_reads_back(text: str) -> None:
    assert yaml.safe_load(yaml_text(text)) == text


@given(st.text())
def test_markdown_text_holds_no_markup(text: str) -> None:
    shown = markdown_text(text)
    assert not set(shown) & set("<>\n\r\x00\x1b")
    assert len(shown.replace("\\\\", "").split("*")) == len(shown.replace("\\\\", "").split(r"\*"))


def test_all_files_of_a_model_may_be_read_by_whom_the_umask_lets(tmp_path: Path) -> None:
    save_model(tmp_path / "m", linear(3), class_table(9))
    (tmp_path / "other").touch()
    expected = (tmp_path / "other").stat().st_mode
    assert {path.name: path.stat().st_mode for path in (tmp_path / "m").iterdir()} == dict.fromkeys(
        (path.name for path in (tmp_path / "m").iterdir()), expected
    )


# ---- what is not believed ----------------------------------------------------------------------------------------


FILES = ("model.json", "weights.safetensors", "classes.parquet", "README.md", "SHA256SUMS")


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(saved: Path, name: str) -> None:
    (saved / name).unlink()
    with pytest.raises(ModelMissing) as caught:
        load_model(saved)
    assert str(saved / name) in str(caught.value)
    assert caught.value.exit_code == 4


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["flip", "truncate", "empty", "sibling"])
def test_every_damage_to_every_file_is_found(saved: Path, name: str, damage: str) -> None:
    path = saved / name
    data = bytearray(path.read_bytes())
    if damage == "flip":
        data[len(data) // 2] ^= 1
    elif damage == "truncate":
        data = data[:-3]
    elif damage == "empty":
        data = bytearray()
    else:
        names = ClassTable(class_table(9).ids, tuple("abcdefghi"))
        save_model(saved.with_name("other"), linear(8), names, metrics={"top1": 1.0})
        data = bytearray((saved.with_name("other") / name).read_bytes())
    path.write_bytes(bytes(data))
    with pytest.raises(ArtefactError) as caught:
        load_model(saved)
    assert str(saved) in str(caught.value)


@pytest.mark.parametrize("name", ["model.pkl", "model.JOBLIB", "weights.pt", "x.npy"])
def test_pickles_are_refused_unopened(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"\x80\x04")
    path.chmod(0)
    with pytest.raises(UnsafeFormat, match="can run code") as caught:
        load_model(path)
    assert caught.value.exit_code == 4


class Payload:
    """A pickle that leaves a file behind when it is opened."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return builtins.open, (str(self.marker), "w")


def test_a_header_that_names_a_pickle_is_refused(saved: Path, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    (saved / "evil.pkl").write_bytes(pickle.dumps(Payload(marker)))
    (saved / "SHA256SUMS").write_text("\n".join(x for x in sums_text(saved).splitlines() if "evil" not in x) + "\n")
    change = json.loads((saved / "model.json").read_text()) | {"weights": "evil.pkl"}
    (saved / "model.json").write_text(json.dumps(change))
    lines = [line for line in sums_text(saved).splitlines() if "evil" not in line]
    (saved / "SHA256SUMS").write_text("\n".join(lines) + "\n")
    with pytest.raises(UnsafeFormat):
        load_model(saved)
    assert not marker.exists()


@pytest.mark.parametrize("form", ["pickle", "zip"])
def test_a_pickle_in_disguise_is_refused(saved: Path, tmp_path: Path, form: str) -> None:
    marker = tmp_path / "marker"
    weights = saved / "weights.safetensors"
    weights.unlink()
    if form == "pickle":
        weights.write_bytes(pickle.dumps(Payload(marker)))
    else:
        with zipfile.ZipFile(weights, "w") as archive:
            archive.writestr("archive/data.pkl", pickle.dumps(Payload(marker)))
    reseal(saved)
    with pytest.raises(UnsafeFormat):
        load_model(saved)
    assert not marker.exists()


def test_nothing_that_runs_code_is_called_by_a_full_load(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("code from a file would run")

    load_model(saved).rank(Dense(small_rows(0)), 2)  # imports and compiles what is needed
    for owner, name in ((pickle, "load"), (pickle, "loads"), (builtins, "eval"), (yaml, "load")):
        monkeypatch.setattr(owner, name, refuse)
    assert load_model(saved).rank(Dense(small_rows(0)), 2).classes.shape == (7, 2)


@pytest.mark.parametrize("entry", ["../weights.safetensors", "/etc/passwd", "a/b", "..", "..\\x", "C:\\x", "a\\b"])
def test_entry_names_that_leave_the_folder_are_refused(saved: Path, entry: str) -> None:
    with (saved / "SHA256SUMS").open("a") as sums:
        sums.write(f"{'0' * 64}  {entry}\n")
    with pytest.raises(UnsafePath) as caught:
        load_model(saved)
    assert caught.value.exit_code == 4


@pytest.mark.parametrize("name", FILES)
def test_links_are_refused(saved: Path, tmp_path: Path, name: str) -> None:
    shutil.move(saved / name, tmp_path / name)
    (saved / name).symlink_to(tmp_path / name)
    with pytest.raises(UnsafePath, match="link"):
        load_model(saved)


@pytest.mark.parametrize("place", ["nowhere", "file"])
def test_what_is_no_model_folder_is_refused(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ModelMissing) as caught:
        load_model(tmp_path / place)
    assert caught.value.exit_code == 4


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"version": 2}, "version 2 .* reads up to version 1"),
        ({"version": "1"}, "no version"),
        ({"version": True}, "no version"),
        ({"format": "labelgrove.dataset"}, "no labelgrove.model"),
        ({"kind": "os:system"}, "unknown kind 'os:system'.*ovr"),
        ({"kind": ["ovr"]}, "proper kind"),
        ({"n_classes": 8}, "8 rows"),
        ({"n_features": 7}, "n_features and n_classes"),
        ({"n_features": "6"}, "proper n_features"),
        ({"tensors": {}}, "tensors are not those"),
        ({"encoders": [{"kind": "nope"}]}, "unknown kind 'nope'"),
        ({"encoders": ["pq"]}, "proper encoder kind"),
        ({"encoders": [{"kind": "pq"}]}, "codebooks"),
        ({"weights": "other.safetensors"}, "weights are in"),
        ({"bias": False}, "bias"),
        ({"kind": "heshing"}, "another hash"),
        ({"kind": "label-tree"}, "do not fit|needs the tensors"),
    ],
)
def test_headers_that_lie_are_refused(saved: Path, values: dict[str, Any], message: str) -> None:
    change_header(saved, **values)
    with pytest.raises(ArtefactError, match=message) as caught:
        load_model(saved)
    assert isinstance(caught.value, ModelFormat | HashMismatch)
    assert str(saved) in str(caught.value)


@pytest.mark.parametrize("text", ["[]", "{", "", "null", "[" * 100_000])
def test_a_header_that_is_no_object_is_refused(saved: Path, text: str) -> None:
    (saved / "model.json").write_text(text)
    reseal(saved)
    with pytest.raises(ModelFormat):
        load_model(saved)


def safetensors_with(header: dict[str, Any], data: bytes) -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


@pytest.mark.parametrize(
    "content",
    [
        safetensors_with({"weights": {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 1 << 42]}}, b""),
        safetensors_with({"weights": {"dtype": "F32", "shape": [6, 9], "data_offsets": [0, 8]}}, b"\0" * 8),
        safetensors_with({"weights": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}, b"\0" * 16),
        safetensors_with({"weights": {"dtype": "object", "shape": [2], "data_offsets": [0, 8]}}, b"\0" * 8),
        (1 << 62).to_bytes(8, "little") + b"{}",
        b"",
    ],
)
def test_sizes_that_lie_in_the_weights_are_refused_before_anything_is_allocated(saved: Path, content: bytes) -> None:
    (saved / "weights.safetensors").write_bytes(content)
    reseal(saved)
    with pytest.raises(ArtefactError) as caught:
        load_model(saved)
    assert isinstance(caught.value, ModelDamaged | ModelFormat)


def test_a_wrong_content_digest_is_found_by_verify(saved: Path) -> None:
    change_header(saved, digest="0" * 32)
    load_model(saved)
    with pytest.raises(ModelDamaged, match="content digest"):
        verify_model(saved)


def test_unknown_sums_lines_and_missing_entries_are_refused(saved: Path) -> None:
    text = (saved / "SHA256SUMS").read_text()
    (saved / "SHA256SUMS").write_text(text + "not a line\n")
    with pytest.raises(ModelDamaged, match="no line"):
        load_model(saved)
    (saved / "SHA256SUMS").write_text("".join(x for x in text.splitlines(True) if "weights" not in x))
    with pytest.raises(ModelMissing, match="does not list weights"):
        load_model(saved)


def test_a_header_must_not_use_the_folders_own_fields(tmp_path: Path) -> None:
    class Greedy(LinearModel):
        def header(self) -> dict[str, Any]:
            return super().header() | {"digest": "mine"}

    with pytest.raises(ValueError, match="digest"):
        save_model(tmp_path / "m", Greedy(linear(0).weights), class_table(9))


@pytest.mark.parametrize("kind", sorted(MODELS))
def test_every_registered_kind_has_its_class(kind: str) -> None:
    assert callable(class_of(kind, MODELS, "here").load)
