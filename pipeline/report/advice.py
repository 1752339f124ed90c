"""Which model to use: what is cheapest among those as accurate as the best, as far as the test rows can tell."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.report.numbers import count, in_percent, microseconds, percent, times

SLOWER = 1.2  # measured times that differ by less are taken for the same
CHEAPER = 2.0  # a less accurate model is named where it costs, or takes, so many times less
MOST_LOST = 0.1  # of accuracy, that a cheaper or quicker model may lose to be named
ROUNDING = 1e-12
SLOWER_HERE = "Slower here: "
ONE_PRODUCT = 1000  # classes up to which one-vs-rest is called one small product
Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Candidate:
    """One model, by what it is worth and what it costs.

    accuracy     share of the test rows that are right, 0 to 1
    test_ops     dot products (or what `advise` is told) per predicted row
    predict_us   measured processor microseconds of one worker per row; model_bytes  parameters
    measured_in  the run whose measurements these are: times of different runs do not compare
    """

    name: str
    accuracy: float
    test_ops: float
    predict_us: float | None = None
    model_bytes: float | None = None
    train_seconds: float | None = None
    hier_err: float | None = None
    measured_in: str = ""

    def quicker_than(self, other: Candidate, share: float) -> bool:
        """Whether it takes less time than the other by more than this share, as far as their times compare."""
        if self.predict_us is None or other.predict_us is None or self.measured_in != other.measured_in:
            return False
        return other.predict_us > share * self.predict_us


@dataclass(frozen=True, slots=True)
class Advice:
    """What to use, in words and as names; all empty where nothing can be compared.

    lines          plain sentences: what to take first
    non_dominated  names of the models that no other beats in accuracy or cost without losing in the other, the
                   cheapest first
    take           the cheapest of those that tie with the most accurate one, itself among them
    most_accurate  of equals the cheaper one
    tied           names of all others that tie with the most accurate one, in the order given
    """

    lines: tuple[str, ...] = ()
    non_dominated: tuple[str, ...] = ()
    take: str = ""
    most_accurate: str = ""
    tied: tuple[str, ...] = ()

    @property
    def brief(self) -> str:
        """What to take, and with it what speaks against it; "" where nothing can be compared."""
        against = (line for line in self.lines[1:] if line.startswith(f"{SLOWER_HERE}{self.take} "))
        return " ".join([*self.lines[:1], *against])


@dataclass(frozen=True, slots=True)
class Choice:
    """What to take of some models where others were tested on other rows.

    of  what these models are of; brief  what to take; lines  what else to know
    """

    of: str
    brief: str
    lines: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return f"Of {self.of}: {_low(self.brief)}"


def _low(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


def advise(
    candidates: Sequence[Candidate],
    n_test: int,
    paired: Mapping[Pair, float] | None = None,
    n_classes: int | None = None,
    unit: str = "dot products",
) -> Advice:
    """Compare models that were tested on the same rows. Candidates without finite accuracy and cost are left out.

    n_test     test rows; 0: nothing is said to tie
    paired     standard error of the difference in accuracy of two models, by their names in any order; where it is not
               known, that of the accuracy of the most accurate one counts
    n_classes  of the dataset, to say why few of them are ranked quickly; None: it is not said
    unit       what `test_ops` counts
    """
    found = [one for one in candidates if math.isfinite(one.accuracy) and math.isfinite(one.test_ops)]
    if not found:
        return Advice()
    best = min(found, key=lambda one: (-one.accuracy, one.test_ops))
    others = [one for one in found if one is not best and ties(one, best, n_test, paired or {})]
    take = min([best, *others], key=lambda one: (one.test_ops, -one.accuracy))
    front = frontier(found)
    known = all(_pair(one, best) in _both_ways(paired or {}) for one in others)
    near = [one for one in found if take.accuracy - one.accuracy <= MOST_LOST + ROUNDING]
    cheaper = [one for one in front if one in near and 0 < one.test_ops * CHEAPER <= take.test_ops][-1:]
    lines = [
        *_choice(take, best, n_test, unit),
        *_tie_line(others, best, known),
        *_cheaper(cheaper, take, n_test, unit),
        *_quicker(near, [best, *others], cheaper, take, n_test),
        *_slower(found, [take, *cheaper], front, [best, *others], n_classes, unit),
    ]
    return Advice(
        tuple(lines),
        tuple(one.name for one in front),
        take.name,
        best.name,
        tuple(one.name for one in others),
    )


def advice_from(values: Mapping[str, Any]) -> Advice:
    """Of the JSON of metrics.json. Raises KeyError and TypeError where it is not that."""
    names = {key: tuple(map(str, values[key])) for key in ("lines", "non_dominated", "tied")}
    return Advice(**names, take=str(values["take"]), most_accurate=str(values["most_accurate"]))


def standard_error(accuracy: float, n_test: int) -> float:
    """Of a share of `n_test` rows; 0 where there are none."""
    return math.sqrt(max(0.0, accuracy * (1 - accuracy)) / n_test) if n_test > 0 else 0.0


def paired_error(only_first: int, only_second: int, n_test: int) -> float:
    """Standard error of the difference of two accuracies on the same rows; 0 where there are none.

    only_first, only_second  rows that only the one model, or only the other, has right
    """
    if n_test <= 0:
        return 0.0
    share, gap = (only_first + only_second) / n_test, (only_first - only_second) / n_test
    return math.sqrt(max(0.0, share - gap * gap) / n_test)


def accuracy_text(accuracy: float, n_test: int) -> str:
    """75.9 +- 0.5 %, with its standard error; without one where no test rows are known."""
    if n_test <= 0:
        return percent(accuracy)
    return f"{in_percent(accuracy)} \N{PLUS-MINUS SIGN} {percent(standard_error(accuracy, n_test))}"


def lost_points(low: float, high: float) -> str:
    """Points of accuracy between two: 1.5; with another digit, 1.44, where both as they are shown differ by 1.5."""
    lost, shown = in_percent(high - low), f"{float(f'{100 * high:.1f}') - float(f'{100 * low:.1f}'):.1f}"
    return lost if lost == shown else in_percent(high - low, 2)


def frontier(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Those that no other beats in accuracy or cost without losing in the other, the cheapest first."""
    kept: list[Candidate] = []
    for one in sorted(candidates, key=lambda one: (one.test_ops, -one.accuracy)):
        last = kept[-1] if kept else None
        if last is None or one.accuracy > last.accuracy or _same(one, last):
            kept.append(one)
    return kept


