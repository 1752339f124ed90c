"""Secrets planted where people have them: in the environment, in URLs, in configs. They come out nowhere."""

from __future__ import annotations

import json
import os
import tempfile
import urllib.request
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from pipeline.store import RunFolder
from tests.faults.stage import RUN, small_config
from tests.pipeline.cli_caller import labelgrove
from tests.systems.conftest import planted
from tests.systems.harness import run_here, started

CANARY = "c4nary"  # what every planted secret begins with, so that a part of one is seen, too
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": f"{CANARY}AccessKey",
    "AWS_SECRET_ACCESS_KEY": f"{CANARY}/Secret+Key",
    "AWS_SESSION_TOKEN": f"{CANARY}Session",
    "AZURE_STORAGE_KEY": f"{CANARY}Azure",
    "DATABASE_URL": f"postgres://me:{CANARY}@db.example/x",
    "MY_PASSWORD": f"{CANARY}Password",
}
URLS = (
    f"s3://me:{CANARY}@bucket/d.zarr",
    f"s3://bucket/d.zarr?X-Amz-Signature={CANARY}",
    f"https://me:{CANARY}@store.example/d.zarr?token={CANARY}",
    f"memory://{CANARY}@x/d.zarr",
    f"zip://x.npy::https://me:{CANARY}@store.example/a.zip",
)


def parts_with(data: bytes) -> list[str]:
    """Where the canary stands in bytes: as it is, in another case, or within deflated parts."""
    return [CANARY] if CANARY.encode() in data.lower() or CANARY[::-1].encode() in data.lower() else []


def leaks_below(folder: Path) -> list[str]:
    """Files below a folder whose name or content, decoded where it is packed, has a canary."""
    found = []
    for path in sorted(folder.rglob("*")):
        data = str(path.relative_to(folder)).encode()
        if path.is_file():
            data += path.read_bytes() + unpacked(path)
        if parts_with(data):
            found.append(str(path.relative_to(folder)))
    return found


def unpacked(path: Path) -> bytes:
    """What stands in a packed file, as text."""
    if path.suffix == ".parquet":
        table = pq.read_table(path)
        return json.dumps([table.to_pylist(), str(table.schema.metadata)], default=str).encode()
    if path.suffix == ".npz":
        with np.load(path) as archive:
            return b" ".join(archive[name].tobytes() for name in archive.files)
    return b""


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Tracebacks of faults of ours are written to the temporary folder."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.delenv("LABELGROVE_DEBUG", raising=False)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    return place


def test_the_search_sees_what_is_planted(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"xx" + CANARY.upper().encode())
    (tmp_path / CANARY).mkdir()
    np.savez_compressed(tmp_path / "b.npz", text=np.frombuffer(CANARY.encode() * 50, np.uint8))
    assert zlib.compress(CANARY.encode() * 50) not in (tmp_path / "b.npz").read_bytes()
    pq.write_table(pq.read_table(_parquet(tmp_path / "c.parquet")), tmp_path / "d.parquet", compression="zstd")
    assert {*leaks_below(tmp_path)} >= {"a", CANARY, "b.npz", "c.parquet", "d.parquet"}


def _parquet(path: Path) -> Path:
    import pyarrow as pa

    pq.write_table(pa.table({"x": [CANARY] * 100}), path, compression="zstd")
    return path


# ---- a run with secrets around it --------------------------------------------------------------------------------


def test_no_secret_of_the_environment_is_in_what_a_run_leaves(tmp_path: Path, own_temporary_folder: Path) -> None:
    """Workers inherit it; the dashboard, its state, the performance report, logs and all files do not show it."""
    made, seen = tmp_path / "made", []
    made.mkdir()
    config = small_config(made)
    with started("run", config, "--scheduler", "local:2", log=tmp_path / "log", env=ENVIRONMENT) as running:
        folder = RunFolder(made / "runs" / RUN)

        def shown() -> bool:
            links = [event["dashboard"] for event in folder.events() if event["event"] == "cluster"]
            seen.extend(page for link in links[:1] if not seen for page in pages(str(link)))
            return running.process.poll() is not None

        running.until(shown, "its end")
        assert running.wait() == 0, running.text
    assert seen, "the dashboard was never asked"
    assert parts_with(b"".join(seen)) == []
    assert parts_with(running.text.encode()) == []
    assert leaks_below(made) == []
    assert leaks_below(own_temporary_folder) == []


def pages(link: str) -> list[bytes]:
    """Of a dashboard: its front, what it says of workers, and of the run."""
    base, found = link.rpartition("/")[0], []
    for name in (
        "status",
        "info/main/workers.html",
        "info/logs.html",
        "metrics",
        "labelgrove/state.json",
    ):
        try:
            with urllib.request.urlopen(f"{base}/{name}", timeout=5) as answer:
                found.append(answer.read())
        except OSError:
            continue
    return found


