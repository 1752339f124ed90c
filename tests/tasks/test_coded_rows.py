"""Rows that become codes as they arrive: codes as of `encode`, sums of what is lost, rows of zeros."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.coded_rows import coded, zero_rows
from tasks.models.encoder import PqEncoder
from tasks.quantize.pq import decode, encode
from tasks.rows import Dense, PqCodes


def drawn(seed: int, n_rows: int, shape: tuple[int, int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Rows, one of them 0, and codebooks, of whole numbers: sums are exact, and ties are common."""
    rng = np.random.default_rng(seed)
    values = rng.integers(-3, 4, (n_rows, shape[0] * shape[2]))
    values[n_rows // 2] = 0
    return values, rng.integers(-3, 4, shape).astype(np.float32)


@given(
    seed=st.integers(0, 10**6),
    n_rows=st.sampled_from([1, 3, 70]),
    shape=st.tuples(st.integers(1, 4), st.sampled_from([1, 5, 33]), st.sampled_from([1, 3, 8])),
    dtype=st.sampled_from(["float16", "float32", "float64", "int32"]),
)
def test_codes_sums_and_zeros_are_those_of_the_rows_one_by_one(
    seed: int, n_rows: int, shape: tuple[int, int, int], dtype: str
) -> None:
    values, books = drawn(seed, n_rows, shape)
    found = coded(values.astype(dtype), books)
    np.testing.assert_array_equal(found.codes, encode(values.astype(np.float32), books))
    away = values - decode(found.codes, books)
    assert (found.error, found.norm) == (float((away**2).sum()), float((values**2).sum()))
    zero = encode(np.zeros((1, values.shape[1]), np.float32), books)[0]
    assert zero_rows(values.astype(dtype), found.codes, zero) == int((values == 0).all(axis=1).sum())


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e30])
def test_sums_tell_that_a_value_cannot_be_used(value: float) -> None:
    values, books = drawn(0, 5, (2, 4, 3))
    spoilt = values.astype(np.float64)
    spoilt[3, 4] = value
    assert not coded(spoilt, books).norm <= 1e30


def test_a_model_takes_codes_of_its_own_codebooks_as_they_are() -> None:
    values, books = drawn(1, 40, (3, 7, 4))
    encoder, own = PqEncoder(books), PqCodes(encode(values.astype(np.float32), books), books)
    assert encoder.encode(own) is own
    again = encoder.encode(PqCodes(own.codes, books + 1))
    np.testing.assert_array_equal(again.codes, encoder.encode(Dense(own.to_array() + 1)).codes)
