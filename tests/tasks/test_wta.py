"""WTA and densified WTA codes against the paper's figures, its theory, and their definitions hash by hash."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.errors import ParamError
from tasks.hashing import code_rows
from tasks.hashing.code_rows import CodeHash
from tasks.hashing.windows import draw_windows
from tasks.hashing.wta import CodeParams, dtype_of, sentinel_of
from tasks.rows import Csr, Dense, OneHot, PqCodes, Rows
from tests.bodies import csr_of
from tests.naive import wta as naive
from tests.shared import shared_path

FIGURE_2 = np.array([[0, 0, 5, 0, 0, 7, 6, 0, 0], [0, 0, 1, 0, 0, 0, 0, 0, 0]], np.float32)
WINDOWS_2 = np.array([[2, 1, 8], [5, 3, 9], [6, 2, 4], [8, 9, 1], [1, 7, 3], [2, 4, 5]], np.int32) - 1


def hashed(rows: Rows, windows: np.ndarray, **settings: Any) -> np.ndarray:
    """Codes with given windows; -1 for none."""
    params = CodeParams(hashes=windows.shape[0], window=windows.shape[1], **settings)
    codes, _ = CodeHash(params, rows.n_features, windows).codes(rows)
    assert codes.dtype == params.dtype
    plain = codes.astype(np.int64)
    plain[codes == params.sentinel] = -1
    return plain


# ---- the paper's figures -----------------------------------------------------------------------------------------


def test_figure_1() -> None:
    rows = np.array([[10, 12, 9, 23], [8, 9, 1, 12], [9, 2, 6, 1], [3, 5, 1, 7]], np.float32)
    codes = hashed(Dense(rows), np.array([[4, 1, 2]], np.int32) - 1, kind="wta")
    assert (codes + 1).tolist() == [[1], [1], [2], [1]]


def test_figure_2_an_empty_sample_has_the_first_code_or_none() -> None:
    codes = hashed(Dense(FIGURE_2), WINDOWS_2, kind="wta")
    assert (codes + 1).tolist() == [[1, 2, 1, 1, 2, 1], [1, 2, 1, 1, 3, 1]]
    codes = hashed(Dense(FIGURE_2), WINDOWS_2, kind="wta", empty="none")
    assert codes.tolist() == [[-1, 1, 0, -1, 1, -1], [-1, 1, -1, -1, 2, -1]]


def test_figure_3_empty_samples_borrow_around_the_end() -> None:
    codes = hashed(Dense(FIGURE_2), WINDOWS_2, kind="dwta", shift=4)
    assert (codes + 1).tolist() == [[6, 2, 1, 6, 2, 10], [6, 2, 11, 7, 3, 10]]
    reduced = hashed(Dense(FIGURE_2), WINDOWS_2, kind="dwta", shift=4, range=8)
    assert reduced.tolist() == (codes % 8).tolist()


@pytest.mark.parametrize("name", ["wta-01", "wta-02", "wta-03"])
def test_reference_case(name: str) -> None:
    """Codes are numbered from 1 there; modulo R is then taken of the code from 1, which relabels residues only."""
    case = json.loads(shared_path(f"cases/{name}.json").read_text())
    given, expected = case["inputs"], case["expected"]
    values = np.array(given["X"], np.float32)
    windows = np.array(given["thetas"], np.int32)[:, : given["K"]] - 1
    kind, shift = ("dwta", given["C"]) if "C" in given else ("wta", None)
    for rows in (Dense(values), csr_of(values)):
        codes = hashed(rows, windows, kind=kind, shift=shift)
        assert (codes + 1).tolist() == expected["codes"]
        if "R" in given:
            reduced = hashed(rows, windows, kind=kind, shift=shift, range=given["R"])
            assert ((reduced + 1) % given["R"]).tolist() == expected["codes_mod_R"]
        if "matches" in expected:
            matches = [[int((a == b).sum()) for b in codes] for a in codes]
            assert matches == expected["matches"]
        if "empty" in expected:
            alone = hashed(rows, windows, kind="wta", empty="none")
            assert (alone == -1).tolist() == expected["empty"]


# ---- the definitions, hash by hash -------------------------------------------------------------------------------


def matrix_of(seed: int, n_rows: int, n_features: int) -> np.ndarray:
    """(n_rows, n_features) small whole numbers: ties, negative ones on odd seeds, rows of zeros, negative zeros."""
    rng = np.random.default_rng(seed)
    values = rng.integers(-2 if seed % 2 else 0, 3, (n_rows, n_features)).astype(np.float32)
    values *= rng.random((n_rows, n_features)) < rng.choice([0.05, 0.3, 1.0])
    values *= rng.random((n_rows, 1)) < 0.8
    return values if seed % 3 else np.negative(values)


def with_stored_zeros(values: np.ndarray) -> Csr:
    """All entries of the matrix, zeros too."""
    n_rows, n_features = values.shape
    indices = np.tile(np.arange(n_features, dtype=np.int32), n_rows)
    return Csr(values.ravel(), indices, np.arange(0, values.size + 1, n_features, dtype=np.int64), n_features)


def bodies(values: np.ndarray) -> list[Rows]:
    """The same matrix of small whole numbers in several bodies."""
    books = np.unique(values)[None, :, None] if values.size else np.zeros((1, 1, 1), np.float32)
    codes = np.searchsorted(books[0, :, 0], values).astype(np.uint8)
    shared = np.repeat(books, values.shape[1], axis=0)
    plain = [Dense(values), Dense(values.astype(np.float16)), Dense(values.astype(np.float64))]
    return [*plain, csr_of(values), with_stored_zeros(values), PqCodes(codes, shared)]


def expected_codes(values: np.ndarray, params: CodeParams, windows: np.ndarray) -> np.ndarray:
    if params.kind == "wta":
        codes = [naive.wta(row, windows, 0 if params.empty == "first" else -1) for row in values]
    else:
        codes = [naive.dwta(row, windows, params.step, params.range) for row in values]
    plain = np.array(codes, np.int64).reshape(len(values), params.hashes)
    return np.where(plain == -1, params.sentinel, plain)


def assert_codes_as_defined(params: CodeParams, values: np.ndarray) -> None:
    hashes = CodeHash.drawn(params, values.shape[1])
    expected = expected_codes(values, params, hashes.windows)
    empty = sum(naive.is_empty([row[j] for j in window]) for row in values for window in hashes.windows)
    for rows in bodies(values):
        codes, found = hashes.codes(rows)
        np.testing.assert_array_equal(codes, expected)
        assert codes.dtype == params.dtype
        assert found == empty
    assert not expected.size or expected[expected != params.sentinel].max(initial=0) < params.n_codes


@given(
    kind=st.sampled_from(["wta", "wta-none", "dwta"]),
    sizes=st.tuples(st.integers(0, 20), st.integers(2, 14), st.integers(1, 12), st.integers(2, 13)),
    more=st.one_of(st.none(), st.integers(0, 9)),
    modulus=st.one_of(st.none(), st.integers(2, 40)),
    seed=st.integers(0, 10**6),
)
def test_codes_are_those_of_the_definition(
    kind: str, sizes: tuple[int, int, int, int], more: int | None, modulus: int | None, seed: int
) -> None:
    n_rows, n_features, hashes, window = sizes
    window = min(window, n_features)  # all features among them
    shift = None if more is None else window + more
    settings = {"shift": shift, "range": modulus} if kind == "dwta" else {"empty": "none" if "-" in kind else "first"}
    params = CodeParams(kind.split("-")[0], hashes, window, seed=seed, **settings)  # type: ignore[arg-type]
    assert_codes_as_defined(params, matrix_of(seed, n_rows, n_features))


@pytest.mark.parametrize(("kind", "hashes"), [*product(["wta", "dwta"], [1, 7, 8, 9, 16, 23])])
def test_runs_of_hashes_meet(kind: str, hashes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is borrowed goes over the borders of runs, and of what is decoded at once."""
    monkeypatch.setattr(code_rows, "SLICE_BYTES", 1)
    values = matrix_of(hashes, 35, 30)
    params = CodeParams(kind, hashes, 3, seed=hashes)
    whole = CodeHash.drawn(params, 30)
    code_tile = getattr(code_rows.code_tile, "py_func", code_rows.code_tile)  # compiled, it would keep its RUN
    monkeypatch.setattr(code_rows, "RUN", 8)
    out = np.empty((35, hashes), params.dtype)
    used, windows, _ = whole._layout
    for first in range(0, 35, 16):
        tile = np.zeros((used.size, 16), np.float32)
        n_rows = code_rows.fill_from_dense(values, first, used, tile)
        code_tile(tile, windows, whole._settings, out[first : first + n_rows])
    np.testing.assert_array_equal(out, expected_codes(values, params, whole.windows))
    np.testing.assert_array_equal(whole.codes(Dense(values))[0], out)


