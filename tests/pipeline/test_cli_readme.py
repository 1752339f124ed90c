"""README, GUIDE and REFERENCE are true: what is typed runs, options exist, tables are those of the code."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

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
from tests.pipeline import command_table, config_table, error_table, reference
from tests.pipeline.cli_caller import gaussian, succeeds
from tests.systems.harness import WAIT

ROOT = Path(__file__).resolve().parents[2]
README, GUIDE, REFERENCE, CONTRIBUTING = (
    (ROOT / f"{name}.md").read_text(encoding="utf-8") for name in ("README", "GUIDE", "REFERENCE", "CONTRIBUTING")
)
PAGES = {"README": README, "GUIDE": GUIDE}
TOLD = README + GUIDE
FIGURE = "zhao-xing-table-2"  # of the README's line of `reproduce`: planned here, not run


def blocks(language: str, text: str) -> list[str]:
    """The fenced blocks of a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def commands(text: str) -> list[list[str]]:
    return [shlex.split(line, comments=True) for line in text.splitlines() if line.startswith("labelgrove ")]


def tables(text: str) -> list[list[str]]:
    """Cells of every line of a table."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]


def test_workers_started_by_hand_have_the_settings_of_a_run(tmp_path: Path) -> None:
    """Dask's own would pause them for good; GUIDE names the file, and the variables that do without it."""
    (recipe,) = (text for text in blocks("sh", GUIDE) if "dask worker " in text)
    exports = "\n".join(line for line in recipe.splitlines() if line.startswith("export "))
    apart = "\n".join(
        f"export {found}" for found in re.findall(r"`(DASK_DISTRIBUTED__WORKER__MEMORY__\w\w+=[\w.]+)`", GUIDE)
    )
    code = "import dask, distributed, json; print(json.dumps(dask.config.get('distributed.worker.memory')))"
    clean = {name: value for name, value in os.environ.items() if not name.startswith("DASK_")}
    for lines in (exports, apart):
        script = f"cd {shlex.quote(str(ROOT))}\n{lines}\nexec {shlex.quote(sys.executable)} -c {shlex.quote(code)}"
        env = {**clean, "HOME": str(tmp_path)}
        done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=WAIT, env=env, check=True)
        found = json.loads(done.stdout)
        ours = {name: DASK_CONFIG[f"distributed.worker.memory.{name}"] for name in ("pause", "target", "spill")}
        assert {name: found[name] for name in ours} == ours


def test_the_config_is_twenty_lines_and_whole() -> None:
    (text,) = (text for text in blocks("toml", README) if "[data]" in text)
    assert text.count("\n") == 20
    RunConfig.model_validate_json(json_of(text))


def test_the_sections_of_images_are_whole() -> None:
    (text,) = (text for text in blocks("toml", GUIDE) if "sift" in text)
    config = RunConfig.model_validate_json(json_of(f'name = "n"\n[data]\npath = "d"\n{text}'))
    assert [encoding.kind for encoding in config.encode] == ["sift", "llc"]


def json_of(toml: str) -> str:
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
    (folder / "flowers.toml").write_text(next(text for text in blocks("toml", README) if "[data]" in text))
    (script,) = (text for text in blocks("sh", README) if "labelgrove ingest rows.npy" in text)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-ec", script],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=WAIT,
    )
    assert done.returncode == 0, done.stderr
    assert " ovr " in done.stdout
    assert "dashboard: http://127.0.0.1" in done.stderr
    return folder


def test_three_commands_lead_from_files_to_predictions(ran: Path) -> None:
    text = (ran / "runs" / "flowers" / "metrics.json").read_text()
    assert '"ovr"' in text
    assert '"tree"' in text
    heading, first = (ran / "predictions.csv").read_text(encoding="utf-8").splitlines()[:2]
    assert heading.startswith("row,class_1,score_1,")
    assert first.startswith("0,flower 0,")


