"""A run folder in Python: its numbers, predictions and figures, for a notebook or a script.

Nothing is kept: every property reads the run folder again, so it tells what is there now.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape, unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pipeline.commands.looking import FoundRun, RunMissing, find_run, summary_of_folder
from pipeline.commands.no_run import TAKES
from pipeline.last_resort import named
from pipeline.published import METRICS, results_of
from pipeline.report.summary import RunSummary
from pipeline.report.table import MARK, cells, footnotes, printable, shown_columns
from pipeline.store import RunFormat, read_json
from tasks.errors import UsageError
from tasks.places import at

if TYPE_CHECKING:
    import numpy as np

Value = TypeVar("Value")
PAGE, MODELS, PREDICTIONS = "report.html", "models", "predictions"
MEASURED = ("train_seconds", "predict_us_per_row", "peak_bytes")  # of a machine: left out of the short table
AGAIN = "type the same `labelgrove run` again: it is made anew"
# The page is our own: one figure, its caption, and the CSV that carries its name.
FIGURE = re.compile(
    r"<figure[^>]*>.*?(?P<svg><svg .*?</svg>).*?<figcaption><b>(?P<title>.*?)\.</b> (?P<caption>.*?)"
    r'<a href="[^"]*/(?P<name>[^"/]+)\.csv">CSV</a></figcaption>',
    re.DOTALL,
)
COLOUR = re.compile(r"--(\w+): (#[0-9a-fA-F]{3,6});")
LINES = 'stroke-linejoin="round" stroke-linecap="butt" '  # as the page's style has them


@dataclass(frozen=True, slots=True)
class RunFigure:
    """A figure of a run's page; a notebook shows it as it is. svg: one element, dark on white."""

    name: str
    title: str
    caption: str
    svg: str = field(repr=False)

    def _repr_svg_(self) -> str:
        return self.svg


