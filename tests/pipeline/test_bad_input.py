"""Bad input: each kind has its named error that says what, where and what to do, and nothing is left on the disk."""

from __future__ import annotations

import io as streams
import json
import pickle
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pipeline.ingest import errors, ingest
from pipeline.ingest.svmlight import parse_line
from tasks.errors import InputError, LabelgroveError, ParamError
from tasks.io import read_rows
from tests.strategies import NASTY_NAMES

X = np.random.default_rng(0).standard_normal((12, 3)).astype(np.float32)
Y = np.arange(12) % 3


@pytest.fixture
def assert_refused(tmp_path, monkeypatch):
    """Calls ingest in an empty folder, expects the error, and checks its words and what is left behind."""
    monkeypatch.chdir(tmp_path)

    def call(error: type[LabelgroveError], *words: str, source=X, exit_code: int = 3, **options) -> LabelgroveError:
        options = {"labels": Y} | options
        before = sorted(tmp_path.rglob("*"))
        with pytest.raises(error) as caught:
            ingest(source, tmp_path / "d.zarr", **options)
        said = str(caught.value)
        assert type(caught.value) is error
        assert caught.value.exit_code == exit_code
        assert caught.value.code in said
        for word in words:
            assert word in said, said
        assert caught.value.hint or isinstance(caught.value, ParamError)
        assert sorted(tmp_path.rglob("*")) == before
        return caught.value

    return call


def save(name: str, array, **options) -> str:
    np.save(name, array, **options)
    return name


def text(name: str, content: str) -> str:
    Path(name).write_text(content, encoding="utf-8")
    return name


def with_values(**places) -> np.ndarray:
    matrix = X.copy()
    for value, (row, column) in places.items():
        matrix[row, column] = {"nan": np.nan, "inf": np.inf, "minus": -np.inf}[value]
    return matrix


# ---- features ----------------------------------------------------------------------------------------------------


def test_nan_and_infinity_are_named_with_rows_and_columns(assert_refused):
    assert_refused(errors.NonFiniteFeature, "2 values in 2 rows", "row 7: columns 1 (nan)", "row 9: columns 2 (inf)",
            source=with_values(nan=(7, 1), inf=(9, 2)))  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_non_finite_values_of_any_type_and_part_are_found(assert_refused, dtype):
    matrix = with_values(minus=(4, 0)).astype(dtype)
    assert_refused(errors.NonFiniteFeature, "row 4", "-inf", test_source=matrix, test_labels=Y)


def test_non_finite_values_name_the_shard(assert_refused):
    save("a.npy", X[:5])
    save("b.npy", with_values(nan=(7, 1))[5:])
    assert_refused(errors.NonFiniteFeature, "row 7 (row 2 of b.npy)", source=["a.npy", "b.npy"])


def test_non_finite_sparse_values_name_their_column(assert_refused):
    matrix = scipy.sparse.csr_matrix(np.diag(np.arange(1.0, 13)))
    matrix.data[6] = np.nan
    assert_refused(errors.NonFiniteFeature, "row 6: columns 6 (nan)", source=matrix)


def test_long_lists_of_rows_are_cut(assert_refused):
    error = assert_refused(errors.NonFiniteFeature, "36 values in 12 rows", "and 2 more rows", source=X * np.nan)
    assert len(error.where) < 1000


@pytest.mark.parametrize(
    ("value", "dtype"), [(1e30, None), (-3e38, None), (1e5, "float16"), (1e200, None)], ids=lambda value: str(value)
)
def test_values_that_would_overflow_are_named(assert_refused, value, dtype):
    matrix = X.astype(np.float64)
    matrix[5, 1] = value
    assert_refused(errors.FeatureRange, "row 5", f"{abs(value):g}", source=matrix, dtype=dtype)


@pytest.mark.parametrize(("scale", "dtype"), [(1e-30, None), (1e-10, "float16")])
def test_values_that_would_vanish_are_refused(assert_refused, scale, dtype):
    matrix = X.astype(np.float64) * scale
    assert_refused(
        errors.FeatureRange, "the largest of all values is", "scale the features", source=matrix, dtype=dtype
    )


