"""Files at URLs: fetched, read like local ones, and never shown with what lets somebody in."""

from __future__ import annotations

import json
import socket
import zipfile
from pathlib import Path

import fsspec
import numpy as np
import pytest

from pipeline.ingest import errors, ingest
from pipeline.ingest import remote as remote_module
from pipeline.ingest.remote import is_url, remote, shown
from pipeline.ingest.request import request_of
from tasks.urls import PackageMissing, StoreUnreachable, UrlRefused, refuse_unused_secret
from tests.pipeline.cli_caller import labelgrove, make_run
from tests.pipeline.ingest import formats
from tests.pipeline.ingest.samples import X, Y

NAMES = [f"n{label}" for label in Y]


def put(system, folder: Path, target: str) -> None:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            system.pipe_file(f"{target}/{path.relative_to(folder).as_posix()}", path.read_bytes())


@pytest.mark.parametrize(
    "name", ["npy", "parquet fixed", "hdf5 contiguous", "zarr v2", "zarr v3", "anndata zarr v3", "tar.gz"]
)
def test_rows_at_a_url(tmp_path, memory, name):
    (tmp_path / "made").mkdir()
    source, options = formats.DENSE[name](tmp_path / "made", X, Y)
    put(memory, tmp_path / "made", "/data")
    options = {k: v for k, v in options.items() if k != "labels_at"}
    made = ingest(f"memory://data/{Path(source).name}", tmp_path / "d.zarr", labels=Y, **options)
    assert made.digest == ingest(X, tmp_path / "e.zarr", labels=Y).digest
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d.zarr", "e.zarr", "made"]


def test_side_files_and_patterns_at_urls(tmp_path, memory, monkeypatch):
    monkeypatch.setattr("pipeline.ingest.remote.PIECE", 7)
    for i in range(12):
        memory.pipe_file(f"/shards/x-{i}.npy", formats.npy_bytes(X[i : i + 1]))
    memory.pipe_file("/y.tsv", ("id\tkind\n" + "".join(f"{i}\t{name}\n" for i, name in enumerate(NAMES))).encode())
    memory.pipe_file("/c.txt", b"n2\nn1\nn0\n")
    memory.pipe_file("/t.json", json.dumps({"root": {"a": ["n0", "n1"], "b": ["n2"]}}).encode())
    memory.pipe_file("/s.txt", b"train\n" * 9 + b"validation\n" * 2 + b"test\n")
    at_urls = {"labels": "memory://y.tsv:kind", "classes": "memory://c.txt", "taxonomy": "memory://t.json"}
    made = ingest("memory://shards/x-*.npy", tmp_path / "d.zarr", split="memory://s.txt", **at_urls)
    (tmp_path / "c.txt").write_text("n2\nn1\nn0\n")
    local = {"classes": tmp_path / "c.txt", "taxonomy": {"root": {"a": ["n0", "n1"], "b": ["n2"]}}}
    split = ["train"] * 9 + ["validation"] * 2 + ["test"]
    assert made.digest == ingest(X, tmp_path / "e.zarr", labels=NAMES, split=split, **local).digest
    whole = ingest("memory://shards/", tmp_path / "f.zarr", labels=NAMES)
    assert whole.digest == ingest(X, tmp_path / "g.zarr", labels=NAMES).digest


def test_files_of_this_machine_and_of_archives(tmp_path):
    np.save(tmp_path / "x.npy", X)
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.write(tmp_path / "x.npy", "inner/x.npy")
    expected = ingest(X, tmp_path / "d.zarr", labels=Y).digest
    for i, url in enumerate((f"file://{tmp_path}/x.npy", f"zip://inner/x.npy::{tmp_path}/x.zip")):
        assert ingest(url, tmp_path / f"e{i}.zarr", labels=Y).digest == expected