@pytest.mark.parametrize("hashes", [255, 256, 257, 520])
def test_long_rows_of_few_values_borrow_from_afar(hashes: int) -> None:
    values = np.zeros((3, 400), np.float32)
    values[0, 7] = values[1, 399] = 1.0
    assert_codes_as_defined(CodeParams("dwta", hashes, 2, shift=5, seed=3), values)


def test_codes_of_codes_are_those_of_what_they_stand_for() -> None:
    rows = OneHot(np.array([[0, 2], [1, 255], [255, 255]], np.uint8), 3)
    hashes = CodeHash.drawn(CodeParams("dwta", 40, 4, seed=2), 6)
    np.testing.assert_array_equal(hashes.codes(rows)[0], hashes.codes(Dense(rows.to_array()))[0])


def test_rows_of_zeros_have_no_code_of_their_own() -> None:
    rows = Dense(np.zeros((2, 9), np.float32))
    assert (hashed(rows, WINDOWS_2, kind="dwta") == -1).all()
    assert (hashed(rows, WINDOWS_2, kind="wta") == 0).all()
    assert (hashed(rows, WINDOWS_2, kind="wta", empty="none") == -1).all()


# ---- windows -----------------------------------------------------------------------------------------------------


@given(
    n_features=st.integers(2, 40), hashes=st.integers(1, 30), window=st.integers(2, 40), seed=st.integers(0, 2**32 - 1)
)
def test_windows_are_the_first_entries_of_shuffles(n_features: int, hashes: int, window: int, seed: int) -> None:
    window = min(window, n_features)
    windows = draw_windows(n_features, hashes, window, seed)
    assert windows.dtype == np.int32
    np.testing.assert_array_equal(windows, naive.windows(n_features, hashes, window, seed))
    assert all(len(set(row)) == window for row in windows.tolist())


