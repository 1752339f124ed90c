"""What the validation rows say of weights: sums, and a sample of the rows, whatever the blocks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tasks.fit.targets import VALIDATION, SplitTargets
from tasks.io import read_labels, read_rows, read_split
from tasks.sums import tree_sum
from tasks.trace.validation import LOSS, WRONG, Validation, validate_block
from tests.naive import softmax as naive
from tests.systems.conftest import make_dataset


@pytest.mark.parametrize("body", ["dense", "csr"])
@pytest.mark.parametrize("bias", [True, False])
def test_rows_one_by_one(tmp_path: Path, body: str, bias: bool) -> None:
    dataset = make_dataset(tmp_path, body)
    random = np.random.default_rng(4)
    d, k = dataset.n_features, dataset.n_classes
    model = {"u": random.normal(size=(d, 3)), "core": random.normal(size=(3, k))}
    model |= {"bias": random.normal(size=k)} if bias else {}
    model = {name: array.astype(np.float32) for name, array in model.items()}
    targets, stride = SplitTargets(dataset.path, VALIDATION), 3
    found = tree_sum([validate_block(block, model, targets, stride) for block in dataset.blocks()])
    rows = np.concatenate([read_rows(block).to_array() for block in dataset.blocks()])
    labels, split = read_labels(dataset.path, 0, dataset.n_rows), read_split(dataset.path, 0, dataset.n_rows)
    scores = rows @ model["u"] @ model["core"] + model.get("bias", 0)
    places = np.flatnonzero(split == VALIDATION)
    losses = np.array([naive.loss(scores[i], int(labels[i])) for i in places])
    wrong = np.array([int(scores[i].argmax()) != labels[i] for i in places])
    assert found.rows == places.size > 0
    assert found.hits == places.size - wrong.sum()
    assert found.loss == pytest.approx(losses.sum(), rel=1e-4)
    kept = places % stride == 0
    assert (found.sample()[:, WRONG] == wrong[kept]).all()
    np.testing.assert_allclose(found.sample()[:, LOSS], losses[kept], rtol=1e-3, atol=1e-4)


def test_nothing_adds_nothing() -> None:
    none = Validation(0, 0, 0.0) + Validation(0, 0, 0.0)
    assert none.sample().shape == (0, 2)
