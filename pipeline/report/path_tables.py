"""The regularisation path as a table: every pair of lambdas that was solved, for the page and for the terminal."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.report.certificates import digits, share
from pipeline.report.numbers import MISSING, count, percent, plain, seconds, short
from pipeline.report.summary import RunSummary

Pair = Mapping[str, Any]
MOST_OPEN = 15  # lines of a table that the page shows unfolded
COLUMNS: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("lambda1", "lambda1", short),
    ("lambda2", "lambda2", short),
    ("objective", "objective", digits),
    ("relative_gap", "relative gap", share),
    ("converged", "met", lambda value: "yes" if value else "no"),
    ("rank", "rank", count),
    ("top1", "accuracy", percent),
    ("top1_error", "+/-", lambda value: f"{100 * value:.1f}"),
    ("log_loss", "log-loss", plain),
    ("log_loss_error", "+/-", plain),
    ("iterations", "passes", count),
    ("evaluations", "evaluations", count),
    ("seconds", "time", seconds),
)
MEANINGS = {
    "converged": "Met: whether the gap, or epsilon, that was asked for was reached.",
    "top1": "Accuracy and log-loss are those of the validation rows.",
    "log_loss_error": "+/-: the standard error of the difference to the best pair.",
    "evaluations": "Passes read the training rows, evaluations only their projections.",
}


@dataclass(frozen=True, slots=True)
class PathTable:
    """The pairs of one model in the order they were solved; chosen: places of the lines to mark."""

    model: str
    heading: Sequence[str]
    rows: Sequence[Sequence[str]]
    chosen: Sequence[int]
    note: str

    @property
    def is_open(self) -> bool:
        """Whether the page shows it unfolded."""
        return len(self.rows) <= MOST_OPEN

    @property
    def title(self) -> str:
        said = "".join(f", number {place + 1} chosen" for place in self.chosen)
        return f"{len(self.rows):,} pairs of lambda1 and lambda2{said}"


def path_tables(run: RunSummary) -> list[PathTable]:
    """One for each model with a path of more than one pair."""
    found = {name: run.details.get(name, {}).get("path", ()) for name in run.models}
    return [path_table(name, pairs) for name, pairs in found.items() if len(pairs) > 1]


def path_table(model: str, pairs: Sequence[Pair]) -> PathTable:
    """Columns that no pair has a number for are left out; so is whether all is well, when it is."""
    columns = [column for column in COLUMNS if any(_number(pair, column[0]) is not None for pair in pairs)]
    if all(pair.get("converged", True) for pair in pairs):
        columns = [column for column in columns if column[0] != "converged"]
    rows = [
        (str(place), *(MISSING if (value := _number(pair, key)) is None else write(value) for key, _, write in columns))
        for place, pair in enumerate(pairs, 1)
    ]
    chosen = [place for place, pair in enumerate(pairs) if pair.get("chosen")]
    note = " ".join(MEANINGS[key] for key, _, _ in columns if key in MEANINGS)
    return PathTable(model, ("pair", *(heading for _, heading, _ in columns)), rows, chosen, note)


def _number(pair: Pair, key: str) -> float | None:
    value = pair.get(key)
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None
