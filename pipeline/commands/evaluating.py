"""evaluate: how right a model is on rows whose classes are known; nothing of its predictions is kept."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.accuracy import ALL_ROWS
from pipeline.commands.inspecting_svm import kind_of, svm_facts
from pipeline.commands.looking import clean
from pipeline.commands.ranking_rows import Asked, checked_model, ranked
from pipeline.connection.profile import is_far
from pipeline.dataset import SPLITS, Dataset
from pipeline.ingest.errors import LabelsMissing
from pipeline.ingest.remote import shown
from pipeline.last_resort import say_line
from pipeline.outputs import ACCURACY, place_of_file, text_table, write_numbers
from pipeline.placing import made_beside
from pipeline.report.numbers import count, percent, plain, times
from pipeline.report.relaxed_members import LINEAR
from pipeline.stages.predict import relative_metrics
from tasks.errors import UsageError
from tasks.models.evaluate import Scores
from tasks.models.folder import SavedModel

TEST = SPLITS[-1]
OF_PROBABILITIES = ("log_loss", "calibration_error")


@dataclass(frozen=True)
class Evaluated:
    """What came out: of which rows, by which model, the numbers as in metrics.json, the worst classes and pairs."""

    saved: SavedModel
    part: str
    scores: Scores
    metrics: Mapping[str, float]


def evaluate(
    model: Path,
    data: str,
    *,
    labels: str | None = None,
    taxonomy: str | None = None,
    split: str | None = None,
    proba: bool = False,
    beam: int | None = None,
    doubt: float | None = None,
    uncoded: bool = False,
    worst: int = 20,
    scheduler: str | None = None,
    output: Path | None = None,
    as_json: bool = False,
    force: bool = False,
    format: str | None = None,
    rows_at: str | None = None,
    labels_at: str | None = None,
    raw_shape: str | None = None,
    raw_dtype: str | None = None,
    index_base: int | None = None,
) -> dict[str, Any]:
    """Print how right a model is on labelled rows of a dataset store or of files; returns the same as plain values.

    split, scheduler     of a dataset store only: its test rows, unless told otherwise; this process or one of its own
    labels, format ...   of files only
    taxonomy             a file that hierarchical error is measured on, in place of the dataset's or the model's own
    proba                also what the probabilities are worth: log-loss and calibration error
    beam, doubt          as of `predict`; None: as the model was trained
    uncoded              as of `predict`
    worst                how many of the worst classes and of the most confused pairs are listed
    output               a .json file of the same; None: nothing is written
    raises               LabelsMissing when no row's class is known, UsageError, OutputExists, PlaceTaken,
                         NoProbabilities, ColumnMismatch, the errors of model, rows and labels
    """
    if output is not None:
        output = place_of_file(output, force, (".json",))
    if worst < 0:
        raise UsageError(f"--worst {worst}: expected a whole number >= 0", "--worst")
    if is_far(scheduler):
        hint = "leave it out, or --scheduler local:N; `labelgrove predict` uses a cluster, and prints accuracy, too"
        raise UsageError("rows are evaluated on this machine", f"--scheduler {scheduler}", hint)
    reading: dict[str, Any] = {"fmt": format, "rows_at": rows_at, "labels_at": labels_at}
    reading |= {"raw_shape": raw_shape, "raw_dtype": raw_dtype, "index_base": index_base}
    asked = Asked(model, data, labels, taxonomy, 5, proba, beam, doubt, split, scheduler, reading, True, uncoded)
    saved = checked_model(asked, "labelgrove evaluate MODEL DATA")
    if asked.of_dataset:
        asked = _of_part(asked, data)
    with nullcontext() if output is None else made_beside(output, force=force) as place:
        facts = _facts(asked, saved, worst)
        if place is not None:
            write_numbers(place, ACCURACY, facts)
    if output is not None:
        say_line(f"{output}: the same as JSON")
    text = json.dumps(facts, indent=1, ensure_ascii=False) + "\n" if as_json else text_of(facts)
    sys.stdout.write(text)
    return facts


def _facts(asked: Asked, saved: SavedModel, worst: int) -> dict[str, Any]:
    """What the rows come to, see `facts_of`. Raises LabelsMissing."""
    with tempfile.TemporaryDirectory(prefix="labelgrove-") as scratch:
        scores = ranked(asked, saved, Path(scratch)).accuracy
    if not scores.scores:
        what = f"no {asked.split or ''} row is of a class of the model".replace("  ", " ")
        raise LabelsMissing(what, shown(asked.data), "compare the classes: `labelgrove inspect` shows those of both")
    part = asked.split or ALL_ROWS
    hidden: tuple[str, ...] = () if asked.proba else OF_PROBABILITIES
    metrics = {name: value for name, value in scores.metrics()[part].items() if name not in hidden}
    if told := svm_facts(saved.model):  # which may have learnt some of the classes
        learnt = {"n_classes": told["classes"], "kernel": told["kernel"]}
        metrics = relative_metrics(metrics, learnt, kind_of(saved.model))
    return facts_of(Evaluated(saved, part, scores.scores[part], metrics), asked, worst)


def _of_part(asked: Asked, data: str) -> Asked:
    """With the part of the dataset: that which was asked for, or its test rows. Raises UsageError when it has none."""
    split = asked.split or TEST
    if split not in SPLITS:
        raise UsageError(f"--split {split!r}: expected one of {', '.join(SPLITS)}", "--split")
    counts = Dataset.open(data).split_counts
    if not counts[split]:
        others = ", ".join(f"--split {name}" for name in SPLITS if counts[name])
        raise UsageError(f"the dataset has no {split} rows", data, f"give {others}")
    return Asked(**{**{name: getattr(asked, name) for name in Asked.__dataclass_fields__}, "split": split})


def facts_of(found: Evaluated, asked: Asked, worst: int) -> dict[str, Any]:
    """Plain values: the numbers under the names of metrics.json, and the worst classes and pairs with their names."""
    saved, detail = found.saved, found.scores.detail(worst)
    return {
        "model": saved.digest,
        "model_folder": saved.folder,
        "kind": kind_of(saved.model),
        "costs_are": costs_of(saved),
        "data": shown(asked.data),
        **asked.searched(),
        "metrics": {found.part: dict(found.metrics)},
        "worst_classes": [
            {"class": _name(saved, c), "id": saved.classes.ids[c], "rows": rows, "right": hits}
            for c, hits, rows in detail["worst_classes"]
        ],
        "confused_pairs": [
            {"class": _name(saved, true), "predicted": _name(saved, predicted), "rows": rows}
            for true, predicted, rows in detail["confused_pairs"]
        ],
    }


def costs_of(saved: SavedModel) -> str:
    """What its evaluations count: kernels are no dot products, and compare with those of one-vs-rest alone."""
    kernel = svm_facts(saved.model).get("kernel", LINEAR)
    return "dot products" if kernel == LINEAR else "kernel values"


def _name(saved: SavedModel, c: int) -> str:
    return "(none)" if c < 0 else saved.classes.names[c] or saved.classes.ids[c]


NUMBERS = (
    ("top1", "accuracy", percent),
    ("top5", "top-5", percent),
    ("mean_per_class_top1", "per class", percent),
    ("hier_err", "hier. error", plain),
    ("test_ops_per_row", "", count),
    ("speedup", "speed-up", times),
    ("log_loss", "log-loss", plain),
    ("calibration_error", "calibration error", percent),
)


def text_of(facts: Mapping[str, Any]) -> str:
    """For people: what was evaluated, its numbers, the worst classes, the most confused pairs."""
    ((part, metrics),) = facts["metrics"].items()
    searched = "".join(f", {name} {facts[name]}" for name in ("beam", "doubt", "uncoded") if name in facts)
    head = f"{facts['model_folder']} ({facts['kind']}{searched}) on {facts['data']}: {part}, {metrics['rows']:,.0f}"
    text = f"{head} rows\n" if part != ALL_ROWS else f"{head}\n"
    lines = [
        [name or f"{facts['costs_are']} per row", write(metrics[key])] for key, name, write in NUMBERS if key in metrics
    ]
    text += text_table(lines)
    if facts["worst_classes"]:
        worst = [["worst classes", "rows", "right", "accuracy"]]
        worst += [
            [one["class"], f"{one['rows']:,}", f"{one['right']:,}", percent(one["right"] / one["rows"])]
            for one in facts["worst_classes"]
        ]
        text += "\n" + text_table(worst, names=(0,))
    if facts["confused_pairs"]:
        pairs = [["most confused", "taken for", "rows"]]
        pairs += [[one["class"], one["predicted"], f"{one['rows']:,}"] for one in facts["confused_pairs"]]
        text += "\n" + text_table(pairs, names=(0, 1))
    return clean(text)
