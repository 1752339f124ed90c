"""MurmurHash3 against mmh3 and the reference cases, bit for bit."""

from __future__ import annotations

import json

import mmh3
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.hashing.murmur import (
    BUCKET_BITS,
    SIGN_BIT,
    feature_words,
    hash_tables,
    mixed_key,
    mixed_keys,
    murmur3_bytes,
    murmur3_u32,
    node_words,
)
from tests.naive.hashing import bucket_and_sign
from tests.shared import shared_path

words32 = st.integers(0, 2**32 - 1)
bucket_counts = st.one_of(st.integers(1, 64), st.sampled_from([2**18, 10**6 + 3, 2**30, 2**31 - 1]))


def test_reference_keys_and_seeds() -> None:
    case = json.loads(shared_path("cases/hsh-01.json").read_text())
    keys = [np.frombuffer(bytes.fromhex(key), np.uint8) for key in case["inputs"]["keys_hex"]]
    hashed = [[int(murmur3_bytes(key, seed)) for key in keys] for seed in case["inputs"]["seeds"]]
    assert hashed == case["expected"]["unsigned"]


edge_seeds = st.one_of(words32, st.sampled_from([0, 1, 2**31 - 1, 2**31, 2**32 - 1]))


@given(data=st.binary(max_size=64), seed=edge_seeds)
def test_bytes_equal_mmh3(data: bytes, seed: int) -> None:
    assert int(murmur3_bytes(np.frombuffer(data, np.uint8), seed)) == mmh3.hash(data, seed, signed=False)


@pytest.mark.parametrize("length", range(65))
def test_every_key_length_equals_mmh3(length: int) -> None:
    """Seeds over the whole range, and keys of extreme bytes, whose products overflow the most."""
    rng = np.random.default_rng(length)
    seeds = [0, 1, 2**31 - 1, 2**31, 2**32 - 1, *rng.integers(0, 2**32, 20).tolist()]
    drawn = rng.integers(0, 256, (5, length), dtype=np.uint8)
    for data in (*drawn, np.zeros(length, np.uint8), np.full(length, 255, np.uint8), np.full(length, 128, np.uint8)):
        found = [int(murmur3_bytes(data, seed)) for seed in seeds]
        assert found == [mmh3.hash(data.tobytes(), seed, signed=False) for seed in seeds]


@given(key=edge_seeds, seed=edge_seeds)
def test_four_byte_keys_equal_mmh3(key: int, seed: int) -> None:
    expected = mmh3.hash(key.to_bytes(4, "little"), seed, signed=False)
    assert int(murmur3_u32(key, seed)) == expected
    assert int(murmur3_bytes(np.frombuffer(key.to_bytes(4, "little"), np.uint8), seed)) == expected


def test_reference_buckets_and_signs() -> None:
    case = json.loads(shared_path("cases/hsh-02.json").read_text())
    inputs = case["inputs"]
    buckets, signs = hash_tables(np.array(inputs["nodes"]), inputs["d"], inputs["m"])
    assert buckets.tolist() == case["expected"]["bucket"]
    assert signs.tolist() == case["expected"]["sign"]


@given(seed=words32, n_buckets=bucket_counts, n_features=st.integers(0, 40))
def test_buckets_and_signs_by_definition(seed: int, n_buckets: int, n_features: int) -> None:
    buckets, signs = hash_tables(np.array([seed], np.uint32), n_features, n_buckets)
    expected = [bucket_and_sign(j, seed, n_buckets) for j in range(n_features)]
    assert list(zip(buckets[0].tolist(), signs[0].tolist(), strict=True)) == expected


@pytest.mark.parametrize("n_buckets", [1, 2, 3, 7, 4096, 4097, 2**31 - 2, 2**31 - 1])
def test_remainders_are_exact_over_many_hashes(n_buckets: int) -> None:
    """The remainder is formed in floating point; here are hashes next to whole multiples, too."""
    mixed, words, plain = mixed_keys(3000), np.empty(3000, np.uint32), np.empty(3000, np.uint32)
    feature_words(mixed, np.uint32(5), n_buckets, words)
    feature_words(mixed, np.uint32(5), 2**31, plain)  # keeps all 31 bits
    np.testing.assert_array_equal(words & BUCKET_BITS, (plain & BUCKET_BITS) % np.uint32(n_buckets))
    np.testing.assert_array_equal(words & SIGN_BIT, plain & SIGN_BIT)


@given(feature=st.integers(0, 2**31 - 1), seeds=st.lists(words32, min_size=1, max_size=9), n_buckets=bucket_counts)
def test_many_nodes_hash_one_feature_as_one_node_does(feature: int, seeds: list[int], n_buckets: int) -> None:
    words = np.empty(len(seeds), np.uint32)
    node_words(mixed_key(np.uint32(feature)), np.array(seeds, np.uint32), n_buckets, words)
    for word, seed in zip(words.tolist(), seeds, strict=True):
        assert (word & 0x7FFFFFFF, -1 if word >> 31 else 1) == bucket_and_sign(feature, seed, n_buckets)
