"""What a figure or table of a report says, for tests to look at."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from typing import Any

from pipeline.report.plot import Plot
from pipeline.report.summary import RunSummary

Details = Mapping[str, Mapping[str, Any]]


def summary(details: Details, **more: Any) -> RunSummary:
    return RunSummary("s", {name: {"top1": 0.5} for name in details}, 10, details=details, **more)


def table(plot: Plot | None) -> list[dict[str, str]]:
    assert plot is not None
    return list(csv.DictReader(io.StringIO(plot.csv)))


def texts(svg: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)
