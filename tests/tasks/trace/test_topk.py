"""Top-k accuracy by the product's own selection, on the reference case: ties go to the smaller class."""

from __future__ import annotations

import json

import numpy as np

from tasks.models.topk import top_classes
from tests.shared import shared_path


def test_case_tr_12() -> None:
    told = json.loads(shared_path("cases/tr-12.json").read_text())
    scores, y, ks = (np.array(told["inputs"][name]) for name in ("scores", "y", "ks"))
    classes, _ = top_classes(scores.astype(np.float32), int(ks.max()))
    correct = np.stack([(classes[:, :k] == y[:, None]).any(axis=1) for k in ks])
    expected = told["expected"]
    np.testing.assert_array_equal(correct, np.array(expected["correct"]))
    np.testing.assert_allclose(correct.mean(axis=1), expected["accuracy"])
