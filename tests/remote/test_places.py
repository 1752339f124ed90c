"""Places at URLs: the verbs of paths, files put whole, copies by version; S3, memory:// and local folders alike."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from tasks.calls import Published, publish
from tasks.fit.checkpoint import keep, load_kept
from tasks.places import at, is_remote, local_copy, open_array, put_folder, read_array, whole_file, write_whole
from tasks.spool import Spool
from tasks.urls import StoreMissing, UrlRefused, names_a_store, shown
from tasks.versions import one_look, version_of


@pytest.fixture(params=["s3", "memory", "disk"])
def root(request, tmp_path: Path, bucket):
    """A folder of each kind."""
    if request.param == "memory":
        request.getfixturevalue("memory")
        return at("memory://test/place")
    return at(bucket.url("place")) if request.param == "s3" else tmp_path


def test_local_urls_and_paths_are_paths(tmp_path: Path) -> None:
    assert at(f"file://{tmp_path}/x") == tmp_path / "x"
    assert at("runs/x") == Path("runs/x")
    assert not is_remote(at(f"file://{tmp_path}"))


def test_a_url_keeps_its_slashes(bucket) -> None:
    place = at(bucket.url("a/b.npy"))
    assert str(place) == bucket.url("a/b.npy")
    assert (str(place.parent), place.name, place.stem, place.suffix) == (bucket.url("a"), "b.npy", "b", ".npy")
    assert at(str(place)) == place
    assert place.relative_to(at(bucket.url("a"))).as_posix() == "b.npy"
    with pytest.raises(TypeError):  # so that nothing takes it for a local file
        os.fspath(place)


def test_what_is_written_is_read(root) -> None:
    write_whole(root / "deep" / "one.bin", b"first")
    write_whole(root / "deep" / "one.bin", b"second")
    with whole_file(root / "two.bin") as file:
        file.write(b"two")
        file.seek(0)
        file.write(b"T")
    assert (root / "deep" / "one.bin").read_bytes() == b"second"
    assert (root / "two.bin").read_text() == "Two"
    assert sorted(path.name for path in root.iterdir()) == ["deep", "two.bin"]
    assert [path.name for path in (root / "deep").glob("*.bin")] == ["one.bin"]
    assert (root / "deep").is_dir()
    assert not (root / "deep").is_file()
    assert (root / "two.bin").stat().st_size == 3
    (root / "two.bin").unlink()
    assert not (root / "two.bin").exists()


def test_nothing_is_left_when_writing_fails(root) -> None:
    write_whole(root / "x.bin", b"before")
    with pytest.raises(TypeError), whole_file(root / "x.bin") as file:
        file.writelines([b"half", 5])  # type: ignore[list-item]
    assert (root / "x.bin").read_bytes() == b"before"
    assert [path.name for path in root.iterdir()] == ["x.bin"]


def test_arrays_are_mapped_and_read_anew_when_replaced(root) -> None:
    for values in (np.arange(5.0), np.arange(7.0)):
        keep(root / "kept.npz", {"a": values})
        with whole_file(root / "a.npy") as file:
            np.save(file, values)
        np.testing.assert_array_equal(open_array(root / "a.npy"), values)
        np.testing.assert_array_equal(read_array(root / "a.npy"), values)
        kept = load_kept(root / "kept.npz")
        assert kept is not None
        np.testing.assert_array_equal(kept["a"], values)
    assert isinstance(open_array(root / "a.npy"), np.memmap)
    assert load_kept(root / "none.npz") is None


def test_shared_arrays_reach_tasks_through_the_store(root) -> None:
    values = {"w": np.ones((300, 50)), "b": np.arange(9)}
    found = publish(values, root / "shared")
    assert isinstance(found, Published)
    for name, array in found.open().items():
        np.testing.assert_array_equal(array, values[name])


def test_a_folder_is_replaced_with_its_mark_last(root, tmp_path: Path) -> None:
    for names in (["a", "b", "SUMS"], ["b", "c", "SUMS"]):
        made = tmp_path / f"made-{names[0]}"
        made.mkdir()
        for name in names:
            (made / name).write_text(f"{name} of {names}")
        put_folder(made, root / "model", "SUMS")
        assert sorted(path.name for path in (root / "model").iterdir()) == sorted(names)
        assert (root / "model" / "b").read_text() == f"b of {names}"


def test_a_killed_replacement_leaves_no_mark(bucket, tmp_path: Path, monkeypatch) -> None:
    made = tmp_path / "made"
    made.mkdir()
    for name in ("a", "b", "SUMS"):
        (made / name).write_text(name)
    target = at(bucket.url("model"))
    put_folder(made, target, "SUMS")
    put = type(target).put_file

    def dies(self, local: str) -> None:
        if self.name == "b":
            raise KeyboardInterrupt
        put(self, local)

    monkeypatch.setattr(type(target), "put_file", dies)
    with pytest.raises(KeyboardInterrupt):
        put_folder(made, target, "SUMS")
    assert bucket.names("model") == ["model/a", "model/b"]


def test_copies_are_kept_by_version_and_within_bounds(bucket) -> None:
    spool = Spool(cap=250)
    names = [at(bucket.url(f"f{i}")) for i in range(3)]
    for name in names:
        name.write_bytes(b"x" * 100)
    first = spool.file(names[0])
    assert spool.file(names[0]) == first
    spool.file(names[1])
    spool.file(names[2])
    assert not first.exists()
    assert spool.nbytes == 200
    assert spool.file(names[0]).read_bytes() == b"x" * 100
    names[0].write_bytes(b"y" * 100)
    assert spool.file(names[0]).read_bytes() == b"y" * 100
    assert local_copy(names[0]).read_bytes() == b"y" * 100


def test_versions_are_asked_once_in_a_task(bucket, monkeypatch) -> None:
    place = at(bucket.url("v"))
    write_whole(place, b"1")
    first, asked = version_of(str(place)), []
    info_of = type(place).info_of
    monkeypatch.setattr(type(place), "info_of", lambda self: asked.append(self) or info_of(self))
    with one_look():
        assert version_of(str(place)) == version_of(str(place)) == first
        assert len(asked) == 1
        write_whole(place, b"22")
        assert version_of(str(place)) != first
    assert len(asked) == 2


@pytest.mark.parametrize(
    "url",
    [
        "s3://user:canary-pass@bucket/x",
        "s3://bucket/x?token=canary-pass",
        "simplecache::s3://bucket/x",
        "s3://bucket/../x",
        "s3://bucket//x",
        "https://host/x",
        "poem://x/y",
    ],
)
def test_urls_that_are_refused(url: str) -> None:
    with pytest.raises(UrlRefused) as refused:
        at(url)
    assert "canary-pass" not in f"{refused.value!r} {refused.value}"
    assert refused.value.hint
    assert shown(url).split("://")[0] in str(refused.value) or "poem" in str(refused.value)


def test_what_names_a_store() -> None:
    assert names_a_store("s3://bucket/d.zarr")
    assert not names_a_store("https://host/d.zarr")
    assert not names_a_store("s3://u:p@bucket/d.zarr")


def test_a_missing_bucket_is_named(s3_server) -> None:
    del s3_server
    place = at("s3://there-is-no-such-bucket/x/y")
    for verb in (place.read_bytes, place.exists, lambda: place.write_bytes(b"x"), lambda: list(place.iterdir())):
        with pytest.raises(StoreMissing, match="there-is-no-such-bucket"):
            verb()
