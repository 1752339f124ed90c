"""`predict --beam`: trees are searched wider than they were trained for; of other models it is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tasks.classes import ClassTable
from tasks.models.folder import save_model
from tasks.models.linear import LinearModel
from tasks.rows import Dense
from tests.pipeline.cli_caller import assert_refused, gaussian, succeeds, write_source
from tests.tasks.tree_samples import Drawn, random_tree

N_FEATURES, N_CLASSES = 4, 6
ROWS, Y = gaussian(60, N_FEATURES, N_CLASSES)
TREE = random_tree(3, Drawn(n_classes=N_CLASSES, n_features=N_FEATURES, disjoint=True))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("beam")
    table = ClassTable(*2 * (tuple(str(c) for c in range(N_CLASSES)),))
    save_model(folder / "tree", TREE, table)
    margins = replace(TREE, scales=None, facts={})
    save_model(folder / "margins", margins, table)
    save_model(folder / "flat", LinearModel(np.zeros((N_FEATURES, N_CLASSES), np.float32)), table)
    source, marks = write_source(folder, ROWS, Y)
    succeeds("ingest", source, folder / "d.zarr", "--labels", marks, "--block-rows", "17")
    return folder


@pytest.mark.parametrize("data", ["x.npy", "d.zarr"])
@pytest.mark.parametrize("beam", [1, 5, None])
def test_rows_are_searched_with_the_beam_asked_for(made: Path, tmp_path: Path, data: str, beam: int | None) -> None:
    asked = () if beam is None else ("--beam", beam)
    succeeds("predict", made / "tree", made / data, "-o", tmp_path / "p.parquet", *asked, "--proba")
    table = pq.read_table(tmp_path / "p.parquet")
    expected = TREE.rank(Dense(np.load(made / "x.npy")[table["row"].to_numpy()]), 5, None, beam)
    assert table["evaluations"].to_pylist() == expected.evaluations.tolist()
    assert table["classes"].to_pylist() == expected.classes.tolist()
    found = np.array(table["probabilities"].to_pylist(), np.float32)
    np.testing.assert_array_equal(found, expected.scores)


def test_a_wider_beam_evaluates_more(made: Path) -> None:
    rows = Dense(np.load(made / "x.npy"))
    assert TREE.rank(rows, 1, None, 5).evaluations.sum() > TREE.rank(rows, 1).evaluations.sum()


@pytest.mark.parametrize(
    ("model", "beam", "word"),
    [
        ("flat", 2, "no meaning for a model of kind ovr"),
        ("tree", 0, ">= 1"),
        ("margins", 2, "do not compare with one another"),
    ],
)
def test_a_beam_that_means_nothing_is_refused(made: Path, tmp_path: Path, model: str, beam: int, word: str) -> None:
    by = ("predict", made / model, made / "x.npy", "-o", tmp_path / "p.parquet", "--beam", beam)
    assert_refused(tmp_path, 2, "UsageError", word, "--beam", by=by)
