"""Classes, siblings and rows side by side: as counted one by one, and what they leave beside the page."""

from __future__ import annotations

import csv
import io
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from pipeline.report.class_facts import ClassFacts
from pipeline.report.classes import classes_csv, rows_text
from pipeline.report.page import write_report
from pipeline.report.summary import RunSummary
from tasks.models.base import Ranking
from tasks.models.errors import PredictionsDamaged
from tasks.models.outcomes import NO_PARENT, Predicted, only_one, outcomes_of
from tasks.models.predictions import write_part
from tasks.models.selection import Selected
from tests.pipeline.test_report import Page, summary

N_CLASSES = 7
PARENT = np.array([1, 1, 1, 2, 2, NO_PARENT, NO_PARENT], np.int32)


def predictions(path: Path, seed: int, n: int = 90) -> tuple[np.ndarray, np.ndarray]:
    """(labels, first classes) of a file with unlabelled rows and rows without an answer."""
    draw = np.random.default_rng(seed)
    labels = draw.integers(-1, N_CLASSES, n).astype(np.int32)
    classes = np.stack([draw.permutation(N_CLASSES)[:3] for _ in range(n)]).astype(np.int32)
    classes[draw.random(n) < 0.1] = -1
    scores = np.zeros(classes.shape, np.float32)
    rows = np.arange(n, dtype=np.int64)
    write_part(path, Selected(rows, rows, labels), Ranking(classes, scores, np.full(n, N_CLASSES, np.int32)))
    return labels, classes[:, 0]


@pytest.mark.parametrize("learnt", [None, np.array([0, 1, 5])], ids=["all", "a-sample"])
@pytest.mark.parametrize("seed", range(4))
def test_outcomes_are_as_counted_one_by_one(seed: int, learnt: np.ndarray | None, tmp_path: Path) -> None:
    labels, first = predictions(tmp_path / "p.parquet", seed)
    item = Predicted(0, str(tmp_path / "p.parquet"), labels.size, learnt)
    found = outcomes_of(item, {"parent_of_class": PARENT}, 100)
    counts = [y >= 0 and (learnt is None or y in learnt) for y in labels]
    right = [bool(k and y == c) for k, y, c in zip(counts, labels, first, strict=True)]
    assert np.unpackbits(found.right)[: labels.size].astype(bool).tolist() == right
    for c in range(N_CLASSES):
        mine = [k and y == c for k, y in zip(counts, labels, strict=True)]
        assert found.class_rows[c] == sum(mine)
        assert found.class_hits[c] == sum(r for r, m in zip(right, mine, strict=True) if m)
    pairs = Counter(
        (int(y), int(c))
        for k, y, c in zip(counts, labels, first, strict=True)
        if k and c >= 0 and y != c and PARENT[y] == PARENT[c] != NO_PARENT
    )
    assert {(true, named): n for true, named, n in found.siblings} == pairs
    assert [n for *_, n in found.siblings] == sorted(pairs.values(), reverse=True)


@pytest.mark.parametrize("seed", range(3))
def test_rows_that_only_one_has_right(seed: int, tmp_path: Path) -> None:
    outcomes, rights = [], []
    for place in range(2):
        path = tmp_path / f"{place}.parquet"
        labels, first = predictions(path, seed)
        if place:
            labels, first = predictions(path, seed + 100)
        outcomes.append(outcomes_of(Predicted(place, str(path), labels.size), {"parent_of_class": PARENT}, 1))
        rights.append((labels >= 0) & (labels == first))
    assert only_one(*outcomes) == (int((rights[0] & ~rights[1]).sum()), int((rights[1] & ~rights[0]).sum()))


def test_a_file_that_is_damaged_or_none_of_ours_is_named(tmp_path: Path) -> None:
    path = tmp_path / "p.parquet"
    item = Predicted(0, str(path), 1)
    with pytest.raises(PredictionsDamaged, match="missing"):
        outcomes_of(item, {"parent_of_class": PARENT}, 1)
    path.write_bytes(b"PAR1 no")
    with pytest.raises(PredictionsDamaged, match="cannot be read"):
        outcomes_of(item, {"parent_of_class": PARENT}, 1)


def facts() -> ClassFacts:
    train, test = np.arange(9), np.array([4, 0, *[2] * 7])
    hits = {"ovr": np.array([3, 0, *[1] * 7]), "tree": np.array([1, 0, *[2] * 7])}
    parents = ["<i>upper</i>", "", *["lower"] * 7]
    return ClassFacts(train, test, parents, hits, dict.fromkeys(hits, test), {"ovr": [(3, 4, 5)]})


def told() -> RunSummary:
    run = summary()
    return RunSummary(**{**{name: getattr(run, name) for name in run.__dataclass_fields__}, "class_facts": facts()})


def test_the_csv_has_every_class(tmp_path: Path) -> None:
    write_report(tmp_path / "report.html", told())
    text = (tmp_path / "report-figures" / "classes.csv").read_text("utf-8")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == 9
    assert [row["accuracy ovr"] for row in rows[:3]] == ["0.75", "", "0.5"]
    assert [row["parent"] for row in rows[:3]] == ["<i>upper</i>", "", "lower"]
    assert (rows[4]["training_rows"], rows[4]["test_rows"]) == ("4", "2")
    assert classes_csv(summary()) is None


def test_siblings_parents_and_no_answer_are_explained_on_the_page(tmp_path: Path) -> None:
    write_report(tmp_path / "report.html", told())
    page = Page((tmp_path / "report.html").read_text("utf-8"))
    assert "Siblings confused most" in page.text
    assert "<i>upper</i>" in page.text
    assert "(none): the model named no class for these rows" in page.text
    assert "i" not in {tag for tag, _ in page.tags}


def test_classes_with_the_fewest_and_the_most_rows() -> None:
    found = rows_text(np.array([3, 1, 1, 9, 1, 1]), list("abcdef"), "training")
    assert found["fewest training rows of a class"] == "1 (b, c, e and 1 more)"
    assert found["most training rows of a class"] == "9 (d)"
    assert rows_text(np.array([2, 2]), list("ab"), "test") == {"test rows of each class": "2"}


def test_forty_models_of_ten_thousand_classes_stay_under_two_megabytes(tmp_path: Path) -> None:
    n, names = 10_000, [f"model-{i}" for i in range(40)]
    ones, draw = np.ones(n, int), np.random.default_rng(0)
    each = dict.fromkeys(names, ones)
    pairs = [(int(c), int(c + 1), 3) for c in range(20)]
    details = {name: {"worst_classes": [[c, 0, 9] for c in range(20)], "confused_pairs": pairs} for name in names}
    run = RunSummary(
        "large",
        {name: {**summary().models["ovr"], "top1": float(draw.random())} for name in names},
        n,
        class_ids=[f"n{c:08d}" for c in range(n)],
        class_names=[f"a class with a long name, number {c}" for c in range(n)],
        details=details,
        class_facts=ClassFacts(ones, ones, ["parent"] * n, each, each, dict.fromkeys(names, pairs)),
    )
    written = write_report(tmp_path / "report.html", run)
    assert (tmp_path / "report.html").stat().st_size < 2_000_000
    assert max(path.stat().st_size for path in written) < 4_000_000
