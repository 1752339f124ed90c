"""Where names of points and captions of lines stand in a figure: where they hide nothing, if there is such a place."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipeline.report.colours import FAINT

if TYPE_CHECKING:  # loaded when something is drawn
    from matplotlib.axes import Axes

Box = tuple[float, float, float, float]  # left, bottom, right, top in points
NEAR = 11.0  # points up or down from which on a thin line joins a name to its point
LEADER = {"arrowstyle": "-", "color": FAINT, "linewidth": 0.5, "shrinkA": 0.0, "shrinkB": 3.0}
ALONG = (0.0, 1.0, 0.5, 0.25, 0.75)  # places of a caption along its line: at its ends, then between these
CAPTION_HEIGHT, FROM_EDGE, FROM_LINE = 9.0, 4.0, 3.0  # points


@dataclass(frozen=True, slots=True)
class Point:
    """One model in a scatter plot: marked when none other beats it; error: half the height of its bar, 0 draws none."""

    name: str
    x: float
    y: float
    marked: bool = False
    error: float = 0.0


@dataclass(frozen=True, slots=True)
class Lines:
    """Reference lines of a scatter plot with their captions; None draws none."""

    x: float | None = None
    x_caption: str = ""
    y: float | None = None
    y_caption: str = ""


def short_name(name: str, most: int = 32) -> str:
    return name if len(name) <= most else name[: most - 1] + "\N{HORIZONTAL ELLIPSIS}"


def name_points(axes: Axes, points: Sequence[Point], levels: Sequence[float] = ()) -> None:
    """Each name at the first of some places around its point where it covers no other name, point, caption or level,
    and stays within the axes; where there is none, at the first that covers nothing. Near places off the line that
    joins marked points come first.

    levels  heights of the lines across
    """
    scale = 72 / axes.figure.dpi
    spots = {point: _spot(axes, point) for point in points}
    left, bottom, right, top = (float(edge) * scale for edge in axes.bbox.extents)
    taken = marks(axes, points)
    for caption in axes.texts:
        x0, y0, x1, y1 = (float(edge) * scale for edge in caption.get_window_extent().extents)
        taken.append((x0, y0, x1, y1))
    heights = [float(axes.transData.transform((0.0, level))[1]) * scale for level in levels]
    taken += [(left, y - 0.5, right, y + 0.5) for y in heights]
    line = _joined(axes, points)
    for point in sorted(points, key=lambda p: (-p.y, p.x, p.name)):
        text = short_name(point.name, 24)
        width, height = 5.6 * len(text), 10.0
        x, y = spots[point]
        places = [place for step in range(8) for place in _around(step, width)]
        free = [place for place in places if not covers(_box(x, y, place, width, height), taken)]
        inside = [place for place in free if _within(_box(x, y, place, width, height), (left, bottom, right, top))]
        near = [place for place in inside if abs(place[1]) <= 2 * NEAR]
        clear = [place for place in near if not _hides(_box(x, y, place, width, height), line)]
        dx, dy = (clear or inside or free or places)[0]
        taken.append(_box(x, y, (dx, dy), width, height))
        leader: dict[str, Any] = {"arrowprops": LEADER} if abs(dy) > NEAR else {}
        axes.annotate(text, (point.x, point.y), (dx, dy), textcoords="offset points", fontsize=9, va="center", **leader)


def _spot(axes: Axes, point: Point) -> tuple[float, float]:
    x, y = axes.transData.transform((point.x, point.y)) * (72 / axes.figure.dpi)
    return float(x), float(y)


def marks(axes: Axes, points: Sequence[Point]) -> list[Box]:
    """What the marks of points cover, and then their bars."""
    scale = 72 / axes.figure.dpi
    spots = {point: _spot(axes, point) for point in points}
    taken = [(x - 4, y - 4, x + 4, y + 4) for x, y in spots.values()]
    for point, (x, y) in spots.items():
        if point.error > 0:
            half = abs(float(axes.transData.transform((point.x, point.y + point.error))[1]) * scale - y)
            taken.append((x - 1, y - half, x + 1, y + half))
    return taken


def _around(step: int, width: float) -> list[tuple[float, float]]:
    """Of a name's left end and middle: beside the point, further up and down, from the second step on across it."""
    far = 11.0 * step
    return [(8, far), (-8 - width, far), (8, -far), (-8 - width, -far)] + [
        (-width / 2, side * far) for side in (1, -1) if step
    ]


