"""Which classes each child of the root holds, as a picture (Deng et al. 2011, Figure 1).

Rows are children, columns classes in the taxonomy's order; boxes are subtrees. Drawn as runs of cells in one path per
shade, in the page's colours, so that ten thousand classes take some ten kilobytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

import numpy as np

from pipeline.report.csvs import csv_text
from pipeline.report.labels import short_name
from pipeline.report.plot import Plot
from pipeline.report.summary import RunSummary
from pipeline.report.table import printable
from pipeline.report.trees_order import ClassOrder, Group
from pipeline.report.trees_tables import kind_of, tree_details
from tasks.rows.base import Array
from tasks.trees.measures import given_up, overlap

MOST_COLUMNS = 1200  # of the picture; of more classes, several share one, and its shade says how many of them are held
SHADES = (0.45, 0.65, 0.85, 1.0)  # opacity of cells of which at most 1/4, 1/2, 3/4, all classes are held
WIDTH, LEFT, RIGHT, TOP, BOTTOM = 1200.0, 64.0, 8.0, 54.0, 26.0
LEAST_HEIGHT, MOST_HEIGHT, ROW_HEIGHT = 90.0, 420.0, 12.0  # of the matrix
TEXT = 13  # font size ...
LETTER = 0.58 * TEXT  # ... and about how wide a letter is
MOST_MATRICES = 6


@dataclass(frozen=True)
class Matrix:
    """A root's partition: the children from the top down, and cells (Q, n_columns), the share held of each column."""

    rows: Array
    cells: Array
    counts: Array  # classes that each row's child holds


def partition_plots(run: RunSummary) -> list[Plot]:
    """One for each tree that has learnt its partition, kinds in turn so that the figure's rivals come first."""
    found = {name: tree["root"] for name, tree in tree_details(run, once=True).items() if tree.get("root")}
    names = _in_turn(run, list(found))[:MOST_MATRICES]
    return [_plot(run, name, found[name], place) for place, name in enumerate(names, 1)]


def _in_turn(run: RunSummary, names: Sequence[str]) -> list[str]:
    """The first of every kind, then the second of every kind, ..."""
    kinds = [kind_of(run, name) for name in names]
    turn = [kinds[:place].count(kind) for place, kind in enumerate(kinds)]
    return [names[place] for place in sorted(range(len(names)), key=lambda place: (turn[place], place))]


