"""Lines for people fit a terminal, whatever they hold; files and pipes get them whole."""

from __future__ import annotations

import pytest

from pipeline import outputs
from pipeline.fields import LEAST, NAME_WIDTH, fields_text, fit
from pipeline.outputs import cells, cut_to
from tests.pipeline.cli_caller import labelgrove, succeeds
from tests.pipeline.test_inspect_dataset import made

LONG = "Organism" + "_very" * 20 + "_long_"


def test_a_line_is_broken_at_spaces_and_nothing_is_lost() -> None:
    line = "  run    " + " ".join(f"word{i}" for i in range(40))
    broken = fit(line, 9, 60)
    assert broken.split() == line.split()
    assert max(map(len, broken.splitlines())) <= 60
    assert broken.splitlines()[0].startswith("  run    word0")
    assert all(part.startswith(" " * 9 + "word") for part in broken.splitlines()[1:])
    assert fit(line, 9, 0) == line
    assert fit("x" * 200, 2, 60) == "x" * 200  # a path stays whole
    assert max(map(len, fit(line, 9, 5).splitlines())) <= LEAST


def test_values_stand_one_below_the_other() -> None:
    text = fields_text([("kind", "a " * 60), ("digest", "0123")], 60)
    *first, last = text.splitlines()
    assert len(first) > 1
    assert all(line[NAME_WIDTH + 2 :].startswith("a ") for line in first)
    assert last == f"{'digest':<{NAME_WIDTH}}  0123"


@pytest.mark.parametrize("letter", ["a", "\u6f22", "e\u0301"], ids=["narrow", "wide", "combining"])
@pytest.mark.parametrize("width", [0, 2, 3, 4, 12, 40, 41])
def test_a_name_is_cut_as_by_one_letter_at_a_time(letter: str, width: int) -> None:
    for n in (0, 1, 5, 12, 20, 40, 41, 80):
        text = "".join(f"{letter}{i % 10}" for i in range(n))
        head, tail = text, text
        while cells(head) > max(0, width - 3 + 1) // 2:
            head = head[:-1]
        while cells(tail) > max(0, width - 3) // 2:
            tail = tail[1:]
        assert cut_to(text, width) == (text if cells(text) <= width else f"{head}...{tail}")


def test_of_a_long_name_only_what_stays_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []
    monkeypatch.setattr(outputs, "east_asian_width", lambda letter: looked.append(letter) or "N")
    assert cut_to("a" * 1_000_000 + "b", 40) == "a" * 19 + "..." + "a" * 17 + "b"
    assert len(looked) < 50


def test_names_within_sentences_are_cut_in_the_middle(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"{LONG}{i}" for i in range(4)]
    labels = [names[i % 3] for i in range(10)]
    taxonomy = {"root": {LONG: names[:2], **dict.fromkeys(names[2:])}}
    dataset = made(tmp_path, "dense", labels=labels, classes=names, taxonomy=taxonomy)
    whole = succeeds("inspect", dataset.path).out
    assert cut_to(repr(names[0]), 40) in whole
    assert names[0] not in whole
    monkeypatch.setenv("COLUMNS", "80")
    for command in (("inspect", dataset.path), ("verify", dataset.path)):
        said = labelgrove(*command)
        assert max(map(len, said.out.replace(str(tmp_path), "").splitlines())) <= 80
    assert " ".join(whole.split()) == " ".join(succeeds("inspect", dataset.path).out.split())