def _same(one: Candidate, other: Candidate) -> bool:
    return (one.accuracy, one.test_ops) == (other.accuracy, other.test_ops)


def ties(one: Candidate, best: Candidate, n_test: int, paired: Mapping[Pair, float]) -> bool:
    """Whether the difference to the best is no more than a standard error."""
    gap = best.accuracy - one.accuracy
    error = _both_ways(paired).get(_pair(one, best), standard_error(best.accuracy, n_test))
    return gap <= error + ROUNDING


def _pair(one: Candidate, other: Candidate) -> Pair:
    return min(one.name, other.name), max(one.name, other.name)


def _both_ways(paired: Mapping[Pair, float]) -> dict[Pair, float]:
    return {(min(pair), max(pair)): error for pair, error in paired.items()}


# ---- the sentences -----------------------------------------------------------------------------------------------


def _choice(take: Candidate, best: Candidate, n_test: int, unit: str) -> list[str]:
    cost = f"{count(take.test_ops)} {unit} per row"
    if take is best:
        return [f"Take {take.name}: most accurate ({accuracy_text(take.accuracy, n_test)}), {cost}."]
    fewer = f", {_fewer(take, best)} fewer than {best.name}" if take.test_ops > 0 else ""
    return [
        f"Take {take.name}: {accuracy_text(take.accuracy, n_test)}, within a standard error of the best, with "
        f"{cost}{fewer}.",
        f"Most accurate: {best.name}, {accuracy_text(best.accuracy, n_test)}, {count(best.test_ops)} {unit} per row.",
    ]


def _fewer(cheap: Candidate, dear: Candidate) -> str:
    return times(dear.test_ops / cheap.test_ops)


def _tie_line(others: Sequence[Candidate], best: Candidate, known: bool) -> list[str]:
    if not others:
        return []
    how = "compared row by row" if known else "judged by that of the best"
    names = ", ".join(one.name for one in others)
    return [f"Ties with {best.name}: {names} (within one standard error, {how})."]


