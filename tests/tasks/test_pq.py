"""Encoding by the nearest centroid, its parameters and errors, and encoding over blocks of a store."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.emit import LANES
from tasks.errors import InputError, ParamError, UsageError
from tasks.io import (
    Block,
    blocks_of,
    create_codes,
    create_column,
    create_csr,
    create_dense,
    read_rows,
    write_column,
    write_csr,
    write_dense,
)
from tasks.later import compiles, numba
from tasks.quantize import blocks as module
from tasks.quantize.assign import nearest_and_squares, origins
from tasks.quantize.blocks import (
    EncodeReport,
    SamplePart,
    codebook_sums_blocks,
    count_eligible,
    encode_block,
    parted,
    plan_sample,
    sample_block,
)
from tasks.quantize.kmeans import assign_and_sum
from tasks.quantize.nearest_rows import TurnedCodebooks, lines
from tasks.quantize.nearest_vectors import find, find_wide
from tasks.quantize.pq import PqParams, PQShape, PQTooFewRows, decode, encode
from tasks.rows import PqCodes
from tasks.sums import add_up
from tests.bodies import csr_of
from tests.naive import quantize as naive


def whole_numbers(seed: int, *shape: int) -> np.ndarray:
    """Small whole numbers: distances are exact in float32, and ties are common."""
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float32)


@given(
    seed=st.integers(0, 10**6),
    n_rows=st.sampled_from([0, 1, 5, 300]),
    n_subquantizers=st.integers(1, 3),
    n_centroids=st.sampled_from([1, 2, 7, 16, 33]),
    width=st.integers(1, 9),
)
def test_codes_are_the_lowest_nearest(
    seed: int, n_rows: int, n_subquantizers: int, n_centroids: int, width: int
) -> None:
    n_rows = min(n_rows, 5) if n_centroids > 7 else n_rows
    codebooks = whole_numbers(seed, n_subquantizers, n_centroids, width)
    values = whole_numbers(seed + 1, n_rows, n_subquantizers * width)
    codes = encode(values, codebooks)
    assert codes.dtype == np.uint8
    np.testing.assert_array_equal(codes, naive.encode(values, codebooks))
    for dtype in (np.float16, np.float64):
        np.testing.assert_array_equal(encode(values.astype(dtype), codebooks), codes)


SHAPES = [  # rows, subquantizers, centroids, width: no multiples, single ones
    *[(1, 1, 1, 1), (17, 1, 256, 4), (16, 70, 3, 1), (19, 2, 30, 10), (9, 1, 16, 33)],
    *([(530, 9, 17, 16), (5, 2, 250, 700)] if compiles() else []),  # more than one run of rows, and of columns
]


def shaped(shape: tuple[int, int, int, int], seed: int) -> tuple[np.ndarray, np.ndarray]:
    n_rows, n_subquantizers, _, width = shape
    return whole_numbers(seed, n_rows, n_subquantizers * width), whole_numbers(seed + 1, *shape[1:])


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_codes_squares_and_sums_of_any_shape(shape: tuple[int, int, int, int]) -> None:
    """All at once, in exact numbers; float16 as it is, and rows that begin anywhere."""
    values, codebooks = shaped(shape, 5)
    expected = naive.encode(values, codebooks)
    sums, counts, errors = naive.codebook_sums(values, expected, codebooks)
    shifted = np.empty(values.size + 1, np.float32)[1:].reshape(values.shape)
    shifted[...] = values
    for rows in (values, values.astype(np.float16), shifted, np.asfortranarray(values)):
        codes, error, norm = nearest_and_squares(rows, codebooks)
        np.testing.assert_array_equal(codes, expected)
        assert (error, norm) == (errors.sum(), (values**2).sum())
        found = assign_and_sum(rows, codebooks)
        np.testing.assert_array_equal(found.sums, sums)
        np.testing.assert_array_equal(found.counts, counts)
        np.testing.assert_array_equal(found.errors, errors)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_a_row_has_the_code_that_it_has_alone(dtype: type) -> None:
    rng = np.random.default_rng(2)
    codebooks = rng.standard_normal((3, 20, 6)).astype(np.float32)
    values = rng.standard_normal((531 if compiles() else 19, 18)).astype(dtype)
    codes = encode(values, codebooks)
    np.testing.assert_array_equal(np.concatenate([encode(row[None], codebooks) for row in values[-9:]]), codes[-9:])
    np.testing.assert_array_equal(encode(values[7:], codebooks), codes[7:])


def test_squares_are_those_of_what_is_left() -> None:
    rng = np.random.default_rng(3)
    codebooks = rng.standard_normal((3, 20, 5)).astype(np.float32)
    values = (100 * rng.standard_normal((50, 15))).astype(np.float32)
    codes, error, norm = nearest_and_squares(values, codebooks)
    away = values.astype(np.float64) - naive.decode(codes, codebooks)
    assert error == pytest.approx((away**2).sum(), rel=1e-6)
    assert norm == pytest.approx((values.astype(np.float64) ** 2).sum(), rel=1e-6)
    assert nearest_and_squares(decode(codes, codebooks), codebooks)[1] == 0


def test_every_finite_number_of_float16_is_widened() -> None:
    """With centroids beside it, the code says which number it was taken for."""
    bits = np.arange(0, 2**16, 7 if compiles() else 777, dtype=np.uint16)
    halves = bits.view(np.float16)
    halves = halves[np.isfinite(halves)]
    exact = halves.astype(np.float32)
    codebooks = np.stack([exact, np.nextafter(exact, np.float32(np.inf))], axis=1)[:, :, None]
    codes, error, norm = nearest_and_squares(halves[None], codebooks)
    assert (codes == 0).all()
    assert error == 0
    assert norm == pytest.approx((exact.astype(np.float64) ** 2).sum())


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("n_centroids", [1, 3, 7, 20])
def test_what_is_not_finite_shows_in_the_squares_and_stays_in_its_row(
    dtype: type, value: float, n_centroids: int
) -> None:
    values, codebooks = shaped((9, 2, n_centroids, 3), 8)
    codes = encode(values, codebooks)
    values[4, 1] = value
    found, error, norm = nearest_and_squares(values.astype(dtype), codebooks)
    assert not np.isfinite([error, norm]).any()
    np.testing.assert_array_equal(np.delete(found, 4, axis=0), np.delete(codes, 4, axis=0))
    assert (found[4] < n_centroids).all()


def test_rows_of_another_width_are_refused() -> None:
    values, codebooks = shaped((9, 2, 20, 3), 8)
    with pytest.raises(ValueError, match="rows of 4 numbers, codebooks of 2 x 3"):
        encode(values[:, :4], codebooks)


def test_codebooks_may_be_changed_in_place_between_calls() -> None:
    values, codebooks = shaped((6, 2, 16, 8), 9)
    first = encode(values, codebooks)
    codebooks[:] = codebooks[:, ::-1].copy()
    np.testing.assert_array_equal(encode(values, codebooks), naive.encode(values, codebooks))
    codebooks[:] = codebooks[:, ::-1].copy()
    np.testing.assert_array_equal(encode(values, codebooks), first)


@pytest.mark.skipif(not compiles(), reason="vectors are not interpreted")
def test_as_many_centroids_at_once_as_registers_hold() -> None:
    """Distances to eight centroids at a time, as with AVX-512, give the same bits as to four."""
    values, codebooks = shaped((16, 1, 48, 5), 6)
    codebooks += np.random.default_rng(6).standard_normal(codebooks.shape).astype(np.float32)
    turned, rows = TurnedCodebooks.of(codebooks), lines(8, LANES)
    rows[:5] = values.T
    found = [lines(2, LANES) for _ in range(2)]
    for out, wide in zip(found, (False, True), strict=True):
        places = (out, rows, turned.panels, turned.norms)
        find_either(tuple(place.ctypes.data for place in places), 3, 5, wide)
    np.testing.assert_array_equal(*found)


@numba.njit(nogil=True)
def find_either(places: tuple[int, ...], n_blocks: int, width: int, wide: bool) -> None:
    if wide:
        find_wide((*places, n_blocks, width))
    else:
        find((*places, n_blocks, width))


@pytest.mark.skipif(not compiles(), reason="vectors are not interpreted")
def test_origins_are_the_same_in_vectors() -> None:
    rng = np.random.default_rng(7)
    for offset, width in ((0, 3), (50, 8), (-3e4, 17), (1e8, 1)):
        codebooks = (offset + rng.standard_normal((6, 37, width))).astype(np.float32)
        np.testing.assert_array_equal(TurnedCodebooks.of(codebooks).origins[:, :width], origins(codebooks))


def test_a_real_codebook_of_256_loses_nothing_against_the_definition() -> None:
    """In float32 two centroids at almost equal distance may swap; the distance lost is of rounding size."""
    rng = np.random.default_rng(0)
    codebooks = rng.standard_normal((2, 256, 4)).astype(np.float32)
    values = rng.standard_normal((40, 8)).astype(np.float32)
    codes = encode(values, codebooks)
    for row, chosen in zip(values, codes, strict=True):
        distances = naive.squared_distances(row, codebooks)
        assert (distances[[0, 1], chosen] <= distances.min(axis=1) + 1e-5).all()


@pytest.mark.parametrize("offset", [0.0, 50.0, -5e3, 3e5, 1e8])
@pytest.mark.parametrize("scale", [1e-3, 1.0])
def test_codes_are_the_nearest_far_from_zero(offset: float, scale: float) -> None:
    """Squared norms would drown the distances: the centroids' origin is taken off first."""
    rng = np.random.default_rng(8)
    codebooks = (offset * scale + scale * rng.normal(size=(4, 64, 8))).astype(np.float32)
    values = (offset * scale + scale * rng.normal(size=(300, 32))).astype(np.float32)
    distances = np.stack([naive.squared_distances(row, codebooks) for row in values])
    codes = encode(values, codebooks)
    chosen = np.take_along_axis(distances, codes[:, :, None].astype(np.int64), axis=2)[:, :, 0]
    assert (chosen <= distances.min(axis=2) * (1 + 1e-4)).all()


