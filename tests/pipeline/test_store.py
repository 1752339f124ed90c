"""The run folder: done only when every byte says so; the lock; the profile."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from pipeline import lock
from pipeline.connection.profile import Profile, ProfileError, load_profile, parse_bytes
from pipeline.errors import RunLocked
from pipeline.lock import holder, locked, refuse_held
from pipeline.store import DONE, Done, RunFolder, RunFormat, read_json, read_sealed, write_json, write_sealed
from pipeline.submitted.handing_over import _locked


@pytest.fixture
def finished(tmp_path: Path) -> tuple[RunFolder, Done]:
    folder = RunFolder(tmp_path / "runs" / "a")
    place = folder.step_folder("encode_pq", "f" * 32)
    (place / "progress").mkdir(parents=True)
    (place / "progress" / "round.npz").write_bytes(b"unfinished")
    (place / "inner").mkdir()
    (place / "inner" / "codes").write_bytes(b"codes")
    (place / "report").write_bytes(b"words")
    done = Done(
        step="encode_pq",
        fingerprint="f" * 32,
        code=1,
        seed=0,
        digest="d",
        inputs={},
        settings={"bits": 8},
        files=folder.describe_files("encode_pq", "f" * 32),
        results={},
        measured={"seconds": 1.0},
    )
    folder.finish(done)
    return folder, done


def test_a_finished_step_reads_back(finished: tuple[RunFolder, Done]) -> None:
    folder, done = finished
    assert folder.done("encode_pq", "f" * 32) == done
    assert sorted(done.files) == ["inner/codes", "report"]
    assert done.nbytes == 10
    assert not (folder.step_folder("encode_pq", "f" * 32) / "progress").exists()
    assert folder.damage(done) == []
    assert folder.done("encode_pq", "e" * 32) is None


@pytest.mark.parametrize("how", ["delete", "truncate", "empty", "flip", "sibling"])
@pytest.mark.parametrize("name", ["inner/codes", "report"])
def test_every_damage_is_found(finished: tuple[RunFolder, Done], how: str, name: str) -> None:
    folder, done = finished
    path = folder.step_folder("encode_pq", "f" * 32) / name
    data = path.read_bytes()
    if how == "delete":
        path.unlink()
    elif how == "sibling":
        path.write_bytes(b"words" if data == b"codes" else b"codes")
    else:
        path.write_bytes({"truncate": data[:-1], "empty": b"", "flip": bytes([data[0] ^ 1]) + data[1:]}[how])
    (problem,) = folder.damage(done)
    assert name in problem.what
    assert problem.exit_code == 4


@pytest.mark.parametrize("text", ["", "{", "[]", '{"step": "other"}', "\x00"])
def test_an_unreadable_mark_is_no_finished_step(finished: tuple[RunFolder, Done], text: str) -> None:
    folder, _ = finished
    (folder.step_folder("encode_pq", "f" * 32) / DONE).write_text(text)
    assert folder.done("encode_pq", "f" * 32) is None


def test_stale_steps_and_leftovers_go(finished: tuple[RunFolder, Done]) -> None:
    folder, _ = finished
    assert folder.stale_steps([("encode_pq", "f" * 32)]) == []
    assert len(folder.stale_steps([])) == 1
    (folder / ".metrics.json.partial-1").write_text("half")
    (folder / "scratch").mkdir()
    folder.sweep()
    assert not (folder / "scratch").exists()
    assert not (folder / ".metrics.json.partial-1").exists()


def test_a_torn_last_event_is_passed_over(finished: tuple[RunFolder, Done]) -> None:
    folder, _ = finished
    folder.event("step", step="a", name="[/x] \ud800")
    with open(folder / "events.jsonl", "a") as file:
        file.write('{"time": 1, "eve')
    assert [event["event"] for event in folder.events()] == ["step"]


def test_json_is_whole_or_named_damaged(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"name": "é \udc80", "n": 1})
    assert (tmp_path / "a.json").read_bytes()
    (tmp_path / "b.json").write_text("{")
    with pytest.raises(RunFormat, match="not readable"):
        read_json(tmp_path / "b.json")


def test_two_runs_in_one_folder_the_second_is_refused(tmp_path: Path) -> None:
    with locked(tmp_path):
        assert "process" in holder(tmp_path)
        with pytest.raises(RunLocked) as caught, locked(tmp_path):
            pass
        assert caught.value.exit_code == 8
        with pytest.raises(RunLocked) as refused:
            refuse_held(tmp_path)
        for error in (caught.value, refused.value, _locked(RunFolder(tmp_path))):
            assert f"`labelgrove cancel {tmp_path}` stops it" in error.hint
    assert holder(tmp_path) == ""
    with locked(tmp_path) as message:
        assert message == ""


def test_the_lock_of_a_killed_process_is_taken_over(tmp_path: Path) -> None:
    script = "import sys, os, signal; from pathlib import Path; from pipeline.lock import locked\n"
    script += "with locked(Path(sys.argv[1])): os.kill(os.getpid(), signal.SIGKILL)"
    ended = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    assert ended.returncode == -9
    assert json.loads((tmp_path / "lock.json").read_text())["pid"] != os.getpid()
    with locked(tmp_path) as message:
        assert "taken over" in message
    assert list(tmp_path.iterdir()) == []


def test_an_unreadable_lock_is_taken_over(tmp_path: Path) -> None:
    (tmp_path / "lock.json").write_text("{")
    with locked(tmp_path) as message:
        assert "unreadable" in message


def test_a_fresh_lock_of_another_host_counts_as_alive(tmp_path: Path) -> None:
    held = {"host": "elsewhere", "pid": 1, "created": 0.0, "heartbeat": time.time()}
    (tmp_path / "lock.json").write_text(json.dumps(held))
    with pytest.raises(RunLocked), locked(tmp_path):
        pass
    (tmp_path / "lock.json").write_text(json.dumps(held | {"heartbeat": time.time() - 3600}))
    with locked(tmp_path) as message:
        assert "elsewhere" in message


def test_a_lock_far_ahead_is_judged_by_whether_it_is_renewed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "lock.json"
    held = {"host": "elsewhere", "pid": 1, "created": 0.0, "heartbeat": time.time() + 863_988}
    monkeypatch.setattr(lock, "STALE_SECONDS", 0.5)
    monkeypatch.setattr(lock, "LOOK_SECONDS", 0.05)
    path.write_text(json.dumps(held))
    assert "process 1 on elsewhere" in holder(tmp_path)
    os.utime(path, (0, 0))
    assert holder(tmp_path) == ""

    def renew() -> None:
        time.sleep(0.2)
        path.write_text(json.dumps(held | {"heartbeat": held["heartbeat"] + 5}))

    renewing = threading.Thread(target=renew)
    renewing.start()
    with pytest.raises(RunLocked, match="ahead of the one here"), locked(tmp_path):
        pass
    renewing.join()
    with locked(tmp_path) as message:
        assert "elsewhere, which is gone, was taken over" in message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "size"), [("1.5 GiB", 1610612736), ("800MB", 800_000_000), ("64", 64), ("2 kib", 2048)]
)
def test_sizes(text: str, size: int) -> None:
    assert parse_bytes(text, "memory") == size


def test_profiles_come_from_a_file_and_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "cluster.toml"
    path.write_text('scheduler = "local:3"\nmemory_per_worker = "2 GiB"\n')
    profile = load_profile(str(path), threads=2, scheduler=None)
    assert (profile.local_workers, profile.threads, profile.memory_bytes()) == (3, 2, 2 << 30)
    assert load_profile(None, scheduler="serial").is_serial
    assert load_profile(None, scheduler="tcp://127.0.0.1:8786").local_workers == 0


@pytest.mark.parametrize(
    "text",
    ["workers = 3", 'threads = "2"', 'scheduler = "lokal:2"', "threads = 0", 'memory_per_worker = "much"', "x ="],
)
def test_profiles_refuse_what_they_do_not_know(tmp_path: Path, text: str) -> None:
    path = tmp_path / "cluster.toml"
    path.write_text(text)
    with pytest.raises(ProfileError):
        load_profile(str(path))


def test_a_profile_never_decides_what_is_computed() -> None:
    from pipeline.config import RunConfig

    assert not set(Profile.__dataclass_fields__) & set(RunConfig.model_fields)


def test_a_sealed_file_is_not_believed_without_its_last_character(tmp_path: Path) -> None:
    path = tmp_path / "DONE.json"
    write_sealed(path, {"step": "train_tree"})
    assert read_sealed(path) == {"step": "train_tree"}
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(RunFormat, match="not what was written"):
        read_sealed(path)
