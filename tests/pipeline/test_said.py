"""What is said to people: in one place, so that no name writes control codes or lines of its own."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from pipeline.commands import looking
from pipeline.fields import fields_text, fit
from pipeline.foreign import foreign_note
from pipeline.last_resort import put, put_line, say, say_line
from tasks.errors import InputError, LabelgroveError, UsageError
from tests.pipeline.cli_caller import assert_refused, labelgrove

PIPELINE = Path(looking.__file__).parents[1]
WRITERS = {"last_resort.py", "commands/data.py"}  # the place itself; a line of an ingest that is written over and over
EVIL = "a\x1b[31m\nfake: verified\rb"
SHOWN = "a\N{REPLACEMENT CHARACTER}[31m\\nfake: verified\\rb"


def writes(path: Path) -> list[str]:
    """What a module hands to sys.stderr itself."""
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    return [ast.unparse(call) for call in calls if ast.unparse(call.func).startswith("sys.stderr.write")]


def test_one_module_alone_writes_to_stderr() -> None:
    found = {path.relative_to(PIPELINE).as_posix() for path in PIPELINE.rglob("*.py") if writes(path)}
    assert found == WRITERS
    assert all("\\r" in call for call in writes(PIPELINE / "commands/data.py"))


@pytest.mark.parametrize("error", [LabelgroveError, UsageError, InputError])
def test_names_in_errors_begin_no_line(error: type[LabelgroveError]) -> None:
    text = str(error(f"two findings\n  first\n  of {EVIL!r}", EVIL, f"name it {EVIL}"))
    assert [line[:2] for line in text.split("\n")][1:] == ["  "] * 3
    assert "\r" not in text


def test_names_in_what_is_said_begin_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    for tell in (say_line, put_line, say, put):
        tell(f"{EVIL}: 3 rows")
    found = capsys.readouterr()
    assert found.out == found.err == f"{SHOWN}: 3 rows\n" * 2
    say("several\n  lines")
    assert capsys.readouterr().err == "several\n  lines\n"
    assert "\n" not in foreign_note([EVIL]) + fit(EVIL)
    assert len(fields_text([("dataset", EVIL)]).split("\n")) == 2


def test_commands_say_names_whole(tmp_path: Path) -> None:
    said = labelgrove("status", tmp_path / EVIL)
    assert len(said.err.splitlines()) == 2
    assert SHOWN in said.err
    command = ("export", tmp_path, "--to", "npz", "-o", f"{tmp_path / 'm.npz'}/")
    assert_refused(tmp_path, 2, "UsageError", "names a folder", by=command)
