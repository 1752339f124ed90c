"""All that is told of some runs: their models under one another, and how the best of each do on the same rows."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pipeline.comparing.differences import differences
from pipeline.comparing.rows import Paired, TestedRows, paired, read_rows, same_rows
from pipeline.comparing.runs import ComparedRun
from pipeline.report.advice import Advice, Pair, paired_error
from pipeline.report.first import advice_of
from pipeline.report.metrics import Metrics
from pipeline.report.numbers import MISSING
from pipeline.report.relaxed_members import models_of_all_classes
from pipeline.report.summary import RunSummary, best_model
from tasks.classes import ClassTable
from tasks.errors import LabelgroveError
from tasks.rows.base import Array

KEPT_DETAILS = ("hierarchy", "top_k")  # of a model's details, what figures across runs are drawn from
MORE_THAN_TWO = 8  # runs of which every pair is compared row by row; of more each with the best


@dataclass(frozen=True, slots=True)
class ClassLine:
    """One class: its rows, and how many of them the best model of each run has right."""

    id: str
    name: str
    rows: int
    right: tuple[int, ...]

    @property
    def spread(self) -> int:
        return max(self.right) - min(self.right)


@dataclass(frozen=True)
class Comparison:
    """What is shown.

    groups       names of the runs whose accuracies compare, the most such first
    summary      the models of the first group, named RUN/MODEL, as a report shows those of one run; others  the same of
                 each other group
    untested     the same of the runs without an accuracy, where other runs have some; None: there are none
    warnings     why accuracies do not compare; notes  what else to know
    differences  (what, its value in each run); pairs  the best models of the runs on the same rows
    best, classes  the best models that have the same test rows, and the classes, those that they differ on most first
    """

    runs: Sequence[ComparedRun]
    groups: Sequence[Sequence[str]]
    summary: RunSummary
    others: Sequence[RunSummary]
    untested: RunSummary | None
    warnings: Sequence[str]
    notes: Sequence[str]
    differences: Sequence[tuple[str, ...]]
    pairs: Sequence[Paired]
    best: Sequence[str]
    classes: Sequence[ClassLine]

    @property
    def models(self) -> dict[str, Metrics]:
        """Of all runs, whether they compare or not, by RUN/MODEL."""
        return {f"{run.name}/{name}": metrics for run in self.runs for name, metrics in run.summary.models.items()}


def compared(runs: Sequence[ComparedRun]) -> Comparison:
    """Compare the models of some runs. Nothing is raised for predictions that are gone or damaged: that is a note."""
    notes = [note for run in runs for note in run.notes]
    best = {run.name: name for run in runs if (name := best_model(_whole(run))) is not None}
    tested = {run.name: found for run in runs if (found := _rows_of(run, best.get(run.name), notes)) is not None}
    untested = [run for run in runs if best_model(run.summary.models) is None]
    groups = grouped([run for run in runs if run not in untested], tested) or [untested]
    groups.sort(key=len, reverse=True)
    first, *others = groups
    judged = _same_rows_as_first([run for run in first if run.name in tested], tested)
    names = {run.name: f"{run.name}/{best[run.name]}" for run in judged}
    pairs = [
        paired((names[one.name], names[other.name]), tested[one.name], tested[other.name])
        for one, other in _couples(judged, best)
        if tested[one.name].row.size and same_rows(tested[one.name], tested[other.name], _class_names(one, other))
    ]
    return Comparison(
        runs,
        [[run.name for run in group] for group in groups],
        advised(first, notes),
        [advised(group, notes) for group in others],
        merged(untested) if untested and first is not untested else None,
        _warnings(groups, untested),
        list(dict.fromkeys(notes)),
        differences(runs),
        pairs,
        [names[run.name] for run in judged],
        classes_of([tested[run.name] for run in judged], judged[0].classes) if len(judged) > 1 else [],
    )


def _same_rows_as_first(runs: Sequence[ComparedRun], tested: Mapping[str, TestedRows]) -> list[ComparedRun]:
    """The first run, and those of the others whose best models have the very same test rows."""
    return [run for run in runs if same_rows(tested[runs[0].name], tested[run.name], _class_names(runs[0], run))]


def advised(runs: Sequence[ComparedRun], notes: list[str]) -> RunSummary:
    """The models of runs that compare, and which of them to take."""
    summary = merged(runs)
    return replace(summary, advice=_advice(runs, summary, notes))


def merged(runs: Sequence[ComparedRun]) -> RunSummary:
    """The models of all runs as those of one, in the order of the runs."""
    found = [(run, name, f"{run.name}/{name}") for run in runs for name in run.summary.models]
    details = {
        shown: {key: kept[key] for key in KEPT_DETAILS if key in kept}
        for run, name, shown in found
        if (kept := run.summary.details.get(name))
    }
    return RunSummary(
        name=listed([run.name for run in runs]) if len(runs) < 4 else f"{len(runs)} runs",
        models={shown: run.summary.models[name] for run, name, shown in found},
        n_classes=max(run.summary.n_classes for run in runs),
        kinds={shown: run.kind(name) for run, name, shown in found},
        details=details,
        findings=[f"{run.name}: {text}" for run in runs for text in run.summary.findings],
        left_out=[f"{run.name}/{name}" for run in runs for name in run.summary.left_out],
        measured_in={shown: run.name for run, _, shown in found},
    )


def _whole(run: ComparedRun) -> Mapping[str, Metrics]:
    """Its models of all classes: those of samples are right more often."""
    return models_of_all_classes(replace(run.summary, kinds={name: run.kind(name) for name in run.summary.models}))


def _rows_of(run: ComparedRun, model: str | None, notes: list[str]) -> TestedRows | None:
    if model is None:
        return None
    try:
        return read_rows(run, model)
    except LabelgroveError as error:
        notes.append(f"{run.name}/{model} is not compared row by row: {error.what} [{error.where}]")
        return None


# ---- do accuracies compare? ----------------------------------------------------------------------------------------


def grouped(runs: Sequence[ComparedRun], tested: Mapping[str, TestedRows]) -> list[list[ComparedRun]]:
    """Runs whose accuracies compare: of one dataset, or whose test rows have the same numbers and classes."""
    groups: list[list[ComparedRun]] = []
    for run in runs:
        for group in groups:
            if _alike(group[0], run, tested):
                group.append(run)
                break
        else:
            groups.append([run])
    return groups


def _alike(one: ComparedRun, other: ComparedRun, tested: Mapping[str, TestedRows]) -> bool:
    if one.data and one.data == other.data:
        return True
    if one.name not in tested or other.name not in tested:
        return False
    rows = tested[one.name]
    return bool(rows.row.size) and same_rows(rows, tested[other.name], _class_names(one, other))


def _class_names(one: ComparedRun, other: ComparedRun) -> dict[str, Array] | None:
    """The names of the classes of two datasets; None where both number them alike."""
    if one.data and one.data == other.data:
        return None
    first, second = one.classes, other.classes
    if first is None or second is None or first == second:
        return None
    return {"one": np.array(first.names, object), "other": np.array(second.names, object)}


def _warnings(groups: Sequence[Sequence[ComparedRun]], untested: Sequence[ComparedRun]) -> list[str]:
    """What has to be read before the table."""
    said = []
    if len(groups) > 1:
        parts = "; ".join(", ".join(run.name for run in group) for group in groups)
        said.append(
            f"these runs were tested on different rows, so their accuracies do not compare: {parts}. What to take is "
            f"told of each; marks and figures are of {', '.join(run.name for run in groups[0])}, the other models have "
            f"tables of their own"
        )
    said += [_untested_text(run) for run in untested if run.summary.models]
    for group in groups:
        if len({run.data for run in group}) > 1:
            names = ", ".join(run.name for run in group)
            said.append(
                f"the datasets of {names} differ, but their test rows have the same numbers and classes: they are "
                f"taken for the same rows with other features"
            )
    return said


def _untested_text(run: ComparedRun) -> str:
    if run.facts.get("test_rows") == 0:
        advice = "ingest the data with a part to test (--split)"
        return f"{run.name} has no test rows, so its models have no accuracy to compare: {advice}"
    return f"no model of {run.name} was tested, so it has no accuracy to compare"


# ---- row by row ----------------------------------------------------------------------------------------------------


def _couples(runs: Sequence[ComparedRun], best: Mapping[str, str]) -> list[tuple[ComparedRun, ComparedRun]]:
    """Every two runs; of many the most accurate one with each other."""
    if len(runs) <= MORE_THAN_TWO:
        return list(itertools.combinations(runs, 2))
    top = max(runs, key=lambda run: run.summary.models[best[run.name]].get("top1") or 0.0)
    return [(top, run) for run in runs if run is not top]


def _advice(runs: Sequence[ComparedRun], summary: RunSummary, notes: list[str]) -> Advice:
    """What to take of all models, each compared with the most accurate one row by row where that can be."""
    chosen = advice_of(summary)
    if not chosen.most_accurate:
        return chosen
    places = {f"{run.name}/{name}": (run, name) for run in runs for name in run.summary.models}
    run, name = places[chosen.most_accurate]
    rows = _rows_of(run, name, notes)
    errors: dict[Pair, float] = {}
    for shown in summary.models if rows is not None and rows.row.size else ():
        owner, model = places[shown]
        others = _rows_of(owner, model, notes) if shown != chosen.most_accurate else None
        if others is not None and rows is not None and same_rows(rows, others, _class_names(run, owner)):
            found = paired((chosen.most_accurate, shown), rows, others)
            errors[(chosen.most_accurate, shown)] = paired_error(found.only_first, found.only_second, found.rows)
    return advice_of(replace(summary, paired=errors))


def classes_of(tested: Sequence[TestedRows], table: ClassTable | None) -> list[ClassLine]:
    """The classes with test rows, those first on which some models differ most; ties to more rows.

    tested  the models' same test rows: whichever number a dataset gives a class, its rows are those of the first
    table   of the classes of the first; None: they are told by number
    """
    label = tested[0].label
    rows = np.bincount(label)
    found = [np.bincount(label[one.right], minlength=rows.size) for one in tested]
    lines = [
        ClassLine(
            str(c) if table is None else table.ids[c],
            "" if table is None else table.names[c],
            int(rows[c]),
            tuple(int(right[c]) for right in found),
        )
        for c in np.flatnonzero(rows).tolist()
    ]
    return sorted(lines, key=lambda line: (-line.spread, -line.rows))


def listed(names: Sequence[str]) -> str:
    """a; a and b; a, b and c"""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def named(line: ClassLine) -> str:
    """A class as tables show it."""
    return line.name or line.id or MISSING
