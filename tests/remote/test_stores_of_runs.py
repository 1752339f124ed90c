"""What a run folder in a store does otherwise than one on a disk: events, finished steps, protocols of one process."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest

from pipeline import event_log
from pipeline.event_log import forget_log, log_at
from pipeline.ingest import ingest
from pipeline.ingest.upload import staged_at
from pipeline.store import Done, RunFolder
from tasks.places import at, told_below, write_whole
from tests.pipeline.cli_caller import labelgrove, succeeds
from tests.remote.objects import Bucket, rows_and_labels, write_config


def kinds(data: bytes) -> list[str]:
    return [json.loads(line)["event"] for line in data.splitlines()]


def test_events_are_put_now_and_then_and_at_ends(bucket: Bucket, monkeypatch) -> None:
    monkeypatch.setattr(event_log, "EVERY_SECONDS", 1000.0)
    folder = RunFolder(at(bucket.url("run")))
    bucket.write("run/events.jsonl", b'{"event": "earlier"}\n{"event": "tor')
    folder.event("run")
    written = [event["event"] for event in folder.events()]
    for _ in range(20):
        folder.event("iteration")
    assert kinds(bucket.read("run/events.jsonl").replace(b'{"event": "tor\n', b"")) == ["earlier", "run"] == written
    size, _ = folder.events_mark()
    folder.event("done")
    data = bucket.read("run/events.jsonl")
    assert data.count(b"iteration") == 20
    assert len(data) > size > 500
    folder.event("iteration")
    forget_log(folder / "events.jsonl")
    assert bucket.read("run/events.jsonl").count(b"iteration") == 21


def test_events_that_wait_are_put_without_another(bucket: Bucket, monkeypatch) -> None:
    monkeypatch.setattr(event_log, "EVERY_SECONDS", 0.5)
    log = log_at(at(bucket.url("run/events.jsonl")))
    log.add(b'{"event": "run"}\n', "run")
    log.add(b'{"event": "iteration"}\n', "iteration")
    assert kinds(bucket.read("run/events.jsonl")) == ["run"]
    deadline = time.monotonic() + 30
    while len(kinds(bucket.read("run/events.jsonl"))) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    forget_log(log.path)


def done_of(files: dict[str, list[object]], told: dict[str, str]) -> Done:
    return Done("s", "f" * 32, 1, 0, "d", {}, {}, files, {}, {}, told)


def test_objects_of_a_known_version_are_not_read_again(bucket: Bucket, monkeypatch) -> None:
    folder = RunFolder(at(bucket.url("run")))
    place = folder.step_folder("s", "f" * 32)
    for name in ("a", "b/c"):
        write_whole(place / name, name.encode() * 10)
    done = done_of(folder.describe_files("s", "f" * 32), told_below(place))
    folder.finish(done)
    assert folder.done("s", "f" * 32) == done
    reads: list[str] = []
    read_bytes = type(place).read_bytes
    monkeypatch.setattr(type(place), "read_bytes", lambda self: reads.append(self.name) or read_bytes(self))
    assert (folder.damage(done), reads) == ([], [])
    assert (folder.damage(done, again=True), sorted(reads)) == ([], ["a", "c"])
    key = str(place / "b" / "c").split("/", 3)[3]
    bucket.write(key, b"B/c" * 10)
    assert [error.what for error in folder.damage(done)] == ["b/c has other content than was written"]
    bucket.write(key, b"b/c" * 10)
    assert folder.damage(done) == []
    bucket.remove(key)
    assert [error.what for error in folder.damage(done)] == ["b/c is missing"]


def test_a_step_of_a_disk_says_nothing_of_versions(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    (folder.step_folder("s", "f" * 32)).mkdir(parents=True)
    folder.finish(done_of({}, told_below(tmp_path)))
    assert "told" not in json.loads((folder.step_folder("s", "f" * 32) / "DONE.json").read_text())
    assert folder.done("s", "f" * 32) is not None


@pytest.mark.usefixtures("memory")
def test_memory_is_of_one_process(tmp_path: Path) -> None:
    rows, labels = rows_and_labels()
    ingest(rows, "memory://lg/d.zarr", labels=labels, block_rows=120)
    text = 'name = "small"\nseed = 7\n[data]\npath = "{data}"\n[[train]]\nname = "means"\nkind = "nearest-class-mean"\n'
    config = write_config(tmp_path / "c.toml", "memory://lg/d.zarr", text)
    said = labelgrove("run", config, "--scheduler", "local:2", "--runs", "memory://lg/runs")
    assert (said.code, "UrlRefused" in said.err) == (2, True), said
    succeeds("run", config, "--scheduler", "serial", "--runs", "memory://lg/runs")
    assert "every digest holds" in succeeds("verify", "memory://lg/runs/small").out


def test_an_interrupted_ingest_goes_on(bucket: Bucket, tmp_path: Path, monkeypatch) -> None:
    rows, labels = rows_and_labels()
    np.save(tmp_path / "x.npy", rows)
    np.save(tmp_path / "y.npy", labels)
    url = bucket.url("d.zarr")
    put = type(at(url)).put_file

    def interrupted(self, local: str) -> None:
        if self.name == "zarr.json":
            raise KeyboardInterrupt
        put(self, local)

    monkeypatch.setattr(type(at(url)), "put_file", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ingest(tmp_path / "x.npy", url, labels=tmp_path / "y.npy", block_rows=60)
    monkeypatch.undo()
    assert "d.zarr/zarr.json" not in bucket.names()
    said: list[str] = []
    made = ingest(tmp_path / "x.npy", url, labels=tmp_path / "y.npy", block_rows=60, say=said.append)
    assert said[0] == "continuing after 4 blocks"
    assert list(made.problems()) == []
    assert [name for name in bucket.names() if "partial" in name] == []
    assert not staged_at(url).exists()