def test_fewer_hashes_are_the_first_of_more(monkeypatch: pytest.MonkeyPatch) -> None:
    longer = draw_windows(50, 40, 4, 9)
    monkeypatch.setattr("tasks.hashing.windows.DRAWS_AT_ONCE", 12)
    for hashes in (1, 3, 4, 39):
        np.testing.assert_array_equal(draw_windows(50, hashes, 4, 9), longer[:hashes])
    assert not np.array_equal(draw_windows(50, 40, 4, 10), longer)


def test_every_feature_is_as_likely_at_every_place() -> None:
    windows = draw_windows(5, 6000, 5, 1)
    counts = np.array([np.bincount(windows[:, k], minlength=5) for k in range(5)])
    assert (windows.sum(axis=1) == 10).all()
    chi_squared = ((counts - 1200) ** 2 / 1200).sum()
    assert chi_squared < 45  # 16 degrees of freedom: beyond it once in ten thousand seeds
    assert np.unique(windows[:, :2] @ [5, 1]).size == 20


# ---- theory ------------------------------------------------------------------------------------------------------

PAIRS = [
    FIGURE_2,
    np.array([[3, 0, 0, 1, 0, 2, 0, 0], [2, 0, 0, 1, 0, 3, 1, 0]], np.float32),
    np.array([[1, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 2, 0]], np.float32),
    np.array([[-1, 0, 2, 0, 0, 0], [-1, 0, 0, 2, 0, -3]], np.float32),
]
DRAWS, HASHES = 24, 250


def collisions(pair: np.ndarray, window: int, kind: str) -> tuple[float, float]:
    """Mean share of equal codes over draws of the hashes, and its standard error."""
    shares = []
    for seed in range(DRAWS):
        codes, _ = CodeHash.drawn(CodeParams(kind, HASHES, window, seed=seed), pair.shape[1]).codes(Dense(pair))
        shares.append(float((codes[0] == codes[1]).mean()))
    return float(np.mean(shares)), float(np.std(shares, ddof=1) / DRAWS**0.5)