@pytest.mark.parametrize("body", ["dense", "csr"])
def test_large_values_that_fit_are_kept(tmp_path, body):
    matrix = X.copy()
    matrix[0, 0] = 1e18
    dataset = ingest(scipy.sparse.csr_matrix(matrix) if body == "csr" else matrix, tmp_path / "d", labels=Y)
    dataset.verify()
    stored = max(float(read_rows(block).to_array().max()) for block in dataset.blocks())
    assert stored == np.float32(1e18)


@pytest.mark.parametrize(
    "matrix",
    [X.astype(object), X.astype(complex), X.astype(str), np.zeros(12, [("a", "f4")]), X.astype("M8[s]")],
    ids=lambda matrix: str(matrix.dtype),
)
def test_features_that_are_no_numbers(assert_refused, matrix):
    assert_refused(errors.FeatureDtype, source=matrix)


def test_an_object_array_on_disk_is_never_unpickled(assert_refused, tmp_path):
    save("x.npy", np.array([Trap(tmp_path / "sprung")] * 12), allow_pickle=True)
    assert_refused(errors.FeatureDtype, "x.npy", "objects", source="x.npy")
    np.savez("x.npz", x=np.array([Trap(tmp_path / "sprung")] * 12))
    assert_refused(errors.FeatureDtype, "x.npz", "member x.npy", source="x.npz")
    assert_refused(errors.LabelDtype, "x.npy", "astype(str)", labels="x.npy")
    assert not (tmp_path / "sprung").exists()


class Trap:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.mark.parametrize("name", ["x.pkl", "x.joblib", "x.pt", "x.npy", "x.txt"])
@pytest.mark.parametrize("option", ["source", "labels", "classes", "split", "taxonomy"])
def test_pickles_are_refused_under_any_name_and_never_tried(assert_refused, tmp_path, name, option):
    Path(name).write_bytes(pickle.dumps(Trap(tmp_path / "sprung")))
    assert_refused(errors.UnsafeFormat, name, **{option: name})
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("shape", [(12,), (12, 3, 1), (12, 0), ()], ids=str)
def test_features_that_are_no_matrix(assert_refused, shape):
    save("x.npy", np.zeros(shape, np.float32))
    assert_refused(errors.FeatureShape, "x.npy", str(shape), source="x.npy")


def test_no_rows_at_all(assert_refused):
    assert_refused(errors.OneClassData, "none", source=X[:0], labels=[])
    save("x.npy", X[:0])
    save("y.npy", X[:0])
    assert_refused(errors.FeatureShape, "no shard has any rows", source=["x.npy", "y.npy"], labels=[])


def test_columns_that_differ(assert_refused):
    assert_refused(errors.ColumnMismatch, "3 columns", "has 2", test_source=X[:, :2], test_labels=Y)
    save("a.npy", X)
    save("b.npy", X[:, :2])
    assert_refused(errors.ColumnMismatch, "a.npy has 3 columns and b.npy has 2", source=["a.npy", "b.npy"])
    assert_refused(errors.ColumnMismatch, "dense", "csr", test_source=scipy.sparse.csr_matrix(X), test_labels=Y)


# ---- files -------------------------------------------------------------------------------------------------------


def test_files_that_are_not_there(assert_refused):
    assert_refused(errors.SourceMissing, "nothing.npy", source="nothing.npy")
    assert_refused(errors.SourceMissing, "shards/*.npy", source="shards/*.npy")
    assert_refused(errors.SourceMissing, "nothing.npy", labels="nothing.npy")
    assert_refused(errors.ClassTableFormat, "nothing.json", classes="nothing.json")
    assert_refused(errors.TaxonomyFormat, "nothing.tsv", taxonomy="nothing.tsv")
    assert_refused(errors.SplitFormat, "nothing.npy", split="nothing.npy")
    Path("empty").mkdir()
    assert_refused(errors.SourceMissing, "no .npy files", source="empty")


def test_files_of_unknown_kinds(assert_refused):
    text("x.doc", "hello")
    for option in ("source", "labels", "classes"):
        assert_refused(errors.UnknownInput, "'.doc'", **{option: "x.doc"})
    assert_refused(errors.SplitFormat, "'.doc'", split="x.doc")
    assert_refused(errors.UnknownInput, "'parquet'", source=save("x.npy", X), fmt="parquet")
    text("x.svm", "1 0:1\n")
    assert_refused(errors.UnknownInput, "several formats", source=["x.npy", "x.svm"])


