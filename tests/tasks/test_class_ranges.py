"""One-vs-rest by ranges of classes: the whole fit's weights, kept progress, ranking with one range held at a time."""

from __future__ import annotations

import operator
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tasks.fit import class_ranges as module
from tasks.fit.average import ModelSum
from tasks.fit.checkpoint import SparingCheckpoint
from tasks.fit.class_ranges import (
    RANGE_BYTES,
    WHOLE_BYTES,
    BlockOracle,
    ClassRange,
    RangeFit,
    added_history,
    class_ranges,
    finished,
    fit_range,
    parameter_bytes,
    parameters_of,
    sample_of_classes,
    undivided,
)
from tasks.fit.fit import FitResult, fit
from tasks.fit.linear import LinearScorer
from tasks.fit.problem import SgdProblem
from tasks.fit.sgd import SgdParams
from tasks.io import Block, create_csr, write_csr
from tasks.losses.base import Loss
from tasks.losses.crammer_singer import CrammerSinger
from tasks.losses.hinge import OneVsRestHinge
from tasks.losses.logistic import OneVsRestLogistic
from tasks.losses.some_classes import SomeClasses
from tasks.rows.base import Array
from tasks.sums import sum_stream, tree_sum
from tests.bodies import csr_of
from tests.stores import store_dense

N_ROWS, N_FEATURES, N_CLASSES = 96, 7, 9
RANGES = [ClassRange(0, 0, 4), ClassRange(1, 4, 5), ClassRange(2, 5, 9)]


class Labels:
    """Labels of a store that is all training rows."""

    def __init__(self, labels: Array) -> None:
        self.labels = labels

    def of(self, block: Block) -> tuple[Array, Array]:
        return np.arange(block.n_rows), self.labels[block.start : block.stop]


def stored(path: Path, body: str, seed: int = 0) -> tuple[list[Block], Array]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, N_CLASSES, N_ROWS).astype(np.int32)
    values = (rng.normal(size=(N_CLASSES, N_FEATURES))[labels] + rng.normal(size=(N_ROWS, N_FEATURES))).astype("f4")
    if body == "dense":
        return store_dense(str(path), values, 16), labels
    values *= rng.random(values.shape) < 0.5
    blocks = create_csr(str(path), N_ROWS, N_FEATURES, 16)
    for block in blocks:
        part = csr_of(values[block.start : block.stop])
        write_csr(block, part.data, part.indices, part.indptr)
    return blocks, labels


def whole(labels: Array, loss: Loss | None = None, **params: Any) -> SgdProblem:
    given = SgdParams(**{"rounds": 3, "least_rows": 1, "batch": 4, "trial_rows": 64, **params})
    scorer = LinearScorer(N_FEATURES, N_CLASSES, True)
    return SgdProblem(scorer, loss or OneVsRestHinge(), given, 3, "ovr", Labels(labels))


def by_ranges(problem: SgdProblem, blocks: list[Block], folder: Path) -> tuple[RangeFit, list[module.RangeReport]]:
    common = RangeFit(problem, blocks[0].store, N_ROWS, str(folder))
    classes = sample_of_classes(RANGES)
    common = common.with_trial(BlockOracle(blocks).trial(common.problem(classes)), len(classes))
    return common, [fit_range(part, common) for part in RANGES]


def joined(common: RangeFit) -> dict[str, Array]:
    parts = [parameters_of(common.place(part), ("weights", "bias")) for part in RANGES]
    return {name: np.concatenate([part[name] for part in parts], axis=-1) for name in ("weights", "bias")}


def fitted_whole(problem: SgdProblem, blocks: list[Block], common: RangeFit) -> FitResult:
    """The whole fit with the step that the ranges were given."""
    assert common.trial is not None
    trial = replace(common.trial, blank_loss=common.trial.blank_loss * N_CLASSES / common.trial_classes)
    return fit(problem.with_trial(trial), BlockOracle(blocks))


