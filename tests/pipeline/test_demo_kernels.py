"""The demo's kernels against their slow twins; small enough to run with the JIT off."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.demo import confusable, gradients, warp
from pipeline.demo.glyphs import place
from pipeline.demo.warp import Distortion, affine_maps
from tests.naive import glyphs as naive


@pytest.mark.parametrize("seed", range(5))
def test_alike_by_definition(seed: int) -> None:
    random = np.random.default_rng(seed)
    a = random.integers(0, 256, 30).astype(np.uint8)
    b = np.clip(a + random.integers(-8, 9, 30), 0, 255).astype(np.uint8)
    share = np.abs(a.astype(int) - b).sum() / np.maximum(a, b).sum(dtype=int)
    for threshold in (share - 1e-6, share + 1e-6, 0.0, 0.5):
        found = confusable.alike(a, b, a.sum(dtype=int), b.sum(dtype=int), threshold)
        assert found == naive.alike(a, b, threshold)


def test_counts_add_up_over_faces() -> None:
    random = np.random.default_rng(3)
    faces = random.integers(0, 3, (4, 6, 2, 2)).astype(np.uint8)  # few values, so that some pictures are equal
    faces[:, 5] = faces[:, 1]
    counts = np.zeros((6, 6), np.uint8)
    for face in faces:
        confusable.count_alike(face.reshape(6, 4), 0.0, counts)
    expected = [[sum(bool((f[i] == f[j]).all()) for f in faces) if j < i else 0 for j in range(6)] for i in range(6)]
    np.testing.assert_array_equal(counts, expected)
    assert counts[5, 1] == 4


def test_merge_keeps_the_lowest_and_names_the_most_alike() -> None:
    counts = np.zeros((5, 5), np.uint8)
    counts[2, 0], counts[2, 1] = 6, 9  # 2 looks like both: merged into 1
    counts[3, 2] = 12  # like a merged one only: stays
    counts[4, 0] = 5  # not often enough: stays, and is said
    found = confusable.merge(counts, enough=6)
    assert found.kept == [0, 1, 3, 4]
    assert found.merged == [confusable.Likeness(2, 1, 9)]
    assert found.doubtful == [confusable.Likeness(4, 0, 5)]


@pytest.mark.parametrize("seed", range(4))
def test_warp_by_definition(seed: int) -> None:
    random = np.random.default_rng(seed)
    pictures = random.integers(0, 256, (2, 9, 7)).astype(np.uint8)
    maps = affine_maps(2, Distortion(rotation=0.5, scale=0.3, shear=0.3, shift=3.0), random)  # some pixels fall outside
    noise = random.standard_normal((2, 5, 6)).astype(np.float32)
    expected = [naive.warp(*one) for one in zip(pictures, maps, noise, strict=True)]
    np.testing.assert_allclose(warp.warp(pictures, maps, noise), expected, atol=1e-6)


def test_no_distortion_is_a_plain_zoom() -> None:
    maps = affine_maps(3, Distortion(0.0, 0.0, 0.0, 0.0, 0.0), np.random.default_rng(0))
    np.testing.assert_array_equal(maps, np.tile([[warp.ZOOM, 0, 0], [0, warp.ZOOM, 0]], (3, 1, 1)))


@pytest.mark.parametrize("seed", range(3))
def test_gradients_by_definition(seed: int) -> None:
    picture = np.random.default_rng(seed).random((12, 8)).astype(np.float32)
    if seed == 2:
        picture[:, 4:] = 0.25  # flat part: no votes, no division by zero
    row = gradients.oriented_gradients(picture[None])[0]
    cells = naive.gradient_cells(picture, gradients.CELL, gradients.ORIENTATIONS)
    np.testing.assert_allclose(row, naive.normalise(cells, gradients.CLIP, gradients.TINY), atol=1e-6)
    assert np.linalg.norm(row) == pytest.approx(1.0, abs=1e-5)


def test_flat_picture_has_zero_features() -> None:
    assert not gradients.oriented_gradients(np.full((1, 8, 8), 0.5, np.float32)).any()


def test_vertical_edge_votes_for_one_orientation() -> None:
    picture = np.zeros((1, 8, 8), np.float32)
    picture[0, :, 4:] = 1.0
    histogram = gradients.oriented_gradients(picture).reshape(-1, gradients.ORIENTATIONS).sum(axis=0)
    assert set(np.flatnonzero(histogram)) == {0, gradients.ORIENTATIONS - 1}  # angle 0 lies between these two bins


def test_ink_is_centred_and_refused_outside_the_canvas() -> None:
    ink = np.array([[0, 7, 9, 0]], np.uint8)  # blank columns at the sides do not count
    picture = np.zeros((4, 6), np.uint8)
    assert place(ink, 1, picture)
    np.testing.assert_array_equal(np.argwhere(picture), [[1, 2], [1, 3]])
    untouched = np.zeros((4, 6), np.uint8)
    assert not place(ink, -1, untouched)
    assert not place(ink, 4, untouched)
    assert not place(np.ones((1, 7), np.uint8), 0, untouched)
    assert not place(np.zeros((2, 2), np.uint8), 0, untouched)
    assert not place(np.zeros((0, 0), np.uint8), 0, untouched)
    assert not untouched.any()