@pytest.mark.parametrize("length", [0, 5, 60, 127, 128, 200])
def test_npy_files_cut_short(assert_refused, length):
    save("whole.npy", X)
    Path("x.npy").write_bytes(Path("whole.npy").read_bytes()[:length])
    assert_refused(errors.DamagedInput, "x.npy", source="x.npy")


def test_a_header_that_claims_terabytes(assert_refused):
    with open("x.npy", "wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (2**40, 1)})
    assert_refused(errors.DamagedInput, "4,398,046,511,104 bytes", source="x.npy")
    with zipfile.ZipFile("x.npz", "w") as archive:
        archive.write("x.npy", "x.npy")
    assert_refused(errors.DamagedInput, "member x.npy", source="x.npz")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"hello", b"\x93NUMPY"])
def test_npz_files_that_are_none(assert_refused, content):
    Path("x.npz").write_bytes(content)
    assert_refused(errors.DamagedInput, "x.npz", source="x.npz")


def test_an_npz_with_a_flipped_bit(assert_refused):
    scipy.sparse.save_npz("x.npz", scipy.sparse.csr_matrix(X), compressed=False)
    content = bytearray(Path("x.npz").read_bytes())
    content[content.index(X[3, 1].tobytes())] ^= 1
    Path("x.npz").write_bytes(bytes(content))
    assert_refused(errors.DamagedInput, "x.npz", source="x.npz")


def test_an_npz_of_several_matrices(assert_refused):
    np.savez("x.npz", a=X, b=X)
    assert_refused(errors.UnknownInput, "a, b", source="x.npz")
    np.savez("y.npz", format=b"dia", data=X)
    assert_refused(errors.UnknownInput, "'dia'", source="y.npz")


GOOD = {"data": [1.0, 2], "indices": [0, 2], "indptr": [0, 1, 2], "shape": [2, 3]}


@pytest.mark.parametrize(
    "change",
    [
        {"indices": [0, 3]},
        {"indices": [0, -1]},
        {"indptr": [0, 2, 1]},
        {"indptr": [0, 1]},
        {"indptr": [1, 1, 2]},
        {"indptr": [0, 1, 5]},
        {"indptr": [0, 2, 1, 2], "shape": [3, 3]},
        {"indices": [0.5, 2]},
        {"data": [[1.0, 2]]},
        {"shape": [2, 3, 4]},
        {"shape": [-2, 3]},
        {"data": None},
    ],
    ids=str,
)
def test_sparse_arrays_that_describe_no_matrix(assert_refused, change):
    arrays = {name: np.array(value) for name, value in (GOOD | change).items() if value is not None}
    np.savez("x.npz", format=b"csr", **arrays)
    assert_refused(errors.CsrStructure, "x.npz", source="x.npz", labels=[0, 1])


# ---- svmlight ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("1 0:1 0:2", "column 0 occurs twice"),
        ("1 3:1 2:2", "column 2 comes after column 3"),
        ("1 a:1", "'a:1'"),
        ("1 3:", "'3:'"),
        ("1 3", "'3'"),
        ("1 1:2:3", "'1:2:3'"),
        ("1 -1:2", "column -1"),
        ("1 1:1_0", "underscore"),
        ("1 99999999999:1", "column 99999999999"),
        ("0.5 1:1", "'0.5'"),
        ("1,2 1:1", "several labels"),
        ("cat 1:1", "'cat'"),
        ("nan 1:1", "'nan'"),
        ("1:1 2:2", "'1:1'"),
    ],
)
def test_lines_that_are_no_svmlight(assert_refused, line, word):
    text("x.svm", f"0 0:1\n# comment\n{line}\n")
    assert_refused(errors.SvmlightLine, "x.svm, line 3", word, source="x.svm", labels=None)


