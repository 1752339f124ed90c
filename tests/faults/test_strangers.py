"""Model folders made by hostile hands: named errors or plain predictions, and nothing of theirs is ever executed."""

from __future__ import annotations

import builtins
import copy
import importlib.util
import json
import os
import pickle
import random
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from tasks.models.sums import sums_text
from tests.faults.stage import small_config
from tests.pipeline.cli_caller import Said, labelgrove
from tests.systems.conftest import planted
from tests.systems.harness import environment, run_here

SEED = int(os.environ.get("LABELGROVE_STRANGER_SEED", "0")) or random.SystemRandom().randrange(10**6)
MAKE_CLASSES = {"inspect", "typing", "dataclasses", "collections", "importlib", "typer", "pydantic", "annotationlib"}
NAMED_CODES = {0, 2, 3, 4, 5}
MODELS = ("ovr", "heshing", "tree-pq")


class Executed(BaseException):
    """Something of the stranger's was about to run; no code of ours catches it."""


class Payload:
    """Makes a file when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("sprung",)


POISON = pickle.dumps(Payload())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The models of a small run, and rows to rank; every command was called once, so that all is compiled."""
    folder = tmp_path_factory.mktemp("honest")
    run = run_here(small_config(folder))
    for model in MODELS:
        shutil.copytree(run / "models" / model, folder / "models" / model)
    np.save(folder / "rows.npy", planted(30, 16, "dense", 0, shape=(2, 2, 2))[0])
    for model in MODELS:
        assert {said.code for said in asked(folder / "models" / model, folder / "rows.npy", folder / "warm")} == {0}
    return folder


@pytest.fixture
def trapped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Every way to run what a file holds raises instead, also deep within libraries."""

    def sprung(*_: Any, **__: Any) -> Any:
        raise Executed

    for owner, names in {
        pickle: ("load", "loads", "Unpickler", "_Unpickler"),
        joblib: ("load",),
        yaml: ("load", "load_all", "unsafe_load", "full_load", "safe_load"),
        subprocess: ("Popen", "run", "call", "check_call", "check_output"),
        os: ("system", "popen", "execv", "execve", "posix_spawn", "fork"),
    }.items():
        for name in names:
            monkeypatch.setattr(owner, name, sprung)
    for name in ("eval", "exec"):
        monkeypatch.setattr(builtins, name, for_own_annotations(getattr(builtins, name)))
    load = np.load

    def loads_no_objects(*given: Any, allow_pickle: bool = False, **more: Any) -> Any:
        if allow_pickle:
            raise Executed
        return load(*given, **more)

    monkeypatch.setattr(np, "load", loads_no_objects)
    monkeypatch.chdir(tmp_path)
    yield
    assert not (tmp_path / "sprung").exists()


def for_own_annotations(run: Callable[..., Any]) -> Callable[..., Any]:
    """eval and exec for the modules that make classes and signatures of source; for all others a trap."""

    def guarded(*given: Any) -> Any:
        if sys._getframe(1).f_globals["__name__"].split(".")[0] not in MAKE_CLASSES:
            raise Executed
        return run(*given)

    return guarded


def asked(model: Path, rows: Path, output: Path) -> list[Said]:
    """What the commands that open a model say of it."""
    return [
        labelgrove("predict", model, rows, "-o", output.with_suffix(".parquet"), "--force"),
        labelgrove("inspect", model),
        labelgrove("verify", model),
    ]


def assert_harmless(model: Path, rows: Path, output: Path, codes: set[int]) -> None:
    for said in asked(model, rows, output):
        text = said.out + said.err
        assert said.code in codes, said
        assert "Traceback" not in text
        assert all(character.isprintable() or character == "\n" for character in text), said


# ---- one hostile change after another ----------------------------------------------------------------------------


def header_of(model: Path) -> dict[str, Any]:
    return dict(json.loads((model / "model.json").read_text()))


def with_header(**changes: Any) -> Callable[[Path], None]:
    return lambda model: (model / "model.json").write_text(json.dumps(header_of(model) | changes)) and None


def weights(header: dict[str, Any] | bytes, data: bytes = b"", declared: int | None = None) -> Callable[[Path], None]:
    """A safetensors file with this header; `declared`: the length it claims to have."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    content = struct.pack("<Q", len(text) if declared is None else declared) + text + data
    return lambda model: (model / "weights.safetensors").write_bytes(content) and None


def tensor(shape: list[int], dtype: str = "F32", end: int = 8) -> dict[str, Any]:
    return {"weights": {"dtype": dtype, "shape": shape, "data_offsets": [0, end]}}


def classes(**columns: Any) -> Callable[[Path], None]:
    return lambda model: pq.write_table(pa.table(columns), model / "classes.parquet")


