"""Models by ranges of classes: the ranking of the whole model, files that are mapped and streamed."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tasks.models import tensors as tensors_module
from tasks.models.class_ranges import RangedModel
from tasks.models.errors import ColumnMismatch, ModelDamaged, ModelFormat
from tasks.models.folder import load_model, publish_model, save_model, verify_model
from tasks.models.linear import LinearModel
from tasks.models.mapped import read_mapped, release, write_streamed
from tasks.rows.base import Array
from tests.naive import models as naive
from tests.tasks.fit_problems import bodies
from tests.tasks.model_samples import class_table

CUTS = ([], [1], [4, 5], [1, 2, 3, 4, 5, 6, 7, 8])
N_FEATURES, N_CLASSES = 6, 9


def cut(weights: Array, cuts: list[int]) -> tuple[Array, ...]:
    return tuple(np.ascontiguousarray(part) for part in np.split(weights, cuts, axis=1))


def whole_numbers(seed: int) -> LinearModel:
    """Scores of whole numbers, so that there are ties."""
    rng = np.random.default_rng(seed)
    weights = rng.integers(-1, 2, (N_FEATURES, N_CLASSES)).astype(np.float32)
    return LinearModel(weights, rng.integers(-1, 2, N_CLASSES).astype(np.float32))


def ranged(model: LinearModel, cuts: list[int]) -> RangedModel:
    return RangedModel(cut(model.weights, cuts), model.bias)


@pytest.fixture
def all_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file counts as one too large to be held."""
    monkeypatch.setattr(tensors_module, "LARGE_BYTES", 0)


@pytest.mark.parametrize("top", [1, 3, 9])
@pytest.mark.parametrize("cuts", CUTS, ids=str)
@pytest.mark.parametrize("body", ["dense", "half", "csr", "pq"])
def test_the_ranking_is_that_of_the_whole_model(body: str, cuts: list[int], top: int) -> None:
    rows, model = bodies(top)[body], whole_numbers(len(cuts))
    expected, found = model.rank(rows, top), ranged(model, cuts).rank(rows, top)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(found.evaluations, expected.evaluations)
    if body == "csr":
        np.testing.assert_array_equal(found.classes, expected.classes)


