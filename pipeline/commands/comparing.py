"""compare: the models of several runs side by side."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.comparing.comparison import compared
from pipeline.comparing.page import as_json as values_of
from pipeline.comparing.page import figures_of, shown, write_page
from pipeline.comparing.runs import open_runs
from pipeline.last_resort import say
from pipeline.outputs import OutputExists, check_ending
from pipeline.owned import refuse_owned
from pipeline.report.table import print_table

PAGE, ENDINGS = Path("compare.html"), (".html", ".htm")


def compare(
    run: Sequence[Path],
    *,
    output: Path | None = None,
    runs: Path | None = None,
    as_json: bool = False,
    force: bool = False,
) -> dict[str, Any]:
    """Print the models of several finished runs in one table, and write a page; returns the same as plain values.

    run     run folders, their URLs, or configs; at least two
    output  the page, compare.html unless told otherwise; CSV goes beside it
    runs    where the run folders of configs are
    raises  UsageError, PlaceTaken, RunMissing, RunFormat, ConfigError; OutputExists once the table is printed
    """
    page = output or PAGE
    check_ending(page, ENDINGS)
    refuse_owned(page)
    refuse_owned(figures_of(page) / "x.csv")
    found = compared(open_runs(run, runs))
    values = values_of(found)
    for text in found.warnings:
        say(f"warning: {text}")
    for text in found.notes:
        say(f"note: {text}")
    sys.stderr.flush()
    if as_json:
        sys.stdout.write(json.dumps(values, indent=1, ensure_ascii=False) + "\n")
    else:
        print_table(shown(found))
    sys.stdout.flush()
    for path in (page, figures_of(page)):
        refuse_existing(path, force)
    write_page(page, found, [str(path) for path in run])
    sys.stderr.write(f"comparison: {page}\n")
    return values


def refuse_existing(path: Path, force: bool) -> None:
    """Raises OutputExists for a page, or the folder of its CSV, that is not to be replaced."""
    if not path.exists():
        return
    if not force:
        raise OutputExists("the page is there already", str(path), "choose another name with -o, or --force")
    if path.is_dir() is (path.suffix.lower() in ENDINGS):
        kind = "folder" if path.is_dir() else "file"
        raise OutputExists(f"a {kind} is in the way", str(path), "choose another name with -o")