def test_the_exact_kernels_are_those_of_the_reference() -> None:
    case = json.loads(shared_path("cases/wta-07.json").read_text())
    for pair, expected in zip(case["inputs"]["pairs"], case["expected"]["kernels"], strict=True):
        found = naive.kernels(np.array(pair[0]), np.array(pair[1]), case["inputs"]["K"])
        assert found == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("window", [2, 3])
@pytest.mark.parametrize("pair", PAIRS, ids=range(len(PAIRS)))
def test_densified_codes_collide_as_often_as_good_samples_do(pair: np.ndarray, window: int) -> None:
    """Theorem 1, with k_good as of SPECS 2, reading 3."""
    share, error = collisions(pair, window, "dwta")
    assert share == pytest.approx(naive.kernels(pair[0], pair[1], window)["good"], abs=4 * error)
    assert error < 0.02


@pytest.mark.parametrize("window", [2, 3])
@pytest.mark.parametrize("pair", PAIRS, ids=range(len(PAIRS)))
def test_plain_codes_collide_as_often_as_bad_and_good_samples_do(pair: np.ndarray, window: int) -> None:
    """k_wta = a k_bad + (1 - a) k_good with k_bad = 1."""
    exact = naive.kernels(pair[0], pair[1], window)
    assert exact["wta"] == pytest.approx(exact["a"] + (1 - exact["a"]) * exact["good_raw"])
    share, error = collisions(pair, window, "wta")
    assert share == pytest.approx(exact["wta"], abs=4 * error)
    assert error < 0.02


# ---- parameters --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "n_codes", "dtype"),
    [
        ({"kind": "wta", "hashes": 9}, 4, np.uint8),
        ({"kind": "wta", "hashes": 9, "window": 256}, 256, np.uint16),
        ({"kind": "dwta", "hashes": 63}, 252, np.uint8),
        ({"kind": "dwta", "hashes": 64}, 256, np.uint16),
        ({"kind": "dwta", "hashes": 64, "shift": 4, "range": 255}, 255, np.uint8),
        ({"kind": "dwta", "hashes": 64, "shift": 5}, 319, np.uint16),
        ({"kind": "dwta", "hashes": 10**5, "range": 65535}, 65535, np.uint16),
        ({"kind": "dwta", "hashes": 10**5, "range": 65536}, 65536, np.int32),
        ({"kind": "dwta", "hashes": 2, "range": 100}, 8, np.uint8),
    ],
)
def test_codes_are_as_small_as_they_can_be(settings: dict[str, Any], n_codes: int, dtype: type) -> None:
    params = CodeParams(**settings)
    assert (params.n_codes, params.dtype) == (n_codes, dtype)
    assert params.sentinel not in range(n_codes)
    assert params.sentinel == sentinel_of(dtype_of(n_codes))
    assert np.array([params.sentinel], params.dtype)[0] == params.sentinel


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"kind": "wat"}, "kind"),
        ({"hashes": 0}, "hashes"),
        ({"hashes": True}, "hashes"),
        ({"window": 1}, "window"),
        ({"window": 2.0}, "window"),
        ({"seed": -1}, "seed"),
        ({"shift": 3}, "shift"),
        ({"range": 1}, "range"),
        ({"range": 2**30 + 1, "hashes": 2**29}, "range"),
        ({"hashes": 2**29}, "range"),
        ({"empty": "last"}, "empty"),
        ({"empty": "none"}, "empty"),
        ({"kind": "wta", "shift": 4}, "shift"),
        ({"kind": "wta", "range": 8}, "range"),
    ],
)
def test_parameters_out_of_range_are_named(settings: dict[str, Any], name: str) -> None:
    with pytest.raises(ParamError) as caught:
        CodeParams(**{"kind": "dwta", "hashes": 10, **settings})
    assert caught.value.args[0] == name


def test_a_window_wider_than_the_rows_is_refused() -> None:
    with pytest.raises(ParamError, match="at most 3"):
        CodeHash.drawn(CodeParams("wta", 5, 4), 3)
    with pytest.raises(ParamError, match="at most 3"):
        CodeHash(CodeParams("wta", 5, 4), 3, np.zeros((5, 4), np.int32))
