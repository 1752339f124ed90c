"""Figures as SVG that takes its colours from the page, so that it reads in light, in dark and in print.

The same numbers give the same bytes: ids come from a fixed salt, no date is written, text stays text.
"""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pipeline.report.colours import FAINT, INK, MAIN, OTHER, PAGE_COLOURS
from pipeline.report.labels import Box, Lines, Point, covers, name_points, name_reference, short_name

if TYPE_CHECKING:  # loaded when something is drawn
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SETTINGS = {
    "svg.hashsalt": "labelgrove",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "text.parse_math": False,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": FAINT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": FAINT,
    "grid.linewidth": 0.4,
}
NO_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}
Which = Literal["x", "y"]
WIDTH, PHONE_WIDTH = 6.4, 3.9  # inches
MANY_DECADES = 3  # from which on an axis has ticks at powers of ten alone


@contextmanager
def drawing() -> Iterator[None]:
    """Within it, figures are drawn as the page wants them."""
    import matplotlib as mpl

    with mpl.rc_context(SETTINGS):
        yield


@dataclass(frozen=True, slots=True)
class Scale:
    """A logarithmic axis: its label, how a tick is written, its base (2 for bytes)."""

    label: str
    write: Callable[[float], str]
    base: int = 10

    def apply(self, axes: Axes, which: Which = "x") -> None:
        """To axes on which everything is drawn already: how far their values reach decides on the ticks."""
        from matplotlib.ticker import FuncFormatter, NullLocator

        from pipeline.report.ticks import LogTicks

        axes.set(**{f"{which}scale": "log", f"{which}label": self.label})
        axis = axes.xaxis if which == "x" else axes.yaxis
        coarse = self.base == 2 or _decades(axes, which) > MANY_DECADES
        axis.set_major_locator(LogTicks(self.write, self.base, coarse))
        axis.set_major_formatter(FuncFormatter(lambda value, _: self.write(value)))
        axis.set_minor_locator(NullLocator())


@dataclass(frozen=True, slots=True)
class Whole:
    """A linear axis of whole numbers."""

    label: str

    def apply(self, axes: Axes, which: Which = "x") -> None:
        from matplotlib.ticker import MaxNLocator

        axes.set(**{f"{which}label": self.label})
        axis = axes.xaxis if which == "x" else axes.yaxis
        axis.set_major_locator(MaxNLocator("auto", integer=True, min_n_ticks=1))


Axis = Scale | Whole | str  # a string labels a linear axis


def _decades(axes: Axes, which: Which) -> float:
    """Powers of ten between the least and the largest positive value; 0 where nothing is drawn."""
    box = axes.dataLim
    low, high = (box.minposx, box.xmax) if which == "x" else (box.minposy, box.ymax)
    return math.log10(high) - math.log10(low) if 0 < low < high < math.inf else 0.0


def _apply(axes: Axes, axis: Axis, which: Which) -> None:
    if isinstance(axis, str):
        axes.set(**{f"{which}label": axis})
    else:
        axis.apply(axes, which)


def scatter(
    points: Sequence[Point], scale: Scale, y_label: str, lines: Lines | None = None, width: float = WIDTH
) -> str:
    """Points with their names beside them, x on a logarithmic axis; an SVG element, so many inches wide."""
    with drawing():
        figure, axes = canvas(3.9, width)
        axes.grid(True, axis="both", alpha=0.5)
        for group, colour in ((True, MAIN), (False, OTHER)):
            chosen = [point for point in points if point.marked is group]
            marker = "o" if group else "D"
            axes.plot([p.x for p in chosen], [p.y for p in chosen], marker, color=colour, markersize=7, zorder=3)
            for point in chosen:
                error_bar(axes, point, colour)
        _frontier(axes, [point for point in points if point.marked])
        scale.apply(axes)
        axes.margins(0.18, 0.18)
        lines = lines or Lines()
        _reference(axes, lines)
        axes.set_ylabel(y_label)
        figure.tight_layout()
        name_reference(axes, points, lines)
        name_points(axes, points, () if lines.y is None else (lines.y,))
        return svg_of(figure)


def error_bar(axes: Axes, point: Point, colour: str) -> None:
    """A thin line with caps, wide enough to be seen beside the mark where it is shorter than this."""
    if point.error > 0:
        look: dict[str, Any] = {"fmt": "none", "ecolor": colour, "elinewidth": 1, "capsize": 5, "capthick": 1}
        axes.errorbar([point.x], [point.y], [point.error], zorder=2, **look)


def _frontier(axes: Axes, points: Sequence[Point]) -> None:
    ordered = sorted((point.x, point.y) for point in points)
    axes.plot([x for x, _ in ordered], [y for _, y in ordered], "-", color=MAIN, linewidth=1, alpha=0.6, zorder=2)


def _reference(axes: Axes, lines: Lines) -> None:
    if lines.x is not None:
        axes.axvline(lines.x, color=INK, linewidth=1, linestyle="--", zorder=1)
    if lines.y is not None:
        axes.axhline(lines.y, color=INK, linewidth=1, linestyle=":", zorder=1)


def _name_level(axes: Axes, name: str, level: float, right: float = 4.0) -> None:
    """Above its line, so many points to the right of the axes' edge."""
    place: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "fontsize": 8}
    axes.annotate(name, (0.0, level), (right, 3), ha="left", va="bottom", **place)