def test_an_undecidable_index_base(assert_refused):
    text("x.svm", "0 1:1 4:2\n1 2:1\n")
    assert_refused(errors.SvmlightIndexBase, "columns 1 to 4", "--index-base", source="x.svm", labels=None)
    assert_refused(errors.SvmlightIndexBase, source="x.svm", labels=None, n_features=9)
    text("z.svm", "0 0:1\n1 2:1\n")
    assert_refused(errors.SvmlightIndexBase, "column 0", source="z.svm", labels=None, index_base=1)
    assert_refused(errors.ColumnMismatch, "column 4", source="x.svm", labels=None, index_base=0, n_features=3)


def test_non_finite_svmlight_values(assert_refused):
    text("x.svm", "0 0:1 1:nan\n1 0:1 1:inf\n")
    assert_refused(errors.NonFiniteFeature, "row 0: columns 1 (nan)", "row 1", source="x.svm", labels=None)


def test_svmlight_values_beyond_float32(assert_refused):
    text("x.svm", "0 0:1\n1 0:1e100\n")
    assert_refused(errors.FeatureRange, "x.svm, row 1", source="x.svm", labels=None)


def test_a_gzip_cut_short(assert_refused):
    import gzip

    Path("x.svm.gz").write_bytes(gzip.compress(b"0 0:1\n" * 9000)[:-20])
    assert_refused(errors.DamagedInput, "x.svm.gz", source="x.svm.gz", labels=None)


@given(line=st.one_of(st.binary(max_size=40), st.text("01:.-+e #qid_n", max_size=30).map(str.encode)))
def test_any_line_parses_or_is_named(line):
    try:
        row = parse_line(line, "somewhere, line 1")
    except errors.SvmlightLine as error:
        assert error.where == "somewhere, line 1"  # noqa: PT017
        return
    if row is not None:
        label, columns, values = row
        assert isinstance(label, int)
        assert columns == sorted(set(columns))
        assert len(columns) == len(values)


# ---- labels ------------------------------------------------------------------------------------------------------


def test_lengths_that_differ(assert_refused):
    assert_refused(errors.LengthMismatch, "11 labels for 12 rows", labels=Y[:11])
    assert_refused(errors.LengthMismatch, "13 labels for 12 rows", "y.txt", labels=text("y.txt", "a\n" * 13))
    assert_refused(errors.LengthMismatch, "2 labels", test_source=X, test_labels=[0, 1])
    assert_refused(errors.LengthMismatch, "11 parts for 12 rows", split=["train"] * 11)


def test_no_labels(assert_refused):
    assert_refused(errors.LabelsMissing, "--labels", labels=None)
    assert_refused(errors.LabelsMissing, "--test-labels", test_source=X)
    assert_refused(ParamError, "test_labels", test_labels=Y, exit_code=2)


def at(row: int, value, rest=0):
    return [value if i == row else (i % 3 if rest == 0 else rest) for i in range(12)]


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (np.array(at(4, 2.5)), ("row 4 holds 2.5",)),
        (np.array(Y, np.float64), ("float64",)),
        (np.array(at(4, np.nan), np.float32), ("row 4 holds nan",)),
        (at(4, 2.5), ("2.5", "row 4")),
        (at(4, True), ("True", "row 4")),
        (at(4, "cat"), ("'cat'", "row 4")),
        (at(4, [1]), ("[1]", "row 4")),
        (np.array(Y, object), ("objects",)),
        (Y.reshape(12, 1), ("(12, 1)",)),
        (Y > 0, ("bool",)),
        (Y.astype("M8[s]"), ("datetime64",)),
    ],
)
def test_labels_that_are_neither_integers_nor_names(assert_refused, labels, words):
    assert_refused(errors.LabelDtype, *words, labels=labels)