def test_what_comes_after_a_run_works_as_typed(ran: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """compare, evaluate, export; of reproduce its plan, since a figure takes minutes."""
    monkeypatch.chdir(ran)
    shutil.copytree("runs/flowers", "runs/roses", dirs_exist_ok=True)
    (script,) = (text for text in blocks("sh", README) if "labelgrove compare " in text)
    typed = commands(script)
    assert [words[1] for words in typed] == ["compare", "evaluate", "export", "reproduce"]
    for words in typed:
        succeeds(*words[1:], *(["--dry-run"] if FIGURE in words else []))
    assert (ran / "compare.html").stat().st_size > 0
    assert (ran / "tree.onnx").stat().st_size > 0


def python_of(text: str) -> dict[str, str]:
    """The Python of every section that has some, its blocks one after another as they are typed."""
    parts = re.split(r"^## (.*)$", text, flags=re.MULTILINE)[1:]
    found = {title: "\n".join(blocks("python", part)) for title, part in zip(parts[::2], parts[1::2], strict=True)}
    return {title: code for title, code in found.items() if code}


PYTHON = {f"{page}: {title}": code for page, text in PAGES.items() for title, code in python_of(text).items()}


MADE_BEFORE = {"predictions.parquet", "ovr.npz", "ovr.onnx"}  # files that a section's commands make for its Python


@pytest.mark.parametrize("section", PYTHON)
def test_python_runs_as_typed(ran: Path, monkeypatch: pytest.MonkeyPatch, section: str) -> None:
    """In a process of its own, in the folder of the three commands, without a warning."""
    monkeypatch.chdir(ran)
    code = PYTHON[section]
    for name in MADE_BEFORE & set(re.findall(r'"([^"]+)"', code)):
        (words,) = (words for text in blocks("sh", GUIDE) for words in commands(text) if name in words)
        succeeds(*words[1:])
    done = subprocess.run([sys.executable, "-c", code], cwd=ran, capture_output=True, text=True, timeout=WAIT)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert "Warning" not in done.stderr
    if "predictions.parquet" in code:
        assert done.stdout.splitlines()[0].startswith("0 ['flower 0'")


def test_the_run_folder_holds_what_is_listed(ran: Path) -> None:
    (listing,) = (text for text in blocks("text", GUIDE) if text.startswith("runs/flowers/"))
    for line in listing.splitlines()[1:]:
        for name in (re.split(r" {2,}|(?<=>/) ", line.strip()) or [""])[0].split():
            pattern = re.sub(r"<[^>]*>", "*", name)
            assert list((ran / "runs" / "flowers").glob(pattern)), name
    model = re.search(r"models/<name>/\s+(.*)", listing)
    assert model is not None
    assert sorted(model[1].split()) == sorted(path.name for path in (ran / "runs/flowers/models/tree").iterdir())


def test_every_command_and_option_exists() -> None:
    typed = [words for text in blocks("sh", TOLD) for words in commands(text)]
    typed += [shlex.split(text.replace("\n", " ")) for text in re.findall(r"`(labelgrove [a-z][^`]*)`", TOLD)]
    assert len(typed) > 20
    known = command_table.commands()
    for words in typed:
        having = {name for one in known[words[1]].params for name in one.opts}
        assert {word for word in words if word.startswith("-")} <= having, words
    every = {name for one in command_table.options() for name in one.names}
    assert set(re.findall(r"`(--[a-z-]+)[^`]*`", TOLD)) <= every | {"--help", "--preload"}


def test_the_tables_of_the_reference_are_made_from_the_code() -> None:
    assert reference.written(REFERENCE) == REFERENCE, "python -m tests.pipeline.reference"


def test_the_reference_has_every_command_and_every_option_once() -> None:
    named = [cells[0] for cells in tables(REFERENCE) if cells[0].startswith("`labelgrove ")]
    assert [cell.strip("`").split()[1] for cell in named] == list(command_table.commands())
    rows = [tuple(cells) for cells in tables(REFERENCE) if len(cells) == 5 and cells[0].startswith("`-")]
    assert len(rows) == len(set(rows)) == len(command_table.options())
    assert all(cells[4] for cells in rows), "an option without a help text"


def test_every_key_of_the_schema_is_in_the_table_and_has_a_meaning() -> None:
    plain = [DataSection, RetrieveSection, PredictSection, EvaluateSection, ReportSection, RunConfig]
    kinds: list[type[Section]] = [*plain, *KINDS.values()]
    keys = {key for kind in kinds for key in kind.model_fields} - config_table.NOT_KEYS
    assert keys == {row[1].strip("`") for row in config_table.rows()}
    assert all(row[3] and "None" not in row[3] for row in config_table.rows())


def test_both_forms_of_a_taxonomy_are_one_tree(tmp_path: Path) -> None:
    (lines,), (nested,) = blocks("tsv", GUIDE), blocks("json", GUIDE)
    with_ids = re.findall(r"`(\{\"nodes\".*?\})`", GUIDE)
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
    named = set(re.findall(r"(?:`|^)make ([a-z-]+)", TOLD + CONTRIBUTING, re.MULTILINE))
    assert named > {"demo", "test"}
    assert named <= targets


def test_every_key_and_kind_exists() -> None:
    rows = {cells[0].split("`")[1]: cells for cells in tables(GUIDE) if len(cells) == 5 and "`" in cells[0]}
    assert rows.keys() == KINDS.keys()
    for kind, cells in rows.items():
        assert set(re.findall(r"`([a-z_]+)`", cells[-1])) <= set(KINDS[kind].model_fields), kind
    systems = README.split("## Which system")[1].split("## ")[0]
    named = {name for cells in tables(systems) for name in re.findall(r"`([a-z0-9-]+)`", cells[0])}
    assert named == KINDS.keys()


def test_every_key_of_a_profile_is_named() -> None:
    paragraph = README.split("Its keys: ")[1].split("\n[Docker]")[0]
    assert set(re.findall(r"`([a-z_]+)`", paragraph)) == set(Profile.__dataclass_fields__)


def test_every_error_has_a_meaning_and_its_exit_code_a_line() -> None:
    codes = {int(cells[0]) for cells in tables(REFERENCE) if len(cells) == 2 and cells[0].isdigit()}
    assert codes - {0, 130} == {code for code, _, _ in error_table.errors()}
    assert all(said for _, _, said in error_table.errors())


def keys_told(heading: str) -> set[str]:
    """The keys in the table of REFERENCE whose first column is headed so; `loss_depth_0` stands for every depth."""
    text = REFERENCE.split(f"| key of {heading} |")[1].split("\n\n")[0]
    return {key for line in text.splitlines()[2:] for key in re.findall(r"`(\w+)`", line.split("|")[1])}


def test_every_number_of_a_run_is_told(ran: Path) -> None:
    found = json.loads((ran / "runs" / "flowers" / "metrics.json").read_text())
    assert_told(found)


@pytest.mark.slow
def test_every_number_of_every_kind_is_told(tmp_path: Path) -> None:
    """A run of all kinds that take dense rows: none of its numbers is missing in REFERENCE."""
    rows, labels = gaussian(600, 32, 12)
    np.save(tmp_path / "x.npy", np.abs(rows))
    (tmp_path / "y.txt").write_text("".join(f"flower {label}\n" for label in labels))
    (tmp_path / "t.tsv").write_text("".join(f"group {c // 4}\tflower {c}\nall\tgroup {c // 4}\n" for c in range(12)))
    made = ("ingest", tmp_path / "x.npy", tmp_path / "d.zarr", "--labels", tmp_path / "y.txt")
    succeeds(*made, "--taxonomy", tmp_path / "t.tsv", "--split", "0.7,0.15,0.15")
    dense = {name: kind for name, kind in KINDS.items() if name not in ("sift", "bow", "llc", "fisher")}
    needed = {"label-tree": "branching = 4\ndepth = 2\n", "heshing": "bits = 10\n", "flat-hash": "bits = 10\n"}
    text = f'name = "all"\n[data]\npath = "{tmp_path / "d.zarr"}"\n[[retrieve]]\nname = "near"\nrows = "wta"\n'
    for name, kind in dense.items():
        section = "encode" if "test_rows" not in kind.model_fields else "train"
        text += f'[[{section}]]\nname = "{name}"\nkind = "{name}"\n{needed.get(name, "")}'
    text += '[[train]]\nname = "multi"\nkind = "ovr"\nloss = "multinomial"\n'
    (tmp_path / "all.toml").write_text(text)
    succeeds("run", tmp_path / "all.toml", "--scheduler", "serial")
    assert_told(json.loads((tmp_path / "runs" / "all" / "metrics.json").read_text()))


def assert_told(metrics: dict[str, Any]) -> None:
    models = {re.sub(r"_depth_\d+$", "_depth_0", key) for one in metrics["models"].values() for key in one}
    assert models <= keys_told("a model")
    assert set(metrics["run"]) == keys_told("`run`")
    assert {key for one in metrics.get("encodings", {}).values() for key in one} <= keys_told("an encoding")
    assert {key for one in metrics.get("retrievals", {}).values() for key in one} <= keys_told("a retrieval")


def test_the_table_of_the_demo_has_the_columns_of_today() -> None:
    shown = next(text for text in blocks("text", README) if "accuracy" in text)
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
