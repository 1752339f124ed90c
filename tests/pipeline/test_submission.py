"""Of a run that was handed to a cluster: what its record says, its log, its driver's order, and `logs --follow`."""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys
import threading
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.commands.submitting import _say_handed
from pipeline.config import load_config
from pipeline.config_errors import ConfigError
from pipeline.connection.profile import Profile
from pipeline.connection.shared_places import PathNotShared
from pipeline.errors import ClusterLost, RunLocked
from pipeline.lock import locked
from pipeline.resources import DiskTooSmall
from pipeline.state import KILLED, LOST, NOT_BEGUN, STARTING, UNDER_WAY, WAITING, look, phase_of
from pipeline.stop_request import Stop, request_stop
from pipeline.store import RunFolder, write_json
from pipeline.submitted import driver
from pipeline.submitted.carried_errors import error_of, error_values
from pipeline.submitted.driver import listens
from pipeline.submitted.driver_task import connection_of, started, stop
from pipeline.submitted.submission import (
    ASKING,
    DRIVING,
    ENDED,
    KEPT_LOGS,
    SCHEDULER_GONE,
    SUBMITTED,
    WORKER_GONE,
    DriverLog,
    Order,
    Submission,
    forget_old_logs,
    log_of,
    new_token,
    order_line,
    order_of,
    read_submission,
    renew,
    write_submission,
)
from tasks.errors import LabelgroveError, ParamError
from tasks.places import at
from tests.pipeline.cli_caller import gaussian, labelgrove, succeeds
from tests.systems.harness import WAIT, environment, wait_until

NOW = time.time()
RECORD = Submission("t1", "me@here", "tls://s:8786", NOW, DRIVING, NOW, 1, "node", "w0")
OLD = NOW - 3600
BEGUN, GONE = {"event": "run", "submission": "t1"}, {"event": "interrupted", "why": WORKER_GONE, "submission": "t1"}


EARLIER = [
    {"event": "run", "time": OLD, "submission": "t0"},
    {"event": "interrupted", "time": OLD + 9, "why": SCHEDULER_GONE, "submission": "t0"},
]


def written(folder: Path, events: list[dict[str, Any]], record: Submission | None) -> RunFolder:
    """A run folder with these events and this record; what is of NOW is of this moment."""
    found, later = RunFolder(folder), time.time() - NOW
    lines = [json.dumps({"time": NOW + later, **event}) for event in events]
    if record is not None and record.heartbeat == NOW:
        record = replace(record, heartbeat=NOW + later, submitted=NOW + later)
    (folder / "events.jsonl").write_text("".join(f"{line}\n" for line in lines))
    if record is not None:
        write_submission(found, record)
    return found


