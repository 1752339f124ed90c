"""One self-contained HTML page per run: no script, no fetch, every name escaped, the same bytes for the same run."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from pipeline.report.classes import NAME as CLASSES
from pipeline.report.classes import classes_csv
from pipeline.report.compression import compression_plot
from pipeline.report.csvs import csv_text
from pipeline.report.curves import retrieval_plot, sweep_plots
from pipeline.report.descent import descent_plots
from pipeline.report.figures import PHONE_WIDTH, Scale, bars, scatter, scoped
from pipeline.report.first import error_of, first_of
from pipeline.report.labels import Lines, Point
from pipeline.report.legend import legend, marked_models
from pipeline.report.metrics import known
from pipeline.report.numbers import WIDE_COLUMNS, columns_of, count, percent, plain, seconds, size, unbroken
from pipeline.report.path_tables import path_tables
from pipeline.report.paths import path_plots
from pipeline.report.plot import Plot
from pipeline.report.relaxed import RelaxedPart, relaxed_part
from pipeline.report.relaxed_members import apart_from_others, kind_of, models_of_all_classes
from pipeline.report.spectrum import spectrum_plot
from pipeline.report.summary import RunSummary, best_model, non_dominated
from pipeline.report.table import printable
from pipeline.report.topk import top_k_plot
from pipeline.report.trees import TreePart, tree_part
from pipeline.report.trees_curves import speedup_plot
from tasks.files import disk_room
from tasks.places import at, whole_path

MOST = 200  # lines of a list that the page shows; the rest is counted
TEMPLATE = "page.html.j2"
FIRST = "accuracy-cost"  # the figure of the first screen
NOBODY = "(none)"  # the answer of a tree that ends in a leaf without classes


def write_report(path: str | Path, run: RunSummary) -> list[Path]:
    """Write the page, and `<page>-figures/NAME.csv` beside it; each file whole or not at all. Returns what it wrote."""
    page = at(path)
    plots = plots_of(run)
    trees, relaxed = tree_part(run), relaxed_part(run)
    folder = page.with_name(f"{page.stem}-figures")
    texts = [*((plot.name, plot.csv) for plot in plots), *trees.csvs(), *relaxed.csvs()]
    classes = classes_csv(run)
    texts += [] if classes is None else [(CLASSES, classes)]
    files = {folder / f"{name}.csv": text for name, text in texts}
    files[page] = render(run, plots, trees, relaxed, folder.name)
    for target, text in files.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        with disk_room(str(target), len(text)), whole_path(target) as spare:
            spare.write_text(text, "utf-8", newline="\n")
    return list(files)


@cache
def _template() -> Template:
    """Compiled once in a process."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: value if isinstance(value, Markup) else _shown(value),
    )
    environment.filters["unbroken"] = unbroken
    return environment.get_template(TEMPLATE)


def render(run: RunSummary, plots: Sequence[Plot], trees: TreePart, relaxed: RelaxedPart, folder: str) -> str:
    """The HTML text of a run."""
    first = first_of(run)
    asking = [plot for plot in plots if plot.name == FIRST and first.rows]
    return _template().render(
        run=run,
        first=first,
        first_figures=_figures(asking, "a"),
        columns=columns_of(run.models.values(), WIDE_COLUMNS),
        marked=marked_models(run),
        legend=legend(run),
        best=best_model(models_of_all_classes(run)),
        details=details_of(run),
        figures=_figures([plot for plot in plots if plot not in asking], "f"),
        trees=trees,
        partitions=_figures(trees.partitions, "t"),
        relaxed=relaxed,
        curves=_figures(relaxed.plots, "r"),
        paths=path_tables(run),
        folder=folder,
        lists=[
            ("Lost", _cut(run.lost)),
            ("Warnings", _cut([*run.warnings, *run.findings])),
            ("Notes", _cut(run.notes)),
        ],
        seconds=seconds,
        size=size,
        nobody=NOBODY,
        tasks=any(timing.tasks is not None for timing in run.timings),
        warned=_warned(run),
        classes_name=CLASSES if run.class_facts is not None else "",
    )