def _box(x: float, y: float, place: tuple[float, float], width: float, height: float) -> Box:
    left, middle = x + place[0], y + place[1]
    return left, middle - height / 2, left + width, middle + height / 2


def _within(box: Box, edges: Box) -> bool:
    return box[0] >= edges[0] and box[1] >= edges[1] and box[2] <= edges[2] and box[3] <= edges[3]


def covers(box: Box, taken: Sequence[Box]) -> bool:
    return any(box[0] < b[2] and b[0] < box[2] and box[1] < b[3] and b[1] < box[3] for b in taken)


def name_reference(axes: Axes, points: Sequence[Point], lines: Lines) -> None:
    """Each caption along its line where it covers no point, no bar and least of the line that joins points.

    Of a level above or below it, of an upright line to its left or right; axes have their final size.
    """
    scale = 72 / axes.figure.dpi
    left, bottom, right, top = (float(edge) * scale for edge in axes.bbox.extents)
    taken = marks(axes, points)
    between = _joined(axes, points)
    if lines.x is not None:
        x = float(axes.transData.transform((lines.x, 0.0))[0]) * scale
        taken.append((x - 0.5, bottom, x + 0.5, top))
    if lines.y is not None:
        y = float(axes.transData.transform((0.0, lines.y))[1]) * scale
        taken.append((left, y - 0.5, right, y + 0.5))
        length = _length(axes, lines.y_caption)
        room = right - left - length - 2 * FROM_EDGE
        boxes = [
            (at, up, at + length, up + CAPTION_HEIGHT)
            for up in (y + FROM_LINE, y - FROM_LINE - CAPTION_HEIGHT)
            for at in (left + FROM_EDGE + share * room for share in ALONG)
        ]
        taken.append(_put_caption(axes, lines.y_caption, boxes, taken, between, 0))
    if lines.x is not None:
        length = _length(axes, lines.x_caption)
        room = top - bottom - length - 2 * FROM_EDGE
        boxes = [
            (at, up, at + CAPTION_HEIGHT, up + length)
            for at in (x - FROM_LINE - CAPTION_HEIGHT, x + FROM_LINE)
            for up in (bottom + FROM_EDGE + share * room for share in ALONG)
        ]
        inside = [box for box in boxes if _within(box, (left, bottom, right, top))] or boxes
        _put_caption(axes, lines.x_caption, inside, taken, between, 90)


def _joined(axes: Axes, points: Sequence[Point]) -> list[tuple[float, float]]:
    """Places along the line that joins the marked points."""
    ends = sorted(_spot(axes, point) for point in points if point.marked)
    return [_between(a, b, k / 40) for a, b in itertools.pairwise(ends) for k in range(41)]


def _hides(box: Box, line: Sequence[tuple[float, float]]) -> int:
    """How many places of a line lie within a box."""
    return sum(box[0] < x < box[2] and box[1] < y < box[3] for x, y in line)


def _between(one: tuple[float, float], other: tuple[float, float], share: float) -> tuple[float, float]:
    return one[0] + share * (other[0] - one[0]), one[1] + share * (other[1] - one[1])


def _length(axes: Axes, text: str) -> float:
    """Of a caption, in points: as this machine's font has it, with room for others."""
    drawn = axes.annotate(text, (0.0, 0.0), xycoords="axes fraction", fontsize=8)
    found = float(drawn.get_window_extent().width) * 72 / axes.figure.dpi
    drawn.remove()
    return found


def _put_caption(
    axes: Axes, text: str, boxes: Sequence[Box], taken: Sequence[Box], line: Sequence[tuple[float, float]], turned: int
) -> Box:
    """Write it into the first of the boxes that covers fewest of what is taken, then least of a line; returns that."""

    def covered(box: Box) -> tuple[int, int]:
        hidden = sum(covers(box, [one]) for one in taken)
        return hidden, _hides(box, line)

    best = min(boxes, key=covered)
    scale = 72 / axes.figure.dpi
    place: dict[str, Any] = {"xycoords": "axes points", "fontsize": 8, "ha": "left", "va": "bottom"}
    corner = best[0] - float(axes.bbox.x0) * scale, best[1] - float(axes.bbox.y0) * scale
    axes.annotate(text, corner, **place, rotation=turned)
    return best
