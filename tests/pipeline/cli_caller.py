"""The command line, called within this process; and small data for it."""

from __future__ import annotations

import contextlib
import io
import json
import shlex
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from pipeline.cli import main


@dataclass(frozen=True)
class Said:
    """Exit code, stdout and stderr of one command."""

    code: int
    out: str
    err: str


def labelgrove(*arguments: object) -> Said:
    """Call the command line as a user would type it, without the cost of a process."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    handler = signal.getsignal(signal.SIGTERM)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main([str(argument) for argument in arguments])
    except SystemExit as stop:
        code = int(stop.code or 0)
    finally:
        signal.signal(signal.SIGTERM, handler)
    return Said(code, out.getvalue(), err.getvalue())


def succeeds(*arguments: object) -> Said:
    said = labelgrove(*arguments)
    assert said.code == 0, (arguments, said)
    return said


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    """Everything below a folder: path -> size and time of change."""
    return {
        path.relative_to(folder).as_posix(): (path.lstat().st_size, path.lstat().st_mtime_ns)
        for path in folder.rglob("*")
    }


def assert_refused(folder: Path, code: int, error: str, *words: str, by: tuple[object, ...]) -> Said:
    """The command ends with this code and names this error and these words; the folder is as it was before."""
    before = snapshot(folder)
    said = labelgrove(*by)
    text = said.err + said.out
    assert said.code == code, said
    assert f"{error}: " in text, said
    for word in words:
        assert word in text, (word, said)
    assert "Traceback" not in text
    assert snapshot(folder) == before
    return said


def gaussian(n_rows: int, n_features: int, n_classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows (n_rows, n_features) float32 around a centre per class, labels 0 1 2 ... in turn."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n_rows) % n_classes
    centres = 4 * rng.standard_normal((n_classes, n_features))
    return (centres[labels] + rng.standard_normal((n_rows, n_features))).astype(np.float32), labels


def svmlight(rows: np.ndarray, labels: np.ndarray, label: str = "{y} ") -> str:
    """A line per row, columns from 0; `label` is what it begins with."""
    lines = (
        label.format(y=y) + " ".join(f"{j}:{value:.9g}" for j, value in enumerate(row))
        for row, y in zip(rows.tolist(), labels.tolist(), strict=True)
    )
    return "".join(f"{line}\n" for line in lines)


def write_source(folder: Path, rows: Any, labels: Any) -> tuple[Path, Path]:
    """x.npy or x.npz, and y.npy for numbers or y.txt for names."""
    folder.mkdir(parents=True, exist_ok=True)
    source, marks = folder / ("x.npz" if scipy.sparse.issparse(rows) else "x.npy"), folder / "y.txt"
    if scipy.sparse.issparse(rows):
        scipy.sparse.save_npz(source, rows)
    else:
        np.save(source, rows)
    if isinstance(labels, np.ndarray):
        marks = folder / "y.npy"
        np.save(marks, labels)
    else:
        marks.write_text("".join(f"{label}\n" for label in labels), encoding="utf-8")
    return source, marks


CONFIG = """\
name = "t"
[data]
path = "d.zarr"
[[encode]]
name = "pq"
kind = "pq"
bits = 1
[[train]]
name = "ovr"
kind = "ovr"
[[train]]
name = "heshing"
kind = "heshing"
bits = 6
[[train]]
name = "tree"
kind = "label-tree"
rows = "pq"
test_rows = "x"
"""


def make_run(folder: Path, rows: Any, labels: Any, *options: object, config: str = CONFIG, **files: str) -> Said:
    """Ingest and run in this process; `files` are written first, and {folder} in options is the folder."""
    source, marks = write_source(folder, rows, labels)
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text, encoding="utf-8")
    (folder / "c.toml").write_text(config, encoding="utf-8")
    placed = [str(option).replace("{folder}", str(folder)) for option in options]
    succeeds("ingest", source, folder / "d.zarr", "--labels", marks, *placed)
    return succeeds("run", folder / "c.toml", "--scheduler", "serial")


def metrics(folder: Path, name: str = "t") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "runs" / name / "metrics.json").read_text(encoding="utf-8"))
    return found


def first_run(folder: Path) -> Path:
    """`folder` with what `init` writes, ingested and run by the commands it prints."""
    said = succeeds("init", folder)
    lines = [line.strip() for line in said.err.splitlines() if line.startswith("  labelgrove ")]
    assert [line.split()[1] for line in lines] == ["ingest", "run"]
    for line in lines:
        words = shlex.split(line)[1:]
        succeeds(*words, *(["--scheduler", "serial"] if words[0] == "run" else []))
    return folder
