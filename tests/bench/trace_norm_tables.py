"""The tables of the trace-norm study: a line per model and per pair of penalties, and means over samples."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from tests.bench.class_samples import Case

KEYS = ("top1", "top5", "log_loss", "calibration_error", "rank", "lambda1", "relative_gap", "train_seconds")
BASES = ("ovr", "multinomial", "trace-norm")
HEADING = f"{'set':12} {'classes':>7} {'model':14} {'top-1':>14} {'top-5':>7} {'log-loss':>8} {'cal.':>6} " + (
    f"{'rank':>6} {'lambda1/max':>11} {'gap':>8} {'seconds':>8}"
)

Row: TypeAlias = dict[str, Any]  # one line of results.csv


def result_rows(case: Case, metrics: dict[str, Any]) -> list[Row]:
    """One line a model: its numbers, the rank of its weights, where in its path the chosen penalty stands."""
    lines = []
    for model, numbers in metrics["models"].items():
        details = metrics["details"].get(model, {})
        line: Row = {"set": case.source, "classes": case.n_classes, "sample": case.sample, "model": model}
        line |= {key: numbers.get(key) for key in KEYS}
        path = details.get("path", [])
        line |= {"pairs": len(path) or None, "chosen": None, "lambda1_share": None}
        if path:
            line["chosen"] = next(i for i, pair in enumerate(path) if pair["chosen"])
            line["lambda1_share"] = numbers["lambda1"] / numbers["lambda1_max"]
        elif details.get("spectrum"):
            line["rank"] = numerical_rank(details["spectrum"])
        lines.append(line)
    return lines


def numerical_rank(spectrum: Sequence[float]) -> int:
    """Singular values above a thousandth of the largest."""
    values = np.asarray(spectrum, np.float64)
    return int(np.count_nonzero(values > 1e-3 * values.max(initial=0.0)))


def path_rows(case: Case, metrics: dict[str, Any]) -> list[Row]:
    """One line a pair of penalties."""
    return [
        {"set": case.source, "classes": case.n_classes, "sample": case.sample, "model": model, "pair": i, **pair}
        for model, details in metrics["details"].items()
        for i, pair in enumerate(details.get("path", []))
    ]


def write_csv(path: Path, rows: list[Row]) -> None:
    keys = list(dict.fromkeys(key for row in rows for key in row))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, keys)
        writer.writeheader()
        writer.writerows(rows)


def mean_of(rows: Iterable[Row], key: str) -> float:
    """Mean over samples; NaN where no model of them has the number."""
    values = [row[key] for row in rows if row[key] is not None]
    return float(np.mean(values)) if values else float("nan")


def class_table(rows: list[Row]) -> str:
    """Accuracy, probabilities and rank over the number of classes: means over samples, top-1 with its deviation."""
    lines = [HEADING]
    groups = dict.fromkeys((row["set"], row["classes"], row["model"]) for row in rows)
    for source, n_classes, model in groups:
        if model not in BASES:
            continue
        of = [row for row in rows if (row["set"], row["classes"], row["model"]) == (source, n_classes, model)]
        top1 = 100 * np.array([row["top1"] for row in of])
        lines.append(
            f"{source:12} {n_classes:7} {model:14} {top1.mean():6.2f} +- {top1.std():4.2f} "
            f"{100 * mean_of(of, 'top5'):7.2f} {mean_of(of, 'log_loss'):8.4f} "
            f"{100 * mean_of(of, 'calibration_error'):6.2f} {mean_of(of, 'rank'):6.1f} "
            f"{mean_of(of, 'lambda1_share'):11.4f} {mean_of(of, 'relative_gap'):8.1e} "
            f"{mean_of(of, 'train_seconds'):8.1f}"
        )
    return "\n".join(lines)


def got_back(full: float, pq: float, semi: float) -> float:
    """Share of the accuracy lost on codes that testing on the rows brings back; NaN where nothing was lost."""
    return (semi - pq) / (full - pq) if full > pq else float("nan")


def compression_table(rows: list[Row]) -> str:
    """Accuracy of full, PQ and semi-PQ rows, and what semi-PQ gets back: of the means, and in the worst sample."""
    top1 = {(row["set"], row["classes"], row["sample"], row["model"]): 100 * row["top1"] for row in rows}
    lines = [
        f"{'set':12} {'classes':>7} {'encoding':10} {'model':12} {'full':>14} {'PQ':>14} {'semi-PQ':>14} "
        f"{'got back':>9} {'least':>7}"
    ]
    for source, n_classes, model in dict.fromkeys((row["set"], row["classes"], row["model"]) for row in rows):
        if not model.endswith("-semi"):
            continue
        encoding = model.removesuffix("-semi").removeprefix("ovr-").removeprefix("trace-norm-")
        learner = model.removesuffix(f"-{encoding}-semi")
        samples = [
            row["sample"] for row in rows if (row["set"], row["classes"], row["model"]) == (source, n_classes, model)
        ]
        names = (learner, f"{learner}-{encoding}-pq", model)
        of = np.array([[top1[source, n_classes, sample, name] for name in names] for sample in samples])
        shown = " ".join(f"{column.mean():6.2f} +- {column.std():4.2f}" for column in of.T)
        shares = [got_back(*one) for one in of]
        lines.append(
            f"{source:12} {n_classes:7} {encoding:10} {learner:12} {shown} {got_back(*of.mean(axis=0)):9.0%} "
            f"{min(shares):7.0%}"
        )
    return "\n".join(lines)


def ends(rows: list[Row]) -> str:
    """How often the chosen penalty is the strongest of its path, or the weakest of all that could be tried."""
    paths = [row for row in rows if row["pairs"]]
    first = sum(row["chosen"] == 0 for row in paths)
    last = sum(row["chosen"] == row["pairs"] - 1 for row in paths)
    return f"{len(paths)} paths: the strongest penalty chosen {first} times, the weakest that was tried {last} times"


def finished(folder: Path) -> list[tuple[Case, dict[str, Any]]]:
    """Every case that has been run in the folder, by set, number of classes and sample, with its metrics.json."""
    found = []
    for file in (folder / "runs").glob("*/metrics.json"):
        source, n_classes, sample = file.parent.name.rsplit("-", 2)
        found.append((Case(source, int(n_classes), int(sample)), json.loads(file.read_text())))
    return sorted(found, key=lambda one: (one[0].source, one[0].n_classes, one[0].sample))


def show(folder: Path) -> None:
    """Everything that is finished, whatever options it was run with."""
    found = finished(folder)
    rows = [row for case, metrics in found for row in result_rows(case, metrics)]
    write_csv(folder / "results.csv", rows)
    write_csv(folder / "paths.csv", [row for case, metrics in found for row in path_rows(case, metrics)])
    text = f"{class_table(rows)}\n\n{compression_table(rows)}\n\n{ends(rows)}\n"
    (folder / "results.txt").write_text(text)
    print(text, flush=True)