def test_predictions_for_rows_at_a_url(tmp_path, memory):
    rows = np.repeat(X, 5, axis=0)
    make_run(tmp_path, rows, np.repeat(Y, 5))
    memory.pipe_file("/x.npy", formats.npy_bytes(rows))
    model = tmp_path / "runs" / "t" / "models" / "ovr"
    said = labelgrove("predict", model, "memory://user:secret@x.npy?key=secret", "-o", tmp_path / "p.parquet")
    assert said.code == 3
    assert "secret" not in said.err
    said = labelgrove("predict", model, "memory://x.npy", "-o", tmp_path / "p.parquet")
    assert said.code == 0, said
    assert "60 rows" in said.err


# ---- refusals ----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("memory")
def test_what_is_not_there(assert_refused):
    for url in ("memory://nothing.npy", "memory://nothing/*.npy", "file:///nothing/x.npy"):
        assert_refused(errors.SourceMissing, "nothing", source=url)
    assert_refused(errors.SourceMissing, "memory://nothing.tsv", labels="memory://nothing.tsv:kind")
    assert_refused(errors.UnknownInput, "no protocol is called 'poem'", source="poem://x.npy")


@pytest.mark.parametrize(
    ("url", "package"),
    [("s3://bucket/x.npy", '"labelgrove[s3]"'), ("https://host/x.npy", "aiohttp"), ("gs://b/x.npy", "gcsfs")],
)
def test_packages_that_are_missing_are_named(assert_refused, monkeypatch, url, package):
    def missing(_name: str) -> None:
        raise ImportError(f"Install {package}", name=package)

    monkeypatch.setattr(fsspec, "get_filesystem_class", missing)
    error = assert_refused(PackageMissing, url.split(":")[0], source=url, exit_code=2)
    assert f"pip install {package}" in error.hint


def test_errors_name_the_url_and_not_the_copy(assert_refused, memory):
    memory.pipe_file("/x.npy", formats.npy_bytes(X)[:-4])
    error = assert_refused(errors.DamagedInput, "memory://x.npy", source="memory://x.npy")
    assert "partial" not in str(error)


def test_fewer_bytes_than_declared(assert_refused, memory, monkeypatch):
    memory.pipe_file("/x.npy", formats.npy_bytes(X))
    whole = type(memory).info
    monkeypatch.setattr(type(memory), "info", lambda self, path, **o: whole(self, path, **o) | {"size": 1000})
    assert_refused(errors.DamagedInput, "272 bytes came of 1,000", "memory://x.npy", source="memory://x.npy")


def test_names_that_lead_out_of_the_folder(assert_refused, tmp_path):
    """As an archive from a stranger may have them."""
    Path("in").mkdir()
    with zipfile.ZipFile("in/x.zip", "w") as archive:
        archive.writestr("x.zarr/.zgroup", "{}")
        archive.writestr("x.zarr/../../../evil.txt", "evil")
    assert_refused(errors.UnsafePath, "evil.txt", source="zip://x.zarr::in/x.zip")
    assert not list(tmp_path.rglob("evil.txt"))


SECRETS = [
    "https://host/x.npy?X-Amz-Signature=secret",
    "https://user:secret@host:8080/x.npy#secret",
    "zip://x.npy::https://user:secret@host/x.zip?token=secret",
    "simplecache::https://secret@host/x.npy",
]


@pytest.mark.parametrize(
    "url",
    [
        "s3://key:secret@bucket/x.npy",
        "simplecache::s3://secret@bucket/x.npy",
        "zip://x.npy::gs://u:secret/@b/x.zip",
    ],
)
def test_a_password_that_a_store_would_not_use_is_refused(assert_refused, url):
    error = assert_refused(UrlRefused, "takes no user and no password", source=url, exit_code=2)
    assert "secret" not in str(error)


@pytest.mark.parametrize("url", ["s3://bucket/a@b:c.npy", "s3://arn:aws:s3:eu:1:accesspoint/p/x.npy", "ftp://u:p@h/x"])
def test_a_key_may_hold_what_a_password_is_made_of(url):
    assert refuse_unused_secret(url) is None


