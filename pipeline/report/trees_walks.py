"""The way of a few test rows down a tree: the label set at every node, the true class marked (Figure 2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.report.csvs import csv_text
from pipeline.report.labels import short_name
from pipeline.report.numbers import short
from pipeline.report.summary import RunSummary
from pipeline.report.trees_tables import tree_details

Record = Mapping[str, Any]
LETTERS = 40  # of a class's name among others


@dataclass(frozen=True, slots=True)
class Name:
    """A class of a label set; true: it is the row's own."""

    text: str
    true: bool


@dataclass(frozen=True, slots=True)
class Step:
    """A node on the way: its number, how many classes it has, its score among its siblings ("" of the root), whether
    the true class is one of them, some of them, how many more there are."""

    node: str
    classes: str
    score: str
    holds: bool
    names: Sequence[Name]
    more: int


@dataclass(frozen=True, slots=True)
class Walk:
    """The way of one row; why it is shown, what it is and what was answered."""

    row: int
    why: str
    true: str
    answer: str
    right: bool
    steps: Sequence[Step]


@dataclass(frozen=True, slots=True)
class TreeWalks:
    """The walks down one tree."""

    model: str
    walks: Sequence[Walk]


def walks_of(run: RunSummary) -> list[TreeWalks]:
    """One for each tree with walks."""
    trees = tree_details(run)
    return [
        TreeWalks(
            name, [_walk(run, one, "probability" if tree.get("probabilistic") else "score") for one in tree["walks"]]
        )
        for name, tree in trees.items()
        if tree.get("walks")
    ]


def _walk(run: RunSummary, walk: Record, told: str) -> Walk:
    label = int(walk["label"])
    steps = [_step(run, one, label, told) for one in walk["steps"]]
    answer = int(walk["answer"])
    return Walk(
        int(walk["row"]), str(walk["why"]), class_name(run, label), class_name(run, answer), answer == label, steps
    )


def _step(run: RunSummary, step: Record, label: int, told: str) -> Step:
    names = [Name(short_name(class_name(run, c), LETTERS), c == label) for c in step["sample"]]
    return Step(
        node=str(step["node"]),
        classes="1 class" if step["classes"] == 1 else f"{step['classes']:,} classes",
        score=_score(step, told),
        holds=bool(step["holds"]),
        names=names,
        more=int(step["classes"]) - len(names),
    )


def _score(step: Record, told: str) -> str:
    if step.get("score") is None:
        return ""
    text, ahead = f"{told} {short(step['score'])}", step.get("ahead")
    if ahead is None:
        return text
    return f"{text}, {short(abs(ahead))} {'ahead' if ahead >= 0 else 'behind'}"


def class_name(run: RunSummary, number: int) -> str:
    """Of a class; "(none)" of the answer of an empty leaf, or of a row whose label is not known."""
    if number < 0:
        return "(none)"
    name = run.class_names[number] if number < len(run.class_names) else ""
    return name or (run.class_ids[number] if number < len(run.class_ids) else f"class {number}")


KEYS = ("depth", "node", "classes", "score", "ahead")


def walks_csv(run: RunSummary) -> str | None:
    """All steps of all walks; None without any."""
    lines = [
        (
            name,
            one["row"],
            one["why"],
            one["label"],
            one["answer"],
            *(step.get(key) for key in KEYS),
            int(step["holds"]),
        )
        for name, tree in tree_details(run).items()
        for one in tree.get("walks") or ()
        for step in one["steps"]
    ]
    return csv_text(["model", "row", "why", "label", "answer", *KEYS, "holds"], lines) if lines else None
