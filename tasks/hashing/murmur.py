"""MurmurHash3 x86 32-bit: the hash of a feature index under a node's seed, and of any bytes.

A taxonomy node u seeds the hash of every feature index j, taken as its 4 little-endian bytes. Bucket and sign come from
disjoint bits, otherwise features that collide would always add with the same relative sign (SPECS 1.2):

    H = MurmurHash3_x86_32(le32(j), seed = u)    h^u(j) = (H & 0x7fffffff) mod m    xi^u(j) = -1 iff bit 31 of H is set

The loops over features or nodes write `words`, bucket and sign in one uint32, into a buffer that stays in cache:
hashing vectorises, the look-ups that follow do not. Products are formed in 64 bits and cut to 32 (they cannot overflow
there); the compiler narrows them again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tasks.later import numba
from tasks.rows.base import Array

Word = Any  # np.uint32 inside kernels

FIRST, SECOND = np.uint64(0xCC9E2D51), np.uint64(0x1B873593)  # c1 and c2 of the reference implementation
ADDEND = np.uint64(0xE6546B64)
FINAL_FIRST, FINAL_SECOND = np.uint64(0x85EBCA6B), np.uint64(0xC2B2AE35)
FIVE = np.uint64(5)
LOW_BITS = np.uint64(0xFFFFFFFF)
BUCKET_BITS = np.uint32(0x7FFFFFFF)
SIGN_BIT = np.uint32(0x80000000)


@numba.njit(cache=True, nogil=True)
def _times(value: Word, factor: np.uint64) -> Word:
    """value * factor modulo 2^32."""
    return np.uint32((np.uint64(value) * factor) & LOW_BITS)


@numba.njit(cache=True, nogil=True)
def _rotated(value: Word, left: Word) -> Word:
    """value rotated left by `left` bits, 0 < left < 32."""
    return np.uint32(np.uint32(value << left) | np.uint32(value >> np.uint32(np.uint32(32) - left)))


@numba.njit(cache=True, nogil=True)
def mixed_key(key: Word) -> Word:
    """The part of the hash that depends on the 4-byte key alone (k1): shared by all seeds."""
    return _times(_rotated(_times(key, FIRST), np.uint32(15)), SECOND)


@numba.njit(cache=True, nogil=True)
def _stirred(state: Word, mixed: Word) -> Word:
    """The hash state after one 4-byte word."""
    turned = _rotated(np.uint32(state ^ mixed), np.uint32(13))
    return np.uint32((np.uint64(turned) * FIVE + ADDEND) & LOW_BITS)


@numba.njit(cache=True, nogil=True)
def _finished(state: Word) -> Word:
    """The finaliser (fmix32)."""
    h = _times(np.uint32(state ^ np.uint32(state >> np.uint32(16))), FINAL_FIRST)
    h = _times(np.uint32(h ^ np.uint32(h >> np.uint32(13))), FINAL_SECOND)
    return np.uint32(h ^ np.uint32(h >> np.uint32(16)))


@numba.njit(cache=True, nogil=True)
def seeded(mixed: Word, seed: Word) -> Word:
    """The hash of a 4-byte key from its `mixed_key` and a seed."""
    return _finished(np.uint32(_stirred(seed, mixed) ^ np.uint32(4)))


@numba.njit(cache=True, nogil=True)
def murmur3_u32(key: int, seed: int) -> Word:
    """MurmurHash3_x86_32 of the 4 little-endian bytes of `key`, both in [0, 2^32)."""
    return seeded(mixed_key(np.uint32(key)), np.uint32(seed))


@numba.njit(cache=True, nogil=True)
def murmur3_bytes(data: Array, seed: int) -> Word:
    """MurmurHash3_x86_32 of data (n_bytes,) uint8 under a seed in [0, 2^32)."""
    state = np.uint32(seed)
    n_words = data.size // 4
    for w in range(n_words):
        word = np.uint32(0)
        for b in range(4):
            word |= np.uint32(np.uint32(data[4 * w + b]) << np.uint32(8 * b))
        state = _stirred(state, mixed_key(np.uint32(word)))
    if data.size > 4 * n_words:
        tail = np.uint32(0)
        for b in range(data.size - 4 * n_words):
            tail |= np.uint32(np.uint32(data[4 * n_words + b]) << np.uint32(8 * b))
        state = np.uint32(state ^ mixed_key(np.uint32(tail)))
    return _finished(np.uint32(state ^ np.uint32(data.size)))


@numba.njit(cache=True, nogil=True)
def remainder(dividend: Word, divisor: int, inverse: float) -> Word:
    """dividend mod divisor for a 31-bit dividend; inverse = 1 / divisor. Vectorises, where a division does not.

    The quotient in float64 is at most one off, which the last line repairs: the result is exact.
    """
    rest = np.int64(dividend) - np.int64(np.float64(dividend) * inverse) * np.int64(divisor)
    return np.uint32(rest + divisor if rest < 0 else (rest - divisor if rest >= divisor else rest))


@numba.njit(cache=True, nogil=True)
def mixed_keys(n_features: int) -> Array:
    """`mixed_key` of the feature indices 0..n_features-1, (n_features,) uint32."""
    mixed = np.empty(n_features, np.uint32)
    for j in range(n_features):
        mixed[j] = mixed_key(np.uint32(j))
    return mixed


@numba.njit(cache=True, nogil=True)
def _reduce_words(words: Array, n_buckets: int) -> None:
    """Hashes to `words` (bucket in the low 31 bits, sign kept in bit 31), in place."""
    if n_buckets & (n_buckets - 1) == 0:
        kept = np.uint32(SIGN_BIT | np.uint32(n_buckets - 1))
        for i in range(words.size):
            words[i] &= kept
        return
    inverse = 1.0 / n_buckets
    for i in range(words.size):
        bucket = remainder(np.uint32(words[i] & BUCKET_BITS), n_buckets, inverse)
        words[i] = np.uint32(np.uint32(words[i] & SIGN_BIT) | bucket)


@numba.njit(cache=True, nogil=True)
def feature_words(mixed: Array, seed: Word, n_buckets: int, words: Array) -> None:
    """words[i] = bucket | sign bit of many features under one seed.

    mixed, words (n,) uint32: `mixed_key` of each feature index, and the result; n_buckets in [1, 2^31)
    """
    for i in range(mixed.size):
        words[i] = seeded(mixed[i], seed)
    _reduce_words(words[: mixed.size], n_buckets)


@numba.njit(cache=True, nogil=True)
def node_words(mixed: Word, seeds: Array, n_buckets: int, words: Array) -> None:
    """words[u] = bucket | sign bit of one feature (its `mixed_key`) under many seeds; both (n_nodes,) uint32."""
    for u in range(seeds.size):
        words[u] = seeded(mixed, seeds[u])
    _reduce_words(words[: seeds.size], n_buckets)


@numba.njit(cache=True, nogil=True)
def bucket_of(word: Word) -> np.uint64:
    """h^u(j) of a word; unsigned, so that an index needs no check for negative values."""
    return np.uint64(word & BUCKET_BITS)


@numba.njit(cache=True, nogil=True)
def is_negative(word: Word) -> bool:
    """Whether xi^u(j) = -1."""
    return bool(word >= SIGN_BIT)


def hash_tables(seeds: Array, n_features: int, n_buckets: int) -> tuple[Array, Array]:
    """h^u(j) and xi^u(j) written out: for collision counts and tests, never for scoring.

    seeds (n_nodes,) uint32; returns buckets (n_nodes, n_features) int32 and signs (n_nodes, n_features) int8
    """
    mixed = mixed_keys(n_features)
    words = np.empty((len(seeds), n_features), np.uint32)
    for row, seed in zip(words, np.asarray(seeds, np.uint32), strict=True):
        feature_words(mixed, seed, n_buckets, row)
    return (words & BUCKET_BITS).astype(np.int32), np.where(words & SIGN_BIT, -1, 1).astype(np.int8)