def test_a_server_that_does_not_answer_is_not_a_missing_file(assert_refused):
    with socket.socket() as taken:  # bound, but nobody listens
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/x.npy"
        error = assert_refused(StoreUnreachable, "the server does not answer", source=url, exit_code=6)
    assert "http://127.0.0.1" in error.where


@pytest.mark.parametrize("url", SECRETS)
def test_what_lets_somebody_in_is_never_shown(assert_refused, monkeypatch, url):
    assert "secret" not in shown(url)
    assert "x.npy" in shown(url)

    def fail(given: str, **_: object) -> None:
        raise OSError(f"403 forbidden: {given}")

    monkeypatch.setattr("fsspec.core.url_to_fs", fail)
    monkeypatch.setattr(fsspec, "get_filesystem_class", lambda _name: None)
    error = assert_refused(errors.SourceMissing, "OSError", source=url)
    assert "secret" not in str(error)
    assert error.__cause__ is None
    assert error.__suppress_context__


def test_made_from_holds_names_alone(tmp_path, memory):
    memory.pipe_file("/x.npy", formats.npy_bytes(X))
    said: list[str] = []
    made = ingest("memory://x.npy", tmp_path / "d.zarr", labels=Y, say=said.append)
    assert said == ["fetching memory://x.npy: 1 files, 272 bytes"]
    assert json.loads((Path(made.path) / "zarr.json").read_text())["attributes"]["made_from"]["sources"] == ["x.npy"]


@pytest.mark.parametrize("text", ["x.npy", "/a/b:c", "a:b", "0.8,0.1,0.1", "C:\\x", 3, None])
def test_what_is_no_url_stays(tmp_path, text):
    assert not is_url(text)
    with remote(tmp_path) as fetch:
        assert fetch.local(text) is text
        assert fetch.local([text]) == [text]


# ---- going on ------------------------------------------------------------------------------------------------------


def test_a_request_tells_files_at_urls_by_their_versions(memory, monkeypatch):
    memory.pipe_file("/data/a.npy", b"one")
    asked = {"source": "memory://data/a.npy", "labels": ["x"]}
    first = request_of(asked)
    assert first == request_of(asked) is not None
    memory.pipe_file("/data/a.npy", b"two")
    assert request_of(asked) != first
    assert request_of(asked | {"source": ["memory://data/a.npy"]}) not in (None, first)
    secret = asked | {"source": "memory://user:word@data/a.npy"}
    assert request_of(asked | {"labels": "memory://data/a.npy:column"}) is not None
    info = type(memory).info
    monkeypatch.setattr(type(memory), "info", lambda *given: info(*given) | {"created": None})
    assert request_of(asked) is None
    with pytest.raises(errors.SourceMissing) as caught:
        request_of(secret)
    assert "word" not in str(caught.value)


@pytest.mark.parametrize("calls", [1, 2, 3])
def test_what_was_fetched_before_an_interruption_is_not_fetched_again(tmp_path, memory, monkeypatch, calls):
    for i, part in enumerate(np.array_split(X, 4)):
        np.save(tmp_path / "part.npy", part)
        memory.pipe_file(f"/shards/{i}.npy", (tmp_path / "part.npy").read_bytes())
    fetched, fetch = [], remote_module._fetch_file

    def interrupted(system, info, path, said):
        if len(fetched) == calls:
            raise KeyboardInterrupt
        fetch(system, info, path, said)
        fetched.append(path.name)

    monkeypatch.setattr(remote_module, "_fetch_file", interrupted)
    asked = ("memory://shards/*.npy", tmp_path / "d.zarr")
    with pytest.raises(KeyboardInterrupt):
        ingest(*asked, labels=Y)
    calls = -1  # no more
    made = ingest(*asked, labels=Y)
    assert sorted(fetched) == ["0.npy", "1.npy", "2.npy", "3.npy"]
    assert made.digest == ingest(X, tmp_path / "e.zarr", labels=Y).digest
    assert not list(tmp_path.glob("d.zarr.partial*"))
