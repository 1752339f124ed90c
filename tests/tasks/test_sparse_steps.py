"""Steps on sparse rows in one call: the bits of the plain loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tasks.fit import sgd
from tasks.fit.linear import LinearScorer
from tasks.fit.scaled import ScaledParameters
from tasks.fit.sgd import descend
from tasks.fit.sparse_steps import fits
from tasks.losses.child_softmax import ChildSoftmax
from tasks.losses.crammer_singer import CrammerSinger
from tasks.losses.hinge import OneVsRestHinge
from tasks.losses.logistic import OneVsRestLogistic
from tasks.losses.multinomial import Multinomial
from tasks.losses.some_classes import SomeClasses
from tasks.rows import Csr, Dense
from tests.bodies import csr_of

N_ROWS, N_CLASSES = 50, 11
WHOLE = ("multinomial", "crammer-singer")  # losses that compare the classes of a row: each row has one


def losses(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    weight = rng.random(N_CLASSES)
    return {
        "hinge": OneVsRestHinge(squared=False),
        "squared": OneVsRestHinge(positive_weight=3.0, class_weight=weight),
        "logistic": OneVsRestLogistic(2.0, weight),
        "multinomial": Multinomial(weight),
        "crammer-singer": CrammerSinger(weight),
        "some": SomeClasses.of(OneVsRestHinge(class_weight=weight), np.array([9, 2, 5]), N_CLASSES),
        "some-logistic": SomeClasses.of(OneVsRestLogistic(), np.array([0, 10]), N_CLASSES),
    }


def sparse(seed: int, n_features: int = 17) -> Csr:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(N_ROWS, n_features)) * (rng.random((N_ROWS, n_features)) < 0.3)
    values[7] = 0
    return csr_of(values.astype(np.float32))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("batch", [1, 3, 16, 200])
@pytest.mark.parametrize("name", list(losses(0)))
@pytest.mark.parametrize("seed", [0, 1])
def test_the_bits_of_the_plain_loop(
    name: str, batch: int, bias: bool, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(seed + batch)
    rows, loss = sparse(seed), losses(seed)[name]
    lowest = 0 if name in WHOLE else -1
    labels = rng.integers(lowest, N_CLASSES, N_ROWS).astype(np.int32)
    order = rng.integers(0, N_ROWS - 9, 90)
    labels[~np.isin(np.arange(N_ROWS), order)] = 1 << 30  # of rows that take no part anything may stand there
    steps = np.linspace(0.9, 0.01, -(-order.size // batch))
    scorer = LinearScorer(17, len(np.flatnonzero(loss.places >= 0)) if "some" in name else N_CLASSES, bias, 0.7)
    start = {key: rng.normal(size=values.shape).astype("f4") for key, values in scorer.initial(np.float32).items()}
    found = []
    for fast in (True, False):
        state = ScaledParameters(start)
        assert fits(scorer, loss, rows, state.values)
        if not fast:
            monkeypatch.setattr(sgd, "fits", lambda *_: False)
        # a decay at which the scale is multiplied in more than once
        total = descend(scorer, loss, state, rows, labels, order, steps, batch, 0.8, loss.curvature)
        found.append((total, state.scale, state.values))
    assert found[0][:2] == found[1][:2]
    assert found[0][2].keys() == found[1][2].keys()
    for key, values in found[0][2].items():
        np.testing.assert_array_equal(values, found[1][2][key])
        assert not np.array_equal(values, start[key])


def test_where_it_does_not_fit() -> None:
    scorer, loss, rows = LinearScorer(17, 3), OneVsRestHinge(), sparse(0)
    single, double = scorer.initial(np.float32), scorer.initial(np.float64)
    assert fits(scorer, loss, rows, single)
    assert not fits(scorer, loss, rows, double)
    assert not fits(scorer, loss, Dense(rows.to_array()), single)
    assert not fits(scorer, loss, Csr(rows.data.astype(np.float64), rows.indices, rows.indptr, 17), single)
    assert not fits(scorer, ChildSoftmax(np.eye(3, dtype=bool)), rows, single)
    assert not fits(LinearScorer(17, 1), loss, rows, single)  # NumPy adds one column up in another order
