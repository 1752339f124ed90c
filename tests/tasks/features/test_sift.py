"""Dense SIFT: the grid and the contrast rule against their definitions, files of all kinds, independent real rows."""

from __future__ import annotations

import io
import json
from pathlib import Path

import cv2
import numpy as np
import pytest
import scipy.sparse
from PIL import Image

from tasks.errors import ParamError
from tasks.features.pixels import DamagedImage, grey_levels
from tasks.features.sift import SiftParams, describe, grid_of, has_contrast
from tasks.features.sift_encoder import SiftEncoder
from tasks.models.encoder_folder import load_encoder, save_encoder
from tasks.models.errors import ColumnMismatch, ModelFormat
from tasks.rows import Dense, Descriptors, Images
from tasks.rows.descriptors import normalized
from tests.image_files import encoded, texture, textures
from tests.naive import sift as naive
from tests.shared import shared_path

PARAMS = SiftParams()


@pytest.mark.parametrize(
    ("height", "width", "step", "sides"),
    [(64, 64, 6, (16, 24)), (40, 61, 5, (16, 17, 33)), (16, 16, 1, (16,)), (15, 40, 4, (16,)), (90, 30, 7, (31, 8))],
)
def test_grid(height: int, width: int, step: int, sides: tuple[int, ...]) -> None:
    grid = grid_of(height, width, SiftParams(step=step, patches=sides))
    wanted = naive.patches(height, width, step, sides)
    found = [(*corner, side) for corner, side in zip(grid.corners.tolist(), grid.sides.tolist(), strict=True)]
    assert found == wanted
    centres = [((x + p / 2) / width, (y + p / 2) / height) for x, y, p in wanted]
    np.testing.assert_allclose(grid.places, np.array(centres).reshape(-1, 2), rtol=1e-6)
    assert [point.pt for point in grid.keypoints] == [(x + p // 2, y + p // 2) for x, y, p in wanted]


@pytest.mark.parametrize("seed", range(4))
def test_contrast_is_the_standard_deviation_of_grey_levels(seed: int) -> None:
    rng = np.random.default_rng(seed)
    pixels = np.clip(rng.normal(128, 1, (50, 60)) * rng.uniform(0.9, 1.1, (50, 60)), 0, 255).astype(np.uint8)
    grid = grid_of(50, 60, PARAMS)
    deviations = [
        p.std() for p in (pixels[y : y + s, x : x + s] for (x, y), s in zip(grid.corners, grid.sides, strict=True))
    ]
    contrast = float(np.mean(np.sort(deviations)[len(deviations) // 2 :][:2]))  # between two of them
    wanted = naive.with_contrast(pixels, naive.patches(50, 60, 6, (16, 24)), contrast)
    assert has_contrast(pixels, grid, contrast).tolist() == wanted
    assert 0 < sum(wanted) < len(wanted)


def test_a_patch_of_exactly_the_contrast_stays() -> None:
    pixels = np.full((16, 16), 100, np.uint8)
    pixels[:8] = 108  # deviation 4
    grid = grid_of(16, 16, PARAMS)
    assert has_contrast(pixels, grid, 4.0).tolist() == [True]
    assert has_contrast(pixels, grid, 4.0001).tolist() == [False]
    assert has_contrast(np.full((16, 16), 255, np.uint8), grid, 0.0).tolist() == [True]


def test_flat_and_small_images_have_no_descriptors() -> None:
    for pixels in (np.full((64, 64), 7, np.uint8), texture(0, 15, 80)):
        values, places = describe(pixels, PARAMS)
        assert values.shape == (0, 128)
        assert places.shape == (0, 2)


def test_descriptors_are_opencvs_at_the_patches_that_have_contrast() -> None:
    pixels = texture(3)
    pixels[:, :30] = 90
    values, places = describe(pixels, PARAMS)
    grid = grid_of(64, 64, PARAMS)
    kept = np.flatnonzero(has_contrast(pixels, grid, 4.0))
    _, wanted = cv2.SIFT.create().compute(pixels, [grid.keypoints[i] for i in kept])  # with all layers
    np.testing.assert_array_equal(values, wanted)
    np.testing.assert_array_equal(places, grid.places[kept])
    assert 0 < len(kept) < 130


@pytest.mark.parametrize("root", [False, True])
def test_normalized(root: bool) -> None:
    values = np.concatenate([describe(texture(5), PARAMS)[0][:40], np.zeros((1, 128), np.uint8)])
    found = normalized(values, root)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, naive.normalized(values, root), atol=1e-7)
    np.testing.assert_allclose(np.linalg.norm(found[:-1], axis=1), 1, atol=1e-6)
    assert not found[-1].any()


def test_rows_do_not_depend_on_each_other() -> None:
    images = textures(range(5), 50, 70)
    encoder = SiftEncoder(SiftParams(root=True))
    whole = encoder.encode(images)
    assert whole.shape == (5, 128)
    assert whole.root
    for index in ([3], [4, 0, 4], []):
        alone, taken = encoder.encode(images.take(np.array(index, np.int64))), whole.take(np.array(index, np.int64))
        for name in ("values", "places", "offsets"):
            np.testing.assert_array_equal(getattr(alone, name), getattr(taken, name))
    part = whole.part(1, 4)
    np.testing.assert_array_equal(part.numbers(), whole.take(np.arange(1, 4)).numbers())


def test_images_larger_than_the_longest_side_are_shrunk() -> None:
    pixels = texture(1, 200, 400)
    found = grey_levels(np.frombuffer(encoded(pixels), np.uint8), 100)
    np.testing.assert_array_equal(found, cv2.resize(pixels, (100, 50), interpolation=cv2.INTER_AREA))
    np.testing.assert_array_equal(grey_levels(np.frombuffer(encoded(pixels), np.uint8), 400), pixels)
    assert grey_levels(np.frombuffer(encoded(texture(1, 2, 400)), np.uint8), 100).shape == (1, 100)


def as_grey(data: bytes) -> np.ndarray:
    return grey_levels(np.frombuffer(data, np.uint8), 4096)


def test_files_of_all_kinds() -> None:
    grey = texture(2, 40, 30)
    colour = np.stack([grey, grey, grey], axis=2)
    for data in (encoded(grey), encoded(colour), encoded(grey, "BMP"), encoded(grey, "TIFF"), encoded(grey, "PPM")):
        np.testing.assert_array_equal(as_grey(data), grey)
    jpeg = as_grey(encoded(grey, "JPEG", quality=95)).astype(int)
    assert np.abs(jpeg - grey).mean() < 4
    turned = Image.fromarray(grey)
    exif = turned.getexif()
    exif[0x0112] = 6  # "rotate 90 degrees clockwise to look at it"
    file = io.BytesIO()
    turned.save(file, "JPEG", quality=95, exif=exif)
    np.testing.assert_array_equal(as_grey(file.getvalue()), np.rot90(jpeg, -1))
    deep = (grey.astype(np.uint16) << 8) + 17
    np.testing.assert_allclose(as_grey(encoded(deep)).astype(int), grey, atol=1)
    clear = np.dstack([colour, np.full_like(grey, 9)])
    np.testing.assert_array_equal(as_grey(encoded(clear)), grey)


def test_damaged_images_are_named() -> None:
    images = Images.of_files([encoded(texture(0)), b"no image", b""])
    for row in (1, 2):
        with pytest.raises(DamagedImage, match="cannot be decoded"):
            grey_levels(images.file(row), 300)
    with pytest.raises(DamagedImage, match="row 1 of these"):
        SiftEncoder(PARAMS).encode(images)


def test_numbers_are_no_images() -> None:
    with pytest.raises(ColumnMismatch, match="takes images"):
        SiftEncoder(PARAMS).encode(Dense(np.zeros((2, 5), np.float32)))


@pytest.mark.parametrize("verb", ["scores", "gradient", "decoded", "to_array", "squared_norms", "subtract_gradient"])
def test_neither_images_nor_descriptors_can_be_multiplied(verb: str) -> None:
    arguments = {"scores": (np.ones((128, 1)),), "gradient": (np.ones((1, 1)),)}
    arguments["subtract_gradient"] = (np.ones((1, 1)), 1.0, np.ones((128, 1)))
    images = textures(range(1))
    for rows in (images, SiftEncoder(PARAMS).encode(images)):
        with pytest.raises(TypeError, match="encode them first"):
            getattr(rows, verb)(*arguments.get(verb, ()))


def test_encoder_folder(tmp_path: Path) -> None:
    encoder = SiftEncoder(SiftParams(step=4, patches=(20, 8), contrast=0.0, max_side=99, root=True))
    save_encoder(tmp_path, encoder)
    assert load_encoder(tmp_path) == encoder
    header = json.loads((tmp_path / "encoder.json").read_text())
    for change in ({"step": 0}, {"patches": []}, {"patches": "ab"}, {"max_side": 3}):
        with pytest.raises(ModelFormat):
            SiftEncoder.load(header | change, {})


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"step": 0}, "step"),
        ({"patches": ()}, "patches"),
        ({"patches": (3,)}, "patches"),
        ({"patches": (16, 16)}, "patches"),
        ({"contrast": -1}, "contrast"),
        ({"max_side": 20}, "max_side"),
        ({"max_side": 5000}, "max_side"),
    ],
)
def test_settings_out_of_range(settings: dict, name: str) -> None:
    with pytest.raises(ParamError, match=f"sift.{name}"):
        SiftParams(**settings)


