"""Hierarchies grown over the pool: nodes as tasks or by their parts, on workers, and after a stop before any task."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline import svm_growth
from pipeline.config import RelaxedHierarchy
from pipeline.connection.cluster import connected
from pipeline.connection.profile import Profile
from pipeline.pool import DaskPool, SerialPool
from pipeline.stages.hierarchy import HierarchyStage
from pipeline.stages.hierarchy_nodes import grown_alike
from pipeline.svm_growth import Growth, HierarchyTooLarge, depths, nodes_allowed
from tasks.digest import combine, digest_arrays
from tasks.relaxed import learn
from tasks.relaxed.ground import ONE_VS_ALL, SINGLE, SPLIT, Child, Ground, Learnt, Summary, node_name, packed, read_node
from tasks.relaxed.rules import AllRule, MarszalekRule, SpectralRule
from tasks.worker import WorkerSettings
from tests.damage import DAMAGES
from tests.tasks.relaxed.grounds import RELAXED, Planted, ground_of, root_classes

WHOLE, DRIVEN = 10**9, 1  # rows from which nodes are driven
SAMPLED = replace(RELAXED, search_rows=16)  # so that large nodes have parts
RULES: dict[str, Any] = {
    "relaxed": SAMPLED,
    "both ways": replace(SAMPLED, initialisation="both", samples=2, rho=0.7),
    "sampled splits": replace(SAMPLED, split_rows=24),
    "priced splits": replace(SAMPLED, most_lost=0.05),
    "continued": replace(RELAXED, continued=True, rho=1.5, balance=1, least_active=0.0),
    "spectral": SpectralRule(2),
    "marszalek": MarszalekRule(0.6, 100, 0.3),
    "all": AllRule(),
}
SMALL = Planted.of(12, n_classes=5, width=8)
DATA = Planted.of(11, n_classes=9, width=8)
FORMS = {
    "dense": ("linear", "float32"),
    "sparse": ("linear", "csr"),
    "rbf": ("rbf", "float32"),
    "chi2": ("chi2", "csr"),
}
each_form = pytest.mark.parametrize("form", FORMS)


def ground_at(folder: Path, rule: str, form: str = "dense", data: Planted = DATA, **more: Any) -> Ground:
    return ground_of(folder, RULES[rule], data, *FORMS[form], cost=3.0, **more)


def serial(folder: Path) -> SerialPool:
    return SerialPool(folder / "scratch", WorkerSettings())


def grow(ground: Ground, pool: Any = None, large: int = WHOLE) -> dict[str, Summary]:
    pool = pool or serial(Path(ground.nodes).parent)
    return Growth(ground, pool, large).grow(root_classes(ground))


def learnt(ground: Ground, name: str) -> Learnt:
    found = read_node(ground, name)
    assert found is not None
    return found


def digest(ground: Ground, grown: dict[str, Summary]) -> str:
    """Of everything that was learnt, but for the files that it lies in."""
    parts = []
    for name in sorted(grown):
        node = learnt(ground, name)
        arrays = packed(list(node.classifiers))
        held = [arrays[key] for key in sorted(arrays)]
        record = {key: value for key, value in node.record.items() if key != "depth"}  # by whichever parent came first
        parts.append(digest_arrays(node.classes, node.coloring, *held) + repr((name, grown[name], node.kind, record)))
    return combine(parts)


def assert_hierarchy(ground: Ground, grown: dict[str, Summary]) -> None:
    """From the root down every child is there, has the classes of its side, and is smaller than its parent."""
    root = node_name(root_classes(ground))
    assert next(iter(grown)) == root
    reached, waiting = {root}, [root]
    while waiting:
        name = waiting.pop()
        node, told = learnt(ground, name), grown[name]
        assert node.kind == told.kind
        n_classifiers = {SPLIT: 1, SINGLE: 0, ONE_VS_ALL: node.classes.size}[node.kind]
        assert len(node.classifiers) == n_classifiers
        assert (len(told.children) == 2) == (node.kind == SPLIT)
        for child in told.children:
            held = learnt(ground, child.name).classes
            assert held.tolist() == node.side(child.side).tolist()
            assert 0 < held.size < node.classes.size
            assert child.n_classes == held.size
            waiting += [child.name] if child.name not in reached else []
            reached.add(child.name)
    assert reached == grown.keys()


@pytest.mark.parametrize("rule", RULES)
@each_form
def test_nodes_driven_by_parts_have_the_same_bits(tmp_path: Path, rule: str, form: str) -> None:
    whole = ground_at(tmp_path / "whole", rule, form)
    grown = grow(whole)
    assert_hierarchy(whole, grown)
    driven = ground_at(tmp_path / "driven", rule, form)
    parts = Parted(serial(tmp_path))
    assert digest(driven, grow(driven, parts.pool, DRIVEN)) == digest(whole, grown)
    assert parts.seen == (rule in ("relaxed", "both ways", "sampled splits", "priced splits", "all"))


class Parted:
    """Whether parts of nodes were tasks."""

    def __init__(self, pool: SerialPool) -> None:
        self.pool, self.seen, honest = pool, False, pool.map

        def watched(fn: Callable[..., Any], *args: Any, **more: Any) -> list[Any]:
            self.seen = self.seen or fn.__module__ == learn.__name__
            return honest(fn, *args, **more)

        pool.map = watched  # type: ignore[method-assign]


def test_a_set_of_classes_that_several_parents_come_to_is_learnt_once(tmp_path: Path) -> None:
    ground = ground_of(tmp_path, RULES["continued"], Planted.of(3, n_classes=9, width=4), cost=0.1)
    written = Written()
    with written.watching():
        grown = grow(replace(ground, rule=replace(ground.rule, rho=0.4)))
    parents = [child.name for summary in grown.values() for child in summary.children]
    assert len(parents) > len(set(parents))
    assert sorted(written.names) == sorted(grown)


def bounded(ground: Ground, pool: Any, most_nodes: int | None) -> dict[str, Summary] | str:
    """What grows within a bound, or the error's text."""
    try:
        return Growth(ground, pool, WHOLE, most_nodes=most_nodes).grow(root_classes(ground))
    except HierarchyTooLarge as error:
        return str(error)


