"""`--uncoded`: a model that learnt from codes takes numbers as they are."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tasks.models.folder import load_model
from tasks.rows import Dense
from tests.pipeline.cli_caller import assert_refused, gaussian, make_run, succeeds

ROWS, Y = gaussian(240, 8, 6, seed=3)
LEARNERS = """\
[[train]]
name = "means"
kind = "nearest-class-mean"
[[train]]
name = "tree"
kind = "kmeans-tree"
"""
ON_CODES = '[data]\npath = "d.zarr"\n' + LEARNERS
OWN = (
    '[data]\npath = "d.zarr"\n[[encode]]\nname = "pq"\nkind = "pq"\nsubquantizers = 2\nbits = 2\n'
    + LEARNERS.replace('"\n[[', '"\nrows = "pq"\n[[').rstrip()
    + '\nrows = "pq"\n[[train]]\nname = "plain"\nkind = "nearest-class-mean"\n'
)


@pytest.fixture(scope="module", params=["dataset of codes", "codes of a run"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """x.npy, y.txt, d.zarr, and a run in runs/t whose models take codes of 2 x 2 bits."""
    place = tmp_path_factory.mktemp("uncoded")
    of_dataset = request.param == "dataset of codes"
    codes = ("--encode", "pq", "--subquantizers", 2, "--bits", 2) if of_dataset else ()
    make_run(place, ROWS, [f"n{y}" for y in Y], *codes, config='name = "t"\n' + (ON_CODES if of_dataset else OWN))
    np.save(place / "new.npy", ROWS + np.float32(0.1))
    (place / "new.txt").write_text("\n".join(f"n{y}" for y in Y))
    return place


@pytest.mark.parametrize("name", ["means", "tree"])
def test_rows_are_ranked_as_they_are(folder: Path, tmp_path: Path, name: str) -> None:
    model, out = folder / "runs" / "t" / "models" / name, tmp_path / "p.parquet"
    saved = load_model(model)
    new = np.load(folder / "new.npy")
    for options, encoded in (((), False), (("--uncoded",), True)):
        succeeds("predict", model, folder / "new.npy", "-o", out, "--force", *options)
        expected = saved.rank(Dense(new), 5, encoded=encoded)
        found = pq.read_table(out)
        assert found["classes"].to_pylist() == expected.classes.tolist()
    coded, plain = (
        json.loads(succeeds("evaluate", model, folder / "new.npy", "--labels", folder / "new.txt", "--json", *more).out)
        for more in ((), ("--uncoded",))
    )
    assert "uncoded" not in coded
    assert plain["uncoded"] == "yes"
    (before,), (after,) = coded["metrics"].values(), plain["metrics"].values()
    assert after["top1"] > before["top1"]  # four values a coordinate tell few of six classes


def test_where_it_has_no_meaning(folder: Path, tmp_path: Path) -> None:
    models, out = folder / "runs" / "t" / "models", tmp_path / "p.parquet"
    if (models / "plain").exists():
        by = ("predict", models / "plain", folder / "new.npy", "-o", out, "--uncoded")
        assert_refused(tmp_path, 2, "UsageError", "--uncoded", "plain", by=by)
        succeeds("predict", models / "means", folder / "d.zarr", "-o", out, "--uncoded")  # numbers
        assert pq.read_table(out).num_rows == len(ROWS)
    else:
        by = ("predict", models / "means", folder / "d.zarr", "-o", out, "--uncoded")
        assert_refused(tmp_path, 2, "UsageError", "holds codes", by=by)
