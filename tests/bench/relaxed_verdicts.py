"""Where the curve of relaxed hierarchies lies, beside its rivals' points and one-vs-rest: verdicts worked out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.report.relaxed_lines import Spot, frontier, reached

RELAXED = "relaxed-hierarchy"
GOALS = ((0.6, "match", 0.0), (0.25, "within 3 points", 3.0))  # at most so complex, at most so many points below


@dataclass(frozen=True)
class Line:
    """A model: means over seeds.

    family   what it is, in the config's words
    doubt    0 of what has none
    numbers  those of MEANS, NaN where it has none
    spread   standard deviation of its accuracy over seeds
    """

    model: str
    family: str
    setting: str
    doubt: float
    numbers: Mapping[str, float]
    spread: float

    @property
    def accuracy(self) -> float:
        """Mean over classes of the share of their rows that are right, in per cent."""
        return 100 * self.numbers["mean_per_class_top1"]

    @property
    def relative(self) -> float:
        return self.numbers["relative_complexity"]

    @property
    def spot(self) -> Spot:
        return Spot(self.setting, self.relative, self.accuracy, (self.model,))


def verdicts(lines: Sequence[Line], n_test: int, flat: Sequence[str]) -> str:
    """Whether the relaxed curve lies above every rival's points, and what it loses to one-vs-rest at two complexities.

    flat  the names of the models of one-vs-rest
    """
    every = [line.spot for line in lines if line.family == RELAXED]
    share = max(spot.y for spot in every) / 100
    error = 100 * math.sqrt(share * (1 - share) / n_test)
    text = [f"one accuracy has a standard error of {error:.2f} points: {n_test:,} test rows, the same for all models"]
    doubts = list(dict.fromkeys(line.doubt for line in lines if line.family == RELAXED))
    for doubt in doubts:
        text += ["", f"the relaxed curve with doubt {doubt:g}"]
        text += verdict([line.spot for line in lines if line.family == RELAXED and line.doubt == doubt], lines, flat)
    if len(doubts) > 1:
        text += ["", "the relaxed curve with whatever doubt", *verdict(every, lines, flat)]
    return "\n".join(text)


def verdict(own: Sequence[Spot], lines: Sequence[Line], flat: Sequence[str]) -> list[str]:
    """Of one relaxed curve."""
    kept = ", ".join(f"{spot.name} ({spot.y:.2f} % at {spot.x:.3f})" for spot in frontier(own))
    text = [f"its settings: {kept}", "(a) its lead where the rivals' points are"]
    rivals = [line for line in lines if line.family not in (RELAXED, "ovr")]
    for family, doubt in dict.fromkeys((line.family, line.doubt) for line in rivals):
        text += leads(own, [line for line in rivals if (line.family, line.doubt) == (family, doubt)])
    named = {line.model: line for line in lines}
    for mark, (bound, goal, allowed) in zip("bc", GOALS, strict=True):
        text.append(f"({mark}) the best at a relative complexity of at most {bound}; goal: {goal}")
        text += losses(own, bound, allowed, [named[model] for model in flat])
    return text


def leads(own: Sequence[Spot], rivals: Sequence[Line]) -> list[str]:
    """The curve's lead at each rival's point, in points of accuracy, and these in one line."""
    text, found = [], []
    for rival in rivals:
        place = f"    {rival.model:16} {rival.accuracy:6.2f} % at {rival.relative:6.3f}: "
        level = reached(own, rival.relative)
        if level is None:
            text.append(f"{place}cheaper than every relaxed setting")
            continue
        lead = level - rival.accuracy
        found.append(lead)
        text.append(f"{place}the curve has {level:6.2f}, {lead:+.2f}: {word(lead)}")
    above = f"above at {sum(word(lead) == 'above' for lead in found)} of {len(rivals)} points"
    above += f", {len(rivals) - len(found)} cheaper than every relaxed setting" if len(found) < len(rivals) else ""
    if found:
        above += f", least lead {min(found):+.2f}, mean lead {np.mean(found):+.2f}"
    doubt = f"with doubt {rivals[0].doubt:g}" if rivals[0].doubt else "as in their papers"
    return [*text, f"  {rivals[0].family}, {doubt}: {above}"]


def word(lead: float) -> str:
    """Of a lead as it is printed."""
    return "level" if abs(lead) < 0.005 else "above" if lead > 0 else "below"


def losses(own: Sequence[Spot], bound: float, allowed: float, flat: Sequence[Line]) -> list[str]:
    """The most accurate setting that is no more complex than the bound, and what it loses to each one-vs-rest."""
    inside = [spot for spot in own if spot.x <= bound]
    if not inside:
        return [f"    missed: the cheapest setting costs {min(spot.x for spot in own):.3f}"]
    best = max(inside, key=lambda spot: (spot.y, -spot.x))
    text = [f"    {best.name}: {best.y:.2f} % at {best.x:.3f}"]
    for line in flat:
        lead = best.y - line.accuracy
        short = -allowed - lead
        text.append(f"    to {line.model:8} {lead:+.2f}: {'met' if short <= 0 else f'missed by {short:.2f}'}")
    return text
