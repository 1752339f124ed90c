"""Dask's dashboard, made when somebody looks at it first: what draws its pages takes two seconds to load, and is not
missed by a run that nobody watches.

For schedulers of our own alone, which were made without. Until then every path that the scheduler does not serve itself
comes here; what was asked for is answered once the dashboard is there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib import import_module
from typing import Any

from tornado.web import Application, HTTPError, RequestHandler


class Maker(RequestHandler):
    """Makes the dashboard, once, and sends whoever asked to the same place again."""

    def initialize(self, waiting: Waiting) -> None:
        self.waiting = waiting

    async def get(self) -> None:
        await self.waiting.made()
        self.redirect(self.request.uri or "/")


class Waiting:
    """A dashboard to be made: `pages` adds ours to those that Dask knows."""

    def __init__(self, scheduler: Any, pages: Callable[[], object]) -> None:
        self.scheduler, self.pages = scheduler, pages
        self.place = Application([(r".*", Maker, {"waiting": self})])
        self._lock = asyncio.Lock()

    async def made(self) -> None:
        """Once the dashboard is there. Raises HTTPError where it cannot be made."""
        async with self._lock:
            places = self.scheduler.http_application.applications
            if self.place not in places:
                return
            try:
                await asyncio.to_thread(self._load)
                import_module("distributed.dashboard.scheduler").connect(
                    self.scheduler.http_application, self.scheduler.http_server, self.scheduler, prefix="/"
                )
            except Exception as error:
                raise HTTPError(503, f"no dashboard: {error}") from error
            places.remove(self.place)

    def _load(self) -> None:
        import_module("distributed.dashboard.scheduler")
        self.pages()


def make_when_asked(scheduler: Any, pages: Callable[[], object]) -> None:
    """Leave the making of a scheduler's dashboard to its first visitor."""
    scheduler.http_application.add_application(Waiting(scheduler, pages).place)
