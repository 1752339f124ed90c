"""What an ingest was asked for is kept with the dataset, without folders or secrets, and can be typed again."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.ingest import ingest
from pipeline.ingest.options import IN_MEMORY, command_of, options_of
from tasks import io

USUAL = ingest.__kwdefaults__ or {}


def asked(**values: Any) -> dict[str, Any]:
    return {**USUAL, "dataset": "d.zarr", **values}


def test_only_names_of_files_and_what_is_unusual_are_kept() -> None:
    found = options_of(asked(source="/far/away/x.npy", labels=Path("/far/y.tsv:kind"), test=0.2, seed=3), USUAL)
    assert found == {"source": "x.npy", "labels": "y.tsv:kind", "seed": 3}
    assert command_of(found, "d.zarr") == "labelgrove ingest x.npy d.zarr --labels y.tsv:kind --seed 3"


def test_what_a_url_carries_is_not_kept() -> None:
    found = options_of(asked(source="https://user:secret@host/folder/x.npy?key=hidden"), USUAL)
    assert "secret" not in str(found)
    assert "hidden" not in str(found)


@pytest.mark.parametrize("source", [np.zeros((2, 2)), ["a", "b"]], ids=["array", "list"])
def test_rows_in_memory_have_no_command(source: Any) -> None:
    found = options_of(asked(source=source), USUAL)
    assert found["source"] == IN_MEMORY
    assert command_of(found, "d.zarr") == ""
    assert command_of({}, "d.zarr") == ""


def test_the_words_are_those_of_the_command_line() -> None:
    typed = asked(source="x.raw", fmt="raw", n_features=4, raw_shape="x4", labels_at="obs/a b", index_base=1)
    words = shlex.split(command_of(options_of(typed, USUAL), "d.zarr"))
    assert [word for word in words if word.startswith("--")] == [
        "--format", "--labels-at", "--raw-shape", "--index-base", "--features"
    ]  # fmt: skip
    assert "obs/a b" in words


def test_a_dataset_keeps_them(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32))
    labels = tmp_path / "y.npy"
    np.save(labels, np.arange(20) % 2)
    made = ingest(tmp_path / "x.npy", tmp_path / "d.zarr", labels=labels, block_rows=8)
    kept = io.read_attrs(made.path)["made_from"]["options"]
    assert kept == {"source": "x.npy", "labels": "y.npy", "block_rows": 8}
