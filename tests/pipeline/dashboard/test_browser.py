"""The page in a real browser, while a run goes on: what stands there is what happens.

Needs Chromium, as Debian packages it; nothing is downloaded. A picture of the page is left in the test's folder.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pipeline.connection.cluster import connected
from pipeline.connection.profile import Profile
from pipeline.watching.telling import telling
from tests.pipeline.dashboard.told import STEPS as STEPS_TOLD
from tests.pipeline.dashboard.watched import STEPS, make_config, running, state_at, waited_for

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on PATH")


@dataclass
class Browser:
    """A page, and all that it complains of or asks others for."""

    page: Any
    wrong: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)

    def hear(self) -> None:
        self.page.on("console", lambda said: self.wrong.append(said.text) if said.type == "error" else None)
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("request", lambda asked: None if is_local(asked.url) else self.outside.append(asked.url))

    def text(self, name: str) -> str:
        """What a part of the page shows."""
        return str(self.page.evaluate(TEXT_OF, name))

    def drawn(self, name: str) -> list[float]:
        """The heights of all points of a figure."""
        return [float(y) for y in self.page.evaluate(POINTS_OF, name)]


TEXT_OF = "name => Bokeh.documents[0].get_model_by_name(name).text.replace(/<[^>]*>/g, ' ')"
POINTS_OF = """name => Bokeh.documents[0].get_model_by_name(name).renderers
    .filter(one => one.glyph && one.glyph.type == "Line")
    .flatMap(one => Array.from(one.data_source.data.y)).filter(y => Number.isFinite(y))"""


def is_local(url: str) -> bool:
    return re.match(r"(https?|ws)://127\.0\.0\.1:\d+/|data:|blob:", url) is not None


@pytest.fixture
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        found = Browser(chromium.new_page(viewport={"width": 1280, "height": 800}))
        found.hear()
        yield found
        chromium.close()


def watch_a_run(browser: Browser, dashboard: str, scheduler: str, folder: Path) -> dict[str, Any]:
    """From Dask's status page to ours by the tab, before a run, during it, until it is over; the state then."""
    page, config = browser.page, make_config(folder)
    page.set_default_timeout(120_000)
    page.goto(f"{dashboard}/status")
    page.get_by_role("link", name="Labelgrove").click()
    page.wait_for_url("**/labelgrove")
    page.get_by_text("No run has told of itself yet").wait_for()
    with running(config, "--scheduler", scheduler) as process:

        def seen(what: str, look: Callable[[], bool]) -> None:
            log = config.with_suffix(".log")

            def looked() -> bool:
                assert process.poll() in (None, 0), log.read_text()
                page.wait_for_timeout(50)  # messages of the page are taken meanwhile
                return look()

            waited_for(what, looked)

        table = page.get_by_role("table", name="steps")
        seen("the table of steps", lambda: table.is_visible())
        for step in STEPS[:3]:
            seen(step, lambda step=step: step in browser.text("steps"))  # type: ignore[misc]
        seen("a step in hand", lambda: "running" in browser.text("steps"))
        shares = set[str]()
        seen("progress", lambda: bool(shares.update(re.findall(r"(\d+) %", browser.text("steps")))) or len(shares) > 2)
        seen("rounds", lambda: len(browser.drawn("loss")) >= 2)
        seen("nodes", lambda: re.search(r"Tree tree: [1-9]\d* nodes", browser.text("trees")) is not None)
        seen("iterations", lambda: len(browser.drawn("objective")) >= 2)
        page.screenshot(path=folder / "during.png")
        seen("the end", lambda: "finished" in browser.text("head"))
        process.wait(60)
    page.screenshot(path=folder / "page.png")
    print("pictures:", folder / "during.png", folder / "page.png")
    run: dict[str, Any] = state_at(dashboard)["runs"][0]
    return run


