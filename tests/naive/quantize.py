"""Product quantisation by its definitions, one sub-vector at a time, in float64."""

from __future__ import annotations

import numpy as np


def decode(codes: np.ndarray, codebooks: np.ndarray) -> np.ndarray:
    rows = [np.concatenate([codebooks[q, code] for q, code in enumerate(row)]) for row in codes]
    return np.array(rows, np.float64).reshape(len(codes), codebooks.shape[0] * codebooks.shape[2])


def squared_distances(row: np.ndarray, codebooks: np.ndarray) -> np.ndarray:
    """(n_subquantizers, n_centroids) squared distances of a row's sub-vectors."""
    parts = np.asarray(row, np.float64).reshape(codebooks.shape[0], 1, -1)
    distances: np.ndarray = ((parts - codebooks.astype(np.float64)) ** 2).sum(axis=2)
    return distances


def encode(values: np.ndarray, codebooks: np.ndarray) -> np.ndarray:
    codes = [squared_distances(row, codebooks).argmin(axis=1) for row in values]
    return np.array(codes, np.uint8).reshape(len(values), codebooks.shape[0])


def codebook_sums(values: np.ndarray, codes: np.ndarray, codebooks: np.ndarray) -> tuple[np.ndarray, ...]:
    """Sums, counts and squared errors of the sub-vectors of each centroid."""
    sums = np.zeros(codebooks.shape)
    counts, errors = np.zeros(codebooks.shape[:2], int), np.zeros(codebooks.shape[:2])
    for row, chosen in zip(values, codes, strict=True):
        away = squared_distances(row, codebooks)
        for q, code in enumerate(chosen):
            sums[q, code] += row[q * codebooks.shape[2] : (q + 1) * codebooks.shape[2]]
            counts[q, code] += 1
            errors[q, code] += away[q, code]
    return sums, counts, errors


def scores(codes: np.ndarray, codebooks: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Algorithm 1 as it is written: a table per subquantizer, one look-up per row and subquantizer."""
    n_subquantizers, _, width = codebooks.shape
    out = np.zeros((len(codes), weights.shape[1]))
    for q in range(n_subquantizers):
        table = codebooks[q].astype(np.float64) @ weights[q * width : (q + 1) * width].astype(np.float64)
        for i, row in enumerate(codes):
            out[i] += table[row[q]]
    return out


def gradient(codes: np.ndarray, codebooks: np.ndarray, residuals: np.ndarray) -> np.ndarray:
    """Algorithm 2 as it is written: the residuals of equal codes are added up, then multiplied with the centroids."""
    n_subquantizers, n_centroids, width = codebooks.shape
    out = np.zeros((n_subquantizers * width, residuals.shape[1]))
    for q in range(n_subquantizers):
        sums = np.zeros((n_centroids, residuals.shape[1]))
        for i, row in enumerate(codes):
            sums[row[q]] += residuals[i]
        out[q * width : (q + 1) * width] = codebooks[q].astype(np.float64).T @ sums
    return out


def entries16(codebooks: np.ndarray, weights: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """(n_subquantizers, n_centroids, n_outputs) the integers that 16-bit tables hold, from products in float64."""
    n_subquantizers, _, width = codebooks.shape
    parts = weights.astype(np.float64).reshape(n_subquantizers, width, -1)
    return np.stack([np.rint(codebooks[q].astype(np.float64) @ parts[q] / scales) for q in range(n_subquantizers)])
