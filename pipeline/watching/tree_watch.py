"""Counts the nodes of a growing tree by depth, and tells of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pipeline.watching.telling import Tell, untold

AMBIGUITY, BOTH_WAYS = "ambiguity", "classes both ways"  # what splits are measured by
MORE = 1.25  # times as many nodes as when it was last said: then events.jsonl gets another line


@dataclass
class _Depth:
    nodes: int = 0
    rows: int = 0
    judged: float = 0.0
    right: float = 0.0  # judged rows that go the right way
    weight: float = 0.0
    measured: float = 0.0


class TreeWatch:
    """Of one tree; called for every node that has ended.

    model    whose tree it is
    measure  what `measured` of a node means
    event    for events.jsonl: few lines, however many nodes
    tell     for the dashboard: every node
    """

    def __init__(self, model: str, measure: str, event: Tell = untold, tell: Tell = untold) -> None:
        self.model, self.measure, self.event, self.tell = model, measure, event, tell
        self.depths: dict[int, _Depth] = {}
        self.nodes, self.said_at, self.waiting = 0, 0, 1  # the root

    def add(
        self,
        depth: int,
        rows: int,
        begun: int,
        judged: float | None = None,
        accuracy: float | None = None,
        measured: float | None = None,
    ) -> None:
        """Count a node of `rows` training rows; `begun` children of it are to be grown.

        accuracy  share of its `judged` rows that go to a child with their class, if that is known
        measured  of its split
        """
        found = self.depths.setdefault(depth, _Depth())
        found.nodes += 1
        found.rows += rows
        if accuracy is not None and judged:
            found.judged += judged
            found.right += judged * accuracy
        if measured is not None and rows:
            found.weight += rows
            found.measured += rows * measured
        self.nodes += 1
        self.waiting += begun - 1

    def ended(self, depth: int, rows: int, begun: int, *judged: float | None) -> None:
        """As `add`, and tell of it."""
        self.add(depth, rows, begun, *judged)
        if self.nodes >= MORE * self.said_at:
            self.said_at = self.nodes
            self.event("nodes", **self.as_json())
        else:
            self.tell("nodes", **self.as_json())

    def close(self) -> None:
        """The tree is whole: said, if it has not been."""
        self.waiting = 0
        if self.nodes > self.said_at:
            self.event("nodes", **self.as_json())

    def as_json(self) -> dict[str, Any]:
        """Plain values, depth by depth."""
        return {
            "model": self.model,
            "measure": self.measure,
            "waiting": self.waiting,
            "depths": [
                {
                    "depth": depth,
                    "nodes": one.nodes,
                    "rows": one.rows,
                    "accuracy": one.right / one.judged if one.judged else None,
                    "measure": one.measured / one.weight if one.weight else None,
                }
                for depth, one in sorted(self.depths.items())
            ],
        }