def _plot(run: RunSummary, name: str, root: Sequence[Sequence[int]], place: int) -> Plot:
    order = run.class_order or ClassOrder(np.arange(run.n_classes))
    held = held_matrix(root, order)
    matrix = matrix_of(held)
    shared = -(-held.shape[1] // matrix.cells.shape[1])
    title = f"Root of {printable(name)}"
    caption = f"Rows: its {len(root):,} children, by the middle of what they hold; columns: {run.n_classes:,} classes"
    caption += " in the taxonomy's order" if order.groups else ", by number"
    caption += f", {shared} to a column, the fuller the more of them are held" if shared > 1 else ""
    lost = given_up(order.classes, held).size
    caption += (
        f". A class is held by {overlap(held):.2f} children in the mean" + f", {lost:,} by none" * bool(lost) + "."
    )
    if order.groups and place > 1:
        caption += " Boxes: the same subtrees as above."
    elif order.groups:
        caption += " Boxes: subtrees of the taxonomy, with how many classes they have, from the left "
        caption += ", ".join(f"{short_name(printable(one.name))} ({one.n_classes:,})" for one in order.groups) + "."
    rows = [(child, int(c)) for child, classes in enumerate(root) for c in classes]
    named = [(child, c, run.class_ids[c] if c < len(run.class_ids) else "", order.places[c]) for child, c in rows]
    text = csv_text(["child", "class", "id", "column"], named)
    return Plot(f"partition-{place}", title, caption, partition_svg(matrix, order.groups, held.shape[1]), text)


def held_matrix(root: Sequence[Sequence[int]], order: ClassOrder) -> Array:
    """(Q, K) bool: which child holds the class of each column."""
    held, places = np.zeros((len(root), order.classes.size), bool), order.places
    for child, classes in enumerate(root):
        held[child, places[np.asarray(classes, np.int64)]] = True
    return held


def matrix_of(held: Array, most: int = MOST_COLUMNS) -> Matrix:
    """What is drawn: columns in groups of equal size when there are too many, rows by the mean place of their classes.

    Ties to the lower child; children without classes come last.
    """
    n_children, n_classes = held.shape
    width = -(-n_classes // most)
    starts = np.arange(0, n_classes, width)
    sizes = np.minimum(width, n_classes - starts)
    cells = np.add.reduceat(held, starts, axis=1, dtype=np.float64) / sizes
    counts = held.sum(axis=1)
    middle = np.where(counts > 0, held @ np.arange(n_classes) / np.maximum(counts, 1), np.inf)
    rows = np.lexsort((np.arange(n_children), middle))
    return Matrix(rows, cells[rows], counts[rows])


def partition_svg(matrix: Matrix, groups: Sequence[Group], n_classes: int) -> str:
    """An SVG element as wide as the page; groups stand in columns of classes."""
    n_rows, n_columns = matrix.cells.shape
    height = min(max(ROW_HEIGHT * n_rows, LEAST_HEIGHT), MOST_HEIGHT)
    across, down = (WIDTH - LEFT - RIGHT) / n_columns, height / n_rows
    total = TOP + height + BOTTOM
    parts = [f'<svg viewBox="0 0 {WIDTH:g} {total:g}" xmlns="http://www.w3.org/2000/svg" font-size="{TEXT}">']
    placed = f"translate({LEFT:g} {TOP:g}) scale({across:.6g} {down:.6g})"
    parts.append(f'<g transform="{placed}" stroke="var(--main)" fill="none" shape-rendering="crispEdges">')
    parts += _cells(matrix.cells)
    parts.append("</g>")
    frame = f'x="{LEFT:g}" y="{TOP:g}" width="{WIDTH - LEFT - RIGHT:g}" height="{height:g}"'
    parts.append(f'<rect {frame} fill="none" stroke="var(--faint)" stroke-width="0.7"/>')
    parts += _boxes(groups, n_classes, height)
    parts += _row_names(matrix.rows, down)
    middle = LEFT + (WIDTH - LEFT - RIGHT) / 2
    parts.append(_text(middle, total - 8, f"{n_classes:,} classes", "middle"))
    parts.append(f'<g transform="rotate(-90 14 {TOP + height / 2:g})">')
    parts.append(_text(14, TOP + height / 2, f"{n_rows:,} children", "middle") + "</g></svg>")
    return "\n".join(parts)


def _cells(cells: Array) -> list[str]:
    """One path per shade: every run of equal cells in a row is a stroke of width 1, told from the end of the last."""
    shades = np.ceil(np.asarray(cells) * len(SHADES) - 1e-9).astype(np.int64)  # 0: nothing is held
    found: list[list[str]] = [[] for _ in SHADES]
    for row, line in enumerate(shades):
        edges = np.flatnonzero(np.diff(line, prepend=0, append=0))
        ends: dict[int, int] = {}
        for start, stop in pairwise(edges.tolist()):
            shade = int(line[start])
            if shade:
                moved = f"m{start - ends[shade]} 0" if shade in ends else f"M{start} {row}.5"
                found[shade - 1].append(f"{moved}h{stop - start}")
                ends[shade] = stop
    return [
        f'<path stroke-opacity="{shade:g}" d="{"".join(runs)}"/>'
        for shade, runs in zip(SHADES, found, strict=True)
        if runs
    ]


def _boxes(groups: Sequence[Group], n_classes: int, height: float) -> list[str]:
    """A frame around each subtree's columns, and its name above, on the first of three lines that has room."""
    across = (WIDTH - LEFT - RIGHT) / max(1, n_classes)
    parts = []
    ends = [LEFT, LEFT, LEFT]  # where the last name of each line above the matrix ends
    for group in groups:
        x, width = LEFT + group.start * across, group.n_classes * across
        place = f'x="{x:.1f}" y="{TOP - 3:g}" width="{width:.1f}" height="{height + 6:g}"'
        parts.append(f'<rect {place} fill="none" stroke="var(--other)" stroke-width="1.6"/>')
        name = short_name(printable(group.name), 26)
        anchored = min(x, WIDTH - RIGHT - LETTER * len(name))
        line = next((i for i, end in enumerate(ends) if end <= anchored), None)
        if line is None:
            continue
        ends[line] = anchored + LETTER * len(name) + 8
        y = TOP - 8 - 15 * line
        parts.append(f'<path d="M{x:.1f} {TOP - 3:g}V{y:g}" stroke="var(--other)" stroke-width="0.8" fill="none"/>')
        parts.append(_text(anchored + 3, y, name, "start"))
    return parts


def _row_names(rows: Array, down: float) -> list[str]:
    """Children by number, as many as there is room for."""
    step = max(1, int(np.ceil((TEXT - 1) / down)))
    return [
        _text(LEFT - 6, TOP + (place + 0.5) * down + 0.35 * TEXT, str(child), "end")
        for place, child in enumerate(rows)
        if place % step == 0
    ]


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="var(--ink)">{escape(text)}</text>'
