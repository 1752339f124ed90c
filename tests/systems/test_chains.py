"""Encodings that chain: a model tested on codes of codes predicts from raw rows what its run predicted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from pipeline import commands
from tests.systems.conftest import planted
from tests.systems.harness import run_here

CONFIG = """\
name = "chain"
[data]
path = "{data}"
[[encode]]
name = "fine"
kind = "pq"
subquantizers = 12
bits = 5
[[encode]]
name = "coarse"
kind = "pq"
rows = "fine"
subquantizers = 6
bits = 3
[[train]]
name = "ovr"
kind = "ovr"
rows = "coarse"
[[train]]
name = "tree"
kind = "label-tree"
rows = "fine"
test_rows = "coarse"
"""


def test_a_model_carries_every_encoding_of_its_chain(data_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(CONFIG.format(data=data_folder / "dense-0-128.zarr"))
    run = run_here(tmp_path / "config.toml")
    rows, _, _ = planted(1500, 48, "dense", 0)
    np.save(tmp_path / "rows.npy", rows)
    for model in ("ovr", "tree"):
        ours = tmp_path / f"{model}.parquet"
        commands.predict(run / "models" / model, str(tmp_path / "rows.npy"), ours)
        raw = {row["row"]: row["classes"] for row in pq.read_table(ours).to_pylist()}
        predicted = pq.read_table(run / "predictions" / f"{model}.parquet").to_pylist()
        assert len(predicted) > 100
        assert all(raw[row["row"]] == row["classes"] for row in predicted)
