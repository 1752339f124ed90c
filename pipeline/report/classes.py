"""Every class with its rows, its parent and how each model does on it: a CSV beside the page, and lines of the page."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pipeline.report.csvs import csv_text
from pipeline.report.summary import RunSummary
from tasks.rows.base import Array

NAME = "classes"  # of the CSV
MOST_MODELS = 100  # columns of the CSV; the first ones


def classes_csv(run: RunSummary) -> str | None:
    """Id, name, parent, rows in training and test, accuracy per model (empty without test rows); None: not known."""
    facts = run.class_facts
    if facts is None:
        return None
    models = [name for name in run.models if name in facts.hits][:MOST_MODELS]
    columns = [_shares(facts.hits[name], facts.rows[name]) for name in models]
    heading = ["class", "id", "name", "parent", "training_rows", "test_rows", *(f"accuracy {name}" for name in models)]
    lines = [
        [
            c,
            run.class_ids[c] if c < len(run.class_ids) else c,
            run.class_names[c] if c < len(run.class_names) else "",
            facts.parent(c),
            int(facts.train_rows[c]),
            int(facts.test_rows[c]),
            *(column[c] for column in columns),
        ]
        for c in range(len(facts.train_rows))
    ]
    return csv_text(heading, lines)


def _shares(hits: Array, rows: Array) -> list[str]:
    """As text of at most four digits, so that ten thousand classes of forty models stay a small file."""
    shares = np.divide(hits, rows, out=np.zeros(len(rows)), where=rows > 0)
    return [f"{share:.4g}" if n else "" for share, n in zip(shares.tolist(), rows.tolist(), strict=True)]


def rows_text(counts: Array, label: Sequence[str], what: str) -> dict[str, str]:
    """Of the classes with the fewest and the most rows of a part: how many, and which: {"fewest training rows": ...}.

    counts (n_classes,) int64; label  what each class is called
    """
    if not counts.size:
        return {}
    if counts.min() == counts.max():
        return {f"{what} rows of each class": f"{int(counts.min()):,}"}
    found = {}
    for word, edge in (("fewest", int(counts.min())), ("most", int(counts.max()))):
        which = np.flatnonzero(counts == edge)
        first = ", ".join(label[int(c)] for c in which[:3])
        more = f" and {which.size - 3:,} more" if which.size > 3 else ""
        found[f"{word} {what} rows of a class"] = f"{edge:,} ({first}{more})"
    return found
