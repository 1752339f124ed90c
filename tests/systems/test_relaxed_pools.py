"""Hierarchies and pairs of support vector machines: the same content on every pool, and after a stop anywhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from pipeline import svm_growth
from pipeline.ingest import ingest
from pipeline.stages import hierarchy, hierarchy_nodes
from tasks.relaxed import learn, pair_tasks
from tests.systems.conftest import planted
from tests.systems.digests import assert_same, digests_of
from tests.systems.harness import run_here

KERNELS = {"dense": ("linear", "rbf"), "csr": ("linear", "chi2")}
CONFIG = 'name = "svm"\nseed = 4\n[data]\npath = "{data}"\n{more}'
LEARNERS = {
    "svm": 'kind = "ovr"',
    "relaxed": 'kind = "relaxed-hierarchy"\nsearch_rows = 200\nsamples = 6',
    "both": 'kind = "relaxed-hierarchy"\ninitialisation = "both"\nrho = 0.8\nsamples = 4',
    "sure": 'kind = "relaxed-hierarchy"\nsearch_rows = 200\nsamples = 6\ndoubt = 0',
    "spectral": 'kind = "spectral-tree"\nlevels = 2\ndoubt = 2',
    "marszalek": 'kind = "marszalek"\nalpha = 0.6\ncut_rows = 120',
    "ovo": 'kind = "ovo"',
    "dag": 'kind = "dag-svm"',
    "drawn": 'kind = "relaxed-hierarchy"\nclasses = 6\ndraw = 3\nsamples = 4',
}


def names_of(kernel: str) -> tuple[str, ...]:
    """Learners of a run: each kind with each kernel, some options with one kernel alone."""
    left_out = ("both", "sure") if kernel == "linear" else ("drawn", "sure")
    return tuple(name for name in LEARNERS if name not in left_out)


def sections(kernel: str, names: tuple[str, ...] = ()) -> str:
    names = names or names_of(kernel)
    return "".join(f'[[train]]\nname = "{name}-{kernel}"\nkernel = "{kernel}"\n{LEARNERS[name]}\n' for name in names)


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """500 rows of 13 classes, none below 0."""
    folder = tmp_path_factory.mktemp("planted")
    values, labels, _ = planted(500, 24, "dense", 2, shape=(3, 4))
    values = np.maximum(values, 0)
    ingest(values, folder / "dense.zarr", labels=labels, block_rows=64, seed=1)
    ingest(scipy.sparse.csr_matrix(values), folder / "csr.zarr", labels=labels, block_rows=64, seed=1)
    return {body: folder / f"{body}.zarr" for body in KERNELS}


@pytest.fixture(scope="module", autouse=True)
def small_nodes() -> Any:
    """Nodes of 150 rows are large: those of the first levels are driven, those below them are tasks."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("LARGE_NODE", "LARGE_KERNEL_NODE"):
            patch.setattr(hierarchy_nodes, name, 150)
        patch.setattr(hierarchy, "KERNEL_SEARCH_ROWS", 150)
        yield


@pytest.fixture(scope="module")
def configs(datasets: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("configs")
    found = {}
    for body, kernels in KERNELS.items():
        found[body] = folder / f"{body}.toml"
        found[body].write_text(CONFIG.format(data=datasets[body], more="".join(map(sections, kernels))))
    return found


@pytest.fixture(scope="module")
def expected(configs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    runs = tmp_path_factory.mktemp("serial")
    return {body: digests_of(run_here(config, runs=runs / body)) for body, config in configs.items()}


@pytest.mark.parametrize(
    ("body", "workers"), [("csr", 2), *(pytest.param("dense", n, marks=pytest.mark.slow) for n in (1, 4))]
)
def test_workers(configs: dict[str, Path], expected: dict[str, Any], tmp_path: Path, body: str, workers: int) -> None:
    names = {f"weights of {name}-{kernel}" for kernel in KERNELS[body] for name in names_of(kernel)}
    assert names <= expected[body].keys()
    assert_same(expected[body], run_here(configs[body], f"local:{workers}", 1, tmp_path))


# ---- stops ---------------------------------------------------------------------------------------------------------


class Stopping:
    """Stands for what keeps finished work: counts it, and stops before one of the pieces."""

    def __init__(self, stop: int | None = None) -> None:
        self.stop, self.kept = stop, list[str]()

    def of(self, honest: Callable[..., Any], name: Callable[..., str]) -> Callable[..., Any]:
        def keeping(*args: Any) -> Any:
            if len(self.kept) == self.stop:
                raise KeyboardInterrupt
            made = honest(*args)
            self.kept.append(name(*args))
            return made

        return keeping


def run_watched(config: Path, stop: int | None = None) -> tuple[Path | None, list[str]]:
    """The run folder, None when it was stopped before the piece with this number, and the nodes and runs kept."""
    watch = Stopping(stop)
    with pytest.MonkeyPatch.context() as patch:
        write_node = watch.of(learn.write_node, lambda _, node: f"{node.kind} {node.classes.tolist()}")
        for module in (learn, svm_growth):
            patch.setattr(module, "write_node", write_node)
        patch.setattr(pair_tasks, "keep", watch.of(pair_tasks.keep, lambda path, _: path.name))
        try:
            return run_here(config), watch.kept
        except KeyboardInterrupt:
            return None, watch.kept


@pytest.mark.parametrize(
    ("body", "name"),
    [("dense", "relaxed"), pytest.param("csr", "spectral", marks=pytest.mark.slow), ("dense", "ovo"), ("csr", "svm")],
    ids=str,
)
def test_a_stop_between_nodes_costs_the_missing_ones_alone(
    datasets: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, name: str
) -> None:
    monkeypatch.setattr("pipeline.stages.pairs.PAIRS_A_TASK", 20)

    def config(folder: str) -> Path:
        path = tmp_path / folder / "svm.toml"
        path.parent.mkdir()
        path.write_text(CONFIG.format(data=datasets[body], more=sections("linear", (name,))))
        return path

    whole, pieces = run_watched(config("whole"))
    assert whole is not None
    assert len(pieces) == len(set(pieces)) >= (1 if name == "svm" else 4)
    for stop in sorted({0, 1, len(pieces) // 2, len(pieces) - 1} - {len(pieces)}):
        path = config(str(stop))
        stopped, before = run_watched(path, stop)
        assert stopped is None
        run, again = run_watched(path)
        assert run is not None
        assert sorted(before + again) == sorted(pieces)
        assert digests_of(run) == digests_of(whole)


@pytest.mark.parametrize(
    "first",
    [("sure", "relaxed", "svm"), pytest.param(("svm", "relaxed", "sure"), marks=pytest.mark.slow)],
    ids="-".join,
)
def test_who_shares_nodes_gets_what_it_would_have_got_alone(
    datasets: dict[str, Path], tmp_path: Path, first: tuple[str, ...]
) -> None:
    def config(*names: str) -> Path:
        path = tmp_path / "-".join(names) / "svm.toml"
        path.parent.mkdir()
        path.write_text(CONFIG.format(data=datasets["dense"], more=sections("linear", names)))
        return path

    run, pieces = run_watched(config(*first))
    assert run is not None
    alone = {name: run_watched(config(name)) for name in first}
    weights = digests_of(run)
    for name, (own, _) in alone.items():
        assert own is not None
        what = f"weights of {name}-linear"
        assert weights[what] == digests_of(own)[what]
    counts = {name: len(kept) for name, (_, kept) in alone.items()}
    assert counts["relaxed"] == counts["sure"] + counts["svm"] == len(pieces)
