"""Writes the tables of REFERENCE.md that come from the code anew: `python -m tests.pipeline.reference`.

Each stands between two comments that name the module which prints it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from pipeline.dashboard.metrics import METRICS
from tests.pipeline import command_table, config_table, error_table

PATH = Path(__file__).resolve().parents[2] / "REFERENCE.md"


def dashboard() -> str:
    lines = ["| metric | labels | meaning |", "|---|---|---|"]
    for one in METRICS:
        labels = " ".join(f"`{label}`" for label in one.labels)
        lines.append(f"| `{one.full_name}` | {labels} | {one.meaning} |")
    return "".join(f"{line}\n" for line in lines)


TABLES: dict[str, Callable[[], str]] = {
    "config keys": config_table.table,
    "commands": command_table.commands_table,
    "options": command_table.options_table,
    "errors": error_table.table,
    "metrics of the dashboard": dashboard,
}


def marked(name: str) -> re.Pattern[str]:
    """What stands between the two comments of a table."""
    opening, closing = f"<!-- {name}: made by tests/pipeline/reference.py -->\n", f"<!-- end of {name} -->"
    return re.compile(f"({opening})(.*?)({closing})", re.DOTALL)


def written(text: str) -> str:
    """The page with all tables made anew. Raises ValueError where a table has no place."""
    for name, make in TABLES.items():
        made = make()
        text, places = marked(name).subn(lambda found, made=made: f"{found[1]}{made}{found[3]}", text)  # type: ignore[misc]
        if places != 1:
            raise ValueError(f"REFERENCE.md has {places} places for {name}")
    return text


if __name__ == "__main__":
    PATH.write_text(written(PATH.read_text(encoding="utf-8")), encoding="utf-8")