# ---- secrets in what is typed ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small config and its finished run, with rows.npy beside them."""
    folder = tmp_path_factory.mktemp("finished")
    run_here(small_config(folder))
    np.save(folder / "rows.npy", planted(20, 16, "dense", 0, shape=(2, 2, 2))[0])
    return folder


def assert_silent(folder: Path, typed: Sequence[object]) -> None:
    """The command refuses what it is given, without a word of the secret, and leaves none behind."""
    assert any(CANARY in str(word) for word in typed) or CANARY in (folder / "planted.toml").read_text()
    said = labelgrove(*typed)
    assert said.code not in (0, 1), said
    assert parts_with((said.out + said.err).encode()) == [], said
    kept = folder / "planted.toml"
    kept.unlink(missing_ok=True)
    assert leaks_below(folder) == []


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("command", ["run", "plan", "check", "status", "report", "clean"])
def test_a_dataset_at_a_url_with_a_secret(tmp_path: Path, command: str, url: str) -> None:
    (tmp_path / "planted.toml").write_text(f'name = "x"\n[data]\npath = "{url}"\n[[train]]\nname = "a"\nkind = "ovr"\n')
    assert_silent(tmp_path, [command, tmp_path / "planted.toml"])


@pytest.mark.parametrize("url", URLS)
def test_a_secret_on_the_command_line(finished: Path, tmp_path: Path, url: str) -> None:
    config, model, rows = finished / "config.toml", finished / "runs" / RUN / "models" / "ovr", finished / "rows.npy"
    secret = url.partition("://")[2]
    for typed in (
        ["run", config, "-s", f"data.path={url}", "--runs", tmp_path],
        ["run", config, "-s", f"evaluate.taxonomy={url}", "--runs", tmp_path],
        ["run", config, "--runs", url],
        ["run", config, "--runs", tmp_path, "--scheduler", url],
        ["run", config, "--runs", tmp_path, "--scheduler", f"tcp://{secret}"],
        ["run", config, "--runs", tmp_path, "--profile", url],
        ["plan", config, "-s", f"data.path={url}"],
        ["check", config, "-s", f"data.path={url}"],
        ["predict", model, url, "-o", tmp_path / "p.parquet"],
        ["predict", url, rows, "-o", tmp_path / "p.parquet"],
        ["predict", model, rows, "-o", tmp_path / "p.parquet", "--labels", url],
        ["ingest", url, tmp_path / "d.zarr"],
        ["ingest", rows, url],
        ["ingest", rows, tmp_path / "d.zarr", "--labels", url],
        ["ingest", rows, tmp_path / "d.zarr", "--classes", url],
        ["ingest", rows, tmp_path / "d.zarr", "--taxonomy", url],
        *([name, url] for name in ("verify", "inspect", "status", "logs", "report", "cancel")),
    ):
        assert_silent(tmp_path, typed)


@pytest.mark.parametrize("kept", [f"# {URLS[0]}", f'title = "{URLS[0]}"', f"token = '{CANARY}'"])
def test_a_secret_in_a_config_that_the_run_folder_would_keep(finished: Path, tmp_path: Path, kept: str) -> None:
    text = (finished / "config.toml").read_text()
    (tmp_path / "planted.toml").write_text(f"{text}\n[report]\n{kept}\n")
    assert_silent(tmp_path, ["run", tmp_path / "planted.toml"])


def test_a_secret_put_over_a_config(finished: Path, tmp_path: Path) -> None:
    typed = ["run", finished / "config.toml", "--runs", tmp_path, "-s", f"report.title={URLS[0]}"]
    assert_silent(tmp_path, typed)


def test_a_secret_in_a_profile(finished: Path, tmp_path: Path) -> None:
    for line in (f'scheduler = "tls://me:{CANARY}@there:8786"', f'token = "{CANARY}"', f"threads = '{CANARY}'"):
        (tmp_path / "planted.toml").write_text(f"{line}\n")
        config = finished / "config.toml"
        assert_silent(tmp_path, ["run", config, "--runs", tmp_path / "r", "--profile", tmp_path / "planted.toml"])


def test_a_fault_of_ours_shows_no_environment(own_temporary_folder: Path, tmp_path: Path) -> None:
    """The traceback that is written to a file has lines of code, no values."""
    from pipeline.last_resort import named, report_error

    def work(secret: str) -> None:
        raise ZeroDivisionError("by zero") from ValueError(len(secret))

    with pytest.raises(ZeroDivisionError) as caught:
        work(os.environ["AWS_SECRET_ACCESS_KEY"])
    assert report_error(named(caught.value)) == 1
    assert len(list(own_temporary_folder.iterdir())) == 1
    assert leaks_below(tmp_path) == []