def test_distances_that_are_equal_stay_equal_far_from_zero() -> None:
    codebooks = np.array([[[1003.0, 999.0], [1001.0, 999.0], [1003.0, 1002.0]]], np.float32)
    assert encode(np.array([[1002.0, 999.0], [1003.0, 1000.5]], np.float32), codebooks).tolist() == [[0], [0]]


def test_centroids_around_zero_are_measured_from_there() -> None:
    codebooks = np.random.default_rng(9).normal(0.2, 1, (5, 16, 3)).astype(np.float32)
    assert not origins(codebooks).any()


def test_centroids_encode_to_themselves() -> None:
    codebooks = np.random.default_rng(1).standard_normal((3, 8, 5)).astype(np.float32)
    codes = np.arange(8, dtype=np.uint8)[:, None] * np.ones(3, np.uint8)
    np.testing.assert_array_equal(encode(decode(codes, codebooks), codebooks), codes)


def test_parts_that_do_not_divide_are_refused_with_values_that_do() -> None:
    with pytest.raises(PQShape, match="130 features cannot be cut into 8") as caught:
        PqParams(subquantizers=8).resolve(130)
    assert "130: 5, 10, 13, 26; or cut " in caught.value.hint
    assert isinstance(caught.value, UsageError)
    assert caught.value.exit_code == 2
    assert pickle.loads(pickle.dumps(caught.value)).hint == caught.value.hint
    with pytest.raises(PQShape, match="divide 7: 1, 7"):
        PqParams(subquantizers=9).resolve(7)


