"""The page in a real browser: it asks nobody for anything, fits a phone, and follows light, dark and print.

Needs Chromium, as Debian packages it; nothing is downloaded. Pictures are left in the test's folder, and in that which
LABELGROVE_SCREENSHOTS names.
"""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pipeline.report.class_facts import ClassFacts
from pipeline.report.page import write_report
from pipeline.report.summary import RunSummary, StepTiming
from tests.pipeline.test_report import EVIL, summary

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on PATH")
PHONE, DESK = 360, 1280  # pixels
A4 = 718  # pixels between the margins of a printed page
LONG = "a-name-without-any-place-to-break-" * 5


def told() -> RunSummary:
    """A run with names and texts of every kind, also such as have nowhere to break."""
    run = summary()
    n = len(EVIL)
    hits = {"ovr": np.arange(n), "tree": np.zeros(n, int)}
    facts = ClassFacts(np.arange(n), np.full(n, n), [LONG] * n, hits, dict.fromkeys(hits, np.full(n, n)), {})
    return replace(
        run,
        models={**run.models, LONG: {**run.models["ovr"], "top1": 0.89}},
        class_facts=facts,
        warnings=[LONG],
        digests={LONG: "0" * 32},
        commands=[f"labelgrove ingest {LONG}"],
        timings=[StepTiming(LONG, "ran", 3.25, 12, 2.0**30, 2)],
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_report(path, told())
    return path


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


class Opened:
    """A page, what it complains of and all that it asks for."""

    def __init__(self, browser: Any, path: Path, width: int, scheme: str) -> None:
        self.page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
        self.wrong: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda said: self.wrong.append(said.text))
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri())

    def keep(self, picture: Path) -> None:
        self.page.screenshot(path=picture, full_page=True)
        keep_also(picture)


def keep_also(picture: Path) -> None:
    """A copy where the user wants to look at pictures."""
    if folder := os.environ.get("LABELGROVE_SCREENSHOTS"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        shutil.copy(picture, Path(folder, f"report-{picture.name}"))


PAPER = "getComputedStyle(document.body).backgroundColor"
INK_OF_FIGURE = "getComputedStyle(document.querySelector('figure svg text')).fill"


@pytest.mark.parametrize(("width", "scheme"), [(DESK, "light"), (DESK, "dark"), (PHONE, "light"), (PHONE, "dark")])
def test_it_asks_nobody_and_fits(chromium: Any, place: Path, tmp_path: Path, width: int, scheme: str) -> None:
    opened = Opened(chromium, place, width, scheme)
    opened.page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
    opened.keep(tmp_path / f"{width}-{scheme}.png")
    assert opened.wrong == []
    assert opened.asked == [place.as_uri()]
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    dark = scheme == "dark"
    assert brightness(opened.page.evaluate(PAPER)) < 0.2 if dark else brightness(opened.page.evaluate(PAPER)) > 0.9
    ink = brightness(opened.page.evaluate(INK_OF_FIGURE))
    assert ink > 0.8 if dark else ink < 0.2
    opened.page.close()


def brightness(colour: str) -> float:
    """Of rgb(r, g, b): 0 black, 1 white."""
    parts = colour[colour.index("(") + 1 : colour.index(")")].split(",")[:3]
    return sum(float(part) for part in parts) / (3 * 255)


def test_the_first_screen_says_what_to_take(chromium: Any, place: Path) -> None:
    opened = Opened(chromium, place, DESK, "light")
    for selector in (".take", ".first table", ".first figure svg"):
        box = opened.page.locator(selector).first.bounding_box()
        assert box["y"] + min(box["height"], 300) < 800, selector
    assert opened.page.locator(".take").inner_text().startswith("Take ovr: ")
    opened.page.close()


@pytest.mark.parametrize("width", [DESK, PHONE])
def test_the_first_figure_is_whole_on_every_screen(chromium: Any, place: Path, width: int) -> None:
    """The model to take may stand at its right end; it is drawn twice, and one of the two is shown."""
    opened = Opened(chromium, place, width, "light")
    (shown,) = [one for one in opened.page.locator(".first figure svg").all() if one.is_visible()]
    box = shown.bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
    opened.page.close()


def test_text_of_figures_is_large_enough_on_a_phone(chromium: Any, place: Path) -> None:
    opened = Opened(chromium, place, PHONE, "light")
    heights = opened.page.evaluate(
        "[...document.querySelectorAll('.drawn svg text')]"
        ".map(one => one.getBBox().height * one.getCTM().a).filter(one => one > 0)"  # signs without a shape have none
    )
    assert len(heights) > 20
    assert min(heights) >= 8  # pixels, of the smallest captions
    opened.page.close()


CUT = "one => one.checkVisibility() && one.scrollWidth > one.clientWidth + 60"


@pytest.mark.parametrize("width", [700, 390])
def test_what_is_cut_has_a_shadow_until_it_is_scrolled_to_its_end(chromium: Any, place: Path, width: int) -> None:
    opened = Opened(chromium, place, width, "light")
    assert opened.page.locator("caption").count() == 0  # a caption in a table is as wide as the table
    cut = [one for one in opened.page.locator(".wide, .drawn").all() if one.evaluate(CUT)]
    assert len(cut) >= (2 if width == 700 else 8)
    for one in cut:
        before = brightness_of_edge(opened.page, one)
        one.evaluate("one => { one.scrollLeft = one.scrollWidth }")
        assert before < 0.8 < 0.97 < brightness_of_edge(opened.page, one)
    opened.page.close()


def brightness_of_edge(page: Any, one: Any) -> float:
    """Of the lightest pixel within three of the right edge of a box, where it has no text."""
    one.scroll_into_view_if_needed()
    box = one.bounding_box()
    clip = {"x": box["x"] + box["width"] - 3, "y": box["y"] + 4, "width": 2, "height": 8}
    picture = Image.open(io.BytesIO(page.screenshot(clip=clip))).convert("L")
    return max(picture.tobytes()) / 255


def test_it_prints(chromium: Any, place: Path, tmp_path: Path) -> None:
    opened = Opened(chromium, place, DESK, "dark")
    opened.page.emulate_media(media="print")
    assert brightness(opened.page.evaluate(PAPER)) > 0.9  # paper is white whatever the screen is
    opened.page.set_viewport_size({"width": A4, "height": 1000})
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= A4  # nothing is cut
    opened.page.pdf(path=tmp_path / "print.pdf", format="A4")
    keep_also(tmp_path / "print.pdf")
    assert (tmp_path / "print.pdf").read_bytes().startswith(b"%PDF")
    assert opened.wrong == []
    opened.page.close()
