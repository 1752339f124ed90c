"""The figures of the page. Colours are Okabe and Ito's, which people of any colour vision tell apart; lines also differ
in dashes, and every axis says its unit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bokeh.models import ColumnDataSource, FactorRange, HoverTool, Legend, LegendItem, NumeralTickFormatter
from bokeh.plotting import figure

from pipeline.dashboard.board import Board
from pipeline.dashboard.series import Series
from pipeline.dashboard.state import RunState
from pipeline.report.numbers import size

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
DASHES = ("solid", "dashed", "dotted", "dotdash")
MOST_LINES = len(COLOURS)  # more cannot be told apart: the newest are shown
MOST_WORKERS = 24  # bars; of more workers those that hold most
TALL = 230
GIB = float(1 << 30)
CARD = {"background": "#fff", "border": "1px solid #ddd", "min-width": "0"}


def plot(title: str, x_label: str, y_label: str, **more: Any) -> Any:
    """An empty figure in the style of the page."""
    made = figure(
        title=title,
        x_axis_label=x_label,
        y_axis_label=y_label,
        height=TALL,
        sizing_mode="stretch_width",
        tools="pan,box_zoom,reset,save",
        toolbar_location="right",
        styles=CARD,
        **more,
    )
    made.toolbar.logo = None
    made.toolbar.autohide = True
    made.title.text_font_size = "13px"
    for axis in (*made.xaxis, *made.yaxis):
        axis.axis_label_text_font_style = "normal"
        axis.axis_label_text_color = axis.major_label_text_color = "#333333"
        axis.axis_label_text_font_size = axis.major_label_text_font_size = "12px"
    made.grid.grid_line_color = "#e8e8e8"
    made.outline_line_color = None
    return made


def above(made: Any, items: list[Any]) -> None:
    """A legend over a figure."""
    small = {"label_text_font_size": "12px", "border_line_color": None, "padding": 2, "margin": 2, "glyph_width": 26}
    made.add_layout(Legend(items=items, orientation="horizontal", **small), "above")


@dataclass
class Lines:
    """A figure of one line for each model: a column of its series against another."""

    name: str
    title: str
    x: tuple[str, str]  # column and label
    y: tuple[str, str]
    log: bool = False
    breaks: str = ""  # a column at whose changes a line is broken
    made: Any = field(init=False)
    sources: list[Any] = field(init=False)
    items: list[Any] = field(init=False)

    def __post_init__(self) -> None:
        scale: dict[str, Any] = {"y_axis_type": "log"} if self.log else {}
        self.made = plot(self.title, self.x[1], self.y[1], name=self.name, visible=False, **scale)
        self.sources = [ColumnDataSource({"x": [], "y": [], "said": []}) for _ in COLOURS]
        self.items = []
        for source, colour, place in zip(self.sources, COLOURS, range(MOST_LINES), strict=True):
            line = self.made.line("x", "y", source=source, color=colour, line_width=2, line_dash=DASHES[place % 4])
            dots = self.made.scatter("x", "y", source=source, color=colour, size=5)
            self.items.append(LegendItem(label="", renderers=[line, dots], visible=False))
        above(self.made, self.items)
        self.made.xaxis.ticker.min_interval = 1
        self.made.xaxis.minor_tick_line_color = self.made.yaxis.minor_tick_line_color = None
        self.made.add_tools(HoverTool(tooltips=[("", "@said"), (self.y[0], "@y{0.0000}"), (self.x[0], "@x")]))

    def show(self, kept: Mapping[str, Series]) -> None:
        """The newest series; the figure is there as long as one of them has a number."""
        drawn = {name: series for name, series in kept.items() if any(v is not None for v in series.column(self.y[0]))}
        newest = list(drawn.items())[-MOST_LINES:]
        self.made.visible = bool(newest)
        for place, (source, item) in enumerate(zip(self.sources, self.items, strict=True)):
            name, series = newest[place] if place < len(newest) else ("", None)
            data = {"x": [], "y": [], "said": []} if series is None else self._data(name, series)
            if data != source.data:
                source.data = data
            if item.visible != (series is not None) or item.label != {"value": name}:
                item.label, item.visible = {"value": name}, series is not None

    def _data(self, name: str, series: Series) -> dict[str, list[Any]]:
        xs, ys, said = list[Any](), list[Any](), list[str]()
        parts = series.column(self.breaks) if self.breaks else [None] * len(series.rows)
        last: float | None = None
        for x, y, part in zip(series.column(self.x[0]), series.column(self.y[0]), parts, strict=True):
            if self.breaks and xs and part != last:
                xs, ys, said = [*xs, x], [*ys, float("nan")], [*said, ""]
            value = None if y is None or (self.log and y <= 0) else y
            xs, ys = [*xs, x], [*ys, float("nan") if value is None else value]
            said = [*said, name if part is None else f"{name}, {self.breaks} {part:.0f}"]
            last = part
        return {"x": xs, "y": ys, "said": said}


def line_figures() -> tuple[tuple[str, Lines], ...]:
    """(kind of series, figure), in the order of the page."""
    x = ("number", "iterations of all pairs of penalties")
    return (
        ("iterations", Lines("objective", "Objective by iteration", x, ("objective", "objective"), breaks="pair")),
        (
            "iterations",
            Lines("gap", "Duality gap by iteration", x, ("gap", "gap / objective"), log=True, breaks="pair"),
        ),
        ("iterations", Lines("rank", "Rank by iteration", x, ("rank", "rank of the weights"), breaks="pair")),
        ("rounds", Lines("loss", "Loss by round of SGD", ("round", "round"), ("loss", "mean loss of rows met"))),
    )


class TreeFigure:
    """Nodes by depth, as bars; and the share of rows that they send right."""

    def __init__(self) -> None:
        self.source = ColumnDataSource({"depth": [], "nodes": [], "accuracy": []})
        self.nodes = plot("Nodes by depth", "depth (0: root)", "nodes done", name="tree_nodes", visible=False)
        self.nodes.vbar("depth", 0.7, "nodes", source=self.source, color=COLOURS[0])
        self.right = plot(
            "Rows sent right by depth", "depth (0: root)", "share of held-out rows", name="tree_right", visible=False
        )
        self.right.y_range.start, self.right.y_range.end = 0, 1.02
        self.right.yaxis.formatter = NumeralTickFormatter(format="0 %")
        self.right.scatter("depth", "accuracy", source=self.source, color=COLOURS[1], size=10, marker="diamond")
        self.nodes.y_range.start = 0
        for made, tip in ((self.nodes, "@nodes{0,0} nodes"), (self.right, "@accuracy{0.0 %}")):
            made.xaxis.ticker.min_interval = made.xaxis.ticker.desired_num_ticks = 1
            made.add_tools(HoverTool(tooltips=[("depth", "@depth"), ("", tip)]))
            made.xaxis.minor_tick_line_color = None

    def show(self, run: RunState | None, model: str) -> None:
        tree = run.trees.get(model) if run is not None else None
        self.nodes.visible = tree is not None
        if tree is None:
            self.right.visible = False
            return
        accuracy = [float("nan") if depth.accuracy is None else depth.accuracy for depth in tree.depths]
        self.right.visible = any(depth.accuracy is not None for depth in tree.depths)
        depths = [depth.depth for depth in tree.depths]
        self.nodes.title.text = f"Nodes by depth: {model}"
        self.right.title.text = f"Rows sent right by depth: {model}"
        self.source.data = {"depth": depths, "nodes": [one.nodes for one in tree.depths], "accuracy": accuracy}
        for made in (self.nodes, self.right):
            made.xaxis.ticker = depths


class MemoryFigure:
    """A bar a worker: what its process holds now, the most seen; lines for plan and limit."""

    def __init__(self) -> None:
        self.source = ColumnDataSource({"worker": [], "used": [], "peak": []})
        self.made = plot("", "GiB resident", "worker", name="memory", y_range=FactorRange())
        used = self.made.hbar("worker", 0.7, "used", source=self.source, color=COLOURS[5])
        dash = {"size": 14, "marker": "dash", "angle": 1.5708, "line_width": 3}
        peak = self.made.scatter("peak", "worker", source=self.source, color=COLOURS[0], **dash)
        self.marks = {name: ColumnDataSource({"x": []}) for name in ("plan", "limit")}
        plan = {"line_color": COLOURS[1], "line_width": 2, "line_dash": "dashed"}
        shown = {"now": used, "most seen": peak}
        shown["plan"] = self.made.vspan(x="x", source=self.marks["plan"], **plan)
        shown["limit"] = self.made.vspan(x="x", source=self.marks["limit"], line_color="#000000", line_width=2)
        above(self.made, [LegendItem(label=label, renderers=[drawn]) for label, drawn in shown.items()])
        self.made.x_range.start = 0
        tips = [("worker", "@worker"), ("now", "@used{0.00} GiB"), ("most seen", "@peak{0.00} GiB")]
        self.made.add_tools(HoverTool(tooltips=tips))

    def show(self, board: Board, run: RunState | None) -> None:
        workers = sorted(board.workers.values(), key=lambda worker: -worker.peak)[:MOST_WORKERS]
        names = _unique([worker.name for worker in workers])
        planned = run.planned if run is not None else 0
        limit = max((worker.limit for worker in workers), default=0)
        if list(self.made.y_range.factors) != names[::-1]:
            self.made.y_range.factors = names[::-1]
            self.made.height = max(TALL - 60, 110 + 22 * len(names))
        used, peak = ([getattr(worker, what) / GIB for worker in workers] for what in ("used", "peak"))
        self.source.data = {"worker": names, "used": used, "peak": peak}
        most = max([limit / GIB, planned / GIB, *peak], default=0.0)
        if most:
            self.made.x_range.end = 1.05 * most
        for name, value in (("plan", planned), ("limit", limit)):
            self.marks[name].data = {"x": [value / GIB] if value else []}
        self.made.title.text = memory_words(board, run)


def memory_words(board: Board, run: RunState | None) -> str:
    """What the figure comes to."""
    if not board.workers:
        return "Memory: there is no worker"
    most = max(worker.peak for worker in board.workers.values())
    said = f"Memory: most seen {size(most)}"
    return f"{said} of {size(run.planned)} planned" if run is not None and run.planned else said


def _unique(names: Sequence[str]) -> list[str]:
    seen = dict[str, int]()
    found = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        short = name if len(name) <= 28 else "..." + name[-25:]
        found.append(short if seen[name] == 1 else f"{short} ({seen[name]})")
    return found
