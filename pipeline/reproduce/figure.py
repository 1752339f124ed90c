"""What a table or figure of a paper is: what it needs and runs, what it shows of the results, what the paper claims."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from pipeline.report.numbers import percent
from pipeline.report.plot import Plot
from pipeline.reproduce.found import Found

State = Literal["holds", "does not hold", "cannot be told here"]
HOLDS: State = "holds"
FAILS: State = "does not hold"
UNKNOWN: State = "cannot be told here"
OURS = "a check of ours"  # source of what a figure must show, and its paper does not say

NEEDS = {  # what data a figure asks for, as --list says it
    "dense": "dense rows",
    "sparse": "rows with many zeros",
    "taxonomy": "a taxonomy",
    "nothing": "no data",
    "any": "any rows of numbers",
}


@dataclass(frozen=True, slots=True)
class Number:
    """A cell that is a number: its value, and how the page writes it."""

    value: float | None
    text: str


Cell = str | Number


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the page; the first `words` columns are text, and name its rows in the CSV."""

    title: str
    heading: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""
    words: int = 1


@dataclass(frozen=True, slots=True)
class Shown:
    """What stands on the page of a figure beside its claims."""

    tables: Sequence[Table]
    plots: Sequence[Plot] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What our numbers say of a claim, and the numbers."""

    state: State
    here: str


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement of a paper.

    text   what it says, in its own words or nearly     source  where: "section 4.2", or OURS
    rule   how it is judged here, where the paper's words leave that open
    judge  the verdict on what was found
    """

    text: str
    source: str
    rule: str
    judge: Callable[[Found], Verdict]


@dataclass(frozen=True, slots=True)
class Part:
    """A config that a figure runs.

    key        by which the figure finds its results       template  file of `pipeline.presets`, without its ending
    kernel     over that which the template takes by itself
    only       models that are enough, as --only has them
    most_rows  training rows up to which the part is run; it is left out of a figure that has others
    body       the only body of rows that the part is for; "" for any
    """

    key: str
    template: str
    kernel: str = ""
    only: tuple[str, ...] = ()
    most_rows: int | None = None
    body: str = ""


@dataclass(frozen=True, slots=True)
class PaperFigure:
    """One table or figure of a paper.

    name    as on the command line: "zhao-xing-table-2"     paper  its authors and year
    place   where it stands: "Table 2, section 4.2"          shows  one line of what it shows
    needs   keys of NEEDS                                    takes  about how long
    data    what the paper used, beside what is used here
    differs where the protocol here is another one
    least_classes  with fewer there is nothing to see
    """

    name: str
    paper: str
    place: str
    shows: str
    needs: tuple[str, ...]
    takes: str
    show: Callable[[Found], Shown]
    claims: tuple[Claim, ...]
    parts: tuple[Part, ...] = ()
    data: str = ""
    differs: tuple[str, ...] = ()
    least_classes: int = 2

    @property
    def needs_data(self) -> bool:
        return "nothing" not in self.needs


MISSING = Number(None, "-")


def number(value: float | None, digits: int = 3) -> Number:
    """A plain number with so many digits behind the point."""
    return MISSING if value is None or not math.isfinite(value) else Number(value, f"{value:,.{digits}f}")


def share(value: float | None, digits: int = 1) -> Number:
    """A share, written in per cent: never 100 or 0 where it is not."""
    return MISSING if value is None else Number(value, percent(value, digits))


def printed(text: str) -> Number:
    """A number just as the paper prints it."""
    return Number(float(text.rstrip("%")), text)


def decided(holds: bool, here: str) -> Verdict:
    """The verdict of a claim that our numbers decide."""
    return Verdict(HOLDS if holds else FAILS, here)


def unknown(why: str) -> Callable[[Found], Verdict]:
    """The judge of a claim that no run on one dataset decides."""

    def judge(_: Found) -> Verdict:
        return Verdict(UNKNOWN, why)

    return judge
