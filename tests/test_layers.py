"""The arrow between the packages, and what may be imported where."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TASKS = sorted((ROOT / "tasks").rglob("*.py"))
PIPELINE = sorted((ROOT / "pipeline").rglob("*.py"))
CLUSTER = {"dask", "distributed"}
# The pool submits, the cluster connects; what workers must agree on is checked by plugins of Dask.
WITHIN_THE_SCHEDULER = {f"pipeline/dashboard/{name}.py" for name in ("__init__", "page", "plugin")}  # a preload of it
# A submitted run is one task that drives it, handed over by a client: neither knows what a run computes.
SUBMISSION = {"pipeline/submitted/driver_task.py", "pipeline/submitted/handing_over.py"}
CONNECTION = {f"pipeline/connection/{name}.py" for name in ("agreement", "cluster", "own_workers", "reaching", "tls")}
MAY_USE_CLUSTER = {"pipeline/pool.py"} | CONNECTION | WITHIN_THE_SCHEDULER | SUBMISSION
STORES = {"zarr", "numcodecs"}
MAY_USE_STORES = {"tasks/zarr_nodes.py", "pipeline/ingest/zarr_folder.py"}
HEAVY = {"bokeh", "dask", "distributed", "fsspec", "h5py", "matplotlib", "numba", "pyarrow", "scipy", "sklearn", "zarr"}


def short(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imported(path: Path) -> set[str]:
    """Top-level names of all imports of a module, also of those inside functions."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    return {name.split(".")[0] for name in names}


def loaded_after(code: str, cwd: Path) -> set[str]:
    """Top-level modules in sys.modules of a fresh process after `code`."""
    script = f"import json, sys\n{code}\nprint(json.dumps(sorted({{m.split('.')[0] for m in sys.modules}})))"
    done = subprocess.run([sys.executable, "-c", script], cwd=cwd, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_there_is_something_to_check() -> None:
    assert len(TASKS) > 20
    assert len(PIPELINE) > 20
    assert {ROOT / name for name in MAY_USE_CLUSTER | MAY_USE_STORES} <= {*TASKS, *PIPELINE}


def breaking(paths: list[Path], forbidden: set[str], but: set[str]) -> dict[str, set[str]]:
    """Modules that import a forbidden name, with the names; `but` are allowed to."""
    found = {short(path): imported(path) & forbidden for path in paths if short(path) not in but}
    return {path: names for path, names in found.items() if names}


def test_tasks_know_no_machines() -> None:
    assert breaking(TASKS, {"pipeline", *CLUSTER}, set()) == {}


def test_only_the_pool_knows_dask() -> None:
    assert breaking(PIPELINE, CLUSTER, MAY_USE_CLUSTER) == {}


def test_only_the_nodes_and_the_reader_of_zarr_files_know_zarr() -> None:
    assert breaking([*TASKS, *PIPELINE], STORES, MAY_USE_STORES) == {}


def test_nothing_unpickles() -> None:
    """Artefacts are read without pickle; joblib and cloudpickle would bring it in by the back door."""
    pickles = {"pickle", "joblib", "cloudpickle", "dill", "marshal", "shelve"}
    assert breaking([*TASKS, *PIPELINE], pickles, set()) == {}


def test_the_check_sees_imports_of_every_form(tmp_path: Path) -> None:
    source = tmp_path / "module.py"
    source.write_text(
        "import dask.array as da\ndef late():\n    from distributed.client import Client\n    import zarr, os\n"
    )
    assert imported(source) == {"dask", "distributed", "zarr", "os"}


def test_a_worker_that_loads_every_task_module_loads_no_pipeline(tmp_path: Path) -> None:
    names = [short(path).removesuffix(".py").removesuffix("/__init__").replace("/", ".") for path in TASKS]
    modules = loaded_after("\n".join(f"import {name}" for name in names), tmp_path)
    assert "tasks" in modules
    assert not modules & {"pipeline", *CLUSTER}


def test_help_loads_nothing_heavy(tmp_path: Path) -> None:
    code = """
sys.argv = ["labelgrove", "--help"]
from pipeline.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
"""
    modules = loaded_after(code, tmp_path)
    assert "typer" in modules
    assert not modules & HEAVY


def test_importing_the_package_loads_nothing(tmp_path: Path) -> None:
    """What Python users take from it is loaded when it is asked for."""
    modules = loaded_after("import pipeline", tmp_path)
    assert not modules & (HEAVY | {"numpy", "pydantic", "tasks"})
    asked = loaded_after("from pipeline import LabelTreeClassifier, Run\nassert LabelTreeClassifier.__init__", tmp_path)
    assert {"sklearn", "tasks"} <= asked


@pytest.mark.parametrize("package", [ROOT / "tasks", ROOT / "pipeline"], ids=short)
def test_every_folder_of_modules_is_a_package(package: Path) -> None:
    """A folder without __init__.py works from the checkout and is missed by tools that look for packages."""
    folders = {path.parent for path in package.rglob("*.py")}
    assert [short(folder) for folder in sorted(folders) if not (folder / "__init__.py").is_file()] == []
