"""A figure of the page, and which models it has room for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pipeline.report.metrics import known
from pipeline.report.summary import RunSummary

MOST_LINES = 12  # of one figure; more cannot be told apart


@dataclass(frozen=True, slots=True)
class Plot:
    """A figure of the page, and the CSV it can be drawn from; narrow: the same for a phone, where it has one."""

    name: str
    title: str
    caption: str
    svg: str
    csv: str
    narrow: str = ""


def drawn_models(run: RunSummary, names: Iterable[str]) -> list[str]:
    """Of many models the most accurate ones, in the config's order; ties to the earlier one."""
    found = list(names)
    best = sorted(found, key=lambda name: -(known(run.models.get(name, {}), "top1") or 0.0))[:MOST_LINES]
    return [name for name in found if name in best]


def left_out_text(drawn: int, found: int) -> str:
    """For a caption; "" when all are drawn."""
    return f" The {drawn} most accurate of {found} models." if drawn < found else ""