@pytest.mark.parametrize(
    ("labels", "classes", "words"),
    [
        (at(4, -1), None, ("label -1", "row 4")),
        (at(4, 3), ["a", "b", "c"], ("label 3", "row 4", "0 to 2")),
        (at(4, -1), ["a", "b", "c"], ("label -1", "row 4")),
        (at(4, 7), [{"id": 0}, {"id": 1}, {"id": 2}], ("label 7", "row 4", "no id")),
        (at(4, None), None, ("null", "row 4")),
        (at(4, "", "a"), None, ("''", "row 4")),
        (at(4, "nan", "a"), None, ("'nan'", "row 4")),
        (at(4, "dog", "cat"), ["cat", "cow"], ("'dog'", "row 4")),
        (at(4, "", "cat"), ["cat", "cow"], ("''", "row 4")),
        (at(4, 10**7), None, ("label 10000000", "row 4")),
        (at(4, 2**70), None, ("64 bits",)),
        (np.array(at(4, 2**64 - 1), np.uint64), None, ("18446744073709551615", "row 4")),
    ],
)
def test_labels_that_name_no_class(assert_refused, labels, classes, words):
    assert_refused(errors.LabelOutOfRange, *words, labels=labels, classes=classes)


def test_labels_in_files_name_file_and_row(assert_refused):
    assert_refused(errors.LabelOutOfRange, "y.npy, row 4", labels=save("y.npy", np.array(at(4, -7))))
    assert_refused(errors.LabelOutOfRange, "y.txt, row 4", "''", labels=text("y.txt", "\n".join(at(4, "", "a")) + "\n"))
    assert_refused(errors.LabelDtype, "z.txt, row 4", "2.5", labels=text("z.txt", "\n".join(map(str, at(4, 2.5)))))
    table = "id\tspecies\n" + "".join(f"{i}\tcat\n" for i in range(11)) + "broken\n"
    assert_refused(errors.LabelOutOfRange, "row 11 (line 13)", labels=text("y.tsv", table) + ":species")
    assert_refused(errors.UnknownInput, "'id', 'species'", labels="y.tsv")
    assert_refused(errors.UnknownInput, "'breed'", labels="y.tsv:breed")
    assert_refused(errors.UnknownInput, "y.json", labels=text("y.json", "{"))
    assert_refused(errors.UnknownInput, "list", labels=text("y.json", "{}"))
    Path("latin.txt").write_bytes(b"caf\xe9\n" * 12)
    assert_refused(errors.DamagedInput, "latin.txt, line 1", labels="latin.txt")
    Path("later.txt").write_bytes(b"cafe\n" * 11 + b"caf\xe9\n")
    assert_refused(errors.DamagedInput, "later.txt, line 12", labels="later.txt")


def test_parts_with_labels_of_two_kinds(assert_refused):
    assert_refused(errors.LabelDtype, "integers", "names", test_source=X, test_labels=["a"] * 12)
    save("a.npy", Y[:6])
    save("b.npy", np.array(["x"] * 6))
    assert_refused(errors.LabelDtype, "shards", labels=["a.npy", "b.npy"])


# ---- classes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("c.json", '[{"id": "a", "name": "x"}, {"id": "b", "name": "x"}, {"id": "a", "name": "z"}]'),
        ("c.json", '{"a": "x", "b": "y", "a": "z"}'),
        ("c.json", "[1, 2, 1]"),
        ("c.tsv", "id\tname\na\tx\nb\ty\na\tz\n"),
        ("c.tsv", "a\tx\nb\ty\na\tz\n"),
        ("c.json", '[{"id": "e\\u0301"}, {"id": "b"}, {"id": "\\u00e9"}]'),
    ],
)
def test_duplicate_class_ids(assert_refused, name, content):
    assert_refused(errors.DuplicateClassId, "classes 0 and 2" if "[1" not in content else "0 and 2", name,
            classes=text(name, content))  # fmt: skip


@pytest.mark.parametrize(
    "content",
    ["{", "3", "[]", "[null]", "[[1]]", "[true]", '[{"id": 1.5}]', '[{"name": "a"}, {"id": 1, "name": "b"}]', '[{}]',
     "[" * 100_000],
)  # fmt: skip
def test_class_tables_that_cannot_be_read(assert_refused, content):
    assert_refused(errors.ClassTableFormat, "c.json", classes=text("c.json", content))


def test_class_tables_with_ragged_lines(assert_refused):
    assert_refused(errors.ClassTableFormat, "line 3", classes=text("c.tsv", "id\tname\na\tx\nb\n"))