def poisoned_metadata(model: Path) -> None:
    """Types that old readers of Arrow files unpickle (CVE-2023-47248), and pandas' own metadata."""
    table = pq.read_table(model / "classes.parquet")
    extension = {b"ARROW:extension:name": b"arrow.py_extension_type", b"ARROW:extension:metadata": POISON}
    fields = [field.with_metadata(extension) for field in table.schema]
    schema = pa.schema(fields, metadata={b"pandas": POISON, b"joblib": POISON})
    pq.write_table(table.cast(schema), model / "classes.parquet")


def renamed_classes(name: Callable[[int], str]) -> Callable[[Path], None]:
    def change(model: Path) -> None:
        count = pq.read_table(model / "classes.parquet").num_rows
        names = [name(i) for i in range(count)]
        classes(**{"class": pa.array(range(count), pa.int32()), "id": names, "name": names})(model)

    return change


def object_array(model: Path) -> None:
    np.save(model / "weights.npy", np.array([Payload()], dtype=object), allow_pickle=True)
    (model / "weights.npy").rename(model / "weights.safetensors")


HUGE = 1 << 60
CHANGES: dict[str, Callable[[Path], Any]] = {
    "a pickle for weights": lambda model: (model / "weights.safetensors").write_bytes(POISON),
    "a pickle for a header": lambda model: (model / "model.json").write_bytes(POISON),
    "a pickle for classes": lambda model: (model / "classes.parquet").write_bytes(POISON),
    "an array of objects": object_array,
    "metadata that is a pickle": weights({"__metadata__": {"a": POISON.hex()}, **tensor([2])}, bytes(8)),
    "a header of 2^60 bytes": weights(b"{}", declared=HUGE),
    "a tensor of 2^60 numbers": weights(tensor([HUGE, 2]), bytes(8)),
    "a tensor beyond the file": weights(tensor([HUGE], end=4 * HUGE), bytes(8)),
    "a negative shape": weights(tensor([-1, -2]), bytes(8)),
    "objects for a type": weights(tensor([2], "O"), bytes(8)),
    "an unknown type": weights(tensor([2], "PY"), bytes(8)),
    "a header that is nested": weights(b"[" * 200_000),
    "a kind that is a function": with_header(kind="os.system"),
    "a kind that is an expression": with_header(kind="__import__('os').mkdir('sprung')"),
    "a kind that is a list": with_header(kind=["ovr", {}]),
    "an encoder that is a module": with_header(encoders=[{"kind": "subprocess.Popen", "args": "mkdir sprung"}]),
    "encoders that are no list": with_header(encoders={"kind": "pq"}),
    "a class count of 2^60": with_header(n_classes=HUGE),
    "a feature count below 0": with_header(n_features=-5),
    "tensors of other shapes": with_header(tensors={"weights": {"dtype": "object", "shape": [HUGE]}}),
    "a header that is a list": lambda model: (model / "model.json").write_text("[]"),
    "a header that is nested deeply": lambda model: (model / "model.json").write_text("[" * 200_000),
    "a number of a million digits": lambda model: (model / "model.json").write_text('{"version": ' + "9" * 10**6 + "}"),
    "keys twice": lambda model: (model / "model.json").write_text('{"kind": "a", "kind": "b", "version": 1}'),
    "types that unpickle": poisoned_metadata,
    "classes that are numbers": classes(**{"class": [1.5, 2.5], "id": [1, 2], "name": [3, 4]}),
    "names that lead out": renamed_classes(lambda i: f"../../../tmp/sprung-{i}"),
    "names that paint": renamed_classes(lambda i: f"\x1b[2J\x1b]0;sprung\x07<script>{i}</script>[red]"),
    "names that are long": renamed_classes(lambda i: f"{i}" * 100_000),
    "a file with an odd name": lambda model: (model / "-rf *\n; touch sprung").write_text(""),
    "modules among the files": lambda model: [(model / f"{n}.py").write_text("boom") for n in ("numpy", "tasks")],
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.usefixtures("trapped")
def test_a_model_that_was_tampered_with_and_signed(made: Path, tmp_path: Path, name: str) -> None:
    """Its checksums are right: whoever made it could compute them."""
    model = shutil.copytree(made / "models" / "ovr", tmp_path / "model")
    CHANGES[name](model)
    (model / "SHA256SUMS").write_text(sums_text(model))
    spares = {"types that unpickle", "names that lead out", "names that paint", "names that are long"}
    plain = name in spares or "file" in name
    assert_harmless(model, made / "rows.npy", tmp_path / "p", NAMED_CODES if plain else NAMED_CODES - {0})


@pytest.mark.parametrize("target", ["/etc/passwd", "/dev/zero", "model.json", "nowhere", "fifo", "folder"])
@pytest.mark.parametrize("entry", ["weights.safetensors", "model.json", "SHA256SUMS"])
@pytest.mark.usefixtures("trapped")
def test_an_entry_that_is_no_file_of_its_own(made: Path, tmp_path: Path, entry: str, target: str) -> None:
    """A link, a pipe that nobody writes to, a folder: refused, and never waited for."""
    model = shutil.copytree(made / "models" / "ovr", tmp_path / "model")
    (model / entry).unlink()
    if target == "fifo":
        os.mkfifo(model / entry)
    elif target == "folder":
        (model / entry).mkdir()
    else:
        (model / entry).symlink_to(target)
    began = time.monotonic()
    assert_harmless(model, made / "rows.npy", tmp_path / "p", {2, 4})
    assert time.monotonic() - began < 60


# ---- odd values anywhere -----------------------------------------------------------------------------------------

ODD: list[Any] = [None, -1, 0, 1 << 70, 1e308, True, "", "x" * 1000, "../x", [], {}, [[]], [-1], {"a": None}, "nan"]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of all values within JSON."""
    yield path
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield from places(part, (*path, key))


def mutated(header: dict[str, Any], rng: random.Random) -> tuple[dict[str, Any], str]:
    """With one value replaced, dropped or doubled; what was done."""
    found = copy.deepcopy(header)
    path = rng.choice([path for path in places(found) if path and path[0] not in ("provenance", "metrics", "name")])
    parent = found
    for step in path[:-1]:
        parent = parent[step]
    odd = rng.choice([*ODD, "drop"])
    if odd == "drop":
        del parent[path[-1]]
    else:
        parent[path[-1]] = odd
    return found, f"{path} = {odd!r:.40}"


def assert_odd_values_are_harmless(made: Path, folder: Path, count: int) -> None:
    print(f"LABELGROVE_STRANGER_SEED={SEED}")
    rng = random.Random(SEED)
    for number in range(count):
        model = shutil.copytree(made / "models" / MODELS[number % len(MODELS)], folder / f"model-{number}")
        header, done = mutated(header_of(model), rng)
        (model / "model.json").write_text(json.dumps(header))
        (model / "SHA256SUMS").write_text(sums_text(model))
        for said in asked(model, made / "rows.npy", folder / "p"):
            assert said.code in NAMED_CODES, (model, done, said)
        shutil.rmtree(model)


@pytest.mark.usefixtures("trapped")
def test_odd_values_in_a_header(made: Path, tmp_path: Path) -> None:
    assert_odd_values_are_harmless(made, tmp_path, 60)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("trapped")
def test_long_odd_values_in_a_header(made: Path, tmp_path: Path) -> None:
    assert_odd_values_are_harmless(made, tmp_path, 2000)


# ---- where it lies -----------------------------------------------------------------------------------------------


def test_modules_beside_a_model_are_not_imported(made: Path, tmp_path: Path) -> None:
    """The command is typed within the stranger's folder, which has modules of our names in it."""
    shutil.copytree(made / "models" / "ovr", tmp_path / "model")
    for name in ("numpy", "tasks", "pipeline", "pyarrow", "sitecustomize", "usercustomize", "json", "safetensors"):
        (tmp_path / f"{name}.py").write_text("import os; os.mkdir('sprung')\n")
    command = Path(sys.executable).with_name("labelgrove")
    own = {key: value for key, value in environment().items() if key not in ("PYTHONPATH", "LABELGROVE_FAULT")}
    typed = [command, "predict", "model", made / "rows.npy", "-o", "p.parquet"]
    done = subprocess.run(typed, cwd=tmp_path, env=own, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "sprung").exists()
    assert importlib.util.find_spec("labelgrove") is None  # it is tasks and pipeline that could be taken for others


@pytest.mark.usefixtures("trapped")
def test_the_traps_spring(tmp_path: Path) -> None:
    """Else nothing above would mean anything."""
    (tmp_path / "a.pkl").write_bytes(POISON)
    np.save(tmp_path / "a.npy", np.array([Payload()], dtype=object), allow_pickle=True)
    for spring in (
        lambda: pickle.loads(POISON),
        lambda: joblib.load(tmp_path / "a.pkl"),
        lambda: np.load(tmp_path / "a.npy", allow_pickle=True),
        lambda: eval("1"),
        lambda: subprocess.run(["true"], check=False),
        lambda: os.system("true"),
    ):
        with pytest.raises(Executed):
            spring()
    with pytest.raises(ValueError, match="pickle"):
        np.load(tmp_path / "a.npy")
