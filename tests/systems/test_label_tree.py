"""Label trees on real rows that scikit-learn carries: accuracy beside one-vs-rest, on every body of rows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.svm import LinearSVC

from tasks.rows import Dense, Rows
from tasks.trees.local import Labelled, grow_rows
from tasks.trees.params import LabelTreeParams
from tests.bodies import csr_of


def digits() -> tuple[np.ndarray, np.ndarray]:
    """1,797 rows of 8 x 8 pixels; the 20 classes are the digit and which half of the picture has more ink."""
    images, digit = load_digits(return_X_y=True)
    heavy = images[:, :32].sum(axis=1) > images[:, 32:].sum(axis=1)
    order = np.random.default_rng(0).permutation(len(images))
    return images[order].astype(np.float32), (digit + 10 * heavy)[order].astype(np.int32)


def body_of(values: np.ndarray, body: str) -> Rows:
    return Dense(values) if body == "dense" else csr_of(values)


@pytest.mark.parametrize("body", ["dense", "csr"])
@pytest.mark.parametrize("params", [LabelTreeParams(), LabelTreeParams(loss=0.03), LabelTreeParams(depth=3)])
def test_near_one_vs_rest_with_fewer_classifiers(body: str, params: LabelTreeParams) -> None:
    values, labels = digits()
    train, validation, test = slice(0, 1200), slice(1200, 1500), slice(1500, None)
    tree = grow_rows(
        Labelled(body_of(values[train], body), labels[train]),
        Labelled(body_of(values[validation], body), labels[validation]),
        20,
        params,
        seed=0,
    )
    ranking = tree.rank(body_of(values[test], body), 5)
    accuracy = float((ranking.classes[:, 0] == labels[test]).mean())
    flat = LinearSVC(C=0.01).fit(values[train], labels[train]).score(values[test], labels[test])
    assert accuracy > 0.85 * flat
    assert ranking.evaluations.mean() < 15
    assert (ranking.classes == labels[test][:, None]).any(axis=1).mean() >= accuracy
