"""Codes and retrieval: the same digests on the serial pool and on workers, whatever is killed on the way."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pipeline import commands
from pipeline.store import MANIFEST, RunFolder, read_sealed
from tasks.retrieval.neighbours import read_neighbours
from tests.systems.harness import WorkerKiller, events_of, run_here

CONFIG = """\
name = "near"
seed = 3
[data]
path = "{data}"
[[encode]]
name = "wta"
kind = "wta"
hashes = 64
[[encode]]
name = "dwta"
kind = "dwta"
hashes = 300
[[retrieve]]
name = "plain"
rows = "wta"
top = 7
[[retrieve]]
name = "densified"
rows = "dwta"
queries = "validation"
"""
RETRIEVALS = ("plain", "densified")


@pytest.fixture(scope="module", params=["dense", pytest.param("csr", marks=pytest.mark.slow)])
def config(data_folder: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    path = tmp_path_factory.mktemp("near") / "config.toml"
    path.write_text(CONFIG.format(data=data_folder / f"{request.param}-0-128.zarr"))
    return path


@pytest.fixture(scope="module")
def expected(config: Path) -> dict[str, str]:
    """Digests of the serial run, beside the config."""
    return digests_of(run_here(config))


def digests_of(run: Path) -> dict[str, str]:
    """Of every step, and of the published neighbours as decoded again."""
    folder, steps = RunFolder(run), read_sealed(run / MANIFEST)["steps"]
    found = {}
    for name, step in steps.items():
        done = folder.done(name, step["fingerprint"])
        assert done is not None
        assert folder.damage(done) == []
        found[name] = done.digest
    for name in RETRIEVALS:
        found[f"neighbours {name}"] = read_neighbours(run / "neighbours" / f"{name}.parquet").digest()
    return found


@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_the_same_on_any_number_of_workers(
    config: Path, expected: dict[str, str], tmp_path: Path, workers: int
) -> None:
    assert digests_of(run_here(config, f"local:{workers}", runs=tmp_path)) == expected


def test_a_worker_killed_on_the_way(config: Path, expected: dict[str, str], tmp_path: Path) -> None:
    def is_up() -> bool:
        return any(event["event"] == "cluster" for event in events_of(tmp_path / "near"))

    with WorkerKiller(os.getpid(), 0, (0.0, 0.05), most=1, ready=is_up) as killer:
        run = run_here(config, "local:2", runs=tmp_path)
    assert killer.killed
    assert digests_of(run) == expected


def test_the_command_on_workers(config: Path, expected: dict[str, str], tmp_path: Path) -> None:
    output = tmp_path / "near.parquet"
    queries = commands.retrieve(config, "wta", output, top=7, scheduler="local:2")
    assert queries > 100
    assert read_neighbours(output).digest() == expected["neighbours plain"]