@pytest.mark.parametrize(
    ("events", "record", "phase"),
    [
        ([], None, NOT_BEGUN),
        ([{"event": "run"}], None, KILLED),
        ([{"event": "run"}, {"event": "failed"}], None, "failed"),
        ([], replace(RECORD, state=SUBMITTED, attempt=0), SUBMITTED),
        (
            [{"event": "run", "time": OLD}, {"event": "finished", "time": OLD}],
            replace(RECORD, state=SUBMITTED),
            SUBMITTED,
        ),
        ([BEGUN], RECORD, WAITING),  # between the death of its worker and the next one
        ([BEGUN], replace(RECORD, heartbeat=OLD, submitted=OLD), LOST),
        ([BEGUN, GONE], RECORD, WAITING),
        ([BEGUN, GONE], replace(RECORD, heartbeat=OLD, submitted=OLD), LOST),
        ([BEGUN, {"event": "finished"}], RECORD, "finished"),  # its worker has not written the end yet
        ([BEGUN, {"event": "interrupted", "why": "cancelled by me"}], RECORD, "interrupted"),
        ([BEGUN, {"event": "failed"}], replace(RECORD, state=ENDED, code=5), "failed"),
        ([BEGUN, {"event": "run", "time": NOW + 9e9}, {"event": "finished"}], RECORD, "finished"),  # by hand, later
        ([BEGUN, GONE, BEGUN, {"event": "finished"}], RECORD, "finished"),
        ([{"event": "run", "time": "odd"}], RECORD, STARTING),
        # A new submission, whatever became of the attempts before it.
        (EARLIER, RECORD, STARTING),
        (EARLIER, replace(RECORD, heartbeat=OLD, submitted=OLD + 60), LOST),
        (EARLIER, replace(RECORD, state=ENDED, attempt=0, code=130), "interrupted"),  # taken back: nothing has changed
        (EARLIER, replace(RECORD, state=ENDED, code=5), NOT_BEGUN),  # its driver was refused
        (
            [{"event": "run"}, {"event": "finished", "time": NOW + 9e9}],
            replace(RECORD, state=ENDED, code=8),
            "finished",
        ),
        (EARLIER, replace(RECORD, state=ASKING, attempt=0, told="a process that is gone"), "interrupted"),
        ([], replace(RECORD, state=ASKING, attempt=0, told="a process that is gone"), NOT_BEGUN),
    ],
)
def test_where_a_run_is(tmp_path: Path, events: list[dict[str, Any]], record: Submission | None, phase: str) -> None:
    assert phase_of(written(tmp_path, events, record)) == phase


def test_of_the_attempt_before_a_submission_nothing_is_told(tmp_path: Path) -> None:
    folder = written(tmp_path, EARLIER, RECORD)
    found = json.loads(succeeds("status", tmp_path, "--json").out)
    assert (found["state"], found["why"], found["last_error"]) == (STARTING, None, None)
    said = succeeds("status", tmp_path).out
    assert said.startswith(
        f"{tmp_path}: starting\nsubmitted by me@here to tls://s:8786, driven beside worker w0 on node\n"
    )
    assert "scheduler has gone" not in said
    assert "another worker" not in said
    assert look(folder).last_end == ""
    with locked(tmp_path):
        found = json.loads(succeeds("status", tmp_path, "--json").out)
    assert (found["state"], found["current"], found["why"]) == ("running", None, None)


def test_a_run_that_was_begun_by_hand_and_has_written_nothing_yet_is_not_at_the_step_of_the_one_before(
    tmp_path: Path,
) -> None:
    written(tmp_path, [BEGUN, {"event": "step", "step": "s1"}, {"event": "failed", "message": "x"}], None)
    write_submission(RunFolder(tmp_path), replace(RECORD, state=ENDED, code=1))
    with locked(tmp_path):
        found = json.loads(succeeds("status", tmp_path, "--json").out)
    assert (found["state"], found["current"], found["last_error"]) == ("running", None, None)


@pytest.mark.parametrize("damage", ["", "{", "[]", "{}", '{"token": 3}', None])
def test_a_damaged_record_is_none(tmp_path: Path, damage: str | None) -> None:
    folder = written(tmp_path, [], None)
    write_submission(folder, RECORD)
    assert read_submission(folder) == RECORD
    record = tmp_path / "logs" / "submission.json"
    if damage is None:
        write_json(record, {**asdict(RECORD), "heartbeat": "late"})
    else:
        record.write_text(damage)
    assert read_submission(folder) is None


def test_only_the_last_submission_is_renewed(tmp_path: Path) -> None:
    folder = written(tmp_path, [], replace(RECORD, heartbeat=0.0))
    assert renew(folder, "another", state=ENDED) is None
    found = renew(folder, "t1", attempt=2)
    assert found == read_submission(folder)
    assert found is not None
    assert (found.attempt, found.state, found.heartbeat >= NOW) == (2, DRIVING, True)


