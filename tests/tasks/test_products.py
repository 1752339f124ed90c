"""Products on codes (Harchaoui et al., Algorithms 1 and 2) equal products with the decoded rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.quantize import products
from tasks.quantize.products import add_scores, decode, squared_norms, subtract_products, tables_pay
from tests.naive import quantize as naive

shapes = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 10**6),
        "n_rows": st.integers(0, 9),
        "n_subquantizers": st.integers(1, 11),
        "n_centroids": st.sampled_from([1, 2, 3, 16]),
        "width": st.integers(1, 3),
        "n_outputs": st.integers(1, 5),
    }
)


def drawn(shape: dict[str, int]) -> tuple[np.ndarray, ...]:
    """Codes, codebooks, weights, residuals."""
    rng = np.random.default_rng(shape["seed"])
    n, q, c, w = (shape[key] for key in ("n_rows", "n_subquantizers", "n_centroids", "width"))
    codes = rng.integers(0, c, (n, q)).astype(np.uint8)
    codebooks = rng.standard_normal((q, c, w)).astype(np.float32)
    return (
        codes,
        codebooks,
        rng.standard_normal((q * w, shape["n_outputs"])),
        rng.standard_normal((n, shape["n_outputs"])),
    )


@given(shape=shapes)
def test_decoding_by_definition(shape: dict[str, int]) -> None:
    codes, codebooks, _, _ = drawn(shape)
    np.testing.assert_array_equal(decode(codes, codebooks, np.float64), naive.decode(codes, codebooks))
    assert decode(codes, codebooks).dtype == np.float32
    np.testing.assert_allclose(squared_norms(codes, codebooks), (naive.decode(codes, codebooks) ** 2).sum(axis=1))


@pytest.mark.parametrize("outputs_at_once", [2, 64])
def test_products_equal_decoded_products(outputs_at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "OUTPUTS_AT_ONCE", outputs_at_once)

    @given(shape=shapes)
    def check(shape: dict[str, int]) -> None:
        codes, codebooks, weights, residuals = drawn(shape)
        matrix = naive.decode(codes, codebooks)
        scores = np.ones((len(codes), weights.shape[1]))
        add_scores(codes, codebooks, weights, scores)
        np.testing.assert_allclose(scores, 1 + matrix @ weights, atol=1e-12)
        changed = weights.copy()
        subtract_products(codes, codebooks, residuals, np.float64(0.5), changed)
        np.testing.assert_allclose(changed, weights - 0.5 * matrix.T @ residuals, atol=1e-12)

    check()


def test_all_256_codes_are_told_apart() -> None:
    codes = np.arange(256, dtype=np.uint8)[:, None]
    codebooks = np.arange(256, dtype=np.float32).reshape(1, 256, 1)
    scores = np.zeros((256, 1))
    add_scores(codes, codebooks, np.ones((1, 1)), scores)
    np.testing.assert_array_equal(scores[:, 0], np.arange(256))


def test_tables_pay_for_many_rows_of_wide_parts_only() -> None:
    wide, narrow = np.zeros((2, 256, 16), np.float32), np.zeros((2, 256, 4), np.float32)
    assert tables_pay(4096, wide)
    assert not tables_pay(64, wide)
    assert not tables_pay(10**9, narrow)
