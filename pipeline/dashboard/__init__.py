"""A page of labelgrove's own on Dask's dashboard. A preload of the scheduler:

    dask scheduler --preload pipeline.dashboard

The page is at /labelgrove, its state at /labelgrove/state.json, metrics at /labelgrove/metrics and among Dask's own at
/metrics. With another version of Dask, whatever does not fit is left out; the scheduler never fails because of it.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

from dask import config

TAB = "labelgrove"
LATER = "labelgrove.dashboard-later"  # of Dask's settings: this scheduler was made without a dashboard
log = logging.getLogger(__name__)


def attempt(what: str, work: Callable[[], None]) -> bool:
    """Do it, or say in the log that it cannot be done."""
    try:
        work()
    except Exception as error:
        log.warning("labelgrove: no %s: %s: %s", what, type(error).__name__, error)
        return False
    return True


def add_pages() -> None:
    """Ours, on the dashboard."""
    if attempt("page on the dashboard", add_page):
        attempt("tab on the dashboard", add_tab)


def add_page() -> None:
    """The dashboard looks for its pages while the scheduler is made: this is in time when the preload is imported."""
    from distributed.dashboard import scheduler as dashboard

    from pipeline.dashboard.page import page

    dashboard.applications[f"/{TAB}"] = page


def add_tab() -> None:
    """A tab beside Dask's own, on all its pages."""
    from distributed.dashboard import scheduler as dashboard

    original = dashboard.template_variables
    if getattr(original, "has_labelgrove", False):
        return

    @functools.wraps(original)
    def template_variables(scheduler: Any) -> Any:
        found = original(scheduler)
        if TAB not in found["pages"]:
            found["pages"].insert(1, TAB)
        return found

    template_variables.has_labelgrove = True  # type: ignore[attr-defined]
    dashboard.template_variables = template_variables


def add_metrics() -> None:
    """Among Dask's own metrics: its handler makes one of each collector at the first request."""
    from distributed.http.scheduler.prometheus import core

    from pipeline.dashboard.serving import BoardCollector

    if BoardCollector not in core.COLLECTORS:
        core.COLLECTORS.append(BoardCollector)


def dask_setup(scheduler: Any) -> None:
    """Called by Dask when the scheduler has started."""
    from pipeline.dashboard.plugin import NAME, BoardPlugin
    from pipeline.dashboard.serving import serve

    attempt("messages of runs", lambda: scheduler.add_plugin(BoardPlugin(scheduler), idempotent=True, name=NAME))
    attempt("state and metrics", lambda: serve(scheduler))
    if config.get(LATER, False):
        from pipeline.dashboard.later import make_when_asked

        attempt("dashboard", lambda: make_when_asked(scheduler, add_pages))


if not config.get(LATER, False):
    add_pages()
attempt("metrics among Dask's", add_metrics)
