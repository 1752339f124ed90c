"""How good the weights of trace-norm models are, by their own certificates."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pipeline.report.metrics import Metrics, known
from pipeline.report.numbers import MISSING, count, short
from pipeline.report.summary import SmallTable


def digits(value: float) -> str:
    """Six digits: objectives differ in the last of them."""
    return f"{value:.6g}"


def share(value: float) -> str:
    """Of a gap, which may be a small part of a per cent."""
    return f"{short(100 * value)} %"


COLUMNS: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("lambda1", "lambda1", short),
    ("lambda2", "lambda2", short),
    ("objective", "objective", digits),
    ("gap", "gap", short),
    ("relative_gap", "relative gap", share),
    ("c1", "C1", short),
    ("c2", "C2", short),
    ("rank", "rank", count),
    ("atoms", "atoms", count),
    ("iterations", "iterations", count),
)
NOTE = (
    "The gap is a bound: no weights at all have an objective lower than this one by more. "
    "C1: by how much the largest singular value of the smooth part's gradient exceeds lambda1; "
    "C2: how far the slope of an atom that is kept is from lambda1 at most. Both are 0 at the optimum, "
    "and in units of the rows: those of long rows are large."
)


def certificate_table(models: Mapping[str, Metrics]) -> SmallTable:
    """One line per model that has a duality gap."""
    rows = [_line(name, metrics) for name, metrics in models.items() if known(metrics, "gap") is not None]
    return SmallTable("Certificates", ("model", *(heading for _, heading, _ in COLUMNS)), rows, NOTE)


def _line(name: str, metrics: Metrics) -> tuple[str, ...]:
    values = [(known(metrics, key), write) for key, _, write in COLUMNS]
    return (name, *(MISSING if value is None else write(value) for value, write in values))