def test_the_last_logs_are_kept(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    tokens = [f"2026{i:02d}" for i in range(KEPT_LOGS + 3)]
    for token in tokens:
        DriverLog(log_of(folder, token)).write("x\n")
    forget_old_logs(folder)
    assert sorted(path.name for path in (tmp_path / "logs").iterdir()) == [f"driver-{t}.log" for t in tokens[3:]]
    assert new_token() > tokens[-1]


@pytest.mark.parametrize("where", ["disk", "memory://driver-log"])
def test_a_log_goes_on_where_an_earlier_driver_ended(tmp_path: Path, where: str) -> None:
    path = at(f"{where}-{random.getrandbits(60)}/d.log") if "://" in where else tmp_path / "logs" / "d.log"
    for text in ("one\n", "two \N{SNOWMAN}\n"):
        log = DriverLog(path)
        log.write(text)
        log.close()
    assert path.read_bytes().decode() == "one\ntwo \N{SNOWMAN}\n"


# ---- orders, errors and the driver process -----------------------------------------------------------------------


def order(folder: Path, text: str, **changes: Any) -> Order:
    """An order for a config of this text, on the serial pool: no cluster is needed to see the driver obey it."""
    profile = asdict(replace(Profile(), scheduler="serial"))
    run = str(folder / "runs" / "small")
    found = Order(
        "t1", "me@here", run, str(folder / "c.toml"), text, ("train.ovr.rounds=2",), "", (), (), False, profile
    )
    return replace(found, **changes)


def test_an_order_travels_as_it_is() -> None:
    given = order(Path("/x"), "name = 1\n# \N{SNOWMAN}\n", only=("a", "b*"), force=True)
    assert order_of(order_line(given, True).encode()) == (given, True)
    assert order_of(order_line(given, False).encode()) == (given, False)


@pytest.mark.parametrize(
    "error",
    [
        ConfigError("what", "where", "hint"),
        ParamError("beam", 0, "1 or more", "a row must go somewhere"),
        DiskTooSmall("too small", "/disk", "make room"),
        RunLocked("held"),
        ClusterLost("gone"),
        PathNotShared("not there", "worker 3"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_of_a_driver_is_that_error_here(error: LabelgroveError) -> None:
    found = error_of(json.loads(json.dumps(error_values(error))))
    assert (type(found), str(found), found.exit_code) == (type(error), str(error), error.exit_code)


def test_no_other_name_is_looked_up() -> None:
    for module, kind in (
        ("os", "system"),
        ("pipeline.submitted.driver", "main"),
        ("tasks.nothing", "X"),
        ("tasks", "errors"),
    ):
        values = {"module": module, "kind": kind, "text": "said", "what": "", "where": "", "hint": ""}
        found = error_of(values)
        assert (type(found), found.what) == (LabelgroveError, "said")


class OnlyAddress:
    """As much of a Dask worker as `connection_of` looks at."""

    def __init__(self, address: str, **tls: str | None) -> None:
        names = ("tls_ca_file", "tls_client_cert", "tls_client_key", "tls_worker_cert", "tls_worker_key")
        self.scheduler = type("Rpc", (), {"address": address})
        self.security = type("Security", (), {name: tls.get(name) for name in names})


def test_the_driver_connects_as_its_worker_does() -> None:
    plain = connection_of(OnlyAddress("tcp://10.0.0.1:8786", tls_ca_file="unused"))
    assert plain == {"scheduler": "tcp://10.0.0.1:8786", "insecure": True, "tls_ca": "", "tls_cert": "", "tls_key": ""}
    own = {"tls_ca_file": "ca", "tls_worker_cert": "wc", "tls_worker_key": "wk"}
    worker = connection_of(OnlyAddress("tls://s:1", **own))
    assert (worker["tls_ca"], worker["tls_cert"], worker["tls_key"]) == ("ca", "wc", "wk")
    client = connection_of(OnlyAddress("tls://s:1", **own, tls_client_cert="cc", tls_client_key="ck"))
    assert (client["tls_cert"], client["tls_key"]) == ("cc", "ck")
    text = connection_of(OnlyAddress("tls://s:1", **own | {"tls_worker_key": "-----BEGIN\nKEY"}))
    assert (text["tls_ca"], text["tls_cert"], text["tls_key"]) == ("", "", "")  # inherited, not told


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a dataset `d.zarr` and a config `c.toml` that trains in a second."""
    folder = tmp_path_factory.mktemp("small")
    rows, labels = gaussian(200, 8, 4)
    import numpy as np

    np.save(folder / "rows.npy", rows)
    (folder / "labels.txt").write_text("".join(f"{label}\n" for label in labels))
    succeeds("ingest", folder / "rows.npy", folder / "d.zarr", "--labels", folder / "labels.txt")
    text = 'name = "small"\n[data]\npath = "d.zarr"\n[[train]]\nname = "ovr"\nkind = "ovr"\nrounds = 1\n'
    (folder / "c.toml").write_text(text)
    return folder


def obeyed(given: Order, again: bool = False) -> tuple[int, list[dict[str, Any]], str]:
    """Exit code, messages and what a driver process says for people."""
    with started(given, again) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        messages = [json.loads(line) for line in process.stdout]
        said = process.stderr.read()
        return process.wait(WAIT), messages, said


def test_a_driver_runs_what_was_submitted_whatever_became_of_the_file(small: Path, tmp_path: Path) -> None:
    text = (small / "c.toml").read_text().replace("d.zarr", str(small / "d.zarr"))
    (tmp_path / "c.toml").write_text("nonsense = 1")
    code, messages, said = obeyed(order(tmp_path, text))
    assert code == 0, said
    assert [sorted(message) for message in messages] == [["began"], ["ended", "told"]]
    assert " ovr " in said
    run = RunFolder(tmp_path / "runs" / "small")
    assert (run / "config.toml").read_text().startswith(text)
    assert [event.get("submission") for event in run.events() if event["event"] == "run"] == ["t1"]
    assert load_config(tmp_path / "c.toml", ("train.ovr.rounds=2",), text).run.train[0].rounds == 2


def test_a_driver_tells_why_it_refuses(tmp_path: Path) -> None:
    text = 'name = "small"\n[data]\npath = "nowhere.zarr"'
    code, messages, said = obeyed(order(tmp_path, text, overrides=()))
    assert (code, messages[0]["error"]["kind"], messages[1]["ended"]) == (2, "DatasetMissing", 2)
    assert "DatasetMissing: there is no dataset" in said
    assert not (tmp_path / "runs").exists()


def test_a_driver_whose_worker_is_gone_ends_and_leaves_no_lock(small: Path, tmp_path: Path) -> None:
    text = (
        (small / "c.toml").read_text().replace("d.zarr", str(small / "d.zarr")).replace("rounds = 1", "rounds = 9000")
    )
    with started(order(tmp_path, text, overrides=()), False) as process:
        run = RunFolder(tmp_path / "runs" / "small")
        wait_until(lambda: any(event["event"] == "step" for event in run.events()), "the run")
        stop(process)
        assert process.returncode == 130
    assert not (run / "lock.json").exists()
    assert [event.get("why") for event in run.events()][-1] == WORKER_GONE


@pytest.mark.slow
def test_a_driver_that_goes_on_waits_for_the_lock_of_the_one_before(small: Path, tmp_path: Path) -> None:
    text = (small / "c.toml").read_text().replace("d.zarr", str(small / "d.zarr"))
    run = tmp_path / "runs" / "small"
    run.mkdir(parents=True)
    lock = {"host": "another", "pid": 1, "created": 0.0, "heartbeat": time.time()}
    (run / "lock.json").write_text(json.dumps(lock))
    with started(order(tmp_path, text), True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert "waiting for the lock of the driver before: process 1 on another" in process.stderr.readline()
        (run / "lock.json").write_text(json.dumps(lock | {"heartbeat": 0.0}))
        assert "which is gone, was taken over" in process.stderr.readline()
        assert json.loads(process.stdout.readline()).keys() == {"began"}
        stop(process)
    assert process.returncode in (0, 130)  # it may have been quicker
    assert not (run / "lock.json").exists()


@pytest.mark.slow
def test_a_driver_that_begins_does_not_wait_for_another_run(small: Path, tmp_path: Path) -> None:
    text = (small / "c.toml").read_text().replace("d.zarr", str(small / "d.zarr"))
    with locked(tmp_path / "runs" / "small"):
        code, messages, _ = obeyed(order(tmp_path, text))
    assert (code, messages[0]["error"]["kind"]) == (8, "RunLocked")


# ---- logs and status ---------------------------------------------------------------------------------------------


def test_follow_shows_events_and_driver_until_the_run_ends(tmp_path: Path) -> None:
    folder = written(tmp_path, [BEGUN, {"event": "step", "step": "s1"}], RECORD)
    log = DriverLog(log_of(folder, "t1"))
    log.write("first\nhalf a li")
    command = [sys.executable, "-c", "from pipeline.cli import main; main()", "logs", str(tmp_path), "--follow"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    ) as process:
        assert process.stdout is not None
        lines: list[str] = []
        reader = threading.Thread(target=lambda: lines.extend(process.stdout), daemon=True)  # type: ignore[arg-type]
        reader.start()
        wait_until(lambda: "driver: first\n" in lines, "the first lines")
        log.write("ne\n\x1b[31mred\n")
        folder.event("finished")
        renew(folder, "t1", state=ENDED, code=0)
        assert process.wait(WAIT) == 0
        reader.join(WAIT)
        assert process.stderr is not None
        assert process.stderr.read() == f"{tmp_path}: finished\n"
    shown = [line.partition(" driver: ")[2] or line for line in lines]
    assert [line.split()[2] for line in lines if not line.startswith("driver: ")] == ["run", "step", "finished"]
    assert "driver: half a line\n" in lines
    assert not any("\x1b" in line for line in shown)


def test_follow_ends_at_once_where_nothing_runs(tmp_path: Path) -> None:
    written(
        tmp_path,
        [BEGUN, {"event": "failed", "message": "Diverged: it grew\n  what to do"}],
        replace(RECORD, state=ENDED),
    )
    said = labelgrove("logs", tmp_path, "--follow", "--last", 1)
    assert (said.code, said.err) == (1, f"{tmp_path}: failed (Diverged: it grew)\n")
    assert said.out.count("\n") == 1
    assert labelgrove("logs", tmp_path).code == 0


LOST_RECORD, ENDED_RECORD = replace(RECORD, heartbeat=OLD, submitted=OLD), replace(RECORD, state=ENDED)
LEFT = {"event": "interrupted", "why": SCHEDULER_GONE, "submission": "t1"}


@pytest.mark.parametrize(
    ("events", "record", "code", "told"),
    [
        ([BEGUN, {"event": "finished"}], ENDED_RECORD, 0, "finished"),
        ([BEGUN, {"event": "failed", "code": 5, "message": "DiskFull"}], ENDED_RECORD, 5, "failed (DiskFull)"),
        (
            [BEGUN, {"event": "interrupted", "why": "cancelled by me"}],
            ENDED_RECORD,
            130,
            "interrupted (cancelled by me)",
        ),
        ([BEGUN], ENDED_RECORD, 130, KILLED),
        ([BEGUN, GONE], LOST_RECORD, 6, LOST),
        ([BEGUN, LEFT], RECORD, 6, f"interrupted ({SCHEDULER_GONE})"),
        (
            [BEGUN, LEFT],
            replace(RECORD, state=ENDED, code=130, told=SCHEDULER_GONE),
            6,
            f"interrupted ({SCHEDULER_GONE})",
        ),
        ([BEGUN], replace(RECORD, state=ENDED, code=1, told="the driver was killed 3 times"), 1, KILLED),
        (EARLIER, replace(RECORD, state=ENDED, code=5), 5, NOT_BEGUN),
        ([BEGUN, {"event": "failed", "code": 3}], replace(RECORD, state=ENDED, code=3000), 3, "failed"),
    ],
)
def test_follow_has_the_exit_code_of_the_run(
    tmp_path: Path, events: list[dict[str, Any]], record: Submission | None, code: int, told: str
) -> None:
    written(tmp_path, events, record)
    said = labelgrove("logs", tmp_path, "--follow")
    assert (said.code, said.err.splitlines()[0]) == (code, f"{tmp_path}: {told}")
    status = succeeds("status", tmp_path).out
    if record is not None and record.state == ENDED:
        assert f"ended with exit code {code}" in status
        assert json.loads(succeeds("status", tmp_path, "--json").out)["submission"]["code"] == code
    for text in (said.err, status):
        assert ("submit it again" in text) == (code == 6)


def test_a_driver_tells_a_scheduler_that_has_gone_from_a_worker_that_has() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        assert not listens(address)
        server.listen()
        assert listens(address)
    assert listens("inproc://10.0.0.1/5")  # cannot be told


def test_a_driver_whose_scheduler_is_gone_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    stop_, ended = Stop("t1"), []
    monkeypatch.setattr(driver, "STOP_SECONDS", 0.0)
    monkeypatch.setattr(os, "read", lambda *_: b"")  # the worker has ended
    monkeypatch.setattr(os, "_exit", ended.append)
    driver._lifeline(stop_, "tcp://127.0.0.1:1")
    assert stop_.said() == {"why": SCHEDULER_GONE, "submission": "t1"}
    assert ended == [130]


def test_status_knows_a_run_that_was_submitted_and_has_not_begun(tmp_path: Path) -> None:
    written(tmp_path, [], replace(RECORD, state=SUBMITTED, attempt=0))
    said = succeeds("status", tmp_path)
    assert f"{tmp_path}: submitted\nsubmitted by me@here to tls://s:8786, no worker has taken it yet\n" in said.out
    found = json.loads(succeeds("status", tmp_path, "--json").out)
    assert (found["state"], found["submission"]["token"], found["done"]) == ("submitted", "t1", [])
    assert found["state"] in UNDER_WAY
    assert labelgrove("report", tmp_path).code == 2


def test_status_says_who_drives(tmp_path: Path) -> None:
    written(tmp_path, [BEGUN, GONE], replace(RECORD, attempt=2))
    said = succeeds("status", tmp_path).out
    assert f"{tmp_path}: waiting, its worker has gone\n" in said
    assert "driven beside worker w0 on node, the 2. time\n" in said
    lost = replace(RECORD, heartbeat=OLD, submitted=OLD)
    written(tmp_path, [BEGUN], lost)
    assert f"{tmp_path}: lost without a word\n" in succeeds("status", tmp_path).out


def test_a_cancel_names_the_driver_also_while_it_begins_or_ends(tmp_path: Path) -> None:
    folder = written(tmp_path, [BEGUN], RECORD)
    assert request_stop(folder) == "the driver beside worker w0 on node"
    written(tmp_path, [], replace(RECORD, state=SUBMITTED))
    assert request_stop(folder) == "the submission that waits for a worker"


def test_what_is_to_be_typed_is_quoted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _say_handed(RunFolder(tmp_path / "spa ce"), "running", "here")
    said = capsys.readouterr().err
    assert f"labelgrove logs '{tmp_path}/spa ce' --follow" in said
    assert f"labelgrove cancel '{tmp_path}/spa ce'" in said
    (tmp_path / "a b.toml").write_text('name = "nothing"')
    assert f"`labelgrove run '{tmp_path}/a b.toml'`" in labelgrove("status", tmp_path / "a b.toml").err


def test_a_submission_needs_a_cluster(small: Path) -> None:
    for scheduler in ("serial", "local", "local:2"):
        said = labelgrove("submit", small / "c.toml", "--scheduler", scheduler)
        assert (said.code, "there is no cluster to submit to" in said.err) == (2, True)
    assert not (small / "runs").exists()
    assert os.listdir(small).count("c.toml") == 1
