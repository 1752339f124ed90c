"""Hierarchies that were not worth their training: about as dear as one-vs-rest, and less accurate."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.report.relaxed_members import SWEPT, Member, one_vs_rest_of, relaxed_members
from pipeline.report.relaxed_tables import some_names
from pipeline.report.summary import RunSummary

DEAR = 0.9  # of one-vs-rest's complexity
WAYS = {
    "relaxed-hierarchy": "a larger rho makes them cheaper",
    "spectral-tree": "more levels make them cheaper",
    "marszalek": "a larger alpha makes them cheaper",
}
Loss = tuple[Member, float, float]  # relative complexity, points of accuracy below one-vs-rest's


def nothing_gained(run: RunSummary) -> list[str]:
    """One sentence per family and kernel; models that came to one-vs-rest alone are told in training already."""
    members = relaxed_members(run)
    groups: dict[tuple[str, str], list[Loss]] = {}
    for one in members:
        if one.family in SWEPT and one.hierarchy.get("nodes") != 1 and (loss := _loss(members, one)) is not None:
            groups.setdefault((one.family, one.kernel), []).append(loss)
    return [_text(family, losses) for (family, _), losses in groups.items()]


def _loss(members: Sequence[Member], one: Member) -> Loss | None:
    """Of a model that is dear and worse than the best one-vs-rest of the same rows, kernel and classes."""
    best = max((flat.accuracy for flat in one_vs_rest_of(members, one) if flat.accuracy is not None), default=None)
    if best is None or one.accuracy is None or one.relative is None or one.relative < DEAR:
        return None
    return (one, one.relative, 100 * (best - one.accuracy)) if one.accuracy < best else None


def _text(family: str, losses: Sequence[Loss]) -> str:
    names = some_names([one.name for one, _, _ in losses])
    costs, points = [relative for _, relative, _ in losses], [below for _, _, below in losses]
    several = len(losses) > 1
    verb, way = ("cost", "are") if several else ("costs", "is"), WAYS[family]
    cost = f"{verb[0]} {_range(costs, 2)} of one-vs-rest and {verb[1]} {_range(points, 1)} points less accurate"
    way = way if several else way.replace("them", "it")
    return f"NothingGained: {names}: {cost}: {way}; with no better value take one-vs-rest"


def _range(values: Sequence[float], places: int) -> str:
    low, high = (f"{value:.{places}f}" for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"
