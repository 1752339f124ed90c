"""The lock of a run folder in an object store: one holder, taken over when it is left behind, lost when taken."""

from __future__ import annotations

import json
import threading
import time

import pytest

from pipeline import lock, remote_lock
from pipeline.errors import RunLocked
from pipeline.lock import holder, locked, refuse_lost
from pipeline.stop_request import Stop
from tasks.places import at
from tests.remote.objects import Bucket

OTHER = {"host": "another-host", "pid": 5, "created": 1.0, "token": "t"}


@pytest.fixture(autouse=True)
def _quick(monkeypatch) -> None:
    monkeypatch.setattr(remote_lock, "SETTLE_SECONDS", 0.3)
    monkeypatch.setattr(lock, "HEARTBEAT_SECONDS", 0.1)


def left(bucket: Bucket, age: float, **changes: object) -> None:
    """A lock whose holder has given a sign of life so many seconds ago."""
    bucket.write("run/lock.json", json.dumps({**OTHER, "heartbeat": time.time() - age, **changes}).encode())


def test_one_process_holds_it_and_leaves_nothing(bucket: Bucket) -> None:
    folder = at(bucket.url("run"))
    with locked(folder) as message:
        assert message == ""
        assert "running in this folder" in holder(folder)
        with pytest.raises(RunLocked, match="is running in this folder"), locked(folder):
            pass
        first = json.loads(bucket.read("run/lock.json"))
        time.sleep(0.5)
        later = json.loads(bucket.read("run/lock.json"))
        assert later["heartbeat"] > first["heartbeat"]
        assert later["token"] == first["token"]
    assert holder(folder) == ""
    assert bucket.names() == []


def test_a_live_holder_elsewhere_is_respected(bucket: Bucket) -> None:
    left(bucket, age=5)
    with pytest.raises(RunLocked, match="another-host"), locked(at(bucket.url("run"))):
        pass
    assert json.loads(bucket.read("run/lock.json"))["token"] == "t"


@pytest.mark.parametrize("text", [None, b"{", b"[]", b"{}"])
def test_a_lock_left_behind_is_taken_over(bucket: Bucket, text: bytes | None) -> None:
    left(bucket, age=3600)
    if text is not None:
        bucket.write("run/lock.json", text)
    with locked(at(bucket.url("run"))) as message:
        assert "taken over" in message
        assert json.loads(bucket.read("run/lock.json"))["host"] != "another-host"
    assert bucket.names() == []


def test_a_lock_far_ahead_is_taken_over_when_nobody_renews_it(bucket: Bucket, monkeypatch) -> None:
    monkeypatch.setattr(lock, "STALE_SECONDS", 0.3)
    monkeypatch.setattr(lock, "LOOK_SECONDS", 0.1)
    left(bucket, age=-863_988)
    with locked(at(bucket.url("run"))) as message:
        assert "another-host, which is gone, was taken over" in message
    assert bucket.names() == []


def test_of_several_takers_one_gets_an_old_lock(bucket: Bucket) -> None:
    left(bucket, age=3600)
    folder, ends = at(bucket.url("run")), []
    ready, held = threading.Barrier(4), threading.Event()

    def take() -> None:
        ready.wait()
        try:
            with locked(folder):
                ends.append("held")
                held.wait(20)
        except RunLocked:
            ends.append("refused")
        if ends.count("refused") == 3:
            held.set()

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(ends) == ["held", "refused", "refused", "refused"]


def _sleep_while_another_takes_it(bucket: Bucket) -> None:
    left(bucket, age=0)
    time.sleep(10)
    raise AssertionError("nothing has interrupted it")


def test_a_step_is_not_written_when_the_lock_is_anothers(bucket: Bucket, monkeypatch) -> None:
    monkeypatch.setattr(lock, "HEARTBEAT_SECONDS", 1000.0)
    folder = at(bucket.url("run"))
    with locked(folder):
        refuse_lost(folder)
        left(bucket, age=0)
        with pytest.raises(RunLocked, match="taken over"):
            refuse_lost(folder)


def test_who_finds_anothers_token_stops(bucket: Bucket) -> None:
    folder, stop = at(bucket.url("run")), Stop()
    with pytest.raises(RunLocked, match="taken over"), locked(folder, stop.ask), stop.heard():
        _sleep_while_another_takes_it(bucket)
    assert json.loads(bucket.read("run/lock.json"))["token"] == "t"  # and leaves it alone


def test_a_store_that_cannot_put_exclusively(bucket: Bucket, monkeypatch) -> None:
    folder = at(bucket.url("run"))

    def cannot(*_: object) -> None:
        raise TypeError("unexpected keyword argument 'mode'")

    monkeypatch.setattr(type(folder), "write_new", cannot)
    with locked(folder), pytest.raises(RunLocked), locked(folder):
        pass
    assert bucket.names() == []
