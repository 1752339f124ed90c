"""Images as rows and in stores; rows of one body stacked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tasks import io
from tasks.rows import Dense, Images
from tasks.rows.stack import stacked
from tasks.rows.unscored import places_of
from tests.bodies import random_codes, random_csr

FILES = [b"one", b"", b"three", b"4", b"five 5"]


def files_of(images: Images) -> list[bytes]:
    return [images.file(i).tobytes() for i in range(images.n_rows)]


def test_files_are_cut_and_taken() -> None:
    images = Images.of_files(FILES)
    assert files_of(images) == FILES
    assert images.shape == (5, 0)
    assert images.nbytes == sum(map(len, FILES)) + 8 * 6
    assert files_of(images.part(1, 4)) == FILES[1:4]
    assert files_of(images.take(np.array([4, 0, 4]))) == [FILES[4], FILES[0], FILES[4]]
    assert files_of(images.take(np.array([], np.int64))) == []
    assert files_of(Images.of_files([])) == []


@pytest.mark.parametrize("seed", range(3))
def test_places_are_those_of_the_items(seed: int) -> None:
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(0, 4, 9))])
    index = rng.integers(0, 9, 12)
    places, ends = places_of(offsets, index)
    wanted = [np.arange(offsets[i], offsets[i + 1]) for i in index]
    np.testing.assert_array_equal(places, np.concatenate(wanted))
    np.testing.assert_array_equal(np.diff(ends), [len(one) for one in wanted])


@pytest.mark.parametrize("size", [1, 2, 5, 7])
def test_a_store_gives_back_what_was_written(tmp_path: Path, size: int) -> None:
    path = str(tmp_path / "X")
    blocks = io.create_images(path, 5, size, longest_side=77)
    images = Images.of_files(FILES)
    digests = [io.write_images(block, images.part(block.start, block.stop)) for block in blocks]
    assert [name for block in blocks for name in files_of(io.read_rows(block))] == FILES  # type: ignore[arg-type]
    assert [io.rows_digest(io.load_rows(block)) for block in blocks] == digests
    facts = io.facts_of(path)
    assert (facts.body, facts.n_rows, facts.n_features, facts.dtype) == ("images", 5, 0, "uint8")
    assert io.longest_side_of(path) == 77
    assert sum(io.nonzeros_of(path)) == sum(map(len, FILES))
    with pytest.raises(ValueError, match="5 images for"):
        io.write_images(io.Block(path, 0, 0, 4), images)


def test_rows_are_stacked() -> None:
    images = stacked([Images.of_files(FILES[:2]), Images.of_files(FILES[2:3]), Images.of_files(FILES[3:])])
    assert isinstance(images, Images)
    assert files_of(images) == FILES
    for make in (random_csr, lambda *sizes: Dense(random_csr(*sizes).to_array())):
        parts = [make(seed, rows, 6) for seed, rows in enumerate((3, 0, 4))]
        np.testing.assert_array_equal(stacked(parts).to_array(), np.concatenate([part.to_array() for part in parts]))
        assert stacked(parts[:1]) is parts[0]
    with pytest.raises(TypeError, match="csr and dense"):
        stacked([random_csr(0, 2, 3), Dense(np.zeros((1, 3), np.float32))])
    with pytest.raises(TypeError, match="pq"):
        stacked([random_codes(0, 2, 4), random_codes(1, 2, 4)])
