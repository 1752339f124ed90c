"""Archives and raw files that cannot be read, or hold something else than they should."""

from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.ingest import errors
from tasks.errors import ParamError, UsageError
from tests.pipeline.ingest import formats
from tests.pipeline.ingest.samples import Trap, X, Y

W = X.shape[1]


def parquet(name: str, vectors: list, kind=None, **columns) -> str:
    kind = kind or pa.list_(pa.float32())
    pq.write_table(pa.table({"v": pa.array(vectors, kind), **columns}), name, row_group_size=5)
    return name


def vectors(row: int, value) -> list:
    """Twelve vectors, one of them `value`."""
    return [value if i == row else x for i, x in enumerate(X.tolist())]


# ---- tar archives ------------------------------------------------------------------------------------------------


def tar_of(*extra: tuple[str, bytes], name: str = "x.tar") -> str:
    formats.write_tar(Path(name), [*formats.samples(X, Y), *extra])
    return name


NPY = formats.npy_bytes


@pytest.mark.parametrize(
    ("members", "error", "word"),
    [
        ([("k.cls", b"1")], errors.SampleFormat, "key 'k'"),
        ([("k.npy", NPY(X[0, :2])), ("k.cls", b"1")], errors.RaggedEmbedding, "2 values where the first vector has 3"),
        ([("k.npy", NPY(X[0].astype("f8"))), ("k.cls", b"1")], errors.FeatureDtype, "float64"),
        ([("k.npy", NPY(X)), ("k.cls", b"1")], errors.FeatureShape, "(12, 3)"),
        ([("k.npy", NPY(X[0])[:-4]), ("k.cls", b"1")], errors.DamagedInput, "12 bytes of values and 8"),
        ([("k.npy", b"poem"), ("k.cls", b"1")], errors.DamagedInput, "key 'k'"),
        ([("k.npy", NPY(X[0]))], errors.LabelOutOfRange, "no member for 'cls'"),
        ([("k.npy", NPY(X[0])), ("k.cls", b"\xe9")], errors.LabelDtype, "UTF-8"),
        ([("rows/000003.npy", NPY(X[0]))], errors.SampleFormat, "key 'rows/000003'"),
        ([("k.npy", NPY(X[0])), ("k.npy", NPY(X[0]))], errors.SampleFormat, "two members end in 'npy'"),
        ([("k.npy", NPY(X[0])), ("k.pyd", b"1")], errors.UnsafeFormat, "k.pyd"),
        ([("k.npy", NPY(X[0])), ("k.pth", b"1")], errors.UnsafeFormat, "k.pth"),
        ([("k.npy", NPY(X[0])), ("k.cls", b"1" * 2**21)], errors.DeclaredTooLarge, "2,097,152 bytes"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_samples_that_are_none(assert_refused, members, error, word):
    exit_code = 5 if error is errors.DeclaredTooLarge else 3
    assert_refused(error, "x.tar", word, source=tar_of(*members), labels=None, exit_code=exit_code)


def test_objects_in_a_tar_are_never_unpickled(assert_refused, tmp_path):
    trap = NPY(np.array([Trap(tmp_path / "sprung")] * 3), allow_pickle=True)
    assert_refused(errors.FeatureDtype, "key 'k'", "objects", source=tar_of(("k.npy", trap)))
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE])
def test_links_and_devices_in_a_tar(assert_refused, kind):
    with tarfile.open("x.tar", "w") as archive:
        info = tarfile.TarInfo("k.npy")
        info.type, info.linkname = kind, "/etc/passwd"
        archive.addfile(info)
    assert_refused(errors.UnsafePath, "x.tar, member 'k.npy'", source="x.tar")


def test_vectors_that_are_named_or_not(assert_refused):
    members = [("0.a.npy", NPY(X[0])), ("0.b.npy", NPY(X[0])), ("0.json", b'{"label": null, "x": 1.5}')]
    formats.write_tar(Path("x.tar"), members)
    assert_refused(errors.UnknownInput, "'a.npy', 'b.npy'", "--rows-at", source="x.tar")
    both = {"source": "x.tar", "rows_at": "a.npy", "labels": None}
    assert_refused(errors.LabelOutOfRange, "null", "key '0'", labels_at="json:label", **both)
    assert_refused(errors.LabelDtype, "1.5", labels_at="json:x", **both)
    assert_refused(errors.LabelsMissing, "keys: 'label', 'x'", labels_at="json:y", **both)
    assert_refused(errors.LabelsMissing, "--labels", **both)
    formats.write_tar(Path("y.tar"), [("a.jpg", b"1")])
    assert_refused(errors.SampleFormat, "'jpg'", source="y.tar")
    formats.write_tar(Path("z.tar"), [])
    assert_refused(errors.FeatureShape, "no samples", source="z.tar")


def test_widths_that_differ_between_archives(assert_refused):
    tar_of(name="a.tar")
    formats.write_tar(Path("b.tar"), formats.samples(X[:, :2], Y))
    assert_refused(errors.ColumnMismatch, "b.tar, key 'rows/000000'", source=["a.tar", "b.tar"])


@pytest.mark.parametrize("length", [0, 100, 512, 2048, 5000, 11 * 1024])
@pytest.mark.parametrize("ending", ["tar", "tar.gz"])
def test_archives_cut_short(assert_refused, length, ending):
    source = tar_of(name="whole.tar")
    if ending == "tar.gz":
        formats.write_tar(Path("whole.tar.gz"), formats.samples(X, Y), "w:gz")
        source, length = "whole.tar.gz", min(length, Path("whole.tar.gz").stat().st_size - 5)
    Path(f"x.{ending}").write_bytes(Path(source).read_bytes()[:length])
    assert_refused(errors.DamagedInput, f"x.{ending}", source=f"x.{ending}", labels=None)


def test_archives_one_after_the_other_and_damaged_headers(assert_refused):
    content = Path(tar_of()).read_bytes()
    Path("two.tar").write_bytes(content + content)
    assert_refused(errors.DamagedInput, "more after its end mark", source="two.tar", labels=None)
    broken = bytearray(content)
    broken[512 * 20 : 512 * 20 + 100] = b"\xff" * 100
    Path("broken.tar").write_bytes(bytes(broken))
    assert_refused(errors.DamagedInput, "broken.tar", source="broken.tar", labels=None)


def test_a_header_that_claims_gigabytes(assert_refused):
    """A name of 4 GiB, which tarfile would read at once; packed it is a few MB."""
    info = tarfile.TarInfo("name")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 2**32
    Path("x.tar").write_bytes(info.tobuf(tarfile.GNU_FORMAT) + bytes(1024))
    assert_refused(errors.DeclaredTooLarge, "x.tar", "a header of", source="x.tar", exit_code=5)


# ---- raw ---------------------------------------------------------------------------------------------------------


def test_raw_files_of_another_size(assert_refused):
    X.tofile("x.bin")
    raw = {"source": "x.bin", "raw_dtype": "float32"}
    assert_refused(errors.DamagedInput, "x.bin", "144 bytes", raw_shape="x5", **raw)
    assert_refused(errors.DamagedInput, "12 rows", "13 are stated", raw_shape="13x3", **raw)
    assert_refused(UsageError, "its shape", "--raw-shape x256", raw_shape=None, exit_code=2, **raw)
    assert_refused(ParamError, "--raw-shape", raw_shape="3", exit_code=2, **raw)
    assert_refused(UsageError, "its type", "--raw-dtype float32", source="x.bin", raw_shape="x3", exit_code=2)
    assert_refused(UsageError, "its shape and type", "--raw-shape", "--raw-dtype", source="x.bin", exit_code=2)
    assert_refused(ParamError, "--raw-dtype", source="x.bin", raw_shape="x3", raw_dtype="poem", exit_code=2)
    assert_refused(errors.FeatureDtype, "complex64", source="x.bin", raw_shape="x1", raw_dtype="complex64")
    assert_refused(errors.FeatureDtype, "objects", source="x.bin", raw_shape="x1", raw_dtype="object")