def test_a_name_of_two_classes_is_warned_of_but_no_label(assert_refused, tmp_path):
    names = ["crane", "egret", "crane"]
    made = ingest(X, tmp_path / "ok.zarr", labels=Y, classes=names)
    (note,) = [note for note in made.notes if note.code == "DuplicateClassName"]
    assert note.level == "warning"
    assert "'crane' (0, 2)" in note.text
    assert made.classes.names == tuple(names)
    assert_refused(errors.DuplicateClassName, "'crane'", "0, 2", labels=at(4, "crane", "egret"), classes=names)


def test_one_class(assert_refused):
    assert_refused(errors.OneClassData, "only of class '0'", labels=[0] * 12)
    assert_refused(errors.OneClassData, "'cat'", labels=["cat"] * 12, classes=["cat", "dog"])
    assert_refused(errors.OneClassData, split=["test"] * 12)
    assert_refused(errors.OneClassData, labels=[0] * 11 + [1], split={"test": [11]})


def test_classes_without_rows_are_listed(tmp_path):
    classes = [{"id": f"n{c}", "name": "x"} for c in range(50)]
    made = ingest(X, tmp_path / "d", labels=Y + 2, classes=classes)
    assert made.n_classes == 50
    (note,) = [note for note in made.notes if note.code == "ClassWithoutRows"]
    assert note.level == "warning"
    assert note.text.startswith("47 of 50 classes have no training rows: n0 ('x'), n1 ('x'), n5 ('x')")


# ---- splits ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("split", "words"),
    [
        ([12], ("row 12", "entry 0")),
        ([-1], ("row -1",)),
        ([3, 5, 3], ("row 3", "twice")),
        ({"validation": [1], "test": [1]}, ("row 1", "twice")),
        ({"holdout": [1]}, ("'holdout'",)),
        ({"test": [0.5]}, ("'test'",)),
        (["train"] * 11 + ["holdout"], ("'holdout'", "row 11")),
        (np.zeros(12, np.float32), ("float32",)),
        (np.zeros((12, 1), int), ("(12, 1)",)),
    ],
)
def test_splits_that_name_no_rows(assert_refused, split, words):
    assert_refused(errors.SplitFormat, *words, split=split)


@pytest.mark.parametrize("content", ["{", "[[0], [1, 2]]", '"train"'])
def test_split_files_that_cannot_be_read(assert_refused, content):
    assert_refused(errors.SplitFormat, "s.json", split=text("s.json", content))


@pytest.mark.parametrize(
    "options",
    [
        {"validation": 1.0},
        {"validation": -0.1},
        {"test": 2},
        {"validation": 0.5, "test": 0.5},
        {"split": "0.5,0.5,0.5"},
        {"split": "0,0.5,0.5"},
        {"seed": -1},
        {"dtype": "float64"},
        {"index_base": 2},
        {"on_nonfinite": "ignore"},
        {"block_rows": 0},
        {"block_rows": 2**40},
        {"dtype": "float16", "source": scipy.sparse.csr_matrix(X)},
    ],
    ids=str,
)
def test_options_out_of_range(assert_refused, options):
    assert_refused(ParamError, exit_code=2, **options)


# ---- taxonomies --------------------------------------------------------------------------------------------------

TABLE = ["cat", "dog", "oak"]


def tree(*lines: str) -> str:
    return text("t.tsv", "".join(f"{line}\n" for line in lines))


def test_a_cycle_is_printed(assert_refused):
    path = tree("root\tplant", "plant\toak", "a\tb", "b\tc", "c\ta", "c\tcat", "a\tdog")
    error = assert_refused(errors.TaxonomyCycle, "t.tsv", taxonomy=path, classes=TABLE)
    cycle = error.what.split(": ")[1].split(" -> ")
    assert cycle[0] == cycle[-1]
    assert sorted(cycle[1:]) == ["'a'", "'b'", "'c'"]
    order = "abcab"
    assert "".join(name.strip("'") for name in cycle[:2]) in order
    assert_refused(errors.TaxonomyCycle, "'a' -> 'a'", taxonomy=tree("a\ta"), classes=TABLE)


