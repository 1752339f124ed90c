"""compare: the models of several runs side by side."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.comparing.comparison import compared
from pipeline.comparing.page import DIFFERENCES, figures_of, shown, write_page
from pipeline.comparing.page import as_json as values_of
from pipeline.comparing.runs import open_runs
from pipeline.fields import fit
from pipeline.last_resort import say, say_line
from pipeline.outputs import OutputExists, check_ending
from pipeline.owned import refuse_owned
from pipeline.report.table import print_table

PAGE, ENDINGS = Path("compare.html"), (".html", ".htm")
OTHER_NAME = "choose another name with -o"


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
    if page.is_symlink():  # it stays, and what it points at is written
        page = Path(os.path.realpath(page))
    check_ending(page, ENDINGS)
    refuse_owned(page)
    refuse_owned(figures_of(page) / "x.csv")
    found = compared(open_runs(run, runs))
    values = values_of(found)
    for text in found.warnings:
        say(fit(f"warning: {text}"))
    for text in found.notes:
        say(fit(f"note: {text}"))
    if as_json:
        sys.stdout.write(json.dumps(values, indent=1, ensure_ascii=False) + "\n")
    else:
        print_table(shown(found))
    sys.stdout.flush()
    refuse_existing(page, force)
    write_page(page, found, [str(path) for path in run], force)
    say_line(f"comparison: {page}")
    return values


def refuse_existing(page: Path, force: bool) -> None:
    """Raises OutputExists for a page, or the folder of its CSV, that is not to be replaced."""
    folder = figures_of(page)
    if page.is_dir():
        raise OutputExists("a folder is in the way", str(page), OTHER_NAME)
    if page.exists() and not page.is_file():
        raise OutputExists("this is no regular file", str(page), OTHER_NAME)
    if page.exists() and not force:
        raise OutputExists("the page is there already", str(page), f"{OTHER_NAME}, or --force")
    if not folder.exists():
        return
    if not folder.is_dir():
        raise OutputExists("a file is in the way, where the page's CSV go", str(folder), OTHER_NAME)
    if not _is_ours(folder):
        raise OutputExists("a folder that compare has not made is in the way", str(folder), OTHER_NAME)
    if not force:
        raise OutputExists("the folder of the page's CSV is there already", str(folder), f"{OTHER_NAME}, or --force")


def _is_ours(folder: Path) -> bool:
    """Whether compare may have made a folder: it is empty, or holds CSV alone, among them the first that it writes."""
    names = [path.name for path in folder.iterdir() if not path.name.startswith(".")]  # what a kill left begins so
    return not names or (f"{DIFFERENCES}.csv" in names and all(name.endswith(".csv") for name in names))
