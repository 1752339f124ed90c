"""Figures that can be read: ticks of logarithmic axes, names within the axes and beside one another."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable

import matplotlib as mpl
import pytest
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from pipeline.report.figures import SETTINGS, Scale, Series, canvas, line_plot, scatter
from pipeline.report.labels import Lines, Point, name_points, name_reference
from pipeline.report.numbers import count, short, size


def labels(low: float, high: float, write: Callable[[float], str], base: int) -> list[str]:
    """What stands at an axis that shows these two values."""
    with mpl.rc_context(SETTINGS):
        _, axes = canvas(4.0)
        axes.plot([low, high], [1.0, 2.0])
        Scale("x", write, base).apply(axes)
        axes.margins(0.1, 0.1)
        left, right = axes.get_xlim()
        return [write(tick) for tick in axes.get_xticks() if left <= tick <= right]


@pytest.mark.parametrize(
    ("write", "base", "low", "high"),
    [
        (short, 10, 0.62, 0.95),
        (short, 10, 0.9, 0.905),
        (short, 10, 1e-5, 1e3),
        (short, 10, 0.3, 1.2),
        (count, 10, 10, 40),
        (count, 10, 1800, 1900),
        (count, 10, 40, 40),
        (size, 2, 1.9e6, 2.3e6),
        (size, 2, 2.0e6, 2.001e6),
        (size, 2, 3e4, 3e6),
    ],
)
def test_a_logarithmic_axis_has_at_least_two_different_labels(
    write: Callable[[float], str], base: int, low: float, high: float
) -> None:
    found = labels(low, high, write, base)
    assert len(set(found)) == len(found)
    assert 2 <= len(found) <= 12


def test_an_axis_of_a_decade_keeps_the_ticks_that_it_had() -> None:
    assert labels(0.1, 20, short, 10) == ["0.1", "0.2", "0.5", "1", "2", "5", "10", "20"]
    assert labels(3e4, 3e6, size, 2) == ["64.0 KiB", "256.0 KiB", "1.0 MiB", "4.0 MiB"]


def box_of(text: Text) -> Bbox:
    """Of the name alone, without the line to its point."""
    text.get_window_extent()  # puts it where it belongs
    return Text.get_window_extent(text)


@pytest.mark.parametrize("corner", list(itertools.product((0.0, 1.0), repeat=2)))
def test_names_stay_within_the_axes(corner: tuple[float, float]) -> None:
    crowd = [Point(f"model-number-{i}", 1.0 + corner[0] * 9 + i / 50, corner[1] + i / 200) for i in range(6)]
    points = [*crowd, Point("far", 11.0 - 10 * corner[0], 1.1 - corner[1])]
    with mpl.rc_context(SETTINGS):
        figure, axes = canvas(3.9)
        axes.plot([p.x for p in points], [p.y for p in points], "o")
        axes.margins(0.18, 0.18)
        figure.tight_layout()
        name_points(axes, points)
        edges = axes.get_window_extent()
        boxes = [box_of(text) for text in axes.texts]
    assert len(boxes) == len(points)
    for box in boxes:
        assert edges.padded(1.0).contains(box.x0, box.y0), (box, edges)
        assert edges.padded(1.0).contains(box.x1, box.y1), (box, edges)
    assert not [pair for pair in itertools.combinations(boxes, 2) if pair[0].overlaps(pair[1])]


def places(svg: str, name: str) -> list[tuple[float, float]]:
    """Where a text stands, from the left and from above."""
    found = re.findall(rf'<text[^>]*(?:translate\(|x="| x=")([\d.]+)(?: |" y=")([\d.]+)[^>]*>{name}</text>', svg)
    return [(float(x), float(y)) for x, y in found]


def test_names_of_equal_levels_stand_beside_one_another() -> None:
    svg = line_plot([Series("a", [1, 2], [1.0, 3.0])], {"first": 2.0, "second": 2.0, "third": 1.2}, "x", "y")
    ((x, y),), ((x2, y2),), ((x3, _),) = (places(svg, name) for name in ("first", "second", "third"))
    assert math.isclose(y, y2)
    assert x2 > x + 20
    assert math.isclose(x3, x)


def test_a_name_is_not_written_on_the_line_across() -> None:
    svg = scatter([Point("ovr", 10, 90.0, True), Point("tree", 2, 80.0)], Scale("x", count), "y", Lines(y=90.0))
    free = scatter([Point("ovr", 10, 90.0, True), Point("tree", 2, 80.0)], Scale("x", count), "y")
    ((_, y),), ((_, straight),) = places(svg, "ovr"), places(free, "ovr")
    assert abs(y - straight) > 6


def test_a_name_is_not_written_on_the_line_that_joins_points() -> None:
    """To the right of the first, the line to a second that lies hardly higher would run through its name."""
    joined = [Point("tree", 2, 80.0, True), Point("ovr", 10, 81.0, True), Point("low", 6, 40.0)]
    alone = [Point("tree", 2, 80.0), *joined[1:]]
    ((x, y),), ((right, straight),) = (
        places(scatter(each, Scale("x", count), "y"), "tree") for each in (joined, alone)
    )
    assert x < right - 10 or abs(y - straight) > 6


def test_a_name_that_is_far_from_its_point_is_joined_to_it() -> None:
    crowd = [Point(f"model-{i}", 10.0, 50.0) for i in range(9)]
    with mpl.rc_context(SETTINGS):
        _, axes = canvas(3.9)
        axes.plot([1.0, 20.0], [0.0, 100.0], "o")
        name_points(axes, crowd)
        joined = [text.arrow_patch is not None for text in axes.texts]
    assert joined[:4] == [False] * 4
    assert joined[-1]


@pytest.mark.parametrize("end", [2.0, 900.0], ids=["left", "right"])
def test_captions_of_lines_are_written_on_no_point_and_no_bar(end: float) -> None:
    """Points and bars at one end of the level, and where the caption of the upright line would begin."""
    points = [Point(f"m{i}", end * (1 + i / 30), 50.0 + i, i == 0, 3.0) for i in range(3)]
    points += [Point("low", 95.0, 20.0, error=4.0), Point("other", 60.0, 90.0)]
    lines = Lines(100.0, "100 classes: one-vs-rest", 50.5, "one-vs-rest accuracy")
    with mpl.rc_context(SETTINGS):
        figure, axes = canvas(3.9)
        axes.plot([p.x for p in points], [p.y for p in points], "o")
        axes.set_xscale("log")
        axes.margins(0.18, 0.18)
        figure.tight_layout()
        name_reference(axes, points, lines)
        edges, captions = axes.get_window_extent(), [box_of(text) for text in axes.texts]
        marks = [Bbox([axes.transData.transform((p.x, p.y + side * p.error)) for side in (-1, 1)]) for p in points]
    assert len(captions) == 2
    for caption in captions:
        assert edges.padded(1.0).containsx(caption.x0)
        assert edges.padded(1.0).containsx(caption.x1)
        assert not [point for point, mark in zip(points, marks, strict=True) if caption.overlaps(mark.padded(3.0))]
    assert not captions[0].overlaps(captions[1])
