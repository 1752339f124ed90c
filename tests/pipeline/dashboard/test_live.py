"""On a cluster of our own: what the dashboard's port serves of a real run, and the report that is kept of it."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from pipeline.connection.cluster import connected
from pipeline.connection.profile import Profile
from pipeline.errors import ClusterLost
from pipeline.store import RunFolder
from pipeline.watching import performance
from pipeline.watching.performance import performance_kept, reports
from pipeline.watching.telling import TOPIC, telling
from tests.pipeline.cli_caller import gaussian, succeeds, write_source
from tests.pipeline.dashboard.told import STEPS
from tests.pipeline.dashboard.watched import fetched, state_at, waited_for


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with connected(Profile("local:2", memory_per_worker="1 GiB", dashboard="127.0.0.1:0")) as found:
        yield found


@pytest.fixture(scope="module")
def dashboard(client: Any) -> str:
    return str(client.dashboard_link).removesuffix("/status")


def folder_of(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "r")


def test_what_a_run_tells_is_served(client: Any, dashboard: str) -> None:
    with telling(client, name="served", folder="/r", steps=STEPS, planned_bytes=1 << 29) as teller:
        teller.tell("step", step="train_ovr")
        teller.progress("sgd_ovr", 1, 4, 100, 400)
    state = state_at(dashboard)
    run = state["runs"][0]
    assert (run["run"], run["state"], run["planned_worker_bytes"]) == ("served", "finished", 1 << 29)
    assert next(step for step in run["steps"] if step["step"] == "train_ovr")["tasks"] == 1
    for path in ("/labelgrove/metrics", "/metrics"):
        text = fetched(dashboard + path).decode()
        assert re.search(r'^labelgrove_run_state\{run="served/\w+",state="finished"\} 1\.0$', text, re.MULTILINE), path
    assert b"dask_scheduler_workers" in fetched(f"{dashboard}/metrics")


def test_errors_and_interruptions_are_told(client: Any, dashboard: str) -> None:
    for error, state in ((ValueError("<b>"), "failed"), (KeyboardInterrupt(), "interrupted")):
        with pytest.raises(type(error)), telling(client, name=state, steps=STEPS):
            raise error
        assert state_at(dashboard)["runs"][0]["state"] == state


def test_dasks_own_log_keeps_few_messages(client: Any) -> None:
    for _ in range(200):
        client.log_event(TOPIC, {"run": "nobody", "events": [{"event": "round"}]})
    assert len(client.get_events(TOPIC)) <= 50


def test_workers_that_die_are_faults(client: Any, dashboard: str) -> None:
    before = state_at(dashboard)["cluster"]["faults"]
    victim = min(client.run(lambda: __import__("os").getpid()).values())
    psutil.Process(victim).kill()
    wanted = before["workers lost"] + 1
    waited_for("a lost worker", lambda: state_at(dashboard)["cluster"]["faults"]["workers lost"] == wanted)
    names = {str(worker["name"]) for worker in client.scheduler_info(n_workers=-1)["workers"].values()}
    (said,) = [said for _, said in state_at(dashboard)["cluster"]["incidents"] if "is gone" in said][-1:]
    assert said.split(" is gone")[0].removeprefix("worker ") in names | {"0", "1"}
    client.wait_for_workers(2, timeout=120)


def test_tasks_that_fail_are_faults(client: Any, dashboard: str) -> None:
    before = state_at(dashboard)["cluster"]["faults"]["tasks failed"]
    future = client.submit(int, "no number", key="fails-00001")
    assert isinstance(future.exception(timeout=60), ValueError)
    cluster = state_at(dashboard)["cluster"]
    assert cluster["faults"]["tasks failed"] == before + 1
    assert "fails-00001 failed" in cluster["incidents"][-1][1]


def test_the_page_has_a_tab_and_takes_nothing_from_elsewhere(dashboard: str) -> None:
    for name in ("status", "labelgrove"):
        page = fetched(f"{dashboard}/{name}").decode()
        assert '<a href="labelgrove">Labelgrove</a>' in page
    scripts = re.findall(r'(?:src|link [^>]*href)="(https?:[^"]*)"', page)
    assert scripts == []


def test_the_dashboard_of_a_local_cluster_is_for_this_machine_alone(dashboard: str) -> None:
    port = int(dashboard.rpartition(":")[2])
    found = {
        c.laddr.ip for c in psutil.Process().net_connections("inet") if c.status == "LISTEN" and c.laddr.port == port
    }
    assert found == {"127.0.0.1"}
    outside = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)} - {"127.0.0.1"}
    for address in outside:
        with pytest.raises(OSError), socket.create_connection((address, port), timeout=2):
            pass


def test_a_report_is_kept_of_the_last_attempts(client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(performance, "LEAST_SECONDS", 0.0)
    monkeypatch.setattr(performance, "KEPT", 1)
    folder = folder_of(tmp_path)
    stamps = iter(range(10))
    monkeypatch.setattr(performance, "stamp", lambda _: f"2026{next(stamps):04d}-000000Z")
    for number in range(2):
        with performance_kept(client, folder, "flo<wers"):
            client.gather(client.map(abs, range(20), key=[f"work{number}-{i}" for i in range(20)]))
    kept = reports(folder)
    assert [path.name for path in kept] == ["20260001-000000Z.html"]
    page = kept[-1].read_text(encoding="utf-8")
    (counted,) = re.findall(r"number of tasks: (\d+)", page)
    assert 10 <= int(counted) <= 20  # Dask drops a few that end out of the order of their workers' clocks
    assert "labelgrove run flo&amp;lt;wers" in page or "labelgrove run flo&lt;wers" in page
    assert re.findall(r'<(?:script|link)[^>]*(?:src|href)="?http', page) == []
    assert len(page) < 4 << 20


def test_no_report_where_it_would_be_in_the_way(client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = folder_of(tmp_path)
    with performance_kept(client, folder, "short"):
        pass
    monkeypatch.setattr(performance, "LEAST_SECONDS", 0.0)
    for error in (KeyboardInterrupt(), ClusterLost("gone")):
        with pytest.raises(type(error)), performance_kept(client, folder, "ended"):
            raise error
    monkeypatch.setattr(performance, "MOST_BYTES", 100)
    with performance_kept(client, folder, "large"):
        pass
    monkeypatch.setattr(performance, "write_text", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    monkeypatch.setattr(performance, "MOST_BYTES", 1 << 30)
    with performance_kept(client, folder, "unwritable"):
        pass
    assert reports(folder) == []


def test_clean_removes_all_reports_but_the_newest(tmp_path: Path) -> None:
    source, marks = write_source(tmp_path, *gaussian(120, 8, 3))
    succeeds("ingest", source, tmp_path / "d.zarr", "--labels", marks)
    (tmp_path / "c.toml").write_text('name = "t"\n[data]\npath = "d.zarr"\n[[train]]\nname = "ovr"\nkind = "ovr"\n')
    place = tmp_path / "runs" / "t" / performance.FOLDER
    place.mkdir(parents=True)
    for stamp in ("20260101-000000Z", "20260102-000000Z", "20260103-000000Z"):
        (place / f"{stamp}.html").write_text("x")
    (place / "mine.html").write_text("x")
    listed = succeeds("clean", tmp_path / "c.toml").out
    assert "20260102-000000Z.html" in listed
    assert "20260103-000000Z.html" not in listed
    succeeds("clean", tmp_path / "c.toml", "--yes")
    assert sorted(path.name for path in place.iterdir()) == ["20260103-000000Z.html", "mine.html"]
