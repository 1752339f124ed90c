"""The cache keeps to its bytes, gives what was loaded, and never an older version."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tasks import cache
from tasks.cache import Budget, ByteCache


def fetch(held: ByteCache, key: int, version: int = 0, size: int = 10) -> tuple[int, int]:
    return held.fetch(key, version, lambda: (key, version), lambda _: size)


calls = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2), st.integers(0, 40)), max_size=60)


@given(calls=calls, cap=st.integers(0, 80))
def test_against_a_list_of_recent_entries(calls, cap):
    held = ByteCache(cap)
    recent: list[tuple[int, int, int]] = []  # oldest first: the obvious twin
    for key, version, size in calls:
        known = [entry for entry in recent if entry[0] == key]
        hits = held.hits
        assert fetch(held, key, version, size) == (key, version)
        hit = bool(known) and known[0][1] == version
        assert held.hits - hits == hit
        recent = [entry for entry in recent if entry[0] != key]
        if hit:
            recent.append(known[0])
        elif size <= cap:
            recent.append((key, version, size))
            while sum(entry[2] for entry in recent) > cap:
                recent.pop(0)
        assert held.nbytes == sum(entry[2] for entry in recent) <= cap
        assert len(held) == len(recent)


def test_a_smaller_cap_drops_the_oldest():
    held = ByteCache(100)
    for key in range(5):
        fetch(held, key)
    fetch(held, 0)
    held.set_cap(20)
    assert (len(held), held.nbytes) == (2, 20)
    misses = held.misses
    fetch(held, 4), fetch(held, 0)
    assert held.misses == misses
    held.clear()
    assert (len(held), held.nbytes) == (0, 0)


def test_threads_agree_on_values_and_bytes():
    held = ByteCache(200)
    keys = np.random.default_rng(1).integers(0, 30, 4000).tolist()
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(lambda key: fetch(held, key)[0], keys)) == keys
    assert held.nbytes == 10 * len(held) <= 200
    assert held.hits + held.misses == len(keys)


def test_bytes_of_rows_are_set_per_process(monkeypatch):
    rows = ByteCache(100)
    monkeypatch.setattr(cache, "BUDGET", Budget(100, rows))
    cache.set_cache_bytes(7)
    assert rows.cap == 7


def test_bytes_of_products_come_out_of_those_of_rows():
    rows = ByteCache(100)
    budget = Budget(100, rows)
    assert budget.take(60)
    assert rows.cap == 40
    assert not budget.take(50)
    assert rows.cap == 40
    budget.resize(50)
    assert rows.cap == 0
    assert budget.take(-60)
    assert rows.cap == 50
