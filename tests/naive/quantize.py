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
