"""Banks of classifiers: margins as defined, the same bits however they are asked for, costs counted exactly."""

from __future__ import annotations

import numpy as np
import pytest

from tasks.errors import InputError
from tasks.features.errors import NegativeFeature
from tasks.models.errors import ColumnMismatch
from tasks.rows import Csr, Dense, OneHot, PqCodes, Rows
from tasks.svm.bank import Bank, bank_of
from tasks.svm.bank_kernels import first_from
from tasks.svm.classifier import Classifier, KernelClassifier, LinearClassifier
from tasks.svm.kernel_bank import KernelBank
from tasks.svm.kernels import Kernel
from tasks.svm.linear_bank import ActiveBank, LinearBank
from tests.bodies import csr_of
from tests.naive.relaxed_models import kernel_margin, linear_margin

KERNELS = [Kernel("linear"), Kernel("rbf", 3.0), Kernel("histogram-intersection"), Kernel("chi2", 0.7)]
WIDTHS = (1, 3, 63, 64, 65, 150)


def narrow(rows: Csr) -> Csr:
    return Csr(rows.data.astype(np.float32), rows.indices, rows.indptr, rows.n_features)


def positive(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """(n, d) float32 >= 0, half of it 0."""
    return (rng.random((n, d)) * (rng.random((n, d)) < 0.5)).astype(np.float32)


def linear_classifiers(rng: np.random.Generator, m: int, d: int, share: float) -> list[Classifier]:
    weights = rng.normal(size=(m, d)) * (rng.random((m, d)) < share)
    return [LinearClassifier(w.astype(np.float32), float(rng.normal())) for w in weights]


def kernel_classifiers(rng: np.random.Generator, m: int, n_training: int) -> list[Classifier]:
    found: list[Classifier] = []
    for _ in range(m):
        support = np.flatnonzero(rng.random(n_training) < 0.4)
        found.append(KernelClassifier(support, rng.normal(size=support.size).astype(np.float32), float(rng.normal())))
    return found


def bank(form: str, rng: np.random.Generator, m: int, d: int, kernel: Kernel = KERNELS[1]) -> Bank:
    if form in ("linear", "active"):
        made = bank_of(linear_classifiers(rng, m, d, 0.9 if form == "linear" else 0.1), d)
        assert made.form == form or m == 0 or d < 60
        return made
    training = positive(rng, 25, d)
    body = narrow(csr_of(training)) if form == "sparse kernel" else Dense(training)
    return bank_of(kernel_classifiers(rng, m, 25), d, kernel, body.take)


def bodies(values: np.ndarray) -> dict[str, Rows]:
    return {"dense": Dense(values), "csr": narrow(csr_of(values))}


FORMS = ("linear", "active", "kernel", "sparse kernel")


@pytest.mark.parametrize("before", [0, 10**9], ids=["pairs", "block"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("d", WIDTHS)
def test_a_margin_has_the_same_bits_alone_beside_others_and_in_a_block(
    form: str, d: int, before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.svm.linear_sessions.BEFORE", before)
    monkeypatch.setattr("tasks.svm.linear_sessions.PANEL_CELLS", 5 * d)
    rng = np.random.default_rng(d)
    made, values = bank(form, rng, 37, d), positive(rng, 29, d)
    values[3] = 0
    for rows in bodies(values).values():
        every = np.arange(29)
        whole = made.session(rows).block(every, 0, 37)
        pairs = rng.permutation(29 * 37)[:300]
        got = made.session(rows).margins(pairs // 37, pairs % 37)
        np.testing.assert_array_equal(got, whole[pairs // 37, pairs % 37])
        mixed = rng.permutation(29)
        np.testing.assert_array_equal(made.session(rows).block(mixed, 0, 37), whole[mixed])
        some = np.array([28, 3, 7])
        np.testing.assert_array_equal(made.session(rows).block(some, 5, 22), whole[some, 5:22])
        np.testing.assert_array_equal(made.session(rows).block(some, 20, 21), whole[some, 20:21])
        np.testing.assert_array_equal(made.session(rows.take(some)).block(np.arange(3), 0, 37), whole[some])


@pytest.mark.parametrize("body", ["dense", "csr"])
@pytest.mark.parametrize("share", [0.9, 0.1])
def test_linear_margins_are_those_of_the_definition(share: float, body: str) -> None:
    rng = np.random.default_rng(7)
    classifiers, values = linear_classifiers(rng, 6, 90, share), rng.normal(size=(8, 90)).astype(np.float32)
    expected = [[linear_margin(x, one) for one in classifiers] for x in values]
    got = bank_of(classifiers, 90).session(bodies(values)[body]).block(np.arange(8), 0, 6)
    np.testing.assert_allclose(got, expected, rtol=2e-6, atol=2e-6)


def closed_form(kernel: Kernel, x: np.ndarray, y: np.ndarray) -> float:
    a, b = x.astype(np.float64), y.astype(np.float64)
    both = np.where(a + b > 0, a + b, 1)
    return {
        "linear": float(a @ b),
        "rbf": float(np.exp(-((a - b) ** 2).sum() / kernel.width)),
        "histogram-intersection": float(np.minimum(a, b).sum()),
        "chi2": float(np.exp(-0.5 * ((a - b) ** 2 / both).sum() / kernel.width)),
    }[kernel.kind]


@pytest.mark.parametrize("body", ["dense", "csr"])
@pytest.mark.parametrize("kernel", KERNELS, ids=[one.kind for one in KERNELS])
def test_kernel_margins_and_costs_are_those_of_the_definition(kernel: Kernel, body: str) -> None:
    rng = np.random.default_rng(11)
    training, values = positive(rng, 12, 30), positive(rng, 6, 30)
    classifiers = kernel_classifiers(rng, 5, 12)
    made = bank_of(classifiers, 30, kernel, Dense(training).take)
    session = made.session(bodies(values)[body])
    asked = np.array([[0, 1], [0, 3], [0, 1], [2, 0], [5, 4], [5, 3]])
    got = session.margins(asked[:, 0], asked[:, 1])
    for (row, m), margin in zip(asked, got, strict=True):
        expected = kernel_margin(values[row], classifiers[m], training, lambda a, b: closed_form(kernel, a, b))
        assert margin == pytest.approx(expected, rel=2e-6, abs=2e-6)
    union = [set[int]() for _ in values]
    for row, m in asked:
        union[row] |= set(classifiers[m].support.tolist())
    assert session.evaluations().tolist() == [len(one) for one in union]
    assert session.classifiers().tolist() == [3, 0, 1, 0, 0, 2]


def test_what_is_prepared_or_computed_for_others_costs_a_row_nothing() -> None:
    rng = np.random.default_rng(3)
    made, rows = bank("kernel", rng, 9, 10), Dense(positive(rng, 5, 10))
    session, plain = made.session(rows), made.session(rows)
    session.prepare(0, 9)
    assert session.evaluations().tolist() == session.classifiers().tolist() == [0] * 5
    session.margins(np.array([0]), np.array([2]))
    np.testing.assert_array_equal(session.block(np.arange(5), 2, 4), plain.block(np.arange(5), 2, 4))
    assert session.evaluations().tolist() == plain.evaluations().tolist()
    assert session.classifiers().tolist() == [3, 2, 2, 2, 2]


def test_linear_costs_are_the_classifiers_asked_for() -> None:
    rng = np.random.default_rng(4)
    for form in ("linear", "active"):
        session = bank(form, rng, 9, 70).session(Dense(positive(rng, 3, 70)))
        session.prepare(0, 9)
        session.margins(np.array([0, 2, 0]), np.array([1, 1, 8]))
        session.block(np.array([1, 0]), 2, 6)
        assert session.evaluations().tolist() == session.classifiers().tolist() == [6, 4, 1]


@pytest.mark.parametrize("form", FORMS)
def test_rows_of_every_body_are_taken(form: str) -> None:
    rng = np.random.default_rng(5)
    d = 66
    made = bank(form, rng, 8, d)
    books = rng.random((33, 4, 2)).astype(np.float32)
    every: list[Rows] = [
        PqCodes(rng.integers(0, 4, (7, 33)).astype(np.uint8), books),
        OneHot(rng.integers(0, 3, (7, 33)).astype(np.uint8), 2),
        Dense(positive(rng, 7, d).astype(np.float16)),
        Dense(positive(rng, 7, d).astype(np.float64)),
    ]
    for rows in every:
        plain = Dense(rows.to_array())
        expected = made.session(plain).block(np.arange(7), 0, 8)
        np.testing.assert_allclose(made.session(rows).block(np.arange(7), 0, 8), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_no_classifiers_and_no_rows(form: str) -> None:
    rng = np.random.default_rng(6)
    none, some = np.zeros(0, np.int64), Dense(positive(rng, 3, 8))
    made = bank(form, rng, 0, 8)
    assert (made.n_classifiers, made.n_features, made.n_support) == (0, 8, 0)
    assert made.session(some).block(np.arange(3), 0, 0).shape == (3, 0)
    session = bank(form, rng, 4, 8).session(some.take(none))
    assert session.block(none, 1, 3).shape == (0, 2)
    assert session.margins(none, none).shape == session.evaluations().shape == (0,)


def test_the_smaller_form_is_held_and_both_give_the_same_bits_on_sparse_rows() -> None:
    rng = np.random.default_rng(8)
    few = linear_classifiers(rng, 5, 80, 0.2)
    active = bank_of(few, 80)
    whole = LinearBank(np.stack([one.weights for one in few if isinstance(one, LinearClassifier)]), active.bias)
    assert isinstance(active, ActiveBank)
    assert sum(t.nbytes for t in active.tensors().values()) < sum(t.nbytes for t in whole.tensors().values())
    rows = narrow(csr_of(positive(rng, 20, 80)))
    for first, last in ((0, 5), (2, 3)):
        np.testing.assert_array_equal(
            active.session(rows).block(np.arange(20), first, last),
            whole.session(rows).block(np.arange(20), first, last),
        )
    pairs = np.arange(20), np.arange(20) % 5
    np.testing.assert_array_equal(active.session(rows).margins(*pairs), whole.session(rows).margins(*pairs))
    mixed = bank_of([*few, *linear_classifiers(rng, 9, 80, 1.0)], 80)
    assert isinstance(mixed, LinearBank)
    np.testing.assert_array_equal(mixed.weights[:5], whole.weights)
    one_full = bank_of([*few, *linear_classifiers(rng, 1, 80, 1.0)], 80)
    assert isinstance(one_full, ActiveBank)
    np.testing.assert_array_equal(one_full.weights.to_array()[:5], whole.weights)


def test_support_vectors_of_all_classifiers_are_fetched_once_in_order() -> None:
    fetched = []

    def rows_of(numbers: np.ndarray) -> Rows:
        fetched.append(numbers.tolist())
        return Dense(numbers[:, None].astype(np.float32) * np.ones((1, 3), np.float32))

    one = KernelClassifier(np.array([4, 90]), np.array([1, -1], np.float32), 0.5)
    two = KernelClassifier(np.array([7, 90]), np.array([2, 3], np.float32), -0.5)
    made = bank_of([one, two], 3, Kernel("linear"), rows_of)
    assert isinstance(made, KernelBank)
    assert fetched == [[4, 7, 90]]
    assert made.index.tolist() == [0, 2, 1, 2]
    assert made.n_support == 3
    assert made.session(Dense(np.ones((1, 3), np.float32))).block(np.array([0]), 0, 2).tolist() == [[-257.5, 851.5]]


def test_classifiers_of_another_sort_are_refused() -> None:
    linear, kernel = LinearClassifier(np.ones(2, np.float32), 0.0), KernelClassifier(np.zeros(0, int), np.zeros(0), 0.0)
    rows = Dense(np.ones((1, 2), np.float32))
    with pytest.raises(TypeError):
        bank_of([kernel], 2)
    with pytest.raises(TypeError):
        bank_of([linear], 2, Kernel("linear"), rows.take)
    with pytest.raises(TypeError):
        bank_of([kernel], 2, Kernel("linear"))


@pytest.mark.parametrize("form", FORMS)
def test_rows_are_checked(form: str) -> None:
    made, values = bank(form, np.random.default_rng(9), 3, 6, KERNELS[3]), np.ones((4, 6), np.float32)
    with pytest.raises(ColumnMismatch, match="7 columns, the marszalek"):
        made.check(Dense(np.ones((2, 7), np.float32)), "marszalek")
    values[2, 4] = -1
    if made.is_kernel:
        with pytest.raises(NegativeFeature, match="row 2, column 4"):
            made.check(Dense(values), "ovo")
        assert issubclass(NegativeFeature, InputError)
    else:
        made.check(Dense(values), "ovo")
        assert made.session(Dense(values)).block(np.array([2]), 0, 3).shape == (1, 3)


@pytest.mark.parametrize("seed", range(5))
def test_the_search_in_growing_steps_finds_the_first_place(seed: int) -> None:
    rng = np.random.default_rng(seed)
    features = np.unique(rng.integers(0, 60, 25)).astype(np.int32)
    for low in range(features.size + 1):
        for wanted in range(62):
            expected = max(low, int(np.searchsorted(features, wanted)))
            assert first_from(features, low, features.size, wanted) == expected