@pytest.mark.parametrize(("n_features", "expected"), [(512, 64), (1, 1), (7, 1), (130, 26), (131, 131), (384, 48)])
def test_default_parts_divide_any_width(n_features: int, expected: int) -> None:
    assert PqParams().resolve(n_features) == expected


def test_fewer_rows_than_centroids_name_the_bits_that_fit() -> None:
    with pytest.raises(PQTooFewRows, match="111 training rows for 256 centroids") as caught:
        PqParams().check_rows(111)
    assert "are 6" in caught.value.hint
    assert isinstance(caught.value, InputError)
    assert caught.value.exit_code == 3
    PqParams(bits=6).check_rows(111)
    with pytest.raises(PQTooFewRows):
        PqParams(bits=1).check_rows(1)


@pytest.mark.parametrize(
    ("bad", "name"),
    [
        ({"subquantizers": 0}, "subquantizers"),
        ({"bits": 9}, "bits"),
        ({"bits": 0}, "bits"),
        ({"sample": 255}, "sample"),
        ({"iterations": -1}, "iterations"),
    ],
)
def test_bad_parameters_are_refused(bad: dict[str, int], name: str) -> None:
    with pytest.raises(ParamError, match=f"pq.{name}"):
        PqParams(**bad)


# ---- over the blocks of a store ----------------------------------------------------------------------------------


