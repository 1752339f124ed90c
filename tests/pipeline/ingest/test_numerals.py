"""Integer labels beside classes that are called by numerals: read as names, whoever reads them, never as positions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipeline.accuracy import class_map, known_classes
from pipeline.dataset import Dataset
from pipeline.ingest import errors, ingest
from pipeline.ingest.class_table import Classes, class_of_rows, read_classes
from pipeline.ingest.labels import from_items
from pipeline.ingest.taxonomy_file import read_taxonomy
from pipeline.ingest.taxonomy_tree import build_taxonomy
from tasks.classes import ClassTable
from tests.pipeline.ingest.samples import notes, stored

NUMERALS = [str(c) for c in range(12)]
SORTED = sorted(NUMERALS)  # 0 1 10 11 2 ...
X = np.random.default_rng(1).standard_normal((24, 3)).astype(np.float32)
Y = np.arange(24) % 12


def table(names: list[str], ids: list[str] | None = None) -> ClassTable:
    return ClassTable(tuple(ids or map(str, range(len(names)))), tuple(names))


def names_of(made: Dataset) -> list[str]:
    """The class of each source row, by its name."""
    _, y, _, rows = stored(made)
    return [made.classes.names[c] for c in y[np.argsort(rows)]]


def read(labels: list, classes: list | Path) -> list[str]:
    known = read_classes(classes)
    return [known.table.names[c] for c in class_of_rows(from_items(labels, "y"), known)]


@pytest.mark.parametrize("form", ["c.txt", "list", "taxonomy"])
def test_integers_are_names_where_all_names_are_numerals(tmp_path: Path, form: str) -> None:
    options = {"classes": SORTED}
    if form == "c.txt":
        (tmp_path / form).write_text("\n".join(SORTED))
        options = {"classes": tmp_path / form}
    elif form == "taxonomy":
        nodes = [{"id": "r"}, *({"id": f"n{name}", "name": name, "parent": "r"} for name in SORTED)]
        options = {"taxonomy": {"nodes": nodes, "leaves": [f"n{name}" for name in SORTED]}}
    made = ingest(X, tmp_path / "d.zarr", labels=Y, **options)
    assert names_of(made) == [str(y) for y in Y]
    assert made.classes.names == tuple(SORTED)
    assert "2 is" not in notes(made)["LabelsAreNames"]
    assert "10 is '10', class 2" in notes(made)["LabelsAreNames"]


def test_labels_from_one_with_their_numbers_as_classes(tmp_path: Path) -> None:
    """What the warning of labels without a 0 proposes does what it says."""
    lines = [str(c + 1) for c in range(12)]
    (tmp_path / "c.txt").write_text("\n".join(lines))
    (tmp_path / "c.tsv").write_text("".join(f"{line}\tname {line}\n" for line in lines))
    alone = ingest(X, tmp_path / "d.zarr", labels=Y + 1)
    assert alone.n_classes == 13
    assert "--classes FILE.txt" in notes(alone)["LabelsFromOne"]
    assert "FILE.tsv with lines of label, tab, name" in notes(alone)["LabelsFromOne"]
    made = ingest(X, tmp_path / "e.zarr", labels=Y + 1, classes=tmp_path / "c.txt")
    assert names_of(made) == [str(y + 1) for y in Y]
    assert not {"LabelsFromOne", "ClassWithoutRows"} & set(notes(made))
    made = ingest(X, tmp_path / "f.zarr", labels=Y + 1, classes=tmp_path / "c.tsv")
    assert names_of(made) == [f"name {y + 1}" for y in Y]


@pytest.mark.parametrize("label", [12, -1, 2**40])
def test_an_integer_that_is_no_name_is_refused_by_name(label: int) -> None:
    with pytest.raises(errors.LabelOutOfRange, match=f"label {label} is the name of no class of classes") as caught:
        read([0, 1, label], SORTED)
    assert "y, row 2" in str(caught.value)
    assert "integer labels are names: '0', '1', '10'" in str(caught.value)


def test_text_is_no_position_among_numerals() -> None:
    """Names '1' to '12': all of the words '0' to '11' are positions, and that is a shift, no match."""
    with pytest.raises(errors.LabelOutOfRange, match="label '0' is not in the class table"):
        read(NUMERALS, [str(c + 1) for c in range(12)])
    assert read(NUMERALS, ["oak"] + [f"n{c}" for c in range(11)])[0] == "oak"


def test_numerals_with_zeros_before_them() -> None:
    assert read([1, 10, 2], ["001", "002", "010"]) == ["001", "010", "002"]
    assert read([1], ["01", "1"]) == ["1"]  # as it is written
    with pytest.raises(errors.DuplicateClassName, match="the number 1 is the name of 2 classes"):
        read([2, 1], ["01", "001", "2"])


def test_ids_that_were_given_come_before_names(tmp_path: Path) -> None:
    items = [{"id": c, "name": str(c + 1)} for c in range(12)]
    assert read([0, 11], items) == ["1", "12"]
    made = ingest(X, tmp_path / "d.zarr", labels=Y, classes=items)
    assert names_of(made) == [str(y + 1) for y in Y]
    assert "`predict` takes integers for names" in notes(made)["IdsBesideNumerals"]
    assert read([7, 9], [{"id": "a", "name": "9"}, {"id": "b", "name": "7"}]) == ["7", "9"]


def test_integers_are_positions_among_other_names_and_that_is_said(tmp_path: Path) -> None:
    names = [f"n{c}" for c in range(12)]
    made = ingest(X, tmp_path / "d.zarr", labels=Y, classes=names)
    assert names_of(made) == [names[y] for y in Y]
    assert notes(made)["LabelsAreNumbers"] == (
        "integer labels are taken as class numbers: 0 is 'n0', 1 is 'n1', 2 is 'n2', ..."
    )
    mixed = ingest(X, tmp_path / "e.zarr", labels=Y, classes=[*SORTED[:-1], "other"])
    assert [note.level for note in mixed.notes if note.code == "LabelsAreNumbers"] == ["warning"]
    plain = ingest(X, tmp_path / "f.zarr", labels=Y)
    assert plain.classes == table(NUMERALS)
    assert not {"LabelsAreNumbers", "LabelsAreNames"} & set(notes(plain))


def test_labels_from_one_beside_other_names_are_explained() -> None:
    with pytest.raises(errors.LabelOutOfRange, match="if labels count from 1") as caught:
        read([1, 2, 3], ["oak", "elm", "ash"])
    assert "label 3 is outside the class table (0 to 2)" in str(caught.value)


def test_ids_of_odd_digits_are_names() -> None:
    """Python calls these digits, and cannot make an integer of them."""
    items = [{"id": key, "name": "n"} for key in ("\u00b2", "--5", "9" * 5000)]
    found = class_of_rows(from_items(["--5", "\u00b2"], "y"), read_classes(items))
    assert found.tolist() == [1, 0]


# ---- the classes of a dataset and of a model ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "known", "expected"),
    [
        (table(NUMERALS), table(SORTED), [SORTED.index(name) for name in NUMERALS]),
        (table(SORTED), table(NUMERALS), [int(name) for name in SORTED]),
        (table(NUMERALS), table([str(c + 1) for c in range(12)]), [-1, *range(11)]),
        (table(NUMERALS[:3]), table(["oak", "elm", "ash"]), [0, 1, 2]),
        (table(NUMERALS[:3]), table(["oak", "elm"], ["2", "0"]), [1, -1, 0]),
        (table(["5", "7"], ["5", "7"]), table(["7", "5"]), [1, 0]),
        (table(["oak", "elm"]), table(["elm", "oak"]), [1, 0]),
        (table(SORTED), table(SORTED), None),
    ],
)
def test_classes_of_a_dataset_are_found_as_its_labels_would_be(
    given: ClassTable, known: ClassTable, expected: list[int] | None
) -> None:
    mapped = class_map(given, known)
    assert (mapped if mapped is None else mapped.tolist()) == expected
    if expected is not None and given.names == given.ids and -1 not in expected:
        labels = from_items([int(name) for name in given.names], "y")
        assert class_of_rows(labels, known_classes(known, "the model")).tolist() == expected


def test_nodes_of_a_taxonomy_are_no_positions_among_numerals() -> None:
    classes = Classes(table([str(c + 1) for c in range(3)]))
    with pytest.raises(errors.TaxonomyMissingClass, match="'3'"):
        build_taxonomy(read_taxonomy({"root": ["0", "1", "2"]}), classes)