@pytest.mark.parametrize("cuts", CUTS, ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_ties_stay_with_the_lower_class(seed: int, cuts: list[int]) -> None:
    rng, model = np.random.default_rng(seed), whole_numbers(seed)
    values = rng.integers(-1, 2, (12, N_FEATURES)).astype(np.float32)
    from tasks.rows import Dense

    found = ranged(model, cuts).rank(Dense(values), 4)
    for row, classes in zip(values, found.classes.tolist(), strict=True):
        assert classes == naive.top_classes(naive.linear_scores(row, model.weights, model.bias), 4)[0]


def test_rows_of_another_width_are_refused() -> None:
    with pytest.raises(ColumnMismatch, match="6"):
        ranged(whole_numbers(0), [3]).rank(bodies(0, n_features=8)["dense"], 1)


@pytest.mark.parametrize("bias", [True, False])
def test_it_is_saved_mapped_and_published(tmp_path: Path, all_large: None, bias: bool) -> None:  # noqa: ARG001
    model = ranged(whole_numbers(1), [2, 7])
    model = model if bias else RangedModel(model.parts)
    digest = save_model(tmp_path / "m", model, class_table(N_CLASSES))
    loaded = load_model(tmp_path / "m").model
    assert isinstance(loaded, RangedModel)
    assert loaded.starts == [0, 2, 7]
    assert not any(part.flags.writeable or part.flags.owndata for part in loaded.parts)
    rows = bodies(3)["csr"]
    for _ in range(2):  # what was released is there again
        np.testing.assert_array_equal(loaded.rank(rows, 5).scores, model.rank(rows, 5).scores)
    assert verify_model(tmp_path / "m") == publish_model(tmp_path / "m", tmp_path / "p", {"top1": 1.0}) == digest
    assert verify_model(tmp_path / "p") == digest


def test_how_large_a_file_is_decides_how_it_is_read_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ranged(whole_numbers(1), [2, 7])
    digest = save_model(tmp_path / "held", model, class_table(N_CLASSES))
    monkeypatch.setattr(tensors_module, "LARGE_BYTES", 0)
    assert save_model(tmp_path / "mapped", model, class_table(N_CLASSES)) == digest
    first, second = (load_model(tmp_path / name).model for name in ("held", "mapped"))
    for name, values in first.tensors().items():
        np.testing.assert_array_equal(values, second.tensors()[name])


@pytest.mark.parametrize(
    "change",
    [{"class_ranges": [0, 3, 7]}, {"class_ranges": [0, 2]}, {"class_ranges": []}, {"class_ranges": "x"}],
    ids=str,
)
def test_headers_that_do_not_fit_are_refused(change: dict[str, Any]) -> None:
    model = ranged(whole_numbers(2), [2, 7])
    with pytest.raises(ModelFormat):
        RangedModel.load({**model.header(), **change}, model.tensors())


def test_shapes_that_do_not_fit_are_refused() -> None:
    model = ranged(whole_numbers(2), [2, 7])
    for name, values in (("weights.0001", np.zeros((5, 5), "f4")), ("weights.0000", np.zeros(2, "f4")), ("bias", None)):
        tensors = {**model.tensors(), name: np.zeros(3, np.float32) if values is None else values}
        with pytest.raises(ModelFormat):
            RangedModel.load(model.header(), tensors)


# ---- files -------------------------------------------------------------------------------------------------------


def some_tensors() -> dict[str, Array]:
    rng = np.random.default_rng(0)
    return {
        "a": rng.normal(size=(5, 3)).astype(np.float32),
        "b": rng.normal(size=4),
        "c": rng.integers(0, 9, (2, 3, 2)).astype(np.int32),
        "d": np.zeros((0, 4), np.float16),
        "e": np.array(7, np.uint8),
        "f": np.array([True, False]),
    }


def test_streamed_files_are_read_by_the_library(tmp_path: Path) -> None:
    write_streamed(tmp_path / "x.safetensors", some_tensors())
    found = load_file(str(tmp_path / "x.safetensors"))
    assert found.keys() == some_tensors().keys()
    for name, values in some_tensors().items():
        assert found[name].dtype == values.dtype
        np.testing.assert_array_equal(found[name], values)


@pytest.mark.parametrize("ours", [True, False])
def test_mapped_files_are_what_was_written(tmp_path: Path, ours: bool) -> None:
    path = tmp_path / "x.safetensors"
    write_streamed(path, some_tensors()) if ours else save_file(some_tensors(), str(path))
    found = read_mapped(path)
    assert found.keys() == some_tensors().keys()
    for name, values in some_tensors().items():
        release(found[name])
        assert (found[name].dtype, found[name].shape) == (values.dtype, values.shape)
        np.testing.assert_array_equal(found[name], values)


@pytest.mark.parametrize("damage", ["short", "header", "empty"])
def test_damaged_files_are_refused(tmp_path: Path, all_large: None, damage: str) -> None:  # noqa: ARG001
    path = tmp_path / "x.safetensors"
    write_streamed(path, some_tensors())
    data = path.read_bytes()
    path.write_bytes({"short": data[:-3], "header": data[:20] + b"}" + data[21:], "empty": b"12345678"}[damage])
    with pytest.raises(ModelDamaged):
        tensors_module.read_tensors(path)


def test_pages_of_a_mapping_are_given_back(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    write_streamed(path, {"a": np.ones((4096, 1024), np.float32)})
    values = read_mapped(path)["a"]
    owner: Any = values
    while isinstance(owner, np.ndarray):
        owner = owner.base
    mapping = owner.obj if isinstance(owner, memoryview) else owner
    assert isinstance(mapping, mmap.mmap)
    assert float(values.sum()) == values.size
    touched = mapped_bytes(path)
    release(values)
    assert mapped_bytes(path) == 0 < values.nbytes <= touched
    assert float(values.sum()) == values.size


def mapped_bytes(path: Path) -> int:
    """Bytes of a file that this process holds mapped and present."""
    lines, total, inside = Path("/proc/self/smaps").read_text().splitlines(), 0, False
    for line in lines:
        if "-" in line.split()[0]:
            inside = line.endswith(str(path))
        elif inside and line.startswith("Rss:"):
            total += int(line.split()[1]) << 10
    return total
