"""Trace-norm learners that differ only in the rows they are tested on: each pair is solved once, to the same bits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pipeline.store import SOLVED
from pipeline.trace_oracle import PoolRisk
from pipeline.trace_pairs import PairStore
from tasks.trace.kept import KEPT
from tests.systems.digests import digests_of
from tests.systems.harness import events_of, run_here

HEAD = """\
name = "twins"
seed = 5
[data]
path = "{data}"
[[encode]]
name = "pq"
kind = "pq"
subquantizers = 8
bits = 4
"""
GRID = """\
kind = "trace-norm"
rows = "pq"
lambda1 = 0.8
lambda1_steps = 6
lambda2_steps = 2
alpha = 0.2
gap = 0.02
max_iterations = 4
"""
TWINS = {  # who is first ends each row where weaker pairs are no better, and the next one goes on
    "pq": "patience = 1",
    "semi-pq": 'test_rows = "x"\npatience = 0',
    "simple": 'choose = "top1"\nstandard_errors = 2',
}
Asked = list[tuple[str, str]]  # learner, and what it asked the rows for


@contextmanager
def listening() -> Iterator[Asked]:
    """What learners ask the rows for, beside what is in a log."""
    found: Asked = []
    honest = PoolRisk._sum

    def noted(self: PoolRisk, fn: Any, what: str, *more: Any) -> Any:
        found.append((self.name, what))
        return honest(self, fn, what, *more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PoolRisk, "_sum", noted)
        yield found


@pytest.fixture
def asked() -> Iterator[Asked]:
    with listening() as found:
        yield found


@pytest.fixture(scope="module")
def together(data_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Asked]:
    """A run of all, and what it asked for."""
    with listening() as found:
        return run_here(config(data_folder, tmp_path_factory.mktemp("together"), *TWINS)), found


def config(data_folder: Path, folder: Path, *names: str) -> Path:
    learners = "".join(f'[[train]]\nname = "{name}"\n{GRID}{TWINS[name]}\n' for name in names)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "c.toml").write_text(HEAD.format(data=data_folder / "dense-0-128.zarr") + learners)
    return folder / "c.toml"


@pytest.fixture(scope="module")
def alone(data_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Digests of each learner when it is the only one."""
    folder = tmp_path_factory.mktemp("alone")
    found: dict[str, str] = {}
    for name in TWINS:
        digests = digests_of(run_here(config(data_folder, folder / name, name)))
        found |= {key: digest for key, digest in digests.items() if key.endswith(f" {name}") or f"_{name}" in key}
    return found


def assert_as_alone(run: Path, alone: dict[str, str]) -> None:
    found = digests_of(run)
    assert {key: found[key] for key in alone} == alone
    assert {f"weights of {name}" for name in TWINS} <= alone.keys()
    assert {f"results of train_{name}" for name in TWINS} <= alone.keys()
    assert not (run / SOLVED).exists()


def test_every_pair_is_solved_once(together: tuple[Path, Asked], alone: dict[str, str]) -> None:
    run, asked = together
    assert_as_alone(run, alone)
    events = events_of(run)
    pairs = {name: [e for e in events if e["event"] == "pair" and e["model"] == name] for name in TWINS}
    solved = [(event["lambda1"], event["lambda2"]) for event in events if event["event"] == "solving"]
    assert len(pairs["pq"]) < len(pairs["semi-pq"]) == 12
    assert sorted(solved) == sorted({(event["lambda1"], event["lambda2"]) for event in pairs["semi-pq"]})
    assert {name for name, _ in asked} == {"pq", "semi-pq"}


@pytest.mark.parametrize("share", [0.3, pytest.param(0.9, marks=pytest.mark.slow)])
def test_whoever_is_interrupted_goes_on_to_the_same_end(
    data_folder: Path, tmp_path: Path, alone: dict[str, str], together: tuple[Path, Asked], asked: Asked, share: float
) -> None:
    whole, total = config(data_folder, tmp_path, *TWINS), len(together[1])
    noted = PoolRisk._sum

    def stopped(self: PoolRisk, fn: Any, what: str, *more: Any) -> Any:
        if len(asked) == int(share * total):
            raise KeyboardInterrupt
        return noted(self, fn, what, *more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PoolRisk, "_sum", stopped)
        with pytest.raises(KeyboardInterrupt):
            run_here(whole)
    KEPT.clear()
    assert_as_alone(run_here(whole), alone)
    assert len(asked) == total  # nothing was asked for twice


def test_without_the_others_pairs_a_learner_solves_its_own(
    data_folder: Path, tmp_path: Path, alone: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one's are gone with its run, or where one ended is damaged: the row is solved anew."""
    monkeypatch.setattr(PairStore, "end", lambda self, place: None)  # noqa: ARG005
    assert_as_alone(run_here(config(data_folder, tmp_path / "damaged", *TWINS)), alone)
    monkeypatch.undo()
    later = tmp_path / "later"
    run_here(config(data_folder, later, "pq"))
    assert_as_alone(run_here(config(data_folder, later, *TWINS)), alone)