def test_the_most_patches_of_an_image() -> None:
    params = SiftParams(max_side=64)
    assert params.most_patches() == len(grid_of(64, 64, params).sides) == 130


def test_real_rows_made_independently() -> None:
    """Counts of words of Tiny ImageNet images, with the vocabulary and the settings that others have used."""
    jpeg, sift = shared_path("data/tinyimagenet-jpeg"), shared_path("data/tinyimagenet-sift")
    packed, words = np.load(jpeg / "images.npz"), np.load(sift / "vocabulary.npy").astype(np.float32)
    images = Images(packed["test_bytes"], packed["test_offsets"])
    theirs = scipy.sparse.load_npz(sift / "X_test.npz").tocsr()
    classes, their_classes = np.load(jpeg / "y_test.npy"), np.load(sift / "y_test.npy")
    away = []
    for image in range(0, images.n_rows, 25):
        found = SiftEncoder(PARAMS).encode(images.part(image, image + 1))
        assert isinstance(found, Descriptors)
        distances = (words**2).sum(axis=1) - 2 * found.numbers() @ words.T
        own = np.bincount(distances.argmin(axis=1), minlength=len(words))
        candidates = theirs[np.flatnonzero(their_classes == classes[image])].toarray()
        away.append(float(np.abs(candidates - own).sum(axis=1).min() / found.n_descriptors))
    print(f"share of words that differ: {np.mean(away):.5f}, rows that are equal {np.mean(np.array(away) == 0):.3f}")
    assert np.mean(np.array(away) == 0) > 0.9
    assert max(away) < 0.05
