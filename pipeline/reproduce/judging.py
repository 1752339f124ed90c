"""How claims are judged where papers say "comparable", "close" or "better": the same words, the same rules."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pipeline.reproduce.figure import FAILS, HOLDS, UNKNOWN, Verdict

NOT_MEASURED = Verdict(UNKNOWN, "a model of the comparison was not trained or not tested")


def pair(name: str, value: float, digits: int = 3) -> str:
    return f"{name} {value:,.{digits}f}"


def every(parts: Sequence[tuple[bool, str]], least: int = 1) -> Verdict:
    """Holds when all comparisons do; says each, and how many do not. Fewer than `least` comparisons tell nothing."""
    if len(parts) < least:
        return NOT_MEASURED
    failed = [text for holds, text in parts if not holds]
    told = "; ".join(text for _, text in parts)
    if not failed:
        return Verdict(HOLDS, told)
    some = "" if len(parts) == 1 else f" (not in {len(failed)} of {len(parts)})"
    return Verdict(FAILS, told + some)


def compared(holds: bool, told: str, *values: float | None) -> Verdict:
    """The verdict, where all numbers that it is made of are there."""
    if any(value is None or math.isnan(value) for value in values):
        return NOT_MEASURED
    return Verdict(HOLDS if holds else FAILS, told)
