"""How the report's modules import one another: arrows run down only, and drawing is loaded when something is drawn."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pipeline

HERE = Path(pipeline.__file__).parent
PARTS = ("report", "comparing")


def modules() -> dict[str, ast.Module]:
    """The syntax of each module of the report and of comparisons, by its full name."""
    paths = [path for part in PARTS for path in sorted((HERE / part).glob("*.py")) if path.stem != "__init__"]
    return {f"pipeline.{path.parent.name}.{path.stem}": ast.parse(path.read_text("utf-8")) for path in paths}


def imported(nodes: Iterator[ast.AST]) -> set[str]:
    """Full names of the modules that some statements import."""
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{one.name}" for one in node.names)}
        elif isinstance(node, ast.Import):
            found |= {one.name for one in node.names}
    return found


def test_no_module_imports_one_that_imports_it_not_for_types_either() -> None:
    known = modules()
    graph = {name: imported(ast.walk(tree)) & known.keys() for name, tree in known.items()}
    assert graph["pipeline.report.page"]
    order = list(TopologicalSorter(graph).static_order())  # raises CycleError
    assert order.index("pipeline.report.metrics") < order.index("pipeline.report.numbers")


def test_nothing_that_draws_is_loaded_with_the_page() -> None:
    known = modules()
    loads = {name: imported(iter(tree.body)) for name, tree in known.items()}  # what stands at the top, unguarded
    ticks = "pipeline.report.ticks"  # its classes are those of an axis: it is loaded with the first axis
    drawing = {name for name, found in loads.items() if any(one.split(".")[0] == "matplotlib" for one in found)}
    assert drawing == {ticks}
    assert [name for name, found in loads.items() if ticks in found] == []
