"""A figure of the page."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Plot:
    """A figure of the page, and the CSV it can be drawn from."""

    name: str
    title: str
    caption: str
    svg: str
    csv: str
