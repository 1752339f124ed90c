"""Data that property tests draw: matrices, blocks, names, trees."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from hypothesis import strategies as st
from numpy.typing import NDArray

NASTY_NAMES = ["[/x]", "a/b", "..", "<script>alert(1)</script>", "zarr.json", "", "[red]crane", "éa", "日本語", "a\tb"]
NASTY_NAMES += ["/etc/passwd", "C:\\x", "\x1b[31mred", "x" * 300, " ", "'\"", "%s{}", "\ud7ff"]

seeds = st.integers(0, 2**32 - 1)
block_rows = st.integers(1, 9)
class_names = st.one_of(st.sampled_from(NASTY_NAMES), st.text(st.characters(exclude_categories=["Cs"]), max_size=12))


@st.composite
def dense_matrices(draw: st.DrawFn, dtype: str = "float32", min_rows: int = 0) -> NDArray[Any]:
    """Matrices of few rows, at least one column, with zeros, repeated rows and negative zeros."""
    n_rows, n_features, seed = draw(st.integers(min_rows, 20)), draw(st.integers(1, 6)), draw(seeds)
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((n_rows, n_features)) * rng.integers(0, 2, (n_rows, n_features))
    return values.astype(dtype)


@st.composite
def csr_matrices(draw: st.DrawFn, min_rows: int = 0) -> scipy.sparse.csr_matrix:
    """Sparse matrices with ascending columns, among them empty rows and matrices without any entry."""
    n_rows, n_features, seed = draw(st.integers(min_rows, 20)), draw(st.integers(1, 30)), draw(seeds)
    density = draw(st.sampled_from([0.0, 0.1, 0.5, 1.0]))
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((n_rows, n_features)) * (rng.random((n_rows, n_features)) < density)
    return scipy.sparse.csr_matrix(values.astype(np.float32))


@st.composite
def parents(draw: st.DrawFn, max_nodes: int = 25) -> list[int]:
    """Trees as the parent of each node, -1 for node 0, every parent before its children."""
    n_nodes = draw(st.integers(3, max_nodes))
    return [-1] + [draw(st.integers(0, node - 1)) for node in range(1, n_nodes)]
