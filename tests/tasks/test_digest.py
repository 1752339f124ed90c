"""Content digests depend on the values, their type and shape, and on nothing else."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.digest import combine, digest_arrays, digest_text
from tests.strategies import dense_matrices


@given(values=dense_matrices())
def test_layout_and_byte_order_do_not_count(values):
    expected = digest_arrays(values)
    assert digest_arrays(np.asfortranarray(values)) == expected
    assert digest_arrays(values.astype(">f4")) == expected
    assert digest_arrays(np.repeat(values, 2, axis=0)[::2]) == expected


@given(values=dense_matrices(min_rows=1), data=st.data())
def test_one_changed_bit_counts(values, data):
    changed = values.copy()
    flat = changed.reshape(-1).view(np.uint32)
    place = data.draw(st.integers(0, flat.size - 1))
    flat[place] ^= np.uint32(1 << data.draw(st.integers(0, 31)))
    assert digest_arrays(changed) != digest_arrays(values)


def test_type_shape_and_borders_count():
    four = np.arange(4, dtype=np.int32)
    different = [
        digest_arrays(four),
        digest_arrays(four.astype(np.uint32)),
        digest_arrays(four.reshape(2, 2)),
        digest_arrays(four.reshape(4, 1)),
        digest_arrays(four[:2], four[2:]),
        digest_arrays(four[:1], four[1:]),
        digest_text("ab", "c"),
        digest_text("a", "bc"),
        digest_text(),
        digest_text(""),
        combine([digest_text("a"), digest_text("b")]),
        combine([digest_text("b"), digest_text("a")]),
    ]
    assert len(set(different)) == len(different)


def test_is_the_documented_hash():
    """Dtype, shape, little-endian bytes under BLAKE2b-128: a stored digest must mean the same in every version."""
    content = b"<i4(2,)" + b"\x01\x00\x00\x00\xff\xff\xff\xff"
    expected = hashlib.blake2b(content, digest_size=16).hexdigest()
    assert digest_arrays(np.array([1, -1], np.int32)) == expected


def test_objects_have_none():
    with pytest.raises(TypeError):
        digest_arrays(np.array([{}], object))
