"""Hierarchies: walks as defined, costs as counted by hand, shared children, and how they are put together."""

from __future__ import annotations

import numpy as np
import pytest

from tasks.models.errors import ColumnMismatch, ModelFormat
from tasks.relaxed.assemble import Node, build
from tasks.relaxed.hierarchy import ONE_VS_ALL, Hierarchy
from tasks.rows import Dense
from tasks.svm.classifier import LinearClassifier
from tests.naive import relaxed_models as naive
from tests.tasks.relaxed.model_samples import FORMS, N_FEATURES, Sample, built, random_nodes


@pytest.mark.parametrize("shared", [False, True], ids=["tree", "shared"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(4))
def test_every_row_goes_the_way_of_the_definition(form: str, seed: int, shared: bool) -> None:
    sample = Sample(form, seed)
    nodes = random_nodes(sample, 7, shared)
    model, values = built(sample, nodes), sample.values(40)
    for sparse in (False, True):
        ranking = model.rank(sample.body(values, sparse), 4)
        for i, x in enumerate(values):
            answer = naive.walk(nodes, "root", sample.margin(x))
            n = min(4, len(answer.classes))
            assert ranking.classes[i].tolist() == answer.classes[:n] + [-1] * (4 - n)
            np.testing.assert_array_equal(ranking.scores[i], np.float32(answer.scores[:n] + [np.nan] * (4 - n)))
            assert ranking.evaluations[i] == answer.cost()
            path = ranking.path[i][ranking.path[i] >= 0]
            assert [model.label_set(node).tolist() for node in path] == [
                nodes[m].classes.tolist() for m in answer.names
            ]
            assert model.classifiers_on(ranking.path[i]) == len(answer.asked)
