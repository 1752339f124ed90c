"""Codes as kernels: what a linear SVM sees of an encoding is only how many codes two rows share.

The product's own encoder makes the codes and its own kernel counts them. One-hot features of two rows have as inner
product the number of equal codes, so a linear SVM on hundreds of thousands of features is solved exactly from a table
of rows x rows, and an encoding without an encoder (the limit of ever more hashes) can be tried, too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np

from tasks.hashing.code_rows import CodeHash
from tasks.hashing.wta import CodeParams, dtype_of, sentinel_of
from tasks.retrieval.hamming import hamming_distances
from tasks.rows import Rows
from tasks.rows.base import Array

MOST_EPOCHS, TOLERANCE = 40, 0.1  # of the dual solver; the tolerance is liblinear's own for this problem
NONE, FIRST, OWN, UNION, COSINE, PATTERN = "none", "first", "own", "union", "cosine", "pattern"


@dataclass(frozen=True, slots=True)
class Variant:
    """An encoding that is compared.

    kind      "wta", "dwta" or "rows" (the rows themselves)
    empty     of "wta": an empty sample has code 0 ("first"), no feature ("none") or a feature of its own ("own");
              "union" divides the codes that both share by the hashes not empty in both: k_good without densifying;
              "cosine" is "none" with rows of norm 1; "pattern" keeps only which samples are empty
    shift     of "dwta", in windows (C / K)
    range     of "dwta", in windows (R / K); 0 is none
    reach     of "dwta": codes borrowed from farther than this give no feature; 0 is no limit
    """

    name: str
    kind: str
    empty: str = FIRST
    shift: float = 1.0
    range: float = 0.0
    reach: int = 0


def params_of(variant: Variant, hashes: int, window: int, seed: int) -> CodeParams:
    """As the product is told; ranges and shifts that are no multiple of the window are rounded up."""
    if variant.kind == "wta":
        return CodeParams("wta", hashes, window, empty=FIRST if variant.empty == FIRST else NONE, seed=seed)
    code_range = int(np.ceil(variant.range * window)) or None
    return CodeParams("dwta", hashes, window, int(np.ceil(variant.shift * window)), code_range, seed=seed)


def encode(variant: Variant, rows: Rows, hashes: int, window: int, seed: int) -> tuple[Array, int, float]:
    """Codes (n_rows, hashes), the sentinel that gives no feature, the share of samples that were empty."""
    params = params_of(variant, hashes, window, seed)
    codes, empty = CodeHash.drawn(params, rows.n_features).codes(rows)
    if variant.reach:
        codes[codes >= params.step * (variant.reach + 1)] = params.sentinel
    return (*narrowed(codes, params.sentinel), empty / codes.size)


def narrowed(codes: Array, sentinel: int) -> tuple[Array, int]:
    """The same codes in the smallest dtype that has room for two sentinels, and the sentinel there."""
    largest = int(codes[codes != sentinel].max(initial=0))
    dtype = dtype_of(largest + 2)
    target = sentinel_of(dtype)
    small: Array = np.where(codes == sentinel, target, codes).astype(dtype, copy=False)
    return small, target


def shared_codes(variant: Variant, first: Array, second: Array, sentinel: int) -> Array:
    """(n_first, n_second) float32: inner products of the one-hot rows, of norm at most 1."""
    if variant.empty == PATTERN:
        first, second = (first == sentinel).view(np.uint8), (second == sentinel).view(np.uint8)
    if variant.kind == "wta" and variant.empty in (FIRST, OWN, PATTERN):
        return share(first, second)
    unlike = np.where(first == sentinel, sentinel - 1, first).astype(first.dtype)  # no code either, and no sentinel
    shared = share(unlike, second)
    if variant.empty == UNION:
        both_empty = share(first, second) - shared
        return np.asarray(shared / np.maximum(np.float32(0.5) / first.shape[1], 1 - both_empty), np.float32)
    if variant.empty == COSINE:
        norms = [np.sqrt(np.maximum(1e-9, (codes != sentinel).mean(axis=1))) for codes in (first, second)]
        return np.asarray(shared / norms[0][:, None] / norms[1], np.float32)
    return shared


def share(first: Array, second: Array) -> Array:
    """(n_first, n_second) float32: share of equal codes."""
    n_hashes = first.shape[1]
    equal = (n_hashes - hamming_distances(first, second)).astype(np.float32)
    return np.asarray(equal / np.float32(n_hashes), np.float32)


@numba.njit(cache=True, nogil=True)
def descend_dual(
    products: Array, labels: Array, c: float, orders: Array, tolerance: float, alphas: Array, scores: Array
) -> int:
    """Dual coordinate descent (Hsieh et al. 2008) for the squared hinge, all classes against the rest; returns epochs.

    products  (n, n) float32 inner products; labels (n,) int32; orders (n_epochs, n) int64
    alphas    (n_classes, n) float32, changed: signed dual variables; scores (n_classes, n) float32 = alphas @ products
    """
    n_classes, n = alphas.shape
    extra = 0.5 / c
    for epoch in range(len(orders)):
        worst = 0.0
        for i in orders[epoch]:
            row = products[i]
            curvature = row[i] + extra
            for k in range(n_classes):
                sign = 1.0 if labels[i] == k else -1.0
                alpha = alphas[k, i] * sign
                slope = sign * scores[k, i] - 1.0 + extra * alpha
                if alpha <= 0.0 and slope >= 0.0:
                    continue
                worst = max(worst, abs(slope))
                if abs(slope) < 0.1 * tolerance:
                    continue
                step = np.float32((max(alpha - slope / curvature, 0.0) - alpha) * sign)
                alphas[k, i] += step
                target = scores[k]
                for j in range(n):
                    target[j] += step * row[j]
        if worst < tolerance:
            return epoch + 1
    return len(orders)


def centred(products: Array, n_train: int) -> Array:
    """Inner products of rows from which the mean training row was taken away: (n_rows, n_train) float32.

    A feature that is on in nearly all rows is constant but for a few of them; a bias could do its work, if the penalty
    on it did not make the problem badly conditioned.
    """
    columns = products[:n_train].mean(axis=0, dtype=np.float64)
    rows = products.mean(axis=1, dtype=np.float64)
    return np.asarray(products - columns - rows[:, None] + columns.mean(), np.float32)


def svm_accuracies(products: Array, labels: Array, n_train: int, splits: list[slice], grid: list[float]) -> Array:
    """Accuracies (n_grid, n_splits) of one-against-rest linear SVMs (squared hinge, a bias of the rows' scale).

    products  (n_rows, n_train) inner products of all rows with the training rows, which are the first
    grid      values of C, ascending, for training rows of mean squared norm 1; the larger start from the smaller
    """
    scale = float(np.trace(products[:n_train])) / n_train
    with_bias = products / np.float32(scale) + np.float32(1.0)
    square, y = np.ascontiguousarray(with_bias[:n_train]), labels[:n_train].astype(np.int32)
    random = np.random.default_rng(0)
    orders = np.array([random.permutation(n_train) for _ in range(MOST_EPOCHS)])
    alphas = np.zeros((int(labels.max()) + 1, n_train), np.float32)
    found = np.empty((len(grid), len(splits)))
    for at, c in enumerate(grid):
        descend_dual(square, y, c, orders, TOLERANCE, alphas, np.ascontiguousarray(alphas @ square))
        for s, split in enumerate(splits):
            predicted = np.argmax(with_bias[split] @ alphas.T, axis=1)
            found[at, s] = float(np.mean(predicted == labels[split]))
    return found