# ---- which ranges ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_features", "n_classes"), [(107_501, 7_321), (1_000_000, 90), (40_000_000, 3), (64, 1_048_577), (600, 200_000)]
)
def test_ranges_cover_all_classes_and_are_bounded(n_features: int, n_classes: int) -> None:
    ranges = class_ranges(n_features, n_classes)
    assert [part.index for part in ranges] == list(range(len(ranges)))
    assert [ranges[0].start, *(part.stop for part in ranges)] == [*(part.start for part in ranges), n_classes]
    sizes = [part.n_classes for part in ranges]
    assert 1 <= min(sizes) >= max(sizes) - 1
    assert len(ranges) > 1
    assert max(sizes) == 1 or parameter_bytes(n_features, max(sizes)) <= RANGE_BYTES * 1.02
    assert max(sizes) <= module.RANGE_CLASSES


def test_what_fits_is_one_range() -> None:
    n_classes = WHOLE_BYTES // (4 * 1024)
    assert class_ranges(1023, n_classes) == [ClassRange(0, 0, n_classes)]
    assert len(class_ranges(1023, n_classes + 1)) > 1


@pytest.mark.parametrize("n_classes", [3, 9, 100, 101, 7321])
def test_the_sample_of_classes_is_spread_evenly_and_as_large_as_a_range(n_classes: int) -> None:
    ranges = [ClassRange(i, n_classes * i // 3, n_classes * (i + 1) // 3) for i in range(3)]
    classes = sample_of_classes(ranges)
    assert set(np.diff(classes).tolist()) <= {3}
    assert 0 <= classes[0] < 3
    assert n_classes - 3 <= classes[-1] < n_classes
    assert abs(len(classes) - ranges[0].n_classes) <= 1


# ---- the same fit ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("kind", [OneVsRestHinge, OneVsRestLogistic])
def test_losses_of_some_classes_are_columns_of_the_whole_loss(kind: Any, balanced: bool) -> None:
    rng = np.random.default_rng(1)
    loss = kind(class_weight=rng.random(N_CLASSES) if balanced else None)
    labels = rng.integers(-1, N_CLASSES, 30).astype(np.int32)
    scores = rng.normal(size=(30, N_CLASSES)).astype(np.float32)
    value, residuals = loss.residuals(scores, labels)
    classes = [np.array([7, 0, 3]), np.array([1, 2, 4, 5, 6, 8])]
    parts = [SomeClasses.of(loss, some, N_CLASSES).residuals(scores[:, some].copy(), labels) for some in classes]
    for some, (_, part) in zip(classes, parts, strict=True):
        np.testing.assert_array_equal(part, residuals[:, some])
    assert sum(part for part, _ in parts) == pytest.approx(value)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("body", ["csr", "dense"])
@pytest.mark.parametrize("kind", [OneVsRestHinge, OneVsRestLogistic])
def test_ranges_come_to_the_weights_of_the_whole_fit(tmp_path: Path, kind: Any, body: str, seed: int) -> None:
    blocks, labels = stored(tmp_path / "rows", body, seed)
    problem = whole(labels, kind(class_weight=np.linspace(0.5, 2, N_CLASSES)))
    common, reports = by_ranges(problem, blocks, tmp_path / "ranges")
    expected, found = fitted_whole(problem, blocks, common), joined(common)
    for name, values in expected.parameters.items():
        if body == "csr":  # every column of a sparse product is added up by itself
            np.testing.assert_array_equal(found[name], values)
        else:
            np.testing.assert_allclose(found[name], values, rtol=1e-4, atol=1e-6)
    for record, other in zip(added_history(reports), expected.history, strict=True):
        assert record == pytest.approx(other)


def test_the_step_is_chosen_once_for_all(tmp_path: Path) -> None:
    blocks, labels = stored(tmp_path / "rows", "csr")
    common, reports = by_ranges(whole(labels), blocks, tmp_path / "ranges")
    assert common.trial is not None
    assert len(common.trial.tried) > 1
    assert {report.step for report in reports} == {common.trial.step}


def test_losses_that_compare_classes_cannot_be_fitted_apart(tmp_path: Path) -> None:
    blocks, labels = stored(tmp_path / "rows", "csr")
    common = RangeFit(whole(labels, CrammerSinger()), blocks[0].store, N_ROWS, str(tmp_path))
    with pytest.raises(TypeError, match="fitted apart"):
        common.problem(np.arange(3))


# ---- progress ----------------------------------------------------------------------------------------------------


class Stopped(Exception):
    """In place of a kill."""


def test_a_range_goes_on_from_its_last_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks, labels = stored(tmp_path / "rows", "csr")
    common, expected = by_ranges(whole(labels), blocks, tmp_path / "whole")
    again = replace(common, folder=str(tmp_path / "stopped"))
    rounds: list[int] = []

    def counted(self: BlockOracle, problem: SgdProblem, parameters: Any, round_index: int) -> Any:
        rounds.append(round_index)
        if rounds == [0, 1]:
            raise Stopped
        return plain(self, problem, parameters, round_index)

    plain = BlockOracle.round
    monkeypatch.setattr(BlockOracle, "round", counted)
    monkeypatch.setattr(module, "SAVED_EVERY", 0.0)
    with pytest.raises(Stopped):
        fit_range(RANGES[0], again)
    assert fit_range(RANGES[0], again) == expected[0]
    assert rounds == [0, 1, 1, 2]
    assert fit_range(RANGES[0], again) == expected[0]
    assert rounds == [0, 1, 1, 2]  # it was there
    assert sorted(path.name for path in again.place(RANGES[0]).iterdir()) == ["bias.npy", "range.json", "weights.npy"]


def test_short_fits_write_no_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, written = [0.0], []
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    sparing = SparingCheckpoint(tmp_path, 60.0)
    for round_index, now in enumerate((30.0, 59.0, 60.0, 90.0, 121.0)):
        clock[0] = now
        sparing.save(round_index, {"w": np.zeros(1)}, [])
        found = sparing.load()
        written.append(None if found is None else found[0])
    assert written == [None, None, 2, 2, 4]


def test_all_rows_are_one_partition_and_the_sample_grows_with_the_classes() -> None:
    problem = whole(np.zeros(N_ROWS, np.int32), partitions=4, trial_rows=10)
    assert (undivided(problem).params.partitions, undivided(problem).params.trial_rows) == (1, 4 * N_CLASSES)
    many = replace(problem, scorer=LinearScorer(N_FEATURES, 10**6, True))
    assert undivided(many).params.trial_rows == 32_768
    assert undivided(whole(np.zeros(N_ROWS, np.int32), trial_rows=10**5)).params.trial_rows == 10**5


@pytest.mark.parametrize("name", ["weights.npy", "bias.npy", "range.json"])
@pytest.mark.parametrize("damage", ["flip", "truncate", "remove"])
def test_a_damaged_range_is_fitted_again(tmp_path: Path, name: str, damage: str) -> None:
    blocks, labels = stored(tmp_path / "rows", "csr")
    common, expected = by_ranges(whole(labels), blocks, tmp_path / "ranges")
    path = common.place(RANGES[1]) / name
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data) if damage == "flip" else bytes(data[: len(data) // 2]))
    if damage == "remove":
        path.unlink()
    assert finished(common.place(RANGES[1]), 1) is None
    assert fit_range(RANGES[1], common) == expected[1]
    assert finished(common.place(RANGES[1]), 1) == expected[1]


# ---- sums --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 7, 8, 9, 63, 64, 65, 72, 73, 130, 513])
def test_a_stream_adds_up_to_the_bits_of_the_tree(count: int) -> None:
    rng = np.random.default_rng(count)
    parts = list((1e6 ** rng.normal(size=(count, 3))).astype(np.float32))
    np.testing.assert_array_equal(sum_stream(part.copy() for part in parts), tree_sum(parts))
    np.testing.assert_array_equal(sum_stream((part.copy() for part in parts), operator.iadd), tree_sum(parts))


def test_a_stream_of_nothing_has_no_sum() -> None:
    with pytest.raises(IndexError):
        sum_stream([])


def test_a_sum_that_absorbs_has_the_bits_of_the_sum() -> None:
    rng = np.random.default_rng(0)
    sums = [ModelSum(3.0 * i, {"w": rng.normal(size=5).astype("f4")}, 1.5 * i, i, 2.0 * i) for i in (1, 2)]
    expected = sums[0] + sums[1]
    found = sums[0].absorb(sums[1])
    assert found.parameters["w"] is sums[0].parameters["w"]
    np.testing.assert_array_equal(found.parameters["w"], expected.parameters["w"])
    for name in ("weight", "loss", "rows", "operations"):
        assert getattr(found, name) == getattr(expected, name)
