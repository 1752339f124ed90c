"""Predictions as .csv and .tsv: names, all digits, quoting, what a spreadsheet would take for a formula."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from pipeline.predictions_csv import shown_names, write_csv
from tasks.classes import ClassTable
from tasks.models.base import Probabilities, Ranking
from tasks.models.errors import PredictionsDamaged
from tasks.models.predictions import part_name, write_part
from tasks.models.selection import Selected

NAMES = ("oak", "oak", "", '=1+"2"', "a,b\tc", "two\nlines", "mid\rdle", "@x", "Ω")
TABLE = ClassTable(tuple(f"id{c}" for c in range(len(NAMES))), NAMES)
SHOWN = ["oak [id0]", "oak [id1]", "[id2]", '\'=1+"2"', "a,b\tc", "two\nlines", "mid\rdle", "'@x", "Ω"]


def parts(folder: Path, labels: list[int], probable: bool = False, files: list[str] | None = None) -> list[Path]:
    """Two parts of 3 classes a row; the first row of each names only two."""
    rng = np.random.default_rng(5)
    found = []
    for i, mine in enumerate(np.array_split(np.array(labels, np.int32), 2)):
        n = len(mine)
        classes = np.array([rng.permutation(len(NAMES))[:3] for _ in range(n)], np.int32)
        scores = rng.standard_normal((n, 3)).astype(np.float32) * np.float32(10) ** rng.integers(-9, 9, (n, 3))
        classes[0, 2], scores[0, 2] = -1, np.nan
        chances = Probabilities(np.full((n, 3), 0.1, np.float32), np.full(n, -0.7, np.float32)) if probable else None
        ranking = Ranking(classes, scores.astype(np.float32), np.ones(n, np.int32), None, chances)
        start = sum(map(len, np.array_split(np.array(labels), 2)[:i]))
        selected = Selected(np.arange(n), np.arange(start, start + n), mine)
        found.append(folder / part_name(i))
        write_part(found[-1], selected, ranking, None if files is None else files[start : start + n])
    return found


def read(path: Path) -> list[dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t" if path.suffix == ".tsv" else ","))


def test_names_that_do_not_tell_which_class_it_is_get_its_id() -> None:
    assert shown_names(TABLE) == SHOWN


@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_every_name_and_every_bit_comes_back(tmp_path: Path, ending: str) -> None:
    from tasks.models.predictions import read_part

    found = parts(tmp_path, list(range(9)))
    target = tmp_path / f"p.{ending}"
    write_csv(found, target, TABLE, proba=False)
    lines, start = read(target), 0
    assert list(lines[0]) == ["row", "label", "class_1", "score_1", "class_2", "score_2", "class_3", "score_3"]
    for part in found:
        told = read_part(part)
        for i, line in enumerate(lines[start : start + len(told.row)]):
            assert int(line["row"]) == told.row[i]
            assert line["label"] == SHOWN[told.label[i]]
            for k in range(3):
                c, score = told.ranking.classes[i, k], told.ranking.scores[i, k]
                assert line[f"class_{k + 1}"] == ("" if c < 0 else SHOWN[c])
                assert line[f"score_{k + 1}"] == "" if c < 0 else np.float32(line[f"score_{k + 1}"]) == score
        start += len(told.row)
    assert len(lines) == start == 9
    assert b"\r\n" not in target.read_bytes()


def test_columns_of_what_is_known_alone(tmp_path: Path) -> None:
    unknown = parts(tmp_path, [-1] * 4, probable=True, files=["a/1.jpg", "=b.jpg", "c,d.jpg", "e.jpg"])
    write_csv(unknown, tmp_path / "p.csv", TABLE, proba=True)
    lines = read(tmp_path / "p.csv")
    assert "label" not in lines[0]
    assert "label_log_probability" not in lines[0]
    assert list(lines[0])[:5] == ["file", "row", "class_1", "score_1", "probability_1"]
    assert [line["file"] for line in lines] == ["a/1.jpg", "'=b.jpg", "c,d.jpg", "e.jpg"]
    assert {line["probability_1"] for line in lines} == {"0.1"}
    write_csv(unknown, tmp_path / "q.csv", TABLE, proba=False)
    assert "probability_1" not in read(tmp_path / "q.csv")[0]


def test_a_row_without_a_label_among_others(tmp_path: Path) -> None:
    write_csv(parts(tmp_path, [-1, -1, -1, 4], probable=True), tmp_path / "p.csv", TABLE, proba=True)
    lines = read(tmp_path / "p.csv")
    assert [line["label"] for line in lines] == ["", "", "", "a,b\tc"]
    assert [line["label_log_probability"] for line in lines] == ["", "", "", "-0.7"]


def test_whole_or_not_at_all(tmp_path: Path) -> None:
    found = parts(tmp_path, list(range(4)))
    found[1].write_bytes(found[1].read_bytes()[:-9])
    with pytest.raises(PredictionsDamaged):
        write_csv(found, tmp_path / "out.csv", TABLE, proba=False)
    assert not list(tmp_path.glob("*out.csv*"))
