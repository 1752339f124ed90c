"""The command line: help, misspelt words, exit codes, interruption, narrow terminals, and faults nobody foresaw."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline import commands
from pipeline.cli import app, main
from pipeline.last_resort import named
from pipeline.lock import locked
from tasks.errors import LabelgroveError, ResourceError
from tests.pipeline.cli_caller import (
    Said,
    assert_refused,
    first_run,
    gaussian,
    labelgrove,
    snapshot,
    succeeds,
    write_source,
)
from tests.systems.harness import WAIT

COMMANDS = [command.name or str(getattr(command.callback, "__name__", "")) for command in app.registered_commands]


def process(*arguments: object, cwd: Path, **environment: str) -> Said:
    """The command line in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "pipeline.cli", *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        timeout=120,
    )
    return Said(done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `init` writes, ingested and run by the commands it prints."""
    return first_run(tmp_path_factory.mktemp("first") / "my first")


# ---- help --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_and_its_options(command: str) -> None:
    text = succeeds(command, "--help").out
    assert text.startswith(f"Usage: labelgrove {command}")
    assert not re.search(r"README|GUIDE|REFERENCE", text)  # help stands alone
    options = re.findall(r"^  (?:-\w, )?(--[a-z-]+.*)$", text, re.MULTILINE)
    assert options[-1].startswith("--help")
    explained = re.sub(r"\n {10,}", "  ", text)
    for line in explained.splitlines():
        if line.startswith("  -"):
            assert len(line.split("  ", 2)[-1].strip()) > 5, line


def test_the_list_of_commands_is_whole_sentences() -> None:
    text = succeeds("--help").out
    lines = text.split("Commands:\n")[1].strip().splitlines()
    assert len(lines) == len(COMMANDS)
    assert all(line.endswith(".") and not line.endswith("...") for line in lines)


def test_without_arguments_help_is_shown() -> None:
    said = labelgrove()
    assert said.code == 2
    assert "Commands:" in said.err + said.out


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["rum"], "Did you mean 'run'"),
        (["run", "c.toml", "--shceduler", "serial"], "--scheduler"),
        (["run", "c.toml", "--epoch", "3"], "--epoch"),
        (["run"], "CONFIG"),
        (["run", "c.toml", "--threads", "two"], "--threads"),
        (["logs", "runs/t", "--last", "0"], "--last"),
        (["predict", "model", "rows.npy"], "--output"),
        (["ingest", "x.npy", "d.zarr", "--seed", "x"], "--seed"),
    ],
)
def test_misspelt_words_are_named_and_nothing_is_written(tmp_path, monkeypatch, words, hint) -> None:
    monkeypatch.chdir(tmp_path)
    said = labelgrove(*words)
    assert said.code == 2
    assert hint in said.err
    assert said.out == ""
    assert list(tmp_path.iterdir()) == []


# ---- the first run -----------------------------------------------------------------------------------------------


def test_the_commands_that_init_prints_work_as_typed(tiny: Path) -> None:
    models = json.loads((tiny / "runs" / "tiny" / "metrics.json").read_text())["models"]
    assert sorted(models) == ["heshing", "ovr", "tree"]
    assert all(model["top1"] > 0.8 for model in models.values())


def test_a_second_run_reuses_everything_and_prints_the_same_table(tiny: Path) -> None:
    config = tiny / "config.toml"
    first, again = succeeds("report", tiny / "runs" / "tiny"), succeeds("run", config, "--scheduler", "serial")
    assert again.out == first.out
    assert again.err.count(": reused") == len(succeeds("plan", config).out.split("  reuse  ")) - 1
    assert "nothing to run" in succeeds("plan", config).out


def test_plan_and_check_write_nothing(tiny: Path) -> None:
    before = snapshot(tiny)
    for command in ("plan", "check"):
        for more in ([], ["--json"], ["-s", "tree.depth=3"]):
            succeeds(command, tiny / "config.toml", *more)
    succeeds("run", tiny / "config.toml", "--dry-run", "-s", "tree.depth=3")
    succeeds("clean", tiny / "config.toml", "-s", "tree.depth=3")
    assert snapshot(tiny) == before


def test_what_a_program_reads_is_json(tiny: Path) -> None:
    run = tiny / "runs" / "tiny"
    plan = json.loads(succeeds("plan", tiny / "config.toml", "--json", "-s", "tree.depth=3").out)
    actions = {step["step"]: step["action"] for step in plan["steps"]}
    assert (actions["train_ovr"], actions["train_tree"]) == ("reuse", "run")
    assert "depth: not set -> 3" in next(step["reason"] for step in plan["steps"] if step["step"] == "train_tree")
    assert json.loads(succeeds("status", run, "--json").out)["state"] == "finished"
    assert json.loads(succeeds("check", tiny / "config.toml", "--json").out)["errors"] == []
    assert "numpy" in json.loads(succeeds("doctor", "--json").out)
    assert "$defs" in json.loads(succeeds("schema").out)


def test_looking_commands_tell_what_happened(tiny: Path) -> None:
    run = tiny / "runs" / "tiny"
    assert "train_tree" in succeeds("status", run).out
    assert succeeds("logs", run, "--last", "2").out.count("\n") == 2
    assert "every digest holds" in succeeds("verify", run).out
    assert "every digest holds" in succeeds("verify", tiny / "tiny.zarr").out
    assert "every digest holds" in succeeds("verify", run / "models" / "ovr").out
    assert "blas" in succeeds("doctor").out


def test_clean_lists_and_removes_only_what_no_config_needs(tiny: Path, tmp_path: Path) -> None:
    config, runs = tiny / "config.toml", tmp_path / "runs"
    few = ["-s", "ovr.rounds=1", "--runs", runs]
    succeeds("run", config, "--scheduler", "serial", *few)
    old = {path.name for path in (runs / "tiny" / "steps").iterdir()}
    succeeds("run", config, "--scheduler", "serial", "--runs", runs, "-s", "ovr.rounds=2")
    kept = {path.name for path in (runs / "tiny" / "steps").iterdir()}
    listed = succeeds("clean", config, *few)
    assert listed.out.count("\n") == len(kept - old) > 0
    succeeds("clean", config, *few, "--yes")
    assert {path.name for path in (runs / "tiny" / "steps").iterdir()} == old


# ---- exit codes --------------------------------------------------------------------------------------------------


def test_a_run_folder_of_other_data_is_refused_with_a_diff(tmp_path: Path) -> None:
    source, labels = write_source(tmp_path, *gaussian(60, 4, 3))
    config = tmp_path / "c.toml"
    config.write_text('name = "t"\n[data]\npath = "d.zarr"\n[[train]]\nname = "ovr"\nkind = "ovr"\nrounds = 1\n')
    succeeds("ingest", source, tmp_path / "d.zarr", "--labels", labels)
    succeeds("run", config, "--scheduler", "serial")
    seed = ("run", config, "-s", "seed=1")
    assert_refused(tmp_path, 7, "OtherRun", "was made with another seed:\n  seed: 0 in the folder, 1 now", by=seed)
    run = tmp_path / "runs" / "t"
    with locked(run):  # who runs there comes first, and nobody is told to remove the folder under it
        for command in (seed, ("submit", *seed[1:], "--scheduler", "tcp://127.0.0.1:1", "--insecure")):
            held = labelgrove(*command)
            assert (held.code, f"`labelgrove cancel {run}` stops it" in held.err) == (8, True)
        planned = labelgrove("plan", *seed[1:])
        assert (planned.code, "is running in this folder" in planned.err, "remove" in planned.err) == (7, True, False)
    succeeds("ingest", source, tmp_path / "d.zarr", "--labels", labels, "--block-rows", "7", "--force")
    assert_refused(tmp_path, 7, "OtherRun", "block_rows: 256 in the folder, 7 now", by=("run", config))


def test_a_run_that_somebody_else_runs_is_refused(tiny: Path) -> None:
    run = tiny / "runs" / "tiny"
    with locked(run):
        said = labelgrove("run", tiny / "config.toml", "--scheduler", "serial")
        assert (said.code, "RunLocked: process" in said.err) == (8, True)
        assert "running" in succeeds("status", run).out


def test_too_little_memory_is_refused_before_anything_runs(tiny: Path, tmp_path: Path) -> None:
    said = labelgrove("run", tiny / "config.toml", "--runs", tmp_path, "--memory", "1 MiB", "--scheduler", "local:1")
    assert (said.code, "MemoryTooSmall" in said.err) == (5, True)
    assert list(tmp_path.iterdir()) == []


def test_an_interruption_within_a_destructor_is_not_lost(tmp_path: Path) -> None:
    script = (
        "import os, signal, time, pipeline.commands\n"
        "class Held:\n"
        "    def __del__(self):\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "        time.sleep(0.2)\n"
        "def doctor(**_):\n"
        "    Held()\n"
        "    time.sleep(500)\n"
        "pipeline.commands.doctor = doctor\n"
        "from pipeline.cli import main\nmain(['doctor'])\nprint('went on')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=WAIT)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "interrupted; the same command begins anew\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_command_says_so_and_ends_with_130(tmp_path: Path, number: int) -> None:
    script = (
        "import os, sys, pipeline.commands\n"
        f"pipeline.commands.doctor = lambda **_: os.kill(os.getpid(), {int(number)})\n"
        "from pipeline.cli import main\nmain(['doctor'])\nprint('went on')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=WAIT)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "interrupted; the same command begins anew\n"


def test_an_interrupted_run_continues(tiny: Path, tmp_path: Path) -> None:
    """SIGINT in the middle of training: 130, the event is recorded, `status` says so, the next run finishes."""
    words = ["run", str(tiny / "config.toml"), "--scheduler", "serial", "--runs", str(tmp_path)]
    command = [sys.executable, "-m", "pipeline.cli", *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as child:
        assert child.stderr is not None
        for line in child.stderr:
            if "train_ovr" in line:
                child.send_signal(signal.SIGINT)
                break
        rest = child.stderr.read()
        assert child.wait(WAIT) == 130, rest
    assert "interrupted" in rest
    assert "Traceback" not in rest
    assert ": interrupted" in succeeds("status", tmp_path / "tiny").out
    assert "encode_pq: reused" in succeeds(*words).err


# ---- what nobody foresaw -----------------------------------------------------------------------------------------


def failing(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> Said:
    def doctor(**_: object) -> None:
        raise error

    monkeypatch.setattr(commands, "doctor", doctor)
    return labelgrove("doctor")


def test_an_unforeseen_exception_is_one_line_and_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    said = failing(monkeypatch, ZeroDivisionError("of rows\nand more"))
    assert said.code == 1
    line, hint = said.err.splitlines()
    assert line.startswith("InternalError: ZeroDivisionError: of rows [")
    assert "LABELGROVE_DEBUG=1" in hint
    path = Path(line.split("[")[1].rstrip("]"))
    try:
        assert "in doctor" in path.read_text()
        assert path.stat().st_mode & 0o077 == 0
    finally:
        path.unlink()


def test_the_traceback_is_shown_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABELGROVE_DEBUG", "1")
    said = failing(monkeypatch, LabelgroveError("what", "where"))
    assert said.code == 1
    assert "Traceback" in said.err


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (MemoryError("Unable to allocate 4 TiB"), 5, "OutOfMemory: Unable to allocate 4 TiB"),
        (OSError(errno.ENOSPC, "No space left on device", "/x/y"), 5, "DiskFull: no space left [/x/y]"),
        (OSError(errno.ENOSPC, "No space left on device"), 5, "DiskFull: no space left\n"),
        (PermissionError(errno.EACCES, "Permission denied", b"/x\xff"), 2, "FileAccess: Permission denied [/x"),
        (OSError(errno.ENAMETOOLONG, "File name too long", "/x/\x1b[31m"), 2, "[/x/\N{REPLACEMENT CHARACTER}[31m]"),
        (ResourceError("full", "there", "make room"), 5, "ResourceError: full [there]\n  what to do: make room"),
    ],
)
def test_foreseen_kinds_of_exceptions_have_names(monkeypatch, error: Exception, code: int, text: str) -> None:
    said = failing(monkeypatch, error)
    assert said.code == code
    assert text in said.err
    assert "Traceback" not in said.err


def test_a_traceback_that_cannot_be_written_is_printed(monkeypatch, capsys, tmp_path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    assert named(ValueError("x")).where == "traceback above"
    assert "ValueError: x" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["status", "report", "logs", "verify"])
@pytest.mark.parametrize("place", ["nothing", "file.txt", "folder", "x" * 300])
def test_places_that_hold_nothing_of_ours(tmp_path: Path, command: str, place: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file.txt").write_text("hello")
    said = labelgrove(command, tmp_path / place)
    assert said.code == 2
    assert re.match(r"(RunMissing|ConfigError|NothingToVerify|FileAccess): ", said.err), said
    assert said.out == ""


@pytest.mark.parametrize("name", ["metrics.json", "events.jsonl", "manifest.json", "lock.json"])
@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"models": 3}', '{"event": "done"}\n"x"\n{"event": "run"}'])
def test_files_of_a_run_folder_that_are_not_what_we_write(tiny: Path, tmp_path: Path, name: str, text: str) -> None:
    run = shutil.copytree(tiny / "runs" / "tiny", tmp_path / "tiny")
    (run / name).write_text(text)
    looks = [(command, run) for command in ("status", "logs", "report", "verify")]
    for command in (*looks, ("plan", tiny / "config.toml", "--runs", tmp_path)):
        said = labelgrove(*command)
        assert said.code in (0, 4), (command, said)
        assert "InternalError" not in said.err
        assert said.code == 0 or re.match(r"(RunFormat|ArtefactError|StepDamaged): ", said.err), (command, said)


@pytest.mark.parametrize("words", [["init"], ["demo", "--small"]])
def test_folders_that_cannot_be_made(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "file").write_text("")
    assert_refused(tmp_path, 2, "FileAccess", "Not a directory", by=(*words, tmp_path / "file"))
    assert_refused(tmp_path, 2, "FileAccess", "Not a directory", by=(*words, tmp_path / "file" / "below"))


def test_init_leaves_a_used_folder_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("")
    assert_refused(tmp_path, 2, "FolderInUse", str(tmp_path), by=("init", tmp_path))


# ---- terminals ---------------------------------------------------------------------------------------------------


def test_a_reader_that_goes_away_is_no_fault(tmp_path: Path) -> None:
    script = f"'{sys.executable}' -m pipeline.cli schema | head -c 1; echo; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=WAIT)
    assert done.stderr == ""
    assert done.stdout.split()[0] == "{"


def test_a_terminal_that_knows_only_ascii(tmp_path: Path) -> None:
    names = ["é", "日本", "\N{SNOWMAN}"]
    rows, labels = gaussian(60, 4, 3)
    source, marks = write_source(tmp_path, rows, [names[label] for label in labels])
    environment = {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "NO_COLOR": "1"}
    said = process("ingest", source, "dé.zarr", "--labels", marks, cwd=tmp_path, **environment)
    assert said.code == 0, said
    said = process("ingest", source, "x.zarr", "--labels", "日本.txt", cwd=tmp_path, **environment)
    assert (said.code, "SourceMissing" in said.err) == (3, True)
    assert "\x1b" not in said.err


def test_no_colours_and_no_bars_where_nobody_looks(tiny: Path) -> None:
    said = process("run", tiny / "config.toml", "--scheduler", "serial", cwd=tiny)
    assert said.code == 0
    assert "\x1b" not in said.out + said.err
    assert "\r" not in said.out + said.err


def test_main_returns_when_nothing_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    handler = signal.getsignal(signal.SIGTERM)
    try:
        main(["doctor"])
    finally:
        signal.signal(signal.SIGTERM, handler)
    assert "numpy" in capsys.readouterr().out


@pytest.mark.slow
def test_processes_that_compile_the_same_kernels_at_once(tiny: Path, tmp_path: Path) -> None:
    """Four runs start together with no compiled kernels: each ends well, all with the same numbers."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    words = [sys.executable, "-m", "pipeline.cli", "run", str(tiny / "config.toml"), "--scheduler", "serial", "--runs"]
    children = [
        subprocess.Popen([*words, str(tmp_path / str(i))], cwd=tmp_path, env=environment, stderr=subprocess.PIPE)
        for i in range(4)
    ]
    said = [child.communicate(timeout=280)[1].decode() for child in children]
    assert [child.returncode for child in children] == [0] * 4, said
    found = [json.loads((tmp_path / str(i) / "tiny" / "manifest.json").read_text())["steps"] for i in range(4)]
    assert all(digests_of(steps) == digests_of(found[0]) for steps in found)


def digests_of(steps: dict[str, dict[str, str]]) -> dict[str, str]:
    return {name: step["digest"] for name, step in steps.items()}
