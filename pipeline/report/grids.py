"""More figures as SVG: a value for every pair of two keys, and bars in groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipeline.report.colours import INK, MAIN, OTHER
from pipeline.report.figures import canvas, drawing, svg_of
from pipeline.report.labels import short_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Cell = tuple[int, int]  # column from the left, row from the bottom
LEAST_SHADE, MOST_SHADE = 0.05, 0.5  # of a cell: text upon it stays readable in light and in dark
CELL_ROW = 0.34  # inches
GRID_WIDTH = 5.3  # inches that the cells take, about
MOST_NAMES = 12  # below the columns: of more, every other, or fewer still
MOST_LETTERS = 60  # of these names side by side; more are turned
SMALLEST_TEXT = 4.5  # points; below, cells have none
BAR_FILLS = ((MAIN, 1.0), (OTHER, 1.0), (MAIN, 0.45))  # colour and opacity


@dataclass(frozen=True, slots=True)
class Grid:
    """Values of pairs of two keys; a pair that has none is an empty cell.

    columns, rows    names from the left, and from the bottom
    values, shown    per cell: what shades it, and the text in it
    chosen           the cells that are marked by a frame
    """

    columns: Sequence[str]
    rows: Sequence[str]
    x_label: str
    y_label: str
    values: Mapping[Cell, float]
    shown: Mapping[Cell, str]
    chosen: Sequence[Cell] = ()


def heat_map(grid: Grid) -> str:
    """Cells shaded by their value, darker for more, with the value as text where there is room; an SVG element."""
    width, height = len(grid.columns), len(grid.rows)
    with drawing():
        figure, axes = canvas(max(2.2, 1.1 + CELL_ROW * height))
        low, high = min(grid.values.values()), max(grid.values.values())
        for cell, value in grid.values.items():
            share = (value - low) / (high - low) if high > low else 0.5
            _cell(axes, cell, LEAST_SHADE + share * (MOST_SHADE - LEAST_SHADE))
        _cell_texts(axes, grid)
        for x, y in grid.chosen:
            _box(axes, (x + 0.02, y + 0.02), 0.96, fill=False, edgecolor=INK, linewidth=2)
        axes.set_xlim(0, width)
        axes.set_ylim(0, height)
        named = range(0, width, -(-width // MOST_NAMES))
        turned = max(len(grid.columns[i]) for i in named) * len(named) > MOST_LETTERS
        names = [grid.columns[i] for i in named]
        axes.set_xticks([i + 0.5 for i in named], names, rotation=45 if turned else 0, fontsize=8)
        axes.set_yticks([i + 0.5 for i in range(height)], grid.rows, fontsize=8)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        axes.set_xlabel(grid.x_label)
        axes.set_ylabel(grid.y_label)
        figure.tight_layout()
        return svg_of(figure)


def _box(axes: Axes, corner: tuple[float, float], side: float, **look: Any) -> None:
    from matplotlib.patches import Rectangle

    axes.add_patch(Rectangle(corner, side, side, **look))


def _cell(axes: Axes, cell: Cell, shade: float) -> None:
    _box(axes, cell, 1, facecolor=MAIN, alpha=shade, linewidth=0)


def _cell_texts(axes: Axes, grid: Grid) -> None:
    longest = max(map(len, grid.shown.values()), default=1)
    size = min(9.0, 72 * GRID_WIDTH / len(grid.columns) / (0.62 * longest + 0.6))
    if size < SMALLEST_TEXT:
        return
    for (x, y), text in grid.shown.items():
        weight = "bold" if (x, y) in grid.chosen else "normal"
        axes.text(x + 0.5, y + 0.5, text, ha="center", va="center", fontsize=size, fontweight=weight)


def grouped_bars(groups: Mapping[str, Mapping[str, float]], shown: Mapping[tuple[str, str], str], x_label: str) -> str:
    """Horizontal bars in groups, top down; an SVG element.

    groups  name of a group -> name of a bar -> its length; bars of one name look alike in all groups
    shown   (group, bar) -> text at the end of the bar
    """
    kinds = list(dict.fromkeys(kind for bars in groups.values() for kind in bars))
    n_bars = sum(len(bars) for bars in groups.values())
    with drawing():
        figure, axes = canvas(0.9 + 0.26 * n_bars + 0.22 * len(groups))
        place, ticks = 0.0, []
        for group, bars in groups.items():
            ticks.append(place + (len(bars) - 1) / 2)
            for kind, value in bars.items():
                colour, opacity = BAR_FILLS[kinds.index(kind) % len(BAR_FILLS)]
                axes.barh(place, value, color=colour, alpha=opacity, height=0.82)
                text = f"{kind} {shown[group, kind]}"
                axes.annotate(text, (value, place), (4, 0), textcoords="offset points", va="center", fontsize=8)
                place += 1
            place += 0.8
        axes.set_yticks(ticks, [short_name(name) for name in groups])
        axes.tick_params(axis="y", length=0)
        axes.invert_yaxis()
        axes.margins(x=0.3)  # for the texts; a tick there would promise more than there can be
        longest = max(value for bars in groups.values() for value in bars.values())
        axes.set_xticks([tick for tick in axes.get_xticks() if 0 <= tick <= 1.05 * longest])
        axes.set_xlabel(x_label)
        figure.tight_layout()
        return svg_of(figure)
