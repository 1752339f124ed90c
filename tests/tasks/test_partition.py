"""OP3 and OP3' in closed form: the numeric cases, an LP solver, brute force, the theorems' bounds."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tasks.trees.partition import (
    Partition,
    accuracy_constrained,
    ambiguity_of,
    efficiency_constrained,
    loss_of,
    spend_rest,
)
from tests.naive import trees as naive
from tests.shared import shared_path


def random_counts(seed: int, n_children: int, n_classes: int) -> np.ndarray:
    """Counts with ties, zeros, children nobody reaches and classes nobody has."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 6, (n_children, n_classes)) * rng.integers(0, 3, (n_children, n_classes))
    if rng.random() < 0.3:
        counts[rng.integers(n_children)] = 0
    if rng.random() < 0.3:
        counts[:, rng.integers(n_classes)] = 0
    counts[0, 0] += 1
    return counts.astype(np.int64)


def check_measures(counts: np.ndarray, found: Partition) -> None:
    loss, ambiguity = naive.loss_and_ambiguity(counts, found.children)
    assert found.loss == pytest.approx(loss, abs=1e-12)
    assert found.ambiguity == pytest.approx(ambiguity, abs=1e-12)
    assert not found.children[counts == 0].any()  # nothing gained: never taken
    assert found.given_up.tolist() == [k for k in range(counts.shape[1]) if not found.children[:, k].any()]
    assert found.lp_value <= found.value + 1e-12
    assert found.value <= found.bound + 1e-12


def test_case_lt_01() -> None:
    case = json.loads(shared_path("cases/lt-01.json").read_text())
    counts, expected = np.array(case["inputs"]["N"]), case["expected"]
    found = accuracy_constrained(counts, case["inputs"]["eps"])
    assert found.children.astype(int).tolist() == expected["rounded_P"]
    assert found.lp_value == pytest.approx(expected["lp_value"], abs=case["tolerance"])
    assert found.ambiguity == pytest.approx(expected["rounded_ambiguity"], abs=case["tolerance"])
    assert found.loss == pytest.approx(expected["rounded_loss"], abs=case["tolerance"])


def test_case_lt_05() -> None:
    case = json.loads(shared_path("cases/lt-05.json").read_text())
    counts, expected = np.array(case["inputs"]["N"]), case["expected"]
    found = efficiency_constrained(counts, case["inputs"]["delta"])
    assert found.children.astype(int).tolist() == expected["rounded_P"]
    assert found.lp_value == pytest.approx(expected["lp_value"], abs=case["tolerance"])
    assert found.ambiguity == pytest.approx(expected["rounded_ambiguity"], abs=case["tolerance"])
    assert found.loss == pytest.approx(expected["rounded_loss"], abs=case["tolerance"])


@pytest.mark.parametrize("seed", range(40))
def test_lp_value_is_the_solvers(seed: int) -> None:
    rng = np.random.default_rng(1000 + seed)
    counts = random_counts(seed, int(rng.integers(1, 7)), int(rng.integers(1, 9)))
    loss, ambiguity = float(rng.choice([0.0, 0.1, 0.37, 1.0])), float(rng.choice([0.0, 0.15, 0.5, 1.0]))
    efficient = accuracy_constrained(counts, loss)
    assert efficient.lp_value == pytest.approx(naive.lp_accuracy_constrained(counts, loss), abs=1e-9)
    assert efficient.loss <= loss + 1e-9
    check_measures(counts, efficient)
    accurate = efficiency_constrained(counts, ambiguity)
    assert accurate.lp_value == pytest.approx(naive.lp_efficiency_constrained(counts, ambiguity), abs=1e-9)
    assert accurate.ambiguity <= ambiguity + 1e-9
    check_measures(counts, accurate)


@pytest.mark.parametrize("seed", range(12))
def test_rounding_stays_within_the_theorems_bound_of_the_integer_optimum(seed: int) -> None:
    counts = random_counts(seed, 2, 4)
    efficient = accuracy_constrained(counts, 0.2)
    optimum = naive.best_partition(counts, lambda loss, _: loss <= 0.2 + 1e-9, aim=1)
    assert efficient.lp_value - 1e-9 <= optimum <= efficient.ambiguity + 1e-9
    assert efficient.ambiguity <= optimum + 1 / counts.shape[1] + 1e-9  # Theorem 4.2
    accurate = efficiency_constrained(counts, 0.45)
    optimum = naive.best_partition(counts, lambda _, ambiguity: ambiguity <= 0.45 + 1e-9, aim=0)
    assert accurate.lp_value - 1e-9 <= optimum <= accurate.loss + 1e-9
    assert accurate.loss <= optimum + counts.sum(axis=0).max() / counts.sum() + 1e-9  # Theorem 4.3


def test_a_met_constraint_takes_no_further_entry() -> None:
    counts = np.diag([1, 1, 1, 1, 1, 1, 1, 1, 1, 1])  # 1 - 0.7 = 0.30000000000000004 of 10 rows: 3 entries, not 4
    assert accuracy_constrained(counts, 0.7).children.sum() == 3
    assert efficiency_constrained(counts, 0.1 * 0.3).children.sum() == 3  # 0.03 * 100 lies above 3 by rounding only
    assert efficiency_constrained(counts, 0.3 / 10 - 1e-17).children.sum() == 3


def test_a_child_nobody_reaches_stays_empty() -> None:
    counts = np.array([[3, 2], [0, 0]])
    for found in (accuracy_constrained(counts, 0.0), efficiency_constrained(counts, 1.0)):
        assert found.children.tolist() == [[True, True], [False, False]]


def test_a_class_may_be_given_up() -> None:
    found = efficiency_constrained(np.array([[9, 1, 0], [0, 1, 9]]), 0.34)
    assert found.given_up.tolist() == [1]
    assert found.loss == pytest.approx(0.1)


def test_nothing_counted_gives_nothing() -> None:
    counts = np.zeros((2, 3), np.int64)
    for found in (accuracy_constrained(counts, 0.1), efficiency_constrained(counts, 0.5)):
        assert not found.children.any()
        assert (found.loss, found.ambiguity) == (0.0, 0.0)
    assert loss_of(counts, counts > 0) == ambiguity_of(counts, counts > 0) == 0.0


@pytest.mark.parametrize("seed", range(20))
def test_what_is_left_goes_to_runners_up_within_the_cap(seed: int) -> None:
    rng = np.random.default_rng(seed)
    counts, runners = random_counts(seed, 3, 6), rng.integers(0, 4, (3, 6))
    cap = float(rng.choice([0.3, 0.6, 0.9]))
    found = efficiency_constrained(counts, cap)
    more = spend_rest(counts, found.children, cap, runners)
    assert (found.children <= more).all()
    assert ambiguity_of(counts, more) <= cap + 1e-9
    assert loss_of(counts, more) == pytest.approx(found.loss)
    added = more & ~found.children
    if (counts > 0)[~found.children].any():
        assert not added.any()  # the budget was spent on what was counted
    reached = counts.sum(axis=1)
    waiting = [
        (-runners[q, k] / reached[q], q, k)
        for q in range(3)
        for k in range(6)
        if reached[q] and runners[q, k] and not found.children[q, k]
    ]
    first = sorted(waiting)[: int(added.sum())]
    assert sorted((q, k) for _, q, k in first) == sorted(
        zip(*(side.tolist() for side in np.nonzero(added)), strict=True)
    )