def _figures(plots: Sequence[Plot], prefix: str) -> list[tuple[Plot, Markup, Markup]]:
    """Each with its picture, whose ids are its own, and with the one for a phone, if there is one."""

    def named(plot: Plot, svg: str, ids: str) -> Markup:
        return Markup(scoped(svg, ids, escape(plot.title), escape(plot.caption)) if svg else "")

    return [
        (plot, named(plot, plot.svg, f"{prefix}{i}"), named(plot, plot.narrow, f"{prefix}{i}n"))
        for i, plot in enumerate(plots)
    ]


def _shown(value: Any) -> Any:
    """Control characters have no place in HTML; line ends of the config stay."""
    if not isinstance(value, str):
        return value
    return "\n".join(printable(line.replace("\t", "    ")) for line in value.split("\n"))


def _warned(run: RunSummary) -> str:
    """How many warnings there are further down; "" where there are none."""
    doubtful, lost = len(run.warnings) + len(run.findings), len(run.lost)
    words = [f"{doubtful:,} warning{'s' * (doubtful > 1)}"] * bool(doubtful) + [f"{lost:,} lost"] * bool(lost)
    return ", ".join(words)


def _cut(lines: Sequence[str]) -> list[str]:
    more = [f"... and {len(lines) - MOST:,} more"] if len(lines) > MOST else []
    return [*lines[:MOST], *more]


def details_of(run: RunSummary) -> list[dict[str, Any]]:
    """Worst classes, most confused pairs and siblings per model with names, the best model first."""
    best = best_model(models_of_all_classes(run))
    wrong = [name for name in run.models if run.details.get(name, {}).keys() & {"worst_classes", "confused_pairs"}]
    order = sorted(wrong, key=lambda name: name != best)
    return [
        {
            "model": name,
            "worst": [
                (_class(run, c), percent(hits / rows), f"{hits:,} of {rows:,}", *_told(run, c))
                for c, hits, rows in run.details[name].get("worst_classes", ())
            ],
            "pairs": [
                (_class(run, true), _class(run, predicted), f"{n:,}")
                for true, predicted, n in run.details[name].get("confused_pairs", ())
            ],
            "nobody": any(predicted < 0 for _, predicted, _ in run.details[name].get("confused_pairs", ())),
            "siblings": _siblings(run, name),
        }
        for name in order
    ]


def _siblings(run: RunSummary, name: str) -> list[tuple[tuple[str, str], tuple[str, str], str, str]]:
    """Of a model: (true class, predicted class, their parent, test rows) of the siblings confused most."""
    facts = run.class_facts
    if facts is None:
        return []
    return [
        (_class(run, true), _class(run, predicted), facts.parent(true), f"{n:,}")
        for true, predicted, n in facts.siblings.get(name, ())
    ]


def _told(run: RunSummary, number: int) -> tuple[str, str]:
    """(parent, training rows) of a class; "" where they are not known."""
    facts = run.class_facts
    return ("", "") if facts is None else (facts.parent(number), f"{int(facts.train_rows[number]):,}")


def _class(run: RunSummary, number: int) -> tuple[str, str]:
    """(name, id) of a class; -1 is the answer of a tree that ends in an empty leaf."""
    if number < 0:
        return NOBODY, ""
    name = run.class_names[number] if number < len(run.class_names) else f"class {number}"
    return name or "(no name)", run.class_ids[number] if number < len(run.class_ids) else str(number)


def plots_of(run: RunSummary) -> list[Plot]:
    """The figures that the run's numbers allow."""
    level, caption = _one_vs_rest(run)
    lines = Lines(run.n_classes, f"{run.n_classes:,} classes: one-vs-rest", level, caption)
    flat = Lines(y=level, y_caption=caption)
    cost, ops = Scale("dot products per row", count), Scale("vector operations per training row", count)
    held = Scale("learnt numbers held in training", size, 2)
    plots = [
        _scatter(run, "accuracy-cost", "test_ops_per_row", "Accuracy against test cost", cost, lines),
        speedup_plot(run),
        _scatter(run, "accuracy-bytes", "model_bytes", "Accuracy against size", Scale("parameters", size, 2), flat),
        _scatter(run, "accuracy-held", "training_bytes", "Accuracy against memory of training", held, flat),
        _scatter(run, "accuracy-training", "train_ops_per_row", "Accuracy against training cost", ops, flat),
        _errors(run, "flat-error", "top1", "Flat error", "rows with a wrong class, %"),
        _errors(run, "hierarchical-error", "hier_err", "Hierarchical error", "mean height of the common ancestor"),
        top_k_plot(run),
        compression_plot(run),
        spectrum_plot(run),
        *path_plots(run),
        *descent_plots(run),
        *sweep_plots(run),
        retrieval_plot(run),
        _timings(run),
    ]
    return [plot for plot in plots if plot is not None]


