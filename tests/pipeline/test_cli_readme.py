"""The README is true: its commands run as typed, its options exist, its table of errors is that of the code."""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import pipeline
import tasks
from pipeline.config import (
    DataSection,
    EvaluateSection,
    PredictSection,
    ReportSection,
    RetrieveSection,
    RunConfig,
    Section,
)
from pipeline.connection.dask_settings import DASK_CONFIG
from pipeline.connection.profile import Profile
from pipeline.ingest.class_table import read_classes
from pipeline.ingest.taxonomy_file import read_taxonomy
from pipeline.ingest.taxonomy_tree import build_taxonomy
from pipeline.report.numbers import COLUMNS
from pipeline.sections import KINDS
from tasks.errors import LabelgroveError
from tests.pipeline import config_table
from tests.pipeline.cli_caller import gaussian, succeeds

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """The fenced blocks of a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def commands(text: str) -> list[list[str]]:
    return [shlex.split(line, comments=True) for line in text.splitlines() if line.startswith("labelgrove ")]


def tables() -> list[list[str]]:
    """Cells of every line of a table."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in README.splitlines() if line[:1] == "|"]


def test_workers_started_by_hand_have_the_settings_of_a_run(tmp_path: Path) -> None:
    """Dask's own would pause them for good; README names the file, and the variables that do without it."""
    (recipe,) = (text for text in blocks("sh") if "dask worker " in text)
    exports = "\n".join(line for line in recipe.splitlines() if line.startswith("export "))
    apart = "\n".join(
        f"export {found}" for found in re.findall(r"`(DASK_DISTRIBUTED__WORKER__MEMORY__\w+=[\w.]+)`", README)
    )
    code = "import dask, distributed, json; print(json.dumps(dask.config.get('distributed.worker.memory')))"
    clean = {name: value for name, value in os.environ.items() if not name.startswith("DASK_")}
    for lines in (exports, apart):
        script = f"cd {shlex.quote(str(ROOT))}\n{lines}\nexec {shlex.quote(sys.executable)} -c {shlex.quote(code)}"
        env = {**clean, "HOME": str(tmp_path)}
        done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=60, env=env, check=True)
        found = json.loads(done.stdout)
        ours = {name: DASK_CONFIG[f"distributed.worker.memory.{name}"] for name in ("pause", "target", "spill")}
        assert {name: found[name] for name in ours} == ours


def test_the_config_is_twenty_lines_and_whole() -> None:
    (text,) = (text for text in blocks("toml") if "[data]" in text)
    assert text.count("\n") == 20
    RunConfig.model_validate_json(json_of(text))


def test_the_sections_of_images_are_whole() -> None:
    (text,) = (text for text in blocks("toml") if "sift" in text)
    config = RunConfig.model_validate_json(json_of(f'name = "n"\n[data]\npath = "d"\n{text}'))
    assert [encoding.kind for encoding in config.encode] == ["sift", "llc"]