def stored(folder: Path, values: np.ndarray, block_rows: int, body: str) -> str:
    """A dataset of these rows whose first two thirds are training rows; returns its path."""
    dataset, n_rows = str(folder / "d"), len(values)
    make = create_dense if body == "dense" else create_csr
    create_column(dataset, "split", n_rows, block_rows, "uint8")
    for block in make(f"{dataset}/X", values.shape[0], values.shape[1], block_rows):
        part = values[block.start : block.stop]
        if body == "dense":
            write_dense(block, part)
        else:
            sparse = csr_of(part)
            write_csr(block, sparse.data, sparse.indices, sparse.indptr)
        split = np.where(np.arange(block.start, block.stop) < 2 * n_rows // 3, 0, 2).astype(np.uint8)
        write_column(dataset, "split", block.start, split)
    return dataset


@pytest.mark.parametrize("body", ["dense", "csr"])
def test_encoding_a_store_block_by_block(tmp_path: Path, body: str) -> None:
    values, codebooks = whole_numbers(3, 23, 6), whole_numbers(4, 3, 4, 2)
    blocks = blocks_of(stored(tmp_path, values, 8, body) + "/X")
    target = str(tmp_path / "codes")
    targets = create_codes(target, 23, 3, 8, codebooks)
    reports = [encode_block(block, codebooks, target) for block in blocks]
    expected = naive.encode(values, codebooks)
    read = [read_rows(block) for block in targets]
    assert all(isinstance(rows, PqCodes) for rows in read)
    np.testing.assert_array_equal(np.concatenate([rows.codes for rows in read]), expected)  # type: ignore[attr-defined]
    total: EncodeReport = add_up(reports)
    away = values - naive.decode(expected, codebooks)
    assert (total.rows, len(total.digests)) == (23, 3)
    assert total.squared_error == pytest.approx((away**2).sum())
    assert total.relative_error == pytest.approx((away**2).sum() / (values**2).sum())
    assert [encode_block(block, codebooks, target) for block in blocks] == reports  # a retry writes the same


@pytest.mark.parametrize("wanted", [1, 7, 14, 99])
def test_a_sample_is_of_training_rows_and_the_same_when_drawn_again(tmp_path: Path, wanted: int) -> None:
    values = np.arange(22 * 2, dtype=np.float32).reshape(22, 2)
    dataset = stored(tmp_path, values, 5, "dense")
    blocks = blocks_of(f"{dataset}/X")
    eligible = [count_eligible(block, dataset) for block in blocks]
    assert eligible == [5, 5, 4, 0, 0]
    assert [count_eligible(block, "") for block in blocks] == [5, 5, 5, 5, 2]
    parts = plan_sample(blocks, eligible, wanted, seed=1)
    assert sum(part.rows for part in parts) == min(wanted, 14)
    drawn = np.concatenate([sample_block(part, dataset, 1) for part in parts])
    assert len(np.unique(drawn[:, 0])) == len(drawn)  # no row twice
    assert set(drawn[:, 0]) <= set(values[:14, 0])
    np.testing.assert_array_equal(drawn, np.concatenate([sample_block(part, dataset, 1) for part in parts]))


def test_other_seeds_draw_other_rows(tmp_path: Path) -> None:
    dataset = stored(tmp_path, np.arange(60, dtype=np.float32).reshape(60, 1), 60, "dense")
    (part,) = plan_sample(blocks_of(f"{dataset}/X"), [40], 20, seed=0)
    drawn = {seed: sample_block(part, dataset, seed).ravel().tolist() for seed in range(3)}
    assert drawn[0] != drawn[1] != drawn[2]


def test_a_sample_reads_few_blocks_but_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FEWEST_BLOCKS", 3)
    blocks = [Block("x", i, 10 * i, 10 * i + 10) for i in range(20)]
    few = plan_sample(blocks, [10] * 20, 12, seed=5)
    assert (len(few), sum(part.rows for part in few)) == (3, 12)
    many = plan_sample(blocks, [10] * 20, 95, seed=5)
    assert (len(many), sum(part.rows for part in many)) == (10, 95)
    assert all(part.rows <= 10 for part in many)
    assert [part.block.index for part in many] == sorted(part.block.index for part in many)
    assert plan_sample(blocks, [0] * 20, 12, seed=5) == []


@pytest.mark.parametrize(("n_features", "runs"), [(1, [8]), (10, [4, 4]), (20, [2, 2, 2, 2]), (80, [1] * 8)])
def test_parts_of_little_work_share_a_task(monkeypatch: pytest.MonkeyPatch, n_features: int, runs: list[int]) -> None:
    monkeypatch.setattr(module, "LEAST_WORK", 5 * 8 * 10 * 4)
    monkeypatch.setattr(module, "FEWEST_ROWS", 1)
    parts = [SamplePart(Block("x", i, 10 * i, 10 * i + 10), 5) for i in range(8)]
    found = parted(parts, n_features, n_centroids=8)
    assert [len(run) for run in found] == runs
    assert [part for run in found for part in run] == parts


def test_rows_drawn_again_are_those_of_the_store_as_it_is(tmp_path: Path) -> None:
    """They are kept between rounds, though never longer than what they were drawn from."""
    values = whole_numbers(8, 30, 4)
    part = SamplePart(blocks_of(f"{stored(tmp_path, values, 30, 'dense')}/X")[0], 9)
    first = sample_block(part, "", 2)
    assert sample_block(part, "", 2) is first
    stored(tmp_path, values + 1, 30, "dense")
    np.testing.assert_array_equal(sample_block(part, "", 2), first + 1)


def test_sums_over_parts_are_those_of_the_sample(tmp_path: Path) -> None:
    values, codebooks = whole_numbers(8, 30, 4), whole_numbers(9, 2, 5, 2)
    dataset = stored(tmp_path, values, 7, "csr")
    blocks = blocks_of(f"{dataset}/X")
    parts = plan_sample(blocks, [count_eligible(block, dataset) for block in blocks], 30, seed=2)
    total = add_up([codebook_sums_blocks(run, codebooks, dataset, 2) for run in (parts[:2], parts[2:])])
    whole = assign_and_sum(values[:20], codebooks)
    np.testing.assert_array_equal(total.counts, whole.counts)
    np.testing.assert_array_equal(total.sums, whole.sums)
    assert total.n_rows == 20
    assert total.error == whole.error
