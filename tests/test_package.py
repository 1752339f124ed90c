"""The wheel: has every module and data file, and works where there is no checkout.

It is installed into a virtual environment of its own that borrows this one's dependencies, so nothing is downloaded.
LABELGROVE_WHEEL names a wheel built before; else one is built here.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def call(*command: object, cwd: Path) -> str:
    """Standard output of a command that succeeds; neither the checkout nor this process's settings reach it."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COV"))}
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if "LABELGROVE_WHEEL" in os.environ:
        return Path(os.environ["LABELGROVE_WHEEL"])
    folder = tmp_path_factory.mktemp("wheel")
    call(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def elsewhere(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of an environment with the wheel, and the dependencies of this one by a path file.

    A path file adds a folder but does not run the path files in it, so the editable install of the checkout stays out.
    """
    folder = tmp_path_factory.mktemp("elsewhere") / "venv"
    call(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder.parent)
    packages = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    (packages / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n", encoding="utf-8")
    python = folder / "bin" / "python"
    call(python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--ignore-installed", wheel, cwd=folder)
    return python.parent


def expected_files() -> set[str]:
    """Every file of both packages that is not a compiled module."""
    paths = [path for package in ("tasks", "pipeline") for path in (ROOT / package).rglob("*") if path.is_file()]
    return {path.relative_to(ROOT).as_posix() for path in paths if path.suffix not in (".pyc", ".nbi", ".nbc", ".lock")}


def test_wheel_has_every_module_and_data_file(wheel: Path) -> None:
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert inside == expected_files()
    assert any(name.startswith("pipeline/report/") and name.endswith(".j2") for name in inside)
    assert any(name.startswith("pipeline/presets/") and name.endswith(".toml") for name in inside)


def test_it_is_imported_from_where_it_was_installed(elsewhere: Path, tmp_path: Path) -> None:
    said = call(
        elsewhere / "python", "-c", "import pipeline, tasks; print(pipeline.__file__, tasks.__file__)", cwd=tmp_path
    )
    assert all(Path(path).is_relative_to(elsewhere.parent) for path in said.split())


def test_the_command_answers_outside_the_checkout(elsewhere: Path, tmp_path: Path) -> None:
    assert "ingest" in call(elsewhere / "labelgrove", "--help", cwd=tmp_path)


def test_demo_data_is_made_outside_the_checkout(elsewhere: Path, tmp_path: Path) -> None:
    code = (
        "from pathlib import Path; from pipeline.demo import make_demo_data; "
        "print(make_demo_data(Path('d'), n_classes=5).counts)"
    )
    assert "'classes': 5" in call(elsewhere / "python", "-c", code, cwd=tmp_path)
    assert (tmp_path / "d" / "train.npy").is_file()


def test_templates_and_presets_are_found_outside_the_checkout(elsewhere: Path, tmp_path: Path) -> None:
    code = (
        "from importlib.resources import files; import tomllib; "
        "print(files('pipeline.report').joinpath('page.html.j2').read_text()[:1]); "
        "print(tomllib.loads(files('pipeline.presets').joinpath('demo.toml').read_text())['name'])"
    )
    assert call(elsewhere / "python", "-c", code, cwd=tmp_path).split()[-1] == "characters"
