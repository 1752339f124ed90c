"""What can be wrong with a store, by the command line: a named error with the URL, in bounded time, without secrets."""

from __future__ import annotations

import os
import socket
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import s3fs
from aiohttp import ClientPayloadError

from pipeline.ingest import ingest
from tasks import calls, io, remote_path
from tasks.calls import call
from tasks.places import at
from tasks.stores import Block
from tasks.urls import StoreRefused, StoreUnreachable
from tasks.worker import WorkerSettings
from tests.pipeline.cli_caller import labelgrove
from tests.remote.conftest import KEY, SECRET
from tests.remote.objects import Bucket, forget_clients, rows_and_labels, write_config
from tests.systems import harness


@pytest.fixture
def dead() -> Iterator[str]:
    """An address where nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture
def refusing(s3_server: str) -> Iterator[None]:
    """The server asks who is there, and knows nobody."""

    def ask(first: bytes) -> None:
        plain = {"Content-Type": "text/plain"}
        request = urllib.request.Request(f"{s3_server}/moto-api/reset-auth", first, plain, method="POST")
        with urllib.request.urlopen(request, timeout=20) as answer:
            assert answer.status == 200

    ask(b"0")
    forget_clients()
    yield
    ask(b"inf")


def refused(code: int, error: str, *words: object, **env: str) -> harness.Ended:
    """A command in a process of its own ends with this code and names this error; what lets us in is not shown."""
    done = harness.labelgrove(*map(str, words), **env)
    assert done.code == code, done
    assert error in done.err, done
    assert "Traceback" not in done.err
    assert SECRET not in done.err + done.out
    assert KEY not in done.err + done.out
    return done


def test_a_dead_endpoint_is_named(dead: str, tmp_path: Path, s3_server: str, monkeypatch) -> None:
    del s3_server
    config = write_config(tmp_path / "c.toml", "s3://bucket/d.zarr")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", dead)
    monkeypatch.setattr(remote_path, "ATTEMPTS", 1)
    forget_clients()
    said = labelgrove("plan", config)
    forget_clients()
    assert (said.code, "StoreUnreachable" in said.err, "s3://bucket/d.zarr" in said.err) == (6, True, True), said


def test_a_frozen_store_is_given_up_in_time_whatever_is_asked(s3_server: str, monkeypatch) -> None:
    del s3_server
    monkeypatch.setattr(remote_path, "READ_SECONDS", 0.2)
    monkeypatch.setattr(remote_path, "REQUEST_SECONDS", 2)
    monkeypatch.setattr(remote_path, "ATTEMPTS", 2)
    with socket.socket() as frozen:  # takes connections, and never answers
        frozen.bind(("127.0.0.1", 0))
        frozen.listen(64)
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{frozen.getsockname()[1]}")
        forget_clients()
        path = at("s3://bucket/x")
        begun = time.monotonic()
        for ask in (path.read_bytes, path.exists, lambda: path.write_bytes(b"1"), lambda: path.write_new(b"1")):
            with pytest.raises(StoreUnreachable):
                ask()
        assert time.monotonic() - begun < 15
        forget_clients()


def test_an_answer_that_breaks_off_is_asked_for_again(bucket: Bucket, monkeypatch) -> None:
    bucket.write("x", b"whole")
    broken, cat = [2], s3fs.S3FileSystem._cat_file

    async def breaking(self, *arguments, **named):
        if broken[0]:
            broken[0] -= 1
            raise ClientPayloadError("Response payload is not completed")
        return await cat(self, *arguments, **named)

    monkeypatch.setattr(s3fs.S3FileSystem, "_cat_file", breaking)
    forget_clients()
    assert at(bucket.url("x")).read_bytes() == b"whole"
    broken[0] = 99
    with pytest.raises(StoreUnreachable, match="ClientPayloadError"):
        at(bucket.url("x")).read_bytes()
    assert broken[0] == 99 - remote_path.READS
    monkeypatch.undo()
    forget_clients()


def test_the_reference_says_how_long_a_store_is_waited_for() -> None:
    most = remote_path.ATTEMPTS * remote_path.READ_SECONDS + sum(2**i for i in range(remote_path.ATTEMPTS - 1))
    assert most <= remote_path.REQUEST_SECONDS
    row = f"| a request to an object store | {remote_path.REQUEST_SECONDS} | four attempts of "
    assert f"{row}{remote_path.READ_SECONDS} s, and 4 s for each MiB" in Path("REFERENCE.md").read_text()
    assert (remote_path.ATTEMPTS, 2**20 / remote_path.LEAST_BYTES_A_SECOND) == (4, 4)


@pytest.mark.slow
def test_a_dead_endpoint_is_named_in_bounded_time(dead: str, tmp_path: Path, s3_server: str) -> None:
    del s3_server
    config = write_config(tmp_path / "c.toml", "s3://bucket/d.zarr")
    begun = time.monotonic()
    done = refused(6, "StoreUnreachable", "run", config, AWS_ENDPOINT_URL_S3=dead)
    assert time.monotonic() - begun < 90
    assert "s3://bucket/d.zarr" in done.err
    assert "type the same command again" in done.err


def test_a_missing_bucket_is_named(tmp_path: Path, s3_server: str) -> None:
    del s3_server
    config = write_config(tmp_path / "c.toml", "s3://no-bucket-here/d.zarr")
    said = labelgrove("plan", config)
    assert (said.code, "StoreMissing" in said.err, "s3://no-bucket-here/d.zarr" in said.err) == (2, True, True)
    said = labelgrove("status", "s3://no-bucket-here/runs/x")
    assert (said.code, "StoreMissing" in said.err) == (2, True)


def test_a_wrong_key_is_named(bucket: Bucket, tmp_path: Path, refusing) -> None:
    del refusing
    config = write_config(tmp_path / "c.toml", bucket.url("d.zarr"))
    said = labelgrove("plan", config)
    assert (said.code, "StoreRefused" in said.err, bucket.url("d.zarr") in said.err) == (2, True, True), said
    assert KEY not in said.err
    assert SECRET not in said.err


def test_no_key_at_all_is_named(bucket: Bucket, tmp_path: Path, monkeypatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_") and "ENDPOINT" not in name]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    forget_clients()
    said = labelgrove("verify", bucket.url("d.zarr"))
    forget_clients()
    assert (said.code, "StoreRefused" in said.err, "environment" in said.err) == (2, True, True), said


@pytest.mark.parametrize("words", [("verify",), ("status",), ("ingest", "x.npy")])
def test_a_password_in_a_url_is_refused_and_not_repeated(words: tuple[str, ...]) -> None:
    said = labelgrove(*words, "s3://me:canary-word@bucket/x")
    assert (said.code, "UrlRefused" in said.err) == (2, True), said
    assert "canary-word" not in said.err + said.out


def test_a_password_in_a_config_is_refused_and_not_repeated(tmp_path: Path) -> None:
    config = write_config(tmp_path / "c.toml", "s3://bucket/d.zarr?key=canary-word")
    said = labelgrove("run", config)
    assert (said.code, "UrlRefused" in said.err) == (2, True), said
    assert "canary-word" not in said.err + said.out


def test_a_config_at_a_url_is_refused(bucket: Bucket) -> None:
    said = labelgrove("run", bucket.url("c.toml"))
    assert said.code == 2, said
    assert "ConfigError" in said.err or "UsageError" in said.err


def test_the_package_that_is_missing_is_named(tmp_path: Path) -> None:
    (tmp_path / "s3fs.py").write_text("raise ImportError('no module named s3fs', name='s3fs')")
    config = write_config(tmp_path / "c.toml", "s3://bucket/d.zarr")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = refused(2, "PackageMissing", "plan", config, PYTHONPATH=path)
    assert 'pip install "labelgrove[s3]"' in done.err


def test_a_task_tries_again_when_the_store_hiccups(bucket: Bucket, monkeypatch) -> None:
    rows, _ = rows_and_labels()
    io.write_dense(io.create_dense(bucket.url("x"), 40, rows.shape[1], 40)[0], rows[:40])
    monkeypatch.setattr(calls, "IO_WAIT_SECONDS", 0.01)
    request, failures = s3fs.S3FileSystem._call_s3, [2]

    async def flaky(self, *arguments, **named):
        if failures[0]:
            failures[0] -= 1
            raise TimeoutError("the store is busy")
        return await request(self, *arguments, **named)

    monkeypatch.setattr(s3fs.S3FileSystem, "_call_s3", flaky)
    done = call(Block(bucket.url("x"), 0, 0, 40), "read", "0", io.load_rows, (), WorkerSettings())
    np.testing.assert_array_equal(done.result.to_array(), rows[:40])
    failures[0] = 10**6
    with pytest.raises(StoreUnreachable, match="does not answer"):
        call(Block(bucket.url("x"), 0, 0, 40), "read", "0", io.load_rows, (), WorkerSettings())


def test_an_ingest_that_cannot_put_leaves_no_dataset(bucket: Bucket, monkeypatch) -> None:
    rows, labels = rows_and_labels()
    put = s3fs.S3FileSystem._put_file

    async def full(self, local: str, key: str, *arguments, **named):
        if key.endswith("/y/c/0"):
            raise PermissionError("no")
        await put(self, local, key, *arguments, **named)

    monkeypatch.setattr(s3fs.S3FileSystem, "_put_file", full)
    forget_clients()
    with pytest.raises(StoreRefused, match=r"d\.zarr/y/c/0"):
        ingest(rows, bucket.url("d.zarr"), labels=labels)
    monkeypatch.undo()
    forget_clients()
    assert "d.zarr/X/c/0/0" in bucket.names()
    assert "d.zarr/zarr.json" not in bucket.names()
    assert labelgrove("inspect", bucket.url("d.zarr")).code in (2, 4)