def _name_levels(axes: Axes, levels: Mapping[str, float]) -> None:
    """Each name at the left end of its line, or further right where it would cover another one."""
    axes.autoscale_view()
    taken: list[Box] = []
    for name, level in levels.items():
        text = short_name(name)
        x, y = 4.0, float(axes.transData.transform((0.0, level))[1]) * 72 / axes.figure.dpi
        width = 5.0 * len(text) + 4.0
        while blocking := [box for box in taken if covers((x, y, x + width, y + 9.0), [box])]:
            x = max(box[2] for box in blocking)
        taken.append((x, y, x + width, y + 9.0))
        _name_level(axes, text, level, x)


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a line plot, with the spread of its values (half the height of the bars) where they are means.

    starred  places in x and y of the points that stand out
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    spread: Sequence[float] = ()
    starred: Sequence[int] = ()


STYLES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "v", "P")
MOST_MARKERS = 40  # points of the longest line up to which each is marked
MOST_INSIDE = 6  # lines of a legend that stands among the lines; a longer one stands below


def line_plot(series: Sequence[Series], levels: Mapping[str, float], x: Axis, y: Axis) -> str:
    """Lines told apart by marker, dashes and colour, levels as thin lines with their name; an SVG element."""
    below = len(series) > MOST_INSIDE
    with drawing():
        figure, axes = canvas(4.2 + 0.1 * len(series) * below)
        axes.grid(True, axis="both", alpha=0.5)
        crowded = max((len(one.x) for one in series), default=0) > MOST_MARKERS
        for place, one in enumerate(series):
            _draw_line(axes, one, place, marked=not crowded or len(one.x) == 1)
        for level in levels.values():
            axes.axhline(level, color=INK, linewidth=0.8, linestyle=":", zorder=1)
        _apply(axes, x, "x")
        _apply(axes, y, "y")
        if series:
            outside: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.14), "ncols": 2}
            axes.legend(fontsize=8, frameon=False, **(outside if below else {}))
        figure.tight_layout()
        _name_levels(axes, levels)
        return svg_of(figure)


def _draw_line(axes: Axes, one: Series, place: int, marked: bool) -> None:
    colour = MAIN if place % 2 == 0 else OTHER
    marker = MARKERS[place % len(MARKERS)] if marked else ""
    style = f"{marker}{STYLES[place // 2 % len(STYLES)]}"
    axes.plot(one.x, one.y, style, color=colour, label=short_name(one.name), markersize=5, zorder=3)
    if one.spread:
        axes.errorbar(one.x, one.y, one.spread, fmt="none", ecolor=colour, capsize=2, linewidth=0.8, zorder=2)
    if one.starred:
        x, y = [one.x[i] for i in one.starred], [one.y[i] for i in one.starred]
        axes.plot(x, y, "*", color=colour, markeredgecolor=INK, markeredgewidth=0.6, markersize=14, zorder=4)


def bars(values: Mapping[str, float], x_label: str, shown: Sequence[str]) -> str:
    """Horizontal bars in the given order, top down, each with its value written out; an SVG element."""
    with drawing():
        figure, axes = canvas(0.9 + 0.3 * max(1, len(values)))
        names = [short_name(name) for name in values]
        places = list(range(len(names)))
        axes.barh(places, list(values.values()), color=MAIN, height=0.6)
        for place, value, text in zip(places, values.values(), shown, strict=True):
            axes.annotate(text, (value, place), (4, 0), textcoords="offset points", va="center", fontsize=8)
        axes.set_yticks(places, names)
        axes.invert_yaxis()
        axes.margins(x=0.15)
        axes.set_xlabel(x_label)
        figure.tight_layout()
        return svg_of(figure)


def canvas(height: float, width: float = WIDTH) -> tuple[Figure, Axes]:
    """Both in inches."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    FigureCanvasSVG(figure)
    return figure, figure.add_subplot()


def svg_of(figure: Figure) -> str:
    """The SVG element of a figure: no XML head, no metadata, no style that reaches outside, the page's colours."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    out = io.StringIO()
    figure.patch.set_visible(False)
    for axes in figure.axes:
        axes.patch.set_visible(False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a character that no font has is the browser's to draw
        # Not savefig, which draws everything twice: the first time only to learn where it comes to lie.
        FigureCanvasSVG(figure).print_svg(out, metadata=NO_METADATA)
    text = out.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>", "", text, flags=re.DOTALL)
    for colour, variable in PAGE_COLOURS.items():
        text = text.replace(colour, variable)
    return re.sub(r"[ \t]+\n", "\n", text).strip()


def scoped(svg: str, prefix: str, title: str, told: str) -> str:
    """The ids of an SVG made unique on the page, title and description for those who cannot see it (both escaped)."""
    svg = re.sub(r'\bid="', f'id="{prefix}-', svg)
    svg = re.sub(r'((?:xlink:)?href="#|url\(#)', lambda found: f"{found[1]}{prefix}-", svg)
    named = f'<svg role="img" aria-label="{title}" aria-describedby="{prefix}-told" '
    head, body = svg.replace("<svg ", named, 1).split(">", 1)
    return f'{head}><desc id="{prefix}-told">{told}</desc>{body}'
