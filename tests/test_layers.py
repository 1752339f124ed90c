"""The arrow between the packages, and what may be imported where."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from pipeline import commands
from pipeline.ingest import ingest

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
DRAWING = {"jinja2", "matplotlib", "PIL"}


def short(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def imported(path: Path) -> set[str]:
    """Top-level names of all imports of a module, also of those inside functions, and of those that come later."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    calls = [node for node in nodes if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "later"]
    names |= {str(ast.literal_eval(call.args[0])) for call in calls}
    return {name.split(".")[0] for name in names}


def loaded_after(code: str, cwd: Path, whole: bool = False) -> set[str]:
    """Top-level modules in sys.modules of a fresh process after `code`; their `whole` names where asked for."""
    script = f"import json, sys\n{code}\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], cwd=cwd, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    names = json.loads(done.stdout.splitlines()[-1])
    return set(names) if whole else {name.split(".")[0] for name in names}


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
        "pa, sparse = later('pyarrow'), later('scipy.sparse')\n"
    )
    assert imported(source) == {"dask", "distributed", "zarr", "os", "pyarrow", "scipy"}


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


def test_who_looks_at_a_run_or_stops_it_loads_nothing_that_computes(tmp_path: Path) -> None:
    """The commands themselves, not their imports alone: what a function imports when it is called counts, too."""
    code = """
from pathlib import Path
from pipeline.cli import main
from pipeline.store import FORMAT, MANIFEST, VERSION, write_sealed
run = Path("run")
run.mkdir()
write_sealed(run / MANIFEST, {"format": FORMAT, "version": VERSION, "identity": {}, "steps": {}})
for words in (["status"], ["status", "--json"], ["logs"], ["cancel"]):
    main([*words, str(run)])
"""
    modules = loaded_after(code, tmp_path, whole=True)
    assert "pydantic" in modules
    assert not modules & (HEAVY | DRAWING | {"onnx"})
    own = {name.removeprefix("pipeline.commands.") for name in modules if name.startswith("pipeline.commands.")}
    assert own == {"cancelling", "following", "looking", "no_run"}


def test_no_command_loads_what_computes_before_it_computes(tmp_path: Path) -> None:
    """Nor what draws and connects."""
    names = ("running", "submitting", "data", "inspecting", "predicting", "evaluating", "exporting", "retrieving")
    modules = loaded_after("\n".join(f"import pipeline.commands.{name}" for name in names), tmp_path, whole=True)
    assert {"pipeline.systems", "pipeline.stage", "tasks.io"} <= modules
    assert not modules & (CLUSTER | DRAWING | {"h5py", "sklearn", "onnx", "numba", "scipy", "zarr"})


def test_who_plans_or_checks_compiles_nothing(tmp_path: Path) -> None:
    """The commands themselves, on a config of two kinds: the stages of these are loaded, and of no others."""
    commands.init(tmp_path / "toy")
    rows, data = tmp_path / "toy" / "rows.npy", tmp_path / "toy" / "tiny.zarr"
    ingest(rows, data, labels=rows.with_name("labels.txt"), taxonomy=rows.with_name("taxonomy.tsv"))
    code = """
from pipeline.cli import main
for words in (["plan", "config.toml"], ["check", "config.toml"]):
    assert main(words) in (0, None), words
"""
    modules = loaded_after(code, tmp_path / "toy", whole=True)
    assert {"zarr", "pipeline.stages.grow", "pipeline.stages.encode"} <= modules  # zarr: for the arrays of a taxonomy
    assert not modules & (CLUSTER | DRAWING | {"h5py", "sklearn", "onnx", "numba", "scipy", "pyarrow"})
    assert not modules & {f"pipeline.stages.{name}" for name in ("bengio", "hierarchy", "pca", "trace", "words")}


def test_every_command_is_found() -> None:
    assert {name: getattr(commands, name).__name__ for name in commands.__all__} == {n: n for n in commands.__all__}
    assert set(commands.__all__) <= set(dir(commands))
    with pytest.raises(AttributeError, match="no attribute 'dance'"):
        commands.dance  # noqa: B018


def test_importing_the_package_loads_nothing(tmp_path: Path) -> None:
    """What Python users take from it is loaded when it is asked for."""
    code = """
import pipeline
before = {name.split(".")[0] for name in sys.modules}
from pipeline import LabelTreeClassifier, Run
assert LabelTreeClassifier.__init__
exec("from pipeline import *")
assert set(pipeline.__all__) <= globals().keys()
"""
    asked = loaded_after(f"{code}print(json.dumps(sorted(before)), file=open('before', 'w'))", tmp_path)
    before = set(json.loads((tmp_path / "before").read_text()))
    assert not before & (HEAVY | {"numpy", "pydantic", "tasks"})
    assert {"sklearn", "tasks"} <= asked


@pytest.mark.parametrize("package", [ROOT / "tasks", ROOT / "pipeline"], ids=short)
def test_every_folder_of_modules_is_a_package(package: Path) -> None:
    """A folder without __init__.py works from the checkout and is missed by tools that look for packages."""
    folders = {path.parent for path in package.rglob("*.py")}
    assert [short(folder) for folder in sorted(folders) if not (folder / "__init__.py").is_file()] == []
