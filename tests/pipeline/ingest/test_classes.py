"""Labels, class tables and taxonomies in all their forms mean the same."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse
from hypothesis import assume, given
from hypothesis import strategies as st

from pipeline.ingest import ingest
from pipeline.ingest.class_table import Classes, class_of_rows, read_classes
from pipeline.ingest.labels import from_items, read_labels
from pipeline.ingest.scan import row_peaks
from pipeline.ingest.taxonomy_file import read_taxonomy
from pipeline.ingest.taxonomy_tree import build_taxonomy
from pipeline.ingest.whole_numbers import changed
from tasks.classes import ClassTable
from tasks.rows import Csr, Dense
from tests.shared import shared_path
from tests.strategies import class_names, csr_matrices, dense_matrices, parents

ANIMALS = ["cow", "ant", "bee", "cow", "ant", "cow"]


def classes_of(labels, classes=None) -> tuple[list[int], Classes | None]:
    table = None if classes is None else read_classes(classes)
    found = read_labels(labels, len(ANIMALS), "rows")
    return (class_of_rows(found, table).tolist() if table else found.values.tolist()), table


# ---- labels ------------------------------------------------------------------------------------------------------


def write_labels(folder, form, names):
    """The same labels in one of the forms that are read."""
    path = folder / f"labels.{form.split('-')[0]}"
    if form == "npy":
        np.save(path, np.array(names))
    elif form == "npy-bytes":
        np.save(path, np.array([name.encode() for name in names]))
    elif form == "txt":
        path.write_text("\n".join(names))
    elif form == "txt-windows":
        path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join([*names, ""]).encode())
    elif form == "tsv":
        path.write_text("species\n" + "".join(f"{name}\n" for name in names))
    elif form == "tsv-column":
        path.write_text("id\tspecies\n" + "".join(f"{i}\t{name}\n" for i, name in enumerate(names)))
        return f"{path}:species"
    elif form == "csv-column":
        path.write_text("species,id\n" + "".join(f'"{name}",{i}\n' for i, name in enumerate(names)))
        return f"{path}:species"
    else:
        path.write_text(json.dumps(names))
    return path


FORMS = ["npy", "npy-bytes", "txt", "txt-windows", "tsv", "tsv-column", "csv-column", "json"]


@pytest.mark.parametrize("form", FORMS)
def test_names_in_every_form(tmp_path, form):
    found = read_labels(write_labels(tmp_path, form, ANIMALS), 6, "rows")
    assert [found.vocabulary[value] for value in found.values] == ANIMALS


@pytest.mark.parametrize("form", [form for form in FORMS if form != "npy-bytes"])
def test_integers_in_every_form(tmp_path, form):
    numbers = [3, 0, 12, 3, 1, 0]
    texts = numbers if form in ("npy", "json") else [str(number) for number in numbers]
    found = read_labels(write_labels(tmp_path, form, texts), 6, "rows")
    assert found.vocabulary is None
    assert found.values.tolist() == numbers


def test_shards_of_labels(tmp_path):
    for i, piece in enumerate(np.array_split(np.arange(6), 3)):
        np.save(tmp_path / f"y{i}.npy", piece)
    assert read_labels(tmp_path, 6, "rows").values.tolist() == list(range(6))
    assert read_labels(str(tmp_path / "y?.npy"), 6, "rows").values.tolist() == list(range(6))
    assert read_labels([tmp_path / "y2.npy", tmp_path / "y1.npy"], 4, "rows").values.tolist() == [4, 5, 2, 3]
    for i, piece in enumerate(np.array_split(np.array(ANIMALS), 2)):
        np.save(tmp_path / f"names{i}.npy", piece)
    found = read_labels(str(tmp_path / "names*.npy"), 6, "rows")
    assert [found.vocabulary[value] for value in found.values] == ANIMALS


@given(names=st.lists(class_names, min_size=1, max_size=8))
def test_any_names_in_a_list(names):
    found = from_items(names, "labels")
    table = Classes(ClassTable(tuple(map(str, range(len(found.vocabulary)))), tuple(found.vocabulary)))
    assert class_of_rows(found, table).tolist() == found.values.tolist()


# ---- class tables ------------------------------------------------------------------------------------------------


def test_classes_without_a_table(tmp_path):
    matrix = np.random.default_rng(0).standard_normal((6, 2)).astype(np.float32)
    made = ingest(matrix, tmp_path / "names", labels=ANIMALS, validation=0, test=0)
    assert made.classes.names == ("ant", "bee", "cow")
    assert made.classes.ids == ("0", "1", "2")
    made = ingest(matrix, tmp_path / "numbers", labels=[0, 1, 3, 1, 0, 3], validation=0, test=0)
    assert made.classes.names == ("0", "1", "2", "3")
    assert [note.code for note in made.notes] == ["Classes", "NoTaxonomy", "EmptySplit", "ClassWithoutRows"]


@pytest.mark.parametrize(
    ("name", "content", "ids"),
    [
        ("c.json", '["ant", "bee", "cow"]', "012"),
        ("c.txt", "ant\nbee\ncow\n", "012"),
        ("c.txt", "name\nant\nbee\ncow", "012"),
        ("c.tsv", "id\tname\nx\tant\ny\tbee\nz\tcow\n", "xyz"),
        ("c.tsv", "name\tid\nant\tx\nbee\ty\ncow\tz\n", "xyz"),
        ("c.tsv", "x\tant\ny\tbee\nz\tcow\n", "xyz"),
        ("c.json", '[{"id": "x", "name": "ant"}, {"id": "y", "name": "bee"}, {"id": "z", "name": "cow"}]', "xyz"),
        ("c.json", '{"x": "ant", "y": "bee", "z": "cow"}', "xyz"),
        ("c.json", '[{"id": 7, "name": "ant"}, {"id": 5, "name": "bee"}, {"id": 6, "name": "cow"}]', "756"),
    ],
)
def test_class_tables_in_every_form(tmp_path, name, content, ids):
    (tmp_path / name).write_text(content)
    found, table = classes_of(ANIMALS, tmp_path / name)
    assert found == [2, 0, 1, 2, 0, 2]
    assert table.table == ClassTable(tuple(ids), ("ant", "bee", "cow"))
    by_id = [ids[["ant", "bee", "cow"].index(name)] for name in ANIMALS]
    assert classes_of(by_id, tmp_path / name)[0] == found


def test_integers_are_ids_where_the_table_has_integer_ids_and_positions_elsewhere():
    numbers = [5, 6, 7, 5, 6, 7]
    assert classes_of(numbers, [{"id": 7}, {"id": "6"}, {"id": 5}])[0] == [2, 1, 0, 2, 1, 0]
    positions = [0, 1, 2, 0, 1, 2]
    assert classes_of(positions, [{"id": "U+41"}, {"id": "U+42"}, {"id": "U+43"}])[0] == positions
    assert classes_of(positions, ["oak", "elm", "ash"])[0] == positions


def test_names_that_look_like_numbers():
    """Digits as class names: text labels are names first where no ids were given."""
    assert classes_of(np.array(["2", "0", "1", "2", "0", "2"]), ["1", "2", "0"])[0] == [1, 2, 0, 1, 2, 1]


@given(names=st.lists(class_names, min_size=1, max_size=8), data=st.data())
def test_ids_find_classes_whatever_their_names(names, data):
    table = read_classes([{"id": f"id {c}", "name": name} for c, name in enumerate(names)])
    wanted = data.draw(st.lists(st.integers(0, len(names) - 1), min_size=1, max_size=9))
    assert class_of_rows(from_items([f"id {c}" for c in wanted], "labels"), table).tolist() == wanted


# ---- taxonomies --------------------------------------------------------------------------------------------------


def as_tsv(parent, keys):
    return "".join(f"{keys[parent[node]]}\t{keys[node]}\n" for node in range(1, len(parent)))


def as_nested(parent, keys):
    children = {node: [c for c in range(len(parent)) if parent[c] == node] for node in range(len(parent))}

    def below(node):
        return {"name": keys[node], "children": [below(child) for child in children[node]]}

    return json.dumps(below(0))


def as_mapping(parent, keys):
    children = {node: [c for c in range(len(parent)) if parent[c] == node] for node in range(len(parent))}

    def below(node):
        return {keys[child]: below(child) for child in children[node]}

    return json.dumps({keys[0]: below(0)})


def as_nodes(parent, keys):
    nodes = [
        {"id": key, "name": key, "parent": None if p < 0 else keys[p]} for key, p in zip(keys, parent, strict=True)
    ]
    leaves = [keys[node] for node in range(len(parent)) if node not in parent]
    return json.dumps({"nodes": nodes, "leaves": leaves})


WRITERS = {"t.tsv": as_tsv, "nested.json": as_nested, "mapping.json": as_mapping, "nodes.json": as_nodes}


@given(parent=parents())
def test_every_form_gives_the_same_tree(parent, tmp_path_factory):
    """Breadth-first, root first, children in the order of the file: against a plain walk through the levels."""
    leaves = [node for node in range(len(parent)) if node not in parent]
    assume(len(leaves) > 1)
    keys = [f"node {node}" for node in range(len(parent))]
    order = [0]
    for node in order:
        order += [child for child in range(len(parent)) if parent[child] == node]
    folder = tmp_path_factory.mktemp("taxonomy")
    classes = read_classes([keys[leaf] for leaf in leaves])
    for name, write in WRITERS.items():
        (folder / name).write_text(write(parent, keys))
        tree = build_taxonomy(read_taxonomy(folder / name), classes)
        assert tree.names == tuple(keys[node] for node in order), name
        assert [tree.names[leaf] for leaf in tree.leaf_of_class] == [keys[leaf] for leaf in leaves], name
        for node in range(1, len(parent)):
            assert tree.names[tree.parent[node]] == keys[parent[order[node]]], name


def test_headers_and_declared_roots_of_a_tsv(tmp_path):
    forms = ["all\ta\nall\tb\n", "parent\tchild\nall\ta\nall\tb\n", "child\tparent\na\tall\nb\tall\nall\t\n"]
    trees = []
    for form in [*forms, "\tall\nall\ta\nall\ta\nall\tb\n\n"]:
        (tmp_path / "t.tsv").write_text(form)
        trees.append(build_taxonomy(read_taxonomy(tmp_path / "t.tsv"), read_classes(["b", "a"])))
    assert {tree.names for tree in trees} == {("all", "a", "b")}
    assert all(tree.leaf_of_class.tolist() == [2, 1] for tree in trees)


def test_several_names_side_by_side_get_a_root():
    tree = build_taxonomy(
        read_taxonomy({"pets": ["cat", "dog"], "trees": ["oak"]}), read_classes(["oak", "dog", "cat"])
    )
    assert tree.names == ("root", "pets", "trees", "cat", "dog", "oak")
    assert tree.leaf_of_class.tolist() == [5, 4, 3]


def test_leaves_at_different_depths_and_chains_are_fine():
    tree = build_taxonomy(read_taxonomy({"r": {"a": {"b": {"cat": {}}}, "oak": None}}), read_classes(["oak", "cat"]))
    assert tree.level[tree.leaf_of_class].tolist() == [1, 3]


@pytest.mark.parametrize("by", ["id", "name"])
def test_a_taxonomy_may_use_ids_or_names(tmp_path, by):
    table = read_classes([{"id": "n1", "name": "crane"}, {"id": "n2", "name": "egret"}])
    first, second = ("n1", "n2") if by == "id" else ("crane", "egret")
    (tmp_path / "t.tsv").write_text(f"bird\t{second}\nbird\t{first}\n")
    tree = build_taxonomy(read_taxonomy(tmp_path / "t.tsv"), table)
    assert tree.leaf_of_class.tolist() == [2, 1]


def test_equal_names_are_no_trouble_where_ids_tell_them_apart():
    table = read_classes([{"id": "n1", "name": "crane"}, {"id": "n2", "name": "crane"}])
    nodes = [{"id": "r"}, {"id": "n2", "name": "crane", "parent": "r"}, {"id": "n1", "name": "crane", "parent": "r"}]
    tree = build_taxonomy(read_taxonomy({"nodes": nodes}), table)
    assert tree.leaf_of_class.tolist() == [2, 1]


def test_the_leaves_of_a_taxonomy_are_the_class_table_when_none_is_given(tmp_path):
    """The last class has no rows, so labels alone would give one class too few."""
    nodes = [{"id": "r"}, *({"id": f"n{c}", "name": f"class {c}", "parent": "r"} for c in range(4))]
    taxonomy = {"nodes": nodes, "leaves": ["n3", "n2", "n1", "n0"]}
    made = ingest(np.eye(6), tmp_path / "d", labels=[0, 1, 2, 0, 1, 2], taxonomy=taxonomy, validation=0, test=0)
    assert made.classes.names == ("class 3", "class 2", "class 1", "class 0")
    assert made.taxonomy.leaf_of_class.tolist() == [4, 3, 2, 1]


@pytest.mark.parametrize("name", ["clinc150", "tinyimagenet-effnet", "ilsvrc1000-taxonomy", "wordnet-gloss-large"])
def test_real_taxonomies(name):
    """Against the file itself: the names on the way up from each class."""
    folder = shared_path(f"data/{name}")
    content = json.loads((folder / "taxonomy.json").read_text())
    tree = build_taxonomy(read_taxonomy(folder / "taxonomy.json"), read_classes(folder / "classes.json"))
    assert tree.n_nodes == len(content["nodes"])
    nodes = {node["id"]: node for node in content["nodes"]}
    for c in range(0, tree.n_classes, max(1, tree.n_classes // 50)):
        key, node = content["leaves"][c], int(tree.leaf_of_class[c])
        while key is not None:
            assert tree.names[node] == nodes[key]["name"]
            key, node = nodes[key]["parent"], int(tree.parent[node])
        assert node == -1


# ---- the look at every value -------------------------------------------------------------------------------------


@given(values=dense_matrices(), matrix=csr_matrices(), data=st.data())
def test_peaks_of_rows(values, matrix, data):
    bad = data.draw(st.sampled_from([None, np.nan, np.inf, -np.inf]))
    if bad is not None and values.size:
        values.reshape(-1)[data.draw(st.integers(0, values.size - 1))] = bad
    expected = np.abs(values.astype(np.float64)).max(axis=1, initial=0.0)
    np.testing.assert_array_equal(row_peaks(Dense(values)), expected)
    if bad is not None and matrix.nnz:
        matrix.data[data.draw(st.integers(0, matrix.nnz - 1))] = bad
    rows = Csr(matrix.data, matrix.indices, matrix.indptr.astype(np.int64), matrix.shape[1])
    expected = np.abs(matrix.toarray().astype(np.float64)).max(axis=1, initial=0.0)
    np.testing.assert_array_equal(row_peaks(rows), expected)


@pytest.mark.parametrize("dtype", [np.int8, np.uint64, np.bool_, np.float16])
def test_peaks_of_other_types(dtype):
    values = np.array([[-128 if dtype is np.int8 else 1, 3], [0, 0]]).astype(dtype)
    expected = [np.abs(values[0].astype(float)).max(), 0]
    assert row_peaks(Dense(values)).tolist() == expected
    sparse = scipy.sparse.csr_matrix(values.astype(np.float64))
    assert row_peaks(Csr(sparse.data, sparse.indices, sparse.indptr, 2)).tolist() == expected


@pytest.mark.parametrize("dtype", ["int16", "uint16", "int32", "int64", "uint64", "float32", "float64"])
@pytest.mark.parametrize("stored_as", ["float32", "float16"])
def test_whole_numbers_that_a_type_does_not_hold(dtype, stored_as):
    """By Python's own integers; around every power of 2, and in rows of both kinds."""
    info = np.iinfo(dtype) if np.dtype(dtype).kind in "iu" else np.finfo(dtype)
    near = [sign * ((odd << p) + d) for sign in (1, -1) for odd in (1, 3, 5) for p in range(62) for d in (-1, 0, 1)]
    largest = 2**64 if stored_as == "float32" else 2**15
    fitting = [int(info.min), int(info.max), *near] if np.dtype(dtype).kind in "iu" else near
    numbers = [n for n in fitting if abs(n) < largest and info.min <= n <= info.max]
    values = np.array(numbers, dtype).reshape(-1, 1)
    given = [int(value) for value in values[:, 0].tolist()]
    expected = [row for row, n in enumerate(given) if int(np.array(n, object).astype(stored_as)) != n]
    cells = np.hstack([np.zeros_like(values), values, values])
    if np.dtype(dtype).kind == "f":  # rows that are not finite are told of by themselves
        cells = np.vstack([cells, np.array([[2**30 + 1, np.nan, 0], [2**30 + 1, -np.inf, 0]], dtype)])
    rows, columns, found = changed(Dense(cells), row_peaks(Dense(cells)), stored_as)
    assert (rows.tolist(), columns.tolist()) == (np.repeat(expected, 2).tolist(), [1, 2] * len(expected))
    assert found.tolist() == cells[rows, columns].tolist()
    sparse = scipy.sparse.csr_matrix(cells)
    csr = Csr(sparse.data, sparse.indices, sparse.indptr.astype(np.int64), 3)
    for kept, of_csr in zip((rows, columns, found), changed(csr, row_peaks(csr), stored_as), strict=True):
        np.testing.assert_array_equal(of_csr, kept)
