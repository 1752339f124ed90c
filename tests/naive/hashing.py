"""Hashing by its definitions, one feature at a time; the hash itself comes from mmh3."""

from __future__ import annotations

import mmh3
import numpy as np


def bucket_and_sign(feature: int, seed: int, n_buckets: int) -> tuple[int, int]:
    h = mmh3.hash(feature.to_bytes(4, "little"), int(seed), signed=False)
    return (h & 0x7FFFFFFF) % n_buckets, -1 if h >> 31 else 1


def phi(x: np.ndarray, seed: int, n_buckets: int) -> np.ndarray:
    """Phi(x, u) of Zhao & Xing, Definition 1 (with x_j inside the sum)."""
    out = np.zeros(n_buckets)
    for j, value in enumerate(x):
        bucket, sign = bucket_and_sign(j, seed, n_buckets)
        out[bucket] += sign * float(value)
    return out


def path(parent: list[int], leaf: int, n_levels: int) -> list[int]:
    """Nodes root..leaf, the leaf replicated to n_levels."""
    nodes = [leaf]
    while parent[nodes[0]] >= 0:
        nodes.insert(0, parent[nodes[0]])
    return nodes + [leaf] * (n_levels - len(nodes))


def psi(x: np.ndarray, seeds: list[int], n_buckets: int) -> np.ndarray:
    """Psi(x, y) for the seeds of y's path, root first; scaled by 1 / sqrt(T)."""
    blocks: np.ndarray = np.stack([phi(x, u, n_buckets) for u in seeds]) / np.sqrt(len(seeds))
    return blocks


def lost_features(seeds: list[int], features: list[int], n_buckets: int) -> int:
    """Definition 2: features that share their bucket with another one under every seed of the path."""
    lost = 0
    for j in features:
        lost += all(
            any(bucket_and_sign(i, u, n_buckets)[0] == bucket_and_sign(j, u, n_buckets)[0] for i in features if i != j)
            for u in seeds
        )
    return lost
