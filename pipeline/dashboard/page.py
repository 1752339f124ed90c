"""The page: a Bokeh document for each visitor, drawn anew from the scheduler's board when that has changed."""

from __future__ import annotations

import contextlib
import time
from typing import Any

from bokeh.models import Div, InlineStyleSheet, Select

from pipeline.dashboard.figures import CARD, MemoryFigure, TreeFigure, line_figures
from pipeline.dashboard.plugin import board_of
from pipeline.dashboard.state import RunState
from pipeline.dashboard.tables import (
    STYLE,
    empty_page,
    faults_table,
    head,
    steps_table,
    tree_tables,
)

EVERY_MILLISECONDS = 500
NEWEST = ""  # what the selector says of whichever run is the newest
TEMPLATE = """
{% extends "base.html" %}
{% block content %}
{% from macros import embed %}
<style>
  #labelgrove { display: grid; grid-template-columns: repeat(6, minmax(0, 1fr)); gap: 10px; padding: 10px 0 24px 0; }
  #labelgrove > * { grid-column: span 6; min-width: 0; }
  #labelgrove > .figures {
    display: grid; gap: 10px; grid-template-columns: repeat(auto-fit, minmax(min(360px, 100%), 1fr));
  }
  #labelgrove > .half { grid-column: span 3; }
  #labelgrove > .top { display: flex; flex-wrap: wrap; gap: 10px; align-items: flex-start; }
  @media (max-width: 900px) { #labelgrove > .half { grid-column: span 6; } }
</style>
<div id="labelgrove">
  <div class="top">{{ embed(roots.choice) }}{{ embed(roots.head) }}</div>
  <div>{{ embed(roots.steps) }}</div>
  <div class="figures">{% for name in figures %}{{ embed(roots[name]) }}{% endfor %}</div>
  <div>{{ embed(roots.trees) }}</div>
  <div class="half">{{ embed(roots.memory) }}</div>
  <div class="half">{{ embed(roots.faults) }}</div>
</div>
{{ plot_script }}
{% endblock %}
"""


class Page:
    """One visitor's page."""

    def __init__(self, scheduler: Any) -> None:
        self.scheduler = scheduler
        self.shown = -1
        self.choice = Select(name="choice", title="run", options=[(NEWEST, "the newest")], value=NEWEST, width=230)
        self.choice.on_change("value", self._chosen)
        self.head, self.steps, self.trees, self.faults = (words(name) for name in ("head", "steps", "trees", "faults"))
        self.lines, self.tree, self.memory = line_figures(), TreeFigure(), MemoryFigure()

    def _chosen(self, attr: str, old: str, new: str) -> None:  # noqa: ARG002
        self.update(anew=True)

    def figures(self) -> list[Any]:
        return [*(lines.made for _, lines in self.lines), self.tree.nodes, self.tree.right]

    def roots(self) -> list[Any]:
        return [self.choice, self.head, self.steps, self.trees, self.faults, *self.figures(), self.memory.made]

    def update(self, anew: bool = False) -> None:
        """Draw what has changed since the last time."""
        board = board_of(self.scheduler)
        if board.version == self.shown and not anew:
            return
        self.shown = board.version
        now = time.time()
        runs = board.newest_first()
        options = [(NEWEST, "the newest"), *((run.token, option_text(run)) for run in runs)]
        if self.choice.options != options:
            self.choice.options = options
        if self.choice.value not in [token for token, _ in options]:
            self.choice.value = NEWEST
        run = next((run for run in runs if self.choice.value in (NEWEST, run.token)), None)
        self.choice.visible = len(runs) > 1
        self._show(run, now)
        self.memory.show(board, run)
        self._say(self.faults, faults_table(board, run))

    def _show(self, run: RunState | None, now: float) -> None:
        if run is None:
            self._say(self.head, empty_page(str(self.scheduler.address)))
        else:
            self._say(self.head, head(run, now))
            self._say(self.steps, steps_table(run, now))
        self.steps.visible = run is not None
        for kind, lines in self.lines:
            lines.show({} if run is None else getattr(run, kind))
        model = "" if run is None or not run.trees else list(run.trees)[-1]
        self.tree.show(run, model)
        self.trees.visible = bool(model)
        if run is not None and model:
            self._say(self.trees, tree_tables(run))

    @staticmethod
    def _say(part: Any, text: str) -> None:
        if part.text != text:
            part.text = text


def words(name: str) -> Any:
    """A part of the page that is HTML."""
    styles = {"flex": "1 1 300px"} if name == "head" else {**CARD, "padding": "8px 10px", "box-sizing": "border-box"}
    sheet = InlineStyleSheet(css=STYLE)
    return Div(name=name, sizing_mode="stretch_width", stylesheets=[sheet], styles=styles, margin=0, disable_math=True)


def option_text(run: RunState) -> str:
    """flowers, running since 12:03."""
    return f"{run.name}, {run.state}, {time.strftime('%H:%M', time.localtime(run.started))}"


def page(scheduler: Any, extra: dict[str, Any], doc: Any) -> None:
    """What Dask's dashboard calls for every visitor."""
    made = Page(scheduler)
    made.update()
    doc.add_periodic_callback(made.update, EVERY_MILLISECONDS)
    doc.title = "labelgrove"
    for root in made.roots():
        doc.add_root(root)
    with contextlib.suppress(ImportError, AttributeError):  # without Dask's frame around it, the page is plainer
        from distributed.dashboard.components.scheduler import env

        doc.template = env.from_string(TEMPLATE)
    doc.template_variables.update({**extra, "figures": [figure.name for figure in made.figures()]})