def json_of(toml: str) -> str:
    import json

    return json.dumps(tomllib.loads(toml))


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The three commands of "Your own data", typed into a shell beside files of the names they use."""
    folder = tmp_path_factory.mktemp("readme")
    rows, labels = gaussian(600, 32, 12)
    np.save(folder / "rows.npy", rows)
    np.save(folder / "new-rows.npy", rows[:50])
    (folder / "labels.txt").write_text("".join(f"flower {label}\n" for label in labels))
    groups = "".join(f"flowers\tgroup {group}\n" for group in range(3))
    leaves = "".join(f"group {c // 4}\tflower {c}\n" for c in range(12))
    (folder / "taxonomy.tsv").write_text(groups + leaves)
    (folder / "flowers.toml").write_text(next(text for text in blocks("toml") if "[data]" in text))
    (script,) = (text for text in blocks("sh") if "labelgrove ingest rows.npy" in text)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-ec", script],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert " ovr " in done.stdout
    assert "dashboard: http://127.0.0.1" in done.stderr
    return folder


def test_three_commands_lead_from_files_to_predictions(ran: Path) -> None:
    text = (ran / "runs" / "flowers" / "metrics.json").read_text()
    assert '"ovr"' in text
    assert '"tree"' in text


def test_the_python_lines_read_the_predictions(ran: Path) -> None:
    (code,) = blocks("python")
    done = subprocess.run([sys.executable, "-c", code], cwd=ran, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].startswith("0 ['flower 0'")


def test_the_run_folder_holds_what_is_listed(ran: Path) -> None:
    (listing,) = (text for text in blocks("text") if text.startswith("runs/flowers/"))
    for line in listing.splitlines()[1:]:
        for name in (re.split(r" {2,}|(?<=>/) ", line.strip()) or [""])[0].split():
            pattern = re.sub(r"<[^>]*>", "*", name)
            assert list((ran / "runs" / "flowers").glob(pattern)), name
    model = re.search(r"models/<name>/\s+(.*)", listing)
    assert model is not None
    assert sorted(model[1].split()) == sorted(path.name for path in (ran / "runs/flowers/models/tree").iterdir())


def test_every_command_and_option_exists() -> None:
    typed = [words for text in blocks("sh") for words in commands(text)]
    typed += [shlex.split(text.replace("\n", " ")) for text in re.findall(r"`(labelgrove [a-z][^`]*)`", README)]
    assert len(typed) > 10
    for words in typed:
        known = succeeds(words[1], "--help").out
        for option in (word for word in words if word.startswith("-")):
            assert re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", known), words
    for option in re.findall(r"`(--[a-z-]+)`", README):
        assert any(option in succeeds(name, "--help").out for name in ("run", "ingest", "predict", "clean")), option


def test_the_table_of_keys_is_that_of_the_schema() -> None:
    listed = [(cells[1], cells[2], cells[3]) for cells in tables() if len(cells) == 4 and cells[1].startswith("`")]
    assert listed == [row[1:] for row in config_table.rows()], "python -m tests.pipeline.config_table"
    assert config_table.table() in README


def test_every_key_of_the_schema_is_in_the_table_and_has_a_meaning() -> None:
    plain = [DataSection, RetrieveSection, PredictSection, EvaluateSection, ReportSection, RunConfig]
    kinds: list[type[Section]] = [*plain, *KINDS.values()]
    keys = {key for kind in kinds for key in kind.model_fields} - config_table.NOT_KEYS
    assert keys == {row[1].strip("`") for row in config_table.rows()}
    assert all(row[3] and "None" not in row[3] for row in config_table.rows())


def test_both_forms_of_a_taxonomy_are_one_tree(tmp_path: Path) -> None:
    (lines,), (nested,) = blocks("tsv"), blocks("json")
    with_ids = re.findall(r"`(\{\"nodes\".*?\})`", README)
    (tmp_path / "t.tsv").write_text(lines)
    (tmp_path / "t.json").write_text(nested)
    classes = read_classes(["oak", "elm", "rye"])
    first, second = (build_taxonomy(read_taxonomy(tmp_path / name), classes) for name in ("t.tsv", "t.json"))
    for found in (first, second):
        leaves = [found.names[leaf] for leaf in found.leaf_of_class]
        parents = [found.names[found.parent[leaf]] for leaf in found.leaf_of_class]
        assert (leaves, parents) == (["oak", "elm", "rye"], ["trees", "trees", "plants"])
    (text,) = with_ids
    (tmp_path / "t.json").write_text(text)
    assert build_taxonomy(read_taxonomy(tmp_path / "t.json"), read_classes(["oak"])).names == ("plants", "oak")


def test_every_make_target_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:`|^)make ([a-z-]+)", README, re.MULTILINE))
    assert named > {"demo", "test"}
    assert named <= targets


def test_every_key_and_kind_exists() -> None:
    rows = {cells[0].split("`")[1]: cells for cells in tables() if len(cells) == 5 and "`" in cells[0]}
    assert rows.keys() == KINDS.keys()
    for kind, cells in rows.items():
        assert set(re.findall(r"`([a-z_]+)`", cells[-1])) <= set(KINDS[kind].model_fields), kind
    paragraph = README.split("Its keys: ")[1].split("Whoever")[0]
    assert set(re.findall(r"`([a-z_]+)`", paragraph)) == set(Profile.__dataclass_fields__)


def all_errors() -> dict[int, set[str]]:
    """Names of all error classes by exit code."""
    for package in (pipeline, tasks):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    found: dict[int, set[str]] = {}
    waiting = list(LabelgroveError.__subclasses__())
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        if kind.__module__.split(".")[0] in ("pipeline", "tasks"):
            found.setdefault(kind.exit_code, set()).add(kind.__name__)
    return found


def test_the_table_of_errors_is_that_of_the_code() -> None:
    listed = {
        int(cells[0]): set(re.findall(r"`(\w+)`", cells[2]))
        for cells in tables()
        if len(cells) == 3 and cells[0].isdigit() and cells[0] not in ("0", "130")
    }
    assert listed == all_errors()


def test_the_table_of_the_demo_has_the_columns_of_today() -> None:
    shown = next(text for text in blocks("text") if "accuracy" in text)
    heading = shown.splitlines()[0]
    assert re.split(r"\s{2,}", heading.strip()) == ["model", *(column.heading for column in COLUMNS)]
    assert all(f" {name} " in shown for name in ("heshing", "ovr", "tree", "tree-pq"))


def test_every_module_that_the_design_names_is_there() -> None:
    text = (ROOT / "DESIGN.md").read_text(encoding="utf-8")
    cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    assert len(cells) > 15
    for cell in cells:
        package = re.search(r"`(tasks|pipeline)/", cell)
        assert package is not None, cell
        for name in re.findall(r"`([^`]+)`", cell):
            assert (ROOT / name).exists() or (ROOT / package[1] / name).exists(), name