def _one_vs_rest(run: RunSummary) -> tuple[float | None, str]:
    """Accuracy of the best linear one-vs-rest of all classes, in per cent, and what to call it."""
    others = apart_from_others(run)
    found = [
        top1
        for name, metrics in run.models.items()
        if kind_of(run, name) == "ovr" and name not in others and (top1 := known(metrics, "top1")) is not None
    ]
    return (100 * max(found) if found else None), "best " * (len(found) > 1) + "one-vs-rest accuracy"


def _scatter(run: RunSummary, name: str, key: str, title: str, scale: Scale, lines: Lines) -> Plot | None:
    whole = models_of_all_classes(run)
    other = apart_from_others(run) if key == "test_ops_per_row" else run.models.keys() - whole.keys()
    models = {model: metrics for model, metrics in whole.items() if model not in other}
    marked = non_dominated(models, cost=key)
    found = {
        model: (cost, gain)
        for model, metrics in models.items()
        if (cost := known(metrics, key)) and (gain := known(metrics, "top1")) is not None and cost > 0
    }
    if not found:
        return None
    errors = {model: error_of(models[model]) for model in found}
    points = [
        Point(printable(model), cost, 100 * gain, model in marked, 100 * (errors[model] or 0.0))
        for model, (cost, gain) in found.items()
    ]
    caption = "Upper left is better. Round points, joined: no other model is better in both."
    caption += " Bars: one standard error of the accuracy, up and down." * any(errors.values())
    caption += _left_out(run, other)
    rows = [(model, cost, gain, int(model in marked), errors[model]) for model, (cost, gain) in found.items()]
    text = csv_text(["model", key, "top1", "non_dominated", "standard_error"], rows)
    narrow = scatter(points, scale, "accuracy, %", lines, PHONE_WIDTH) if name == FIRST else ""
    return Plot(name, title, caption, scatter(points, scale, "accuracy, %", lines), text, narrow)


def _left_out(run: RunSummary, other: Collection[str]) -> str:
    """For a caption: which models are elsewhere."""
    sampled = run.models.keys() - models_of_all_classes(run).keys()
    words = ["with kernels"] * bool(set(other) - sampled) + ["of samples of the classes"] * bool(sampled)
    return f" Models {' or '.join(words)} are above." if other else ""


def _errors(run: RunSummary, name: str, key: str, title: str, unit: str) -> Plot | None:
    whole = models_of_all_classes(run)
    values = {model: value for model, metrics in whole.items() if (value := known(metrics, key)) is not None}
    if not values:
        return None
    if key == "top1":
        values = {model: 1 - value for model, value in values.items()}
    shown = {printable(model): 100 * value if key == "top1" else value for model, value in values.items()}
    labels = [percent(value) if key == "top1" else plain(value) for value in values.values()]
    text = csv_text(["model", "flat_error" if key == "top1" else key], list(values.items()))
    caption = "Shorter is better." + _left_out(run, run.models.keys() - whole.keys())
    return Plot(name, title, caption, bars(shown, unit, labels), text)


def _timings(run: RunSummary) -> Plot | None:
    took = {t.step: t.seconds for t in run.timings if t.seconds is not None}
    if not took:
        return None
    first = dict(sorted(took.items(), key=lambda item: -item[1])[:20])
    shown = {printable(step): value for step, value in took.items() if step in first}
    svg = bars(shown, "seconds", [seconds(value) for value in shown.values()])
    rows = [(t.step, t.state, t.seconds) for t in run.timings]
    caption = "Of each step, when it ran." + (" The 20 longest." if len(took) > 20 else "")
    return Plot("timings", "Where the time went", caption, svg, csv_text(["step", "state", "seconds"], rows))
