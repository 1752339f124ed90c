"""Steps on dense rows by vector instructions, against the plain loop in float64; and the bits that are promised."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tasks.fit.linear import LinearScorer
from tasks.fit.scaled import ScaledParameters
from tasks.fit.sgd import descend
from tasks.later import compiles
from tasks.losses.crammer_singer import CrammerSinger
from tasks.losses.hinge import OneVsRestHinge
from tasks.losses.logistic import OneVsRestLogistic
from tasks.losses.multinomial import Multinomial
from tasks.rows import Csr, Dense, PqCodes
from tasks.rows.base import Rows
from tests.bodies import csr_of
from tests.naive import fit as naive

pytestmark = pytest.mark.skipif(not compiles(), reason="interpreted runs know no vector instructions")

LOSSES = {
    "squared hinge": OneVsRestHinge(),
    "hinge": OneVsRestHinge(squared=False, positive_weight=2.0),
    "logistic": OneVsRestLogistic(2.0),
    "multinomial": Multinomial(),
    "crammer-singer": CrammerSinger(),
}
SHAPES = [(1, 1, 1), (7, 3, 2), (16, 16, 4), (33, 17, 7), (121, 100, 13), (252, 35, 16), (12, 2, 70)]


def rows_of(body: str, n_features: int, rng: np.random.Generator) -> Rows:
    values = rng.normal(size=(60, n_features))
    if body == "pq":
        width = next(w for w in (8, 4, 7, 3, 1) if n_features % w == 0)
        codes = rng.integers(0, 5, (60, n_features // width)).astype(np.uint8)
        return PqCodes(codes, rng.normal(size=(n_features // width, 5, width)).astype(np.float32))
    return Dense(values.astype({"dense": np.float32, "half": np.float16, "double": np.float64}[body]))


@pytest.mark.parametrize("body", ["dense", "half", "double", "pq"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("seed", [0, 1])
def test_matches_the_plain_loop(shape: tuple[int, int, int], body: str, seed: int) -> None:
    """Every loss, with and without bias and centre; at a decay at which the scale is multiplied in."""
    n_features, n_outputs, batch = shape
    for number, (name, loss) in enumerate(LOSSES.items()):
        rng = np.random.default_rng([seed, number, n_features])
        rows, labels = rows_of(body, n_features, rng), rng.integers(0, n_outputs, 60).astype(np.int32)
        order = rng.integers(0, 60, 75)
        steps = np.linspace(0.7, 0.01, -(-order.size // batch)) / n_features
        scorer, decay = LinearScorer(n_features, n_outputs, bool(number % 2), 0.7), 0.9 * n_features
        centre = rng.normal(size=n_features).astype(np.float32) if (number + seed) % 2 else None
        start = {key: rng.normal(size=values.shape) for key, values in scorer.initial(np.float64).items()}
        found = []
        for dtype in (np.float32, np.float64):
            state = ScaledParameters({key: values.astype(dtype) for key, values in start.items()})
            total = descend(scorer, loss, state, rows, labels, order, steps, batch, decay, loss.curvature, centre)
            found.append((total, state.settle()))
        assert found[0][0] == pytest.approx(found[1][0], rel=2e-4), name
        for key, values in found[1][1].items():
            np.testing.assert_allclose(found[0][1][key], values, rtol=2e-3, atol=1e-4, err_msg=name)


@pytest.mark.skipif(not compiles(), reason="Python frees nothing early")
def test_what_a_kernel_has_freed_is_not_read() -> None:
    """With memory overwritten as it is freed, rows that have no centre stay as they are."""
    code = """if True:
        import numpy as np
        from tasks.fit.dense_steps import shift_and_measure
        from tasks.fit.panels import lines, row_width
        rows, norms = lines(4, row_width(600) // 16).reshape(4, -1), np.zeros(4)
        rows[:, :600] = 2.0
        shift_and_measure(rows, 4, np.zeros(0, np.float32), norms)
        assert (rows[:, :600] == 2.0).all() and (norms == 2400.0).all(), norms
    """
    environ = {**os.environ, "MALLOC_PERTURB_": "77"}
    assert subprocess.run([sys.executable, "-c", code], env=environ, cwd=Path(__file__).parents[2]).returncode == 0


def test_matches_the_slow_loop() -> None:
    rng = np.random.default_rng(3)
    values, labels = rng.normal(size=(40, 19)).astype(np.float32), rng.integers(0, 5, 40).astype(np.int32)
    order, start, steps = rng.integers(0, 40, 50), rng.normal(size=(19, 5)), rng.uniform(0.01, 0.1, 8)
    state = ScaledParameters({"weights": start.astype(np.float32)})
    scorer = LinearScorer(19, 5, bias=False)
    loss = descend(scorer, Multinomial(), state, Dense(values), labels, order, steps, 7, 0.7)
    expected, total = naive.sgd(values.astype(float), labels, start, Multinomial(), order, steps, 7, 0.7)
    np.testing.assert_allclose(state.settle()["weights"], expected, rtol=1e-4, atol=1e-5)
    assert loss == pytest.approx(total, rel=1e-5)


@pytest.mark.parametrize(("n_features", "n_outputs", "most"), [(1, 1, 1), (120, 16, 9), (241, 33, 17), (7, 100, 6)])
def test_panels_hold_the_weights_and_take_steps(n_features: int, n_outputs: int, most: int) -> None:
    from tasks.fit.panels import lines, pack, row_width, step_through, unpack

    rng = np.random.default_rng(n_features)
    weights = rng.normal(size=(n_features, n_outputs)).astype(np.float32)
    n_panels = -(-n_outputs // 16)
    panels, residuals, sums = lines(n_panels * n_features), lines(n_panels, most), lines(n_panels, most)
    before, after = (lines(most, row_width(n_features) // 16).reshape(most, -1) for _ in range(2))
    pack(weights, panels)
    again = np.empty_like(weights)
    unpack(panels, again)
    np.testing.assert_array_equal(again, weights)
    for rows in (before, after):
        rows[:, :n_features] = rng.normal(size=(most, n_features))
    given = rng.normal(size=(most, 16 * n_panels)).astype(np.float32)
    given[:, n_outputs:] = 0
    residuals[:] = given.reshape(most, n_panels, 16).transpose(1, 0, 2)
    step_through(panels, n_features, before, residuals, most, after, most, sums)
    unpack(panels, again)
    expected = weights + before[:, :n_features].T @ given[:, :n_outputs]
    np.testing.assert_allclose(again, expected, rtol=1e-4, atol=1e-4)
    scores = sums.transpose(1, 0, 2).reshape(most, -1)
    np.testing.assert_allclose(scores[:, :n_outputs], after[:, :n_features] @ again, rtol=1e-3, atol=1e-3)
    alone = lines(n_panels, most)
    for i in range(most):  # a row's scores have the same bits, whichever rows stand beside it
        step_through(panels, n_features, before, residuals, 0, np.ascontiguousarray(after[i:]), 1, alone)
        np.testing.assert_array_equal(alone[:, 0], sums[:, i])


def test_where_it_does_not_fit() -> None:
    from tasks.fit.dense_steps import fits_dense

    scorer, values = LinearScorer(4, 3), np.ones((2, 4), np.float32)
    single, double = scorer.initial(np.float32), scorer.initial(np.float64)
    assert fits_dense(scorer, Dense(values), single)
    assert not fits_dense(scorer, Dense(values), double)
    assert not fits_dense(scorer, csr_of(values), single)
    assert isinstance(csr_of(values), Csr)
    assert not fits_dense(LinearScorer(0, 3), Dense(values[:, :0]), single)
