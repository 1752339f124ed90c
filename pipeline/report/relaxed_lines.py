"""Which models are the settings of one method, and what a method reaches at which complexity."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pipeline.report.relaxed_members import FLAT, SWEPT, Basis, Member, apart
from pipeline.report.summary import RunSummary


@dataclass(frozen=True, slots=True)
class Spot:
    """One setting of a method: means over its models, which differ in a draw of classes or a seed at most.

    name     the setting's value; of methods without settings, ""
    x, y     relative complexity, accuracy in per cent
    models   their names
    """

    name: str
    x: float
    y: float
    models: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Method:
    """A family on some rows, with its settings in ascending order.

    basis  kernel, rows and classes of its models: methods that differ there do not compare
    doubt  0 of what has none
    """

    label: str
    family: str
    spots: Sequence[Spot]
    basis: frozenset[Basis]
    doubt: float = 0.0


Cost = Callable[[Member], float | None]


def relative_complexity(member: Member) -> float | None:
    """What Figures 2 and 3 of the paper count."""
    return member.relative


def methods_of(run: RunSummary, members: Sequence[Member], cost: Cost = relative_complexity) -> list[Method]:
    """Models in lines over the key that moves their family; models without accuracy or cost are left out.

    Draws of classes are averaged, and seeds where the config tells them. Models that differ in more are in lines of
    their own.
    """
    repeated = _labels(run)
    groups: dict[tuple[str, str, str | None], list[Member]] = {}
    for member in members:
        if member.accuracy is not None and _positive(cost(member)):
            groups.setdefault((member.family, member.what, repeated.get(member.name)), []).append(member)
    several = [(family, what) for family, what, _ in groups]
    found: list[Method] = []
    for (family, what, line), group in groups.items():
        named = line if line is not None and several.count((family, what)) > 1 else what
        parts = [group] if line is not None else apart(group, lambda one: (one.swept, one.draw))
        for part in parts:
            told = f"{named} ({part[0].name})" if len(parts) > 1 else named
            found.append(Method(told, family, _spots(part, cost), frozenset(one.basis for one in part), part[0].doubt))
    return found


def flat_level(methods: Sequence[Method], basis: frozenset[Basis]) -> float | None:
    """Accuracy, in per cent, of the best one-vs-rest of the same kernel, rows and classes; None where there is none."""
    alike = [one for one in methods if one.family == FLAT and one.basis == basis]
    return max((spot.y for one in alike for spot in one.spots), default=None)


def _labels(run: RunSummary) -> dict[str, str]:
    """Of models that the config puts into a line over one of the keys: the line they are in."""
    keys = set(SWEPT.values())
    return {
        name: line.label for line in run.lines if line.key in keys for names in line.names.values() for name in names
    }


def _spots(members: Sequence[Member], cost: Cost) -> list[Spot]:
    values = sorted({one.swept for one in members}, key=_ascending)
    return [_spot(value, [one for one in members if one.swept == value], cost) for value in values]


def _spot(value: float | None, members: Sequence[Member], cost: Cost) -> Spot:
    name = "" if value is None else f"{value:g}"
    x = _mean([cost(member) for member in members])
    y = _mean([member.accuracy for member in members])
    return Spot(name, x, 100 * y, tuple(member.name for member in members))


def _mean(values: Sequence[float | None]) -> float:
    found = [value for value in values if value is not None]
    return math.fsum(found) / len(found)


def _positive(value: float | None) -> bool:
    return value is not None and value > 0


def _ascending(value: float | None) -> float:
    return -math.inf if value is None else value


# ---- what a method reaches -----------------------------------------------------------------------------------------


def least_complexity(spots: Sequence[Spot], accuracy: float) -> float | None:
    """Of the settings that are at least that accurate (in per cent); None when none is."""
    return min((spot.x for spot in spots if spot.y >= accuracy), default=None)


def most_accuracy(spots: Sequence[Spot], complexity: float) -> float | None:
    """Of the settings that are at most that complex; None when none is."""
    return max((spot.y for spot in spots if spot.x <= complexity), default=None)


def frontier(spots: Sequence[Spot]) -> list[Spot]:
    """The settings that no other beats in accuracy or complexity without losing in the other, cheapest first."""
    kept: list[Spot] = []
    for spot in sorted(spots, key=lambda one: (one.x, -one.y)):
        if not kept or spot.y > kept[-1].y:
            kept.append(spot)
    return kept


def reached(spots: Sequence[Spot], complexity: float) -> float | None:
    """Accuracy of the frontier at a complexity, straight between its settings over the logarithm; its last to the
    right of it, None to the left."""
    ordered = frontier(spots)
    if not ordered or complexity < ordered[0].x:
        return None
    for left, right in pairwise(ordered):
        if complexity < right.x:
            share = math.log(complexity / left.x) / math.log(right.x / left.x)
            return left.y + share * (right.y - left.y)
    return ordered[-1].y


def least_lead(own: Sequence[Spot], rival: Sequence[Spot]) -> float | None:
    """By how many points `own` is more accurate at the rival's settings, at the worst of those that it reaches."""
    leads = [level - spot.y for spot in rival if (level := reached(own, spot.x)) is not None]
    return min(leads, default=None)