def test_the_nodes_are_bounded_and_a_larger_bound_goes_on_from_them(tmp_path: Path) -> None:
    """Pairs that no coloring step widens: nearly every subset of the classes is a node."""
    whole, ground = (
        replace(ground_at(tmp_path / name, "continued"), rule=replace(RULES["continued"], half_steps=2, rho=0.8))
        for name in ("whole", "bounded")
    )
    written, pool = Written(), serial(tmp_path)
    grown = bounded(whole, pool, None)
    n_nodes = len(grown)
    with written.watching():
        refused = bounded(ground, pool, n_nodes - 1)
        assert refused == (
            f"HierarchyTooLarge: more than {n_nodes - 1} nodes for 9 classes: the first split has 8 and 8 of them on "
            'its sides [most_nodes]\n  what to do: leaves = "one-vs-all", more half_steps, a larger rho; or a larger '
            "most_nodes, with which a run goes on from the nodes that are there"
        )
        assert 0 < len(written.names) < n_nodes
        assert bounded(ground, pool, n_nodes) == grown
    assert isinstance(grown, dict)
    assert n_nodes > 60  # of 9 classes
    assert sorted(written.names) == sorted(grown)


@pytest.mark.parametrize("given", [None, 7])
def test_a_hierarchy_may_have_more_nodes_where_there_are_more_classes(given: int | None) -> None:
    assert [nodes_allowed(given, k) for k in (2, 20, 1000)] == ([2000, 2000, 100_000] if given is None else [7, 7, 7])


def test_the_bound_is_no_part_of_what_is_learnt() -> None:
    """So a run whose hierarchy was too large goes on where it stopped, and one that is done is reused."""
    one, other = (
        RelaxedHierarchy(kind="relaxed-hierarchy", name="r", most_nodes=most_nodes) for most_nodes in (None, 9)
    )
    assert HierarchyStage(one, (), 5).settings() == HierarchyStage(other, (), 5).settings()
    assert grown_alike(one) == grown_alike(other)


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with connected(Profile("local:2", memory_per_worker="1 GiB", dashboard="127.0.0.1:0")) as found:
        yield found


@pytest.mark.parametrize(
    ("rule", "form"), [("relaxed", "dense"), ("both ways", "chi2"), ("marszalek", "sparse"), ("all", "rbf")]
)
@pytest.mark.parametrize("large", [WHOLE, DRIVEN])
def test_the_same_bits_serially_and_on_workers(tmp_path: Path, client: Any, rule: str, form: str, large: int) -> None:
    expected = ground_at(tmp_path / "serial", rule, form)
    found = ground_at(tmp_path / "dask", rule, form)
    pool = DaskPool(client, tmp_path / "scratch-d", WorkerSettings())
    assert digest(found, grow(found, pool, large)) == digest(expected, grow(expected))


@pytest.mark.parametrize(("rule", "way"), [("marszalek", "a larger alpha"), ("spectral", "fewer levels")])
def test_too_many_nodes_are_the_same_error_on_workers(tmp_path: Path, client: Any, rule: str, way: str) -> None:
    pools = serial(tmp_path), DaskPool(client, tmp_path / "scratch-d", WorkerSettings())
    first, second = (bounded(ground_at(tmp_path / str(i), rule), pool, 4) for i, pool in enumerate(pools))
    assert first == second
    assert isinstance(first, str)
    assert f"what to do: {way}" in first


class Interrupted(Exception):
    """Stands for a kill."""


