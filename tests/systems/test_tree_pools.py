"""Trees that are grown: the same content on every pool, with nodes whole or by blocks, and after a stop at any node."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline import node_oracle
from pipeline.stages import grow
from tasks.models.folder import load_model
from tasks.trees import blocks as tree_blocks
from tasks.trees import place
from tasks.trees.local import node_name
from tasks.trees.tree import LabelTree
from tasks.trees.tree import Path as NodePath
from tests.systems.digests import assert_same, digests_of
from tests.systems.harness import run_here

CONFIG = """\
name = "trees"
seed = 5
[data]
path = "{data}"
[[encode]]
name = "dwta"
kind = "dwta"
hashes = 20
{more}"""
PQ = '[[encode]]\nname = "pq"\nkind = "pq"\nsubquantizers = 8\nbits = 4\n'
TREES = {
    "kmeans": 'kind = "kmeans-tree"\nbranching = 3\ndepth = 3\nrounds = 2',
    "kmeans-wide": 'kind = "kmeans-tree"\nbranching = 3\nrounds = 2',
    "kmeans-codes": 'kind = "kmeans-tree"\nbranching = 3\nrows = "dwta"\nrounds = 2',
    "forest": 'kind = "kmeans-tree"\nbranching = 3\ntrees = 2',
    "label-wide": 'kind = "label-tree"\nbranching = 3\ndepth = 3\nrounds = 2\npartitions = 2\nbeam = 3',
}
ON_PQ = {
    "kmeans-pq": 'kind = "kmeans-tree"\nbranching = 3\nrows = "pq"\ntest_rows = "x"\nrounds = 2',
    "kmeans-pq-wide": 'kind = "kmeans-tree"\nbranching = 3\nrows = "pq"\nrounds = 2',
}


def learners_of(named: dict[str, str]) -> str:
    return "".join(f'[[train]]\nname = "{name}"\n{keys}\n' for name, keys in named.items())


@pytest.fixture(scope="module")
def configs(data_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("trees")
    found = {}
    for body, more in (("dense", PQ + learners_of(ON_PQ)), ("csr", "")):
        found[body] = folder / f"{body}.toml"
        more += learners_of(TREES)
        found[body].write_text(CONFIG.format(data=data_folder / f"{body}-0-128.zarr", more=more))
    return found


@pytest.fixture(scope="module", autouse=True)
def wide_trees() -> Iterator[None]:
    """Trees that are called wide train all their nodes by blocks, as those of large data do their first."""
    told = grow.tree_params

    def widened(learner: Any, *more: Any) -> Any:
        params = told(learner, *more)
        return replace(params, whole_root_bytes=0, whole_node_bytes=0) if "wide" in learner.name else params  # type: ignore[type-var]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grow, "tree_params", widened)
        yield


@pytest.fixture(scope="module")
def expected(configs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    runs = tmp_path_factory.mktemp("serial")
    return {body: digests_of(run_here(config, runs=runs / body)) for body, config in configs.items()}


@pytest.mark.parametrize(
    ("body", "workers"), [("csr", 2), *(pytest.param("dense", n, marks=pytest.mark.slow) for n in (1, 4))]
)
def test_workers(configs: dict[str, Path], expected: dict[str, Any], tmp_path: Path, body: str, workers: int) -> None:
    assert {f"weights of {name}" for name in TREES} <= expected[body].keys()
    assert_same(expected[body], run_here(configs[body], f"local:{workers}", 1, tmp_path))


def nodes_of(run: Path, name: str) -> int:
    """Inner nodes of a tree."""
    model = load_model(run / "models" / name).model
    assert isinstance(model, LabelTree)
    return int((model.n_children > 0).sum())


class Written:
    """Stands for `write_done`: keeps the names of the nodes that it writes, and stops before one of them."""

    def __init__(self, stop: int | None = None) -> None:
        self.stop, self.names, self.honest = stop, list[str](), place.write_done

    def __call__(self, ground: place.Ground, path: NodePath, *more: Any) -> place.Summary:
        if len(self.names) == self.stop:
            raise KeyboardInterrupt
        self.names.append(node_name(path))
        return self.honest(ground, path, *more)


def run_watched(config: Path, stop: int | None = None) -> tuple[Path | None, list[str]]:
    """The run folder, None when it was stopped before the node with this number, and the nodes written."""
    written = Written(stop)
    with pytest.MonkeyPatch.context() as patch:
        for module in (node_oracle, tree_blocks):
            patch.setattr(module, "write_done", written)
        try:
            return run_here(config), written.names
        except KeyboardInterrupt:
            return None, written.names


@pytest.mark.parametrize("name", ["kmeans", "kmeans-wide", pytest.param("label-wide", marks=pytest.mark.slow)])
def test_a_stop_at_any_node_costs_the_missing_nodes_alone(configs: dict[str, Path], tmp_path: Path, name: str) -> None:
    """Before the root, after it, in the middle, before the last: what was written is not learnt again."""
    encoded = configs["csr"].read_text().partition("[[train]]")[0]

    def config(folder: str) -> Path:
        path = tmp_path / folder / "trees.toml"
        path.parent.mkdir()
        path.write_text(encoded + learners_of({name: TREES[name]}))
        return path

    whole, names = run_watched(config("whole"))
    assert whole is not None
    assert len(names) == nodes_of(whole, name) > 3
    for stop in (0, 1, len(names) // 2, len(names) - 1):
        path = config(str(stop))
        stopped, before = run_watched(path, stop)
        assert stopped is None
        run, again = run_watched(path)
        assert run is not None
        assert sorted(before + again) == sorted(names)
        assert digests_of(run) == digests_of(whole)