class Run:
    """A run that has results: `Run("runs/flowers")`, or by its config, or by the URL of its folder.

    path   the run folder, a file of it, or a config
    runs   where run folders of a config are, if not in runs/ beside it
    Raises RunMissing where there is no run, with what is there instead; RunFormat when its manifest is damaged or
    newer; ConfigError for a config without a name; FileAccess where the place cannot be read; UrlRefused.
    """

    def __init__(self, path: str | os.PathLike[str], runs: str | os.PathLike[str] | None = None) -> None:
        self._given = _place("path", path), None if runs is None else _place("runs", runs)
        self.path: Path = self._found().folder.path

    def _found(self) -> FoundRun:
        try:
            return find_run(*self._given)
        except OSError as error:
            raise named(error) from error

    def _summary(self) -> RunSummary:
        return summary_of_folder(self._found().folder)

    @property
    def name(self) -> str:
        """The run's name, which is its folder's."""
        return self.path.name

    @property
    def metrics(self) -> dict[str, Any]:
        """metrics.json as it is: "models" by name, "run", and more. Raises RunMissing before there are results."""
        self._summary()
        found: dict[str, Any] = read_json(self.path / METRICS, AGAIN)
        return found

    @property
    def models(self) -> list[str]:
        """Names of the models, in the config's order. Raises RunMissing before there are results."""
        return list(self._summary().models)

    def table(self, *names: str) -> list[dict[str, Any]]:
        """One dict a model: its name under "model", and the numbers of metrics.json, or of these only those named.

        A model that has no such number has None. Raises UsageError for a number that no model has.
        """
        models = self._summary().models
        known = list(dict.fromkeys(key for metrics in models.values() for key in metrics))
        for name in names:
            if name not in known:
                hint = f"numbers: {', '.join(sorted(known))}"
                raise UsageError(f"no model of this run has a number {name!r}", str(self.path / METRICS), hint)
        return [
            {"model": model, **{key: metrics.get(key) for key in names or metrics}} for model, metrics in models.items()
        ]

    @property
    def classes(self) -> list[str]:
        """Names of the classes, by class number. Raises UsageError for a run without models, and what is wrong with
        a model's folder."""
        from tasks.models.folder import load_model

        models = self.models
        if not models:
            raise UsageError("a run without models has no class table", str(self.path), "its dataset has one")
        return list(load_model(self.path / MODELS / models[0]).classes.names)

    def predictions(self, model: str) -> dict[str, np.ndarray[Any, Any]]:
        """What a model says of the test rows, as arrays by name.

        row (n,) int64, the number in the source; label (n,) int32, -1 where it is not known; classes (n, top) int32
        class numbers, best first, -1 where fewer are named; scores (n, top) float32; evaluations (n,) int32; of trees
        path (n, longest) int32, nodes from the root down, -1 padded; where the model has them probabilities (n, top)
        float32; of kernels classifiers (n,) int32. `predictions/<model>.parquet` has the same for other programs.
        Raises UsageError for a model that the run has not, or has not tested, PredictionsDamaged.
        """
        from tasks.models.predictions import read_part

        metrics = self._of(model, self._summary().models, "model")
        place = self.path / PREDICTIONS / f"{model}.parquet"
        if not place.is_file() and metrics.get("top1") is None:
            raise UsageError(f"{model} was not tested", str(place), "a dataset with test rows makes predictions")
        found = read_part(place)
        ranking = found.ranking
        arrays = {"row": found.row, "label": found.label, "classes": ranking.classes, "scores": ranking.scores}
        arrays["evaluations"] = ranking.evaluations
        named = None if ranking.probabilities is None else ranking.probabilities.named
        more = {"path": ranking.path, "probabilities": named, "classifiers": ranking.classifiers}
        return arrays | {name: values for name, values in more.items() if values is not None}

    @property
    def report(self) -> Path:
        """The page. Raises RunMissing before there are results, RunFormat when it is lost."""
        self._summary()
        place = self.path / PAGE
        if not place.is_file():
            raise RunFormat("the page is missing", str(place), AGAIN)
        return place

    @property
    def figures(self) -> list[str]:
        """Names of the figures of the page, in its order."""
        return list(figures_of(self._page()))

    def figure(self, name: str) -> RunFigure:
        """A figure of the page, by the name of its CSV. Raises UsageError for one that the page has not."""
        return self._of(name, figures_of(self._page()), "figure")

    def _page(self) -> str:
        place = self.report
        try:
            return place.read_text(encoding="utf-8")
        except ValueError as error:
            raise RunFormat(f"not readable: {error}", str(place), AGAIN) from None

    def _of(self, name: str, found: Mapping[str, Value], what: str) -> Value:
        """What bears the name. Raises UsageError, which lists what there is."""
        if name in found:
            return found[name]
        hint = f"{what}s: {', '.join(found)}" if found else f"it has no {what}"
        raise UsageError(f"the run has no {what} {name!r}", str(self.path), hint)

    @property
    def notes(self) -> list[str]:
        """What to know of the results: of an earlier config, or with other values than the config's."""
        found = self._found()
        results = results_of(found.folder, found.manifest)
        return [note for note in (found.changed, results.text(), results.stale_text()) if note]

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    def _repr_html_(self) -> str:
        """The table of models without what a machine decides: seconds and memory."""
        run, notes = self._summary(), self.notes
        columns = [column for column in shown_columns(run) if column.key not in MEASURED]
        heading, *lines = [line[1:] for line in cells(run, columns)]
        marked = [line[0] for line in cells(run, columns)[1:]]
        head = "".join(_cell("th", text, i) for i, text in enumerate(heading))
        rows = [
            "".join(_cell("td", f"{MARK} {text}" if mark and not i else text, i) for i, text in enumerate(line))
            for mark, line in zip(marked, lines, strict=True)
        ]
        body = "".join(f"<tr>{row}</tr>\n" for row in rows)
        said = "".join(f"<p><small>{escape(printable(text))}</small></p>\n" for text in [*footnotes(run), *notes])
        caption = f"<caption>{escape(printable(run.name))}</caption>"
        return f"<table>\n{caption}\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>\n{said}"


def _place(name: str, given: Any) -> Path:
    """Where an argument points. Raises RunMissing for what is no path, UrlRefused."""
    if not isinstance(given, str | os.PathLike) or not isinstance(os.fspath(given), str):
        raise RunMissing(f"the argument is no path, but {_kind(given)}", f"Run({name}=...)", TAKES)
    if "\0" in os.fspath(given):
        raise RunMissing("a path holds no null character", repr(os.fspath(given)), TAKES)
    return at(given)


def _kind(given: Any) -> str:
    return "None" if given is None else f"of type {type(given).__name__}"


def _cell(tag: str, text: str, place: int) -> str:
    side = "right" if place else "left"
    return f'<{tag} style="text-align: {side}">{escape(printable(text))}</{tag}>'


def figures_of(page: str) -> dict[str, RunFigure]:
    """The figures of a page of ours by name, in its order, in the page's light colours."""
    colours = dict(COLOUR.findall(page.partition(":root")[2].partition("\n")[0]))
    found = {}
    for one in FIGURE.finditer(page):
        name, title, caption = (unescape(one[key]).strip() for key in ("name", "title", "caption"))
        found[name] = RunFigure(name, title, caption, light(one["svg"], colours))
    return found


def light(svg: str, colours: Mapping[str, str]) -> str:
    """An SVG of the page that stands alone: its colours as numbers, on a ground of the page's colour."""
    svg = re.sub(r"var\(--(\w+)\)", lambda one: colours.get(one[1], "#000"), svg)
    head, _, body = svg.partition(">")
    ground = f'<rect width="100%" height="100%" fill="{colours.get("paper", "#fff")}"/>'
    return f"{head.replace('<svg ', f'<svg {LINES}', 1)}>{ground}{body}"