class StoppingPool(SerialPool):
    """Stops before the task with a given number."""

    def __init__(self, folder: Path, stop: int) -> None:
        super().__init__(folder / "scratch", WorkerSettings())
        self.left = stop

    def _call(self, *args: Any) -> Any:
        self.left -= 1
        if self.left < 0:
            raise Interrupted
        return super()._call(*args)


class Written:
    """Stands for `write_node`: keeps the names of the nodes that it writes."""

    def __init__(self) -> None:
        self.names, self.honest = list[str](), learn.write_node

    def __call__(self, ground: Ground, node: Learnt) -> Summary:
        summary = self.honest(ground, node)
        self.names.append(summary.name)
        return summary

    def watching(self) -> Any:
        patch = pytest.MonkeyPatch()
        for module in (learn, svm_growth):
            patch.setattr(module, "write_node", self)
        return _undone(patch)


class _undone:
    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.patch = patch

    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: object) -> None:
        self.patch.undo()


@pytest.mark.parametrize("large", [WHOLE, DRIVEN])
@pytest.mark.parametrize(
    ("rule", "form"), [("relaxed", "dense"), ("relaxed", "rbf"), ("spectral", "sparse"), ("all", "chi2")]
)
def test_a_stop_before_any_task_costs_no_finished_node(tmp_path: Path, rule: str, form: str, large: int) -> None:
    """Every task of a small hierarchy: what was written is not learnt again, and the end is the same."""
    whole = ground_at(tmp_path / "whole", rule, form, SMALL)
    grown = grow(whole, large=large)
    expected = digest(whole, grown)
    stop = 0
    while True:
        ground = ground_at(tmp_path / str(stop), rule, form, SMALL)
        written = Written()
        with written.watching():
            try:
                grow(ground, StoppingPool(tmp_path / str(stop), stop), large)
                break
            except Interrupted:
                assert digest(ground, grow(ground, large=large)) == expected
        assert sorted(written.names) == sorted(grown)
        stop += 1
    assert stop >= len(grown)


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_nodes_are_learnt_again(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    ground = ground_at(tmp_path, "relaxed")
    grown = grow(ground)
    expected = digest(ground, grown)
    names = list(grown)
    for name in (names[0], names[-1], names[len(names) // 2]):
        damage(ground.file(name))
    written = Written()
    with written.watching():
        again = grow(ground)
    assert sorted(written.names) == sorted({names[0], names[-1], names[len(names) // 2]})
    assert digest(ground, again) == expected


def test_a_damaged_part_of_a_leaf_is_learnt_again(tmp_path: Path) -> None:
    ground = ground_at(tmp_path, "all", "rbf")
    grown = grow(ground, large=DRIVEN)
    (name,) = grown
    expected, files = digest(ground, grown), sorted(Path(ground.nodes).glob(f"{name}-*.npz"))
    assert len(files) == 2
    kept = files[0].stat().st_mtime_ns
    files[1].write_bytes(b"short")
    assert digest(ground, grow(ground, large=DRIVEN)) == expected
    assert files[0].stat().st_mtime_ns == kept


def test_nodes_are_told_level_by_level_whatever_order_they_end_in() -> None:
    def told(name: str, *children: str) -> Summary:
        sides = zip(children, (-1, 1), strict=False)
        return Summary(name, SPLIT if children else SINGLE, tuple(Child(child, side, 1, 1) for child, side in sides))

    known = [told("r", "a", "b"), told("a", "c", "d"), told("b", "d", "c"), told("d"), told("c", "e", "f")]
    known += [told("e"), told("f", "e", "g"), told("g")]
    expected = [("r", 0), ("a", 1), ("b", 1), ("c", 2), ("d", 2), ("e", 3), ("f", 3), ("g", 4)]
    for shift in range(len(known)):
        turned = known[shift:] + known[:shift]
        assert list(depths({one.name: one for one in turned}, "r").items()) == expected


def test_another_seed_begins_with_other_pairs(tmp_path: Path) -> None:
    grounds = [ground_at(tmp_path / str(seed), "relaxed", seed=seed) for seed in (5, 6)]
    first, second = (digest(ground, grow(ground)) for ground in grounds)
    assert first != second


@pytest.mark.parametrize("rule", ["relaxed", "spectral", "marszalek", "all"])
@pytest.mark.parametrize("classes", [[4], [2, 7]])
def test_one_and_two_classes(tmp_path: Path, rule: str, classes: list[int]) -> None:
    ground = ground_at(tmp_path, rule, classes=np.array(classes))
    grown = grow(ground, large=DRIVEN)
    assert_hierarchy(ground, grown)
    kinds = sorted(summary.kind for summary in grown.values())
    expected = [SINGLE] if len(classes) == 1 else [SINGLE, SINGLE, SPLIT]
    assert kinds == expected or (rule in ("all", "marszalek") and kinds == [ONE_VS_ALL])
