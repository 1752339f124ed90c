"""The page of a figure made again, and its CSV: ours beside the paper's, and what becomes of the paper's claims."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import DictLoader, Environment, StrictUndefined, Template
from markupsafe import Markup

from pipeline.dataset import Dataset
from pipeline.ingest.place import scratch_beside
from pipeline.outputs import move_in
from pipeline.report.csvs import csv_text
from pipeline.report.figures import scoped
from pipeline.report.numbers import unbroken
from pipeline.report.page import TEMPLATE
from pipeline.report.table import printable
from pipeline.reproduce.figure import FAILS, HOLDS, UNKNOWN, Claim, PaperFigure, Shown, Table, Verdict
from pipeline.reproduce.found import Found
from pipeline.reproduce.place import CSV_HEADING, files_of, title_of
from tasks.files import disk_room
from tasks.places import whole_path

STYLES = {HOLDS: "holds", FAILS: "fails", UNKNOWN: ""}
MEASURED_ELSEWHERE = "The paper's machines, implementation and random draws are not those of this page."


def style_of_report() -> str:
    """The style sheet of report.html, so that both pages look alike."""
    text = files("pipeline.report").joinpath(TEMPLATE).read_text(encoding="utf-8")
    found = re.search(r"<style>\n(.*?)</style>", text, re.DOTALL)
    if found is None or "{{" in found[1] or "{%" in found[1]:
        raise LookupError("the report's template has no plain style sheet")
    return found[1].strip()


# Read when the command begins: after hours of runs the page is made by the code and the texts that belong together,
# also where the package was replaced by another version meanwhile.
PAGE = "page.html.j2"
PAGE_TEXT = files("pipeline.reproduce").joinpath(PAGE).read_text(encoding="utf-8")
STYLE = style_of_report()


@dataclass(frozen=True, slots=True)
class MadeFigure:
    """A figure made again.

    verdicts  of its claims, in their order
    command   as it was typed; dataset  its name, "" where there is none
    """

    figure: PaperFigure
    found: Found
    shown: Shown
    verdicts: Sequence[tuple[Claim, Verdict]]
    command: str
    dataset: str
    environment: Mapping[str, str]

    @property
    def counted(self) -> str:
        """How many claims hold, fail and cannot be told: "of 3 claims 2 hold, 1 does not hold"."""
        states = [verdict.state for _, verdict in self.verdicts]
        found = [(states.count(state), told) for state, told in WORDS.items()]
        parts = [f"{n:,} {one if n == 1 else several}" for n, (one, several) in found if n]
        holds = [] if HOLDS in states or set(states) == {FAILS} else ["none holds"]
        return f"of {len(states):,} claim{'s' * (len(states) != 1)} {', '.join(holds + parts)}"


WORDS = {  # of one claim, of several
    HOLDS: ("holds", "hold"),
    FAILS: ("does not hold", "do not hold"),
    UNKNOWN: ("cannot be told here", "cannot be told here"),
}


def judge_all(figure: PaperFigure, found: Found) -> list[tuple[Claim, Verdict]]:
    return [(claim, claim.judge(found)) for claim in figure.claims]


def write_page(folder: Path, made: MadeFigure) -> tuple[Path, Path]:
    """Write reproduce-<figure>.html and .csv into the folder, each whole or not at all.

    Raises DiskFull, OutputExists while another process writes the same.
    """
    page, table = files_of(folder, made.figure.name)
    texts = {table: csv_of(made), page: render(made, folder, table.name)}
    with scratch_beside(page) as scratch:
        page.unlink(missing_ok=True)  # an earlier one never stands beside numbers that are not its own
        for target, text in texts.items():
            local = scratch / target.name
            with disk_room(str(local), len(text.encode())), whole_path(local) as spare:
                spare.write_text(text, "utf-8", newline="\n")
        for target in texts:
            move_in(scratch / target.name, target, force=True)
    return page, table


@cache
def _template() -> Template:
    """Compiled once in a process."""
    environment = Environment(
        loader=DictLoader({PAGE: PAGE_TEXT}),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: value if isinstance(value, Markup) or not isinstance(value, str) else printable(value),
    )
    environment.filters["unbroken"] = unbroken
    environment.filters["code"] = _code
    return environment.get_template(PAGE)


def _code(text: str) -> Markup:
    """A sentence in which `this` is a word that one types."""
    parts = unbroken(printable(text)).split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if place % 2 and place + 1 < len(parts) else part
        for place, part in enumerate(parts)
    )


def render(made: MadeFigure, folder: Path, csv: str) -> str:
    """The HTML text."""
    pictures = [
        (plot, Markup(scoped(plot.svg, f"p{i}", escape(plot.title), escape(plot.caption))))
        for i, plot in enumerate(made.shown.plots)
    ]
    return _template().render(
        figure=made.figure,
        title=title_of(made.figure.name),
        dataset=made.dataset,
        shown=made.shown,
        verdicts=made.verdicts,
        counted=made.counted,
        styles=STYLES,
        pictures=pictures,
        facts=facts_text(made.found.dataset),
        differs=list(differences(made)),
        runs=runs_of(made.found, folder),
        command=Markup(escape(made.command)),
        environment=made.environment,
        style=Markup(STYLE),
        csv=csv,
    )


def facts_text(dataset: Dataset | None) -> str:
    if dataset is None:
        return "the same"
    levels = f", a taxonomy of {dataset.taxonomy.n_levels} levels" if dataset.taxonomy is not None else ", no taxonomy"
    parts = ", ".join(f"{n:,} {part}" for part, n in dataset.split_counts.items())
    return f"{dataset.n_classes:,} classes, {dataset.n_features:,} features ({dataset.body}), {parts} rows{levels}"


def differences(made: MadeFigure) -> Iterator[str]:
    yield from made.figure.differs
    for key, why in made.found.left_out.items():
        yield f"The {key} part was not run: {why}."
    if made.found.runs:
        yield MEASURED_ELSEWHERE


def runs_of(found: Found, folder: Path) -> list[dict[str, Any]]:
    """Name, page and size of each run."""
    runs, place = [], folder.resolve()
    for run in found.runs.values():
        link = run.folder.resolve() / "report.html"
        inside = link.is_file() and link.is_relative_to(place)
        n = len(run.models)
        told = f"{n:,} model{'s' * (n != 1)}" if n else "no models"
        name = run.folder.name
        runs.append({"name": name, "told": told, "link": link.relative_to(place).as_posix() if inside else ""})
    return runs


def csv_of(made: MadeFigure) -> str:
    """table, row, column, value: every cell with all digits; then the claims, with their verdict and numbers."""
    rows: list[tuple[object, ...]] = [cell for table in made.shown.tables for cell in cells_of(table)]
    for claim, verdict in made.verdicts:
        rows += [("claims", claim.text, "verdict", verdict.state), ("claims", claim.text, "here", verdict.here)]
    return csv_text(CSV_HEADING, rows)


def cells_of(table: Table) -> Iterator[tuple[object, ...]]:
    for row in table.rows:
        words = [cell if isinstance(cell, str) else cell.text for cell in row]
        name = ", ".join(filter(None, words[: max(1, table.words if table.words < len(row) else 1)]))
        skip = table.words if table.words < len(row) else 1
        for heading, cell in list(zip(table.heading, row, strict=True))[skip:]:
            yield table.title, name, heading, cell if isinstance(cell, str) else cell.value