def assert_shown(browser: Browser, run: dict[str, Any]) -> None:
    """The page shows what the run's state says at its end, nothing went wrong in it, and it asked nobody else."""
    objectives = [
        row[run["iterations"]["trace"]["columns"].index("objective")] for row in run["iterations"]["trace"]["rows"]
    ]
    drawn = browser.drawn("objective")
    assert drawn == pytest.approx(objectives)
    assert min(browser.drawn("gap")) > 0
    assert {step["state"] for step in run["steps"]} == {"done"}
    assert browser.wrong == []
    assert browser.outside == []


def test_what_is_told_stands_on_the_page(browser: Browser, tmp_path: Path) -> None:
    with connected(Profile("local:1", memory_per_worker="1 GiB", dashboard="127.0.0.1:0")) as client:
        browser.page.goto(str(client.dashboard_link).replace("/status", "/labelgrove"))
        browser.page.get_by_text("No run has told of itself yet").wait_for()
        with telling(client, name="told", folder="/<b>", steps=STEPS_TOLD, planned_bytes=1 << 29) as teller:
            teller.tell("step", step="train_ovr")
            teller.progress("sgd_ovr", 3, 4, 100, 400)
            for number, loss in enumerate((2.5, 1.25)):
                teller.tell("round", model="ovr", rounds=4, round=number, loss=loss)
            waited_for("the rounds", lambda: browser.page.wait_for_timeout(50) or len(browser.drawn("loss")) == 2)
            assert browser.drawn("loss") == [2.5, 1.25]
            assert "round 3 of 4" in browser.text("steps")
            assert browser.page.get_by_role("table", name="steps").is_visible()
        waited_for("the end", lambda: browser.page.wait_for_timeout(50) or "finished" in browser.text("head"))
        browser.page.set_viewport_size({"width": 480, "height": 900})
        browser.page.screenshot(path=tmp_path / "narrow.png")
        assert browser.page.evaluate("document.documentElement.scrollWidth") <= 480
    assert browser.wrong == []
    assert browser.outside == []


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_run_is_watched_in_a_browser(browser: Browser, tmp_path: Path) -> None:
    with connected(Profile("local:2", memory_per_worker="1 GiB", dashboard="127.0.0.1:0")) as client:
        dashboard = str(client.dashboard_link).removesuffix("/status")
        run = watch_a_run(browser, dashboard, client.scheduler.address, tmp_path)
        assert run["state"] == "finished"
        assert_shown(browser, run)


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[tuple[str, str]]:
    """(address, dashboard) of a scheduler with the preload, and two workers, each a process as on any cluster."""
    file, log = folder / "scheduler.json", open(folder / "cluster.log", "w")  # noqa: SIM115
    dask = [sys.executable, "-m", "dask"]
    begin = [*dask, "scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(file)]
    started = [
        subprocess.Popen(
            [*begin, "--dashboard-address", "127.0.0.1:0", "--preload", "pipeline.dashboard"], stdout=log, stderr=log
        )
    ]
    try:
        waited_for("a scheduler", lambda: file.exists() and file.read_text().endswith("}"))
        about = json.loads(file.read_text())
        for name in ("w0", "w1"):
            worker = [*dask, "worker", "--scheduler-file", str(file), "--name", name, "--nthreads", "1"]
            worker += ["--no-dashboard", "--host", "127.0.0.1", "--memory-limit", "1GiB"]
            started.append(subprocess.Popen(worker, stdout=log, stderr=log))
        yield about["address"], f"http://127.0.0.1:{about['services']['dashboard']}"
    finally:
        for process in started[::-1]:
            process.terminate()
            process.wait(60)
        log.close()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_run_is_watched_on_a_cluster_of_processes(browser: Browser, tmp_path: Path) -> None:
    with cluster(tmp_path) as (address, dashboard):
        run = watch_a_run(browser, dashboard, address, tmp_path)
        assert run["state"] == "finished"
        assert_shown(browser, run)
    log = (tmp_path / "cluster.log").read_text()
    assert "Run preload setup: pipeline.dashboard" in log
    assert "Uncaught exception" not in log
    assert "pipeline/dashboard" not in log  # no traceback of ours
    assert "labelgrove: no" not in log  # nothing of ours was left out
