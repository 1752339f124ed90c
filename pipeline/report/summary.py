"""What a report is made of: plain values, so that the same run always gives the same page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipeline.report.advice import Advice, Choice, Pair
from pipeline.report.class_facts import ClassFacts
from pipeline.report.metrics import Metrics, known
from pipeline.report.sweeps import Compression, Line, Repeats
from pipeline.report.trees_order import ClassOrder


@dataclass(frozen=True, slots=True)
class StepTiming:
    """One step of the run: what it was, whether it ran or was reused, how long it took when it ran.

    tasks       that it was cut into; peak_bytes  of the memory of any process that worked on it
    processes   that worked on its tasks
    """

    step: str
    state: str  # "ran", "reused", "failed"
    seconds: float | None = None
    tasks: int | None = None
    peak_bytes: float | None = None
    processes: int | None = None


@dataclass(frozen=True, slots=True)
class SmallTable:
    """A table of text: what each column is, its rows, the first cell naming the row, and what to know to read it."""

    title: str
    heading: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""

    def as_json(self) -> dict[str, Any]:
        """Plain values, for metrics.json."""
        table = {"title": self.title, "heading": list(self.heading), "rows": [list(row) for row in self.rows]}
        return table | ({"note": self.note} if self.note else {})


@dataclass(frozen=True)
class RunSummary:
    """Everything the report shows. Names and texts may be anything: they are escaped where they are shown.

    models       metrics of metrics.json per model, in the config's order
    kinds        per model, what it is: "ovr", "label-tree on pq"
    n_classes    classes of the dataset: what one-vs-rest evaluates per row
    dataset      facts in the order to show them: {"rows": 36000, "features": 576, ...}
    class_ids, class_names   of all classes; empty when the details name none
    details      per model: worst_classes, confused_pairs, top_k of `Scores.detail()`; of some learners also
                 spectrum [singular value], path [numbers of a pair of lambdas], history [numbers of an iteration];
                 of trees what `pipeline.stages.tree_details` says
    notes, warnings, lost    what to know, what is doubtful, what could not be done
    findings     what training has come to that is doubtful: said below the table, too
    lines        models that differ in one number; retrievals  precision and recall per threshold, by name
    repeats      retrievals that differ in the seed at most; tables  of what has no place in that of models
    compressions  models that differ only in being trained or tested on codes
    class_order  columns of the figures of classes; None: by number
    beams        names of trees that differ in their beam alone
    wrong_metric  whether classifiers that have kernels are also counted, as if all of them cost the same
    left_out     models of the config that were not trained; overrides  values that the command line put over the config
    timings      the steps in order; environment: versions; commands: how to make it again; config: config.toml
    digests      what must come out when it is made again: of the dataset, of every model
    paired       standard error of the difference in accuracy of two models, from the rows that only one has right
    advice       which model to use, where it was found out before; None: as the numbers of the models say
    class_facts  rows and accuracy of every class
    foremost     what has to be read before anything else
    choices      what to take, by the rows that models were tested on, where these differ; the first is of `models`
    measured_in  per model, the run whose measurements its times are, where they are of several
    """

    name: str
    models: Mapping[str, Metrics]
    n_classes: int
    kinds: Mapping[str, str] = field(default_factory=dict)
    dataset: Mapping[str, Any] = field(default_factory=dict)
    class_ids: Sequence[str] = ()
    class_names: Sequence[str] = ()
    details: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    notes: Sequence[str] = ()
    warnings: Sequence[str] = ()
    findings: Sequence[str] = ()
    lost: Sequence[str] = ()
    left_out: Sequence[str] = ()
    lines: Sequence[Line] = ()
    retrievals: Mapping[str, Mapping[str, Sequence[float]]] = field(default_factory=dict)
    repeats: Sequence[Repeats] = ()
    tables: Sequence[SmallTable] = ()
    compressions: Sequence[Compression] = ()
    class_order: ClassOrder | None = None
    beams: Sequence[Sequence[str]] = ()
    wrong_metric: bool = False
    overrides: Sequence[str] = ()
    timings: Sequence[StepTiming] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    commands: Sequence[str] = ()
    config: str = ""
    digests: Mapping[str, str] = field(default_factory=dict)
    paired: Mapping[Pair, float] = field(default_factory=dict)
    advice: Advice | None = None
    class_facts: ClassFacts | None = None
    foremost: Sequence[str] = ()
    choices: Sequence[Choice] = ()
    measured_in: Mapping[str, str] = field(default_factory=dict)


def non_dominated(models: Mapping[str, Metrics], gain: str = "top1", cost: str = "test_ops_per_row") -> set[str]:
    """Names of the models that no other beats in gain or cost without losing in the other."""
    points = {name: (known(metrics, gain), known(metrics, cost)) for name, metrics in models.items()}
    full = sorted((c, -g, name) for name, (g, c) in points.items() if g is not None and c is not None)
    kept: set[str] = set()
    best, best_cost = -math.inf, math.nan
    for price, loss, name in full:  # cheapest first, best first among equals
        if -loss > best or (-loss == best and price == best_cost):
            kept.add(name)
            best, best_cost = -loss, price
    return kept


def best_model(models: Mapping[str, Metrics]) -> str | None:
    """The most accurate model; ties to the cheaper one, then to the earlier one."""
    scored = [
        (-top1, known(metrics, "test_ops_per_row") or math.inf, place, name)
        for place, (name, metrics) in enumerate(models.items())
        if (top1 := known(metrics, "top1")) is not None
    ]
    return min(scored)[3] if scored else None