def _cheaper(found: Sequence[Candidate], take: Candidate, n_test: int, unit: str) -> list[str]:
    """found: the most accurate one that costs much less than what is to be taken, if there is one."""
    return [
        f"Cheaper: {_with_loss(one, take, n_test)} with {count(one.test_ops)} {unit} per row, "
        f"{_fewer(one, take)} fewer than {take.name}."
        for one in found
    ]


def _quicker(
    near: Sequence[Candidate], tied: Sequence[Candidate], cheaper: Sequence[Candidate], take: Candidate, n_test: int
) -> list[str]:
    """The most accurate one that takes much less time than what is to be taken, and than all that tie with it: against
    the quickest of these.

    Those that tie are told by `_slower`; near: hardly less accurate; cheaper: told already.
    """
    less = (one for one in near if one not in tied and one.accuracy < take.accuracy)
    times_known = [other for other in tied if other.predict_us is not None and other.measured_in == take.measured_in]
    quick = [one for one in less if all(one.quicker_than(other, CHEAPER) for other in (take, *times_known))]
    one = max(quick, key=lambda one: (one.accuracy, -(one.predict_us or 0.0)), default=None)
    if one is None or one in cheaper or one.predict_us is None:
        return []
    quickest = min((take, *times_known), key=lambda other: other.predict_us or math.inf)
    return [
        f"Quicker here: {_with_loss(one, take, n_test)} with {microseconds(one.predict_us)} per row against "
        f"{microseconds(quickest.predict_us or 0.0)} of {quickest.name}."
    ]


def _with_loss(one: Candidate, take: Candidate, n_test: int) -> str:
    return f"{one.name}, {accuracy_text(one.accuracy, n_test)} ({lost_points(one.accuracy, take.accuracy)} points less)"


def _slower(
    found: Sequence[Candidate],
    named: Sequence[Candidate],
    front: Sequence[Candidate],
    tied: Sequence[Candidate],
    n_classes: int | None,
    unit: str,
) -> list[str]:
    """Of those on the front, or that tie, that are slower than one as accurate that costs more: than which.

    One line for all that are slower than the same one, those that sentences name first, then the slowest by their
    share; two lines at most.
    named  what is to be taken, and the cheaper one
    tied   the most accurate one and those that tie with it: as accurate as any
    """
    slow: dict[str, tuple[Candidate, list[tuple[int, float, Candidate]]]] = {}
    for one in dict.fromkeys([*named, *front, *tied]):
        quicker = [
            (-other.accuracy, other.predict_us, other)
            for other in found
            if other.test_ops > one.test_ops
            and (other.accuracy >= one.accuracy or other in tied)
            and other.predict_us is not None
            and other.quicker_than(one, SLOWER)
        ]
        if one.predict_us is None or not quicker:
            continue
        _, quick_us, quick = min(quicker, key=lambda found: found[:2])
        share = one.predict_us / quick_us if quick_us > 0 else math.inf
        place = named.index(one) if one in named else len(named)
        slow.setdefault(quick.name, (quick, []))[1].append((place, -share, one))
    lines = []
    for quick, slower in slow.values():
        slower.sort(key=lambda one: one[:2])
        lines.append((slower[0][:2], _slower_line([one for *_, one in slower], quick, n_classes, unit)))
    return [line for _, line in sorted(lines)[:2]]


def _slower_line(slower: Sequence[Candidate], quick: Candidate, n_classes: int | None, unit: str) -> str:
    first, *more = slower
    also = ", ".join(f"{one.name}: {microseconds(one.predict_us or 0.0)}" for one in more[:2])
    flat = n_classes is not None and n_classes <= ONE_PRODUCT and quick.test_ops == n_classes
    why = f": {n_classes:,} classes are one small product" if flat else ""
    return (
        f"{SLOWER_HERE}{first.name} has fewer {unit} than {quick.name}, but takes "
        f"{microseconds(first.predict_us or 0.0)} per row against {microseconds(quick.predict_us or 0.0)}"
        f"{f' ({also})' if also else ''}{why}."
    )
