"""Encodings that chain: a model tested on codes of codes predicts from raw rows what its run predicted."""

from __future__ import annotations

from pathlib import Path

from tests.systems.conftest import planted
from tests.systems.harness import assert_raw_rows_rank_as_in_the_run, run_here

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
    for model in ("ovr", "tree"):
        assert_raw_rows_rank_as_in_the_run(run, model, rows, tmp_path)