@pytest.mark.parametrize(
    ("error", "lines", "words"),
    [
        ("TaxonomyRoots", ["a\tcat", "a\tdog", "b\toak"], ("2 nodes", "'a'", "'b'")),
        ("TaxonomyMultiParent", ["r\ta", "r\tb", "a\tcat", "b\tcat", "b\tdog", "a\toak"], ("'cat'", "'a'", "'b'")),
        ("TaxonomyUnknownClass", ["r\tcat", "r\tdog", "r\toak", "r\telm", "r\tyew"], ("2 childless", "'elm', 'yew'")),
        ("TaxonomyMissingClass", ["r\tcat", "r\tdog"], ("1 of 3", "'oak'")),
        ("TaxonomyInnerLabel", ["r\tcat", "r\tdog", "dog\tpug", "r\toak"], ("'dog'", "'pug'")),
        ("TaxonomyFormat", ["r\tcat", "dog"], ("line 2",)),
        ("TaxonomyFormat", ["r\tcat", "r\t"], ("line 2",)),
        ("TaxonomyFormat", [], ("no nodes",)),
    ],
)
def test_taxonomies_that_do_not_fit(assert_refused, error, lines, words):
    assert_refused(getattr(errors, error), "t.tsv", *words, taxonomy=tree(*lines), classes=TABLE)


NODES = [{"id": "r", "parent": None}, {"id": "a", "parent": "r"}, *({"id": n, "parent": "a"} for n in "xyz")]


@pytest.mark.parametrize(
    ("error", "change", "words"),
    [
        ("TaxonomyMissingClass", {"leaves": ["x", "y"]}, ("2 leaves", "3 classes")),
        ("TaxonomyUnknownClass", {"leaves": ["x", "y", "z", "x"]}, ("4 leaves", "3 classes")),
        ("TaxonomyUnknownClass", {"leaves": ["x", "y", "q"]}, ("'q'", "leaf 2")),
        ("TaxonomyUnknownClass", {"leaves": ["x", "y", "y"]}, ("classes 1 and 2", "'y'")),
        ("TaxonomyInnerLabel", {"leaves": ["x", "y", "a"]}, ("'oak'", "inner node")),
        ("TaxonomyUnknownClass", {"nodes": [*NODES, {"id": "w", "parent": "nobody"}]}, ("'nobody'", "node 5")),
        ("TaxonomyMultiParent", {"nodes": [*NODES, {"id": "x", "parent": "r"}]}, ("'x'", "twice")),
        ("TaxonomyRoots", {"nodes": [*NODES, {"id": "w"}], "leaves": ["x", "y", "z"]}, ("'r'", "'w'")),
        ("TaxonomyCycle", {"nodes": [{"id": "p", "parent": "q"}, {"id": "q", "parent": "p"}, *NODES]}, ("'p'", "'q'")),
        ("TaxonomyFormat", {"nodes": [*NODES, {"name": "w"}]}, ("node 5",)),
        ("TaxonomyFormat", {"nodes": 3}, ("node 0",)),
        ("TaxonomyFormat", {"leaves": 3}, ("leaves",)),
        ("TaxonomyFormat", {"leaves": [1.5]}, ("1.5",)),
    ],
)
def test_node_lists_that_do_not_fit(assert_refused, error, change, words):
    content = {"nodes": NODES, "leaves": ["x", "y", "z"]} | change
    assert_refused(
        getattr(errors, error), "t.json", *words, taxonomy=text("t.json", json.dumps(content)), classes=TABLE
    )


@pytest.mark.parametrize("content", ["{", "[]", "3", '{"r": 1.5}', '{"r": {"name": []}}', '{"a": ' * 100_000])
def test_taxonomy_json_that_cannot_be_read(assert_refused, content):
    assert_refused(errors.TaxonomyFormat, "t.json", taxonomy=text("t.json", content), classes=TABLE)


def test_a_class_at_two_places_of_nested_json(assert_refused):
    taxonomy = {"r": {"a": ["cat", "dog"], "b": ["oak", "cat"]}}
    assert_refused(errors.TaxonomyMultiParent, "'cat'", "'a', 'b'", taxonomy=taxonomy, classes=TABLE)


def test_names_that_cannot_tell_classes_apart_in_a_taxonomy(assert_refused):
    path = tree("r\tcrane", "r\toak")
    assert_refused(errors.DuplicateClassName, "'crane'", taxonomy=path, classes=["crane", "oak", "crane"])


