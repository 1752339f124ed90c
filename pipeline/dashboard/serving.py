"""What the dashboard's port serves beside the page: the state as JSON, and metrics."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from typing import Any

from prometheus_client import CollectorRegistry, Metric, generate_latest
from tornado.web import RequestHandler

from pipeline.dashboard.metrics import families
from pipeline.dashboard.plugin import board_of


class _Handler(RequestHandler):
    def initialize(self, scheduler: Any) -> None:
        self.scheduler = scheduler
        self.set_header("Cache-Control", "no-store")
        self.set_header("X-Content-Type-Options", "nosniff")


class StateHandler(_Handler):
    """/labelgrove/state.json"""

    def get(self) -> None:
        self.set_header("Content-Type", "application/json; charset=utf-8")
        state = board_of(self.scheduler).as_json(time.time())
        self.write(json.dumps(state, allow_nan=False, ensure_ascii=False).encode("utf-8", "replace"))


class BoardCollector:
    """A collector of prometheus_client; Dask's own handler of /metrics sets `server` to the scheduler of today."""

    def __init__(self, server: Any) -> None:
        self.server = server

    def collect(self) -> Iterable[Metric]:
        return families(board_of(self.server))


class MetricsHandler(_Handler):
    """/labelgrove/metrics"""

    def get(self) -> None:
        registry = CollectorRegistry()
        registry.register(BoardCollector(self.scheduler))
        self.set_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.write(generate_latest(registry))


def serve(scheduler: Any) -> None:
    """Add both to the port of a scheduler's dashboard, also behind its prefix, if it was given one."""
    handlers: list[Any] = [
        (r"/(?:.*/)?labelgrove/state\.json", StateHandler, {"scheduler": scheduler}),
        (r"/(?:.*/)?labelgrove/metrics", MetricsHandler, {"scheduler": scheduler}),
    ]
    scheduler.http_application.add_handlers(r".*", handlers)