# ---- names -------------------------------------------------------------------------------------------------------


def test_names_are_data_and_never_paths(tmp_path):
    """Any name survives unchanged (in form NFC), as label, class and node; no file is called by it."""
    names = [name for name in NASTY_NAMES if name] + ["e\u0301a"]
    matrix = np.random.default_rng(1).standard_normal((len(names), 2))
    taxonomy = {"root": {"[/x]/..": names[:5], "<b>": names[5:]}}
    tree = {"nodes": nodes_of(taxonomy), "leaves": [f"leaf {c}" for c in range(len(names))]}
    labels = np.arange(len(names))
    made = ingest(matrix, tmp_path / "d", classes=names, labels=labels, validation=0, test=0, taxonomy=tree)
    assert made.classes.names == (*names[:-1], "\u00e9a")
    assert made.taxonomy is not None
    assert {made.taxonomy.names[leaf] for leaf in made.taxonomy.leaf_of_class} == set(made.classes.names)
    files = {path.name for path in (tmp_path / "d").rglob("*")}
    known = {
        "zarr.json",
        "X",
        "y",
        "split",
        "row_id",
        "classes",
        "taxonomy",
        "parent",
        "leaf_of_class",
        "digests",
        "c",
        "0",
    }
    assert files == known
    made.verify()


def nodes_of(taxonomy: dict) -> list[dict]:
    (root,) = taxonomy
    nodes, c = [{"id": "root", "name": root, "parent": None}], 0
    for i, (name, leaves) in enumerate(taxonomy[root].items()):
        nodes.append({"id": f"inner {i}", "name": name, "parent": "root"})
        for leaf in leaves:
            nodes.append({"id": f"leaf {c}", "name": leaf, "parent": f"inner {i}"})
            c += 1
    return nodes


def test_an_empty_name_is_a_name_where_the_table_lists_it(tmp_path):
    made = ingest(X, tmp_path / "d", labels=at(4, "", "cat"), classes=["cat", ""], validation=0, test=0)
    assert made.n_classes == 2


def test_accents_composed_either_way_are_one_name(tmp_path):
    labels = ["\u00e9"] * 5 + ["e\u0301"] * 5 + ["x"] * 2
    made = ingest(X, tmp_path / "d", labels=labels)
    assert made.classes.names == ("x", "\u00e9")


# ---- anything at all ---------------------------------------------------------------------------------------------


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=120), kind=st.sampled_from(["x.npy", "x.npz", "x.svm"]), magic=st.booleans())
def test_any_bytes_as_a_source_are_refused_by_name(tmp_path, content, kind, magic):
    start = {"x.npy": b"\x93NUMPY\x01\x00", "x.npz": b"PK\x03\x04", "x.svm": b"0 1:1\n"}[kind]
    (tmp_path / kind).write_bytes(start * magic + content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(InputError):
            ingest(tmp_path / kind, tmp_path / "d.zarr", labels=None)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("d.zarr")] == []


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.one_of(st.binary(max_size=60), st.text('{}[]:,"abcx12\t\n', max_size=60).map(str.encode)),
    ending=st.sampled_from([".json", ".tsv", ".csv", ".txt"]),
    option=st.sampled_from(["labels", "classes", "taxonomy", "split"]),
)
@example(content=b"\n\x00\t", ending=".tsv", option="classes")
@example(content=b'"' + 140_000 * b"x", ending=".csv", option="labels")
def test_any_bytes_as_a_side_file_are_used_or_refused_by_name(tmp_path, content, ending, option):
    path = tmp_path / f"side{ending}"
    path.write_bytes(content)
    options = {"labels": Y, "validation": 0, "test": 0} | {option: path}
    try:
        ingest(X, tmp_path / "d.zarr", force=True, **options).verify()
    except LabelgroveError as error:
        assert error.exit_code in (2, 3)  # noqa: PT017


def test_errors_come_back_from_pickling():
    error = errors.LabelOutOfRange("label 7", "y.npy, row 4", "look there")
    again = pickle.load(streams.BytesIO(pickle.dumps(error)))
    assert (type(again), str(again)) == (type(error), str(error))
