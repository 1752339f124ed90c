"""Bags of words against the definition; what the encoders of images have in common: saving, loading, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tasks.features import described
from tasks.features.bow import BowEncoder, word_counts
from tasks.features.fisher import FisherParams
from tasks.features.fisher_encoder import FisherEncoder
from tasks.features.llc import LlcParams
from tasks.features.llc_encoder import LlcEncoder
from tasks.features.mixture import Mixture
from tasks.models.encoder_folder import load_encoder, save_encoder
from tasks.models.errors import ColumnMismatch, ModelFormat
from tasks.rows import Dense, Descriptors, Images, Rows
from tests.naive import descriptors as naive
from tests.tasks.features.descriptor_samples import by_image, some_descriptors, some_words

LENGTHS = [4, 0, 30, 1]


def some_mixture(seed: int, n_components: int, width: int) -> Mixture:
    rng = np.random.default_rng(seed)
    weights = rng.random(n_components) + 0.1
    means = 0.1 * rng.standard_normal((n_components, width))
    return Mixture(weights / weights.sum(), means, 0.01 * (rng.random((n_components, width)) + 0.2))


def fisher(projected: bool) -> FisherEncoder:
    if not projected:
        return FisherEncoder.plain(FisherParams(), some_mixture(1, 3, 128))
    rng = np.random.default_rng(2)
    directions = np.linalg.qr(rng.standard_normal((128, 7)))[0].astype(np.float32)
    return FisherEncoder(FisherParams(0.7, False), some_mixture(1, 3, 7), np.full(128, 0.05, np.float32), directions)


ENCODERS = {
    "bow": lambda: BowEncoder(some_words(0, 20)),
    "llc": lambda: LlcEncoder.of(LlcParams(3, 1e-3, (1, 3), False), some_words(0, 20)),
    "fisher": lambda: fisher(projected=False),
    "fisher, projected": lambda: fisher(projected=True),
}
each_encoder = pytest.mark.parametrize("make", ENCODERS.values(), ids=ENCODERS)


def content(rows: Any) -> list[bytes]:
    return [
        part.tobytes() for part in ([rows.values] if rows.body == "dense" else [rows.data, rows.indices, rows.indptr])
    ]


# ---- counts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("root", [False, True])
def test_counts_by_definition(root: bool) -> None:
    rows, words = some_descriptors(7, LENGTHS, root=root), some_words(3, 25)
    found = BowEncoder(words).encode(rows)
    assert found.shape == (4, 25)
    assert (found.data.dtype, found.indices.dtype, found.indptr.dtype) == (np.float32, np.int32, np.int64)
    np.testing.assert_array_equal(found.to_array(), naive.word_counts(by_image(rows), words))
    assert found.to_array().sum(axis=1).tolist() == LENGTHS
    assert (found.data > 0).all()


def test_columns_ascend() -> None:
    found = word_counts(np.array([3, 1, 3, 0, 2, 2, 2]), np.array([0, 3, 3, 7]), 4)
    assert found.indices.tolist() == [1, 3, 0, 2]
    assert found.data.tolist() == [1, 2, 1, 3]
    assert found.indptr.tolist() == [0, 2, 2, 4]
    none = word_counts(np.empty(0, np.int64), np.array([0, 0]), 4)
    assert (none.shape, none.data.size, none.indptr.tolist()) == ((1, 4), 0, [0, 0])


# ---- all encoders of images ----------------------------------------------------------------------------------------


@each_encoder
def test_an_encoder_is_saved_and_loaded(make: Any, tmp_path: Path) -> None:
    encoder, rows = make(), some_descriptors(5, LENGTHS)
    save_encoder(tmp_path / "encoder", encoder)
    loaded = load_encoder(tmp_path / "encoder")
    assert type(loaded) is type(encoder)
    assert (loaded.kind, loaded.n_features, loaded.header()) == (encoder.kind, 128, encoder.header())
    assert content(loaded.encode(rows)) == content(encoder.encode(rows))
    assert encoder.encode(rows).n_features == encoder.n_columns


@each_encoder
def test_a_row_has_the_same_bits_whatever_it_comes_with(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder, rows = make(), some_descriptors(6, [9, 0, 70, 1, 33])
    whole = encoder.encode(rows)
    for i in range(rows.n_rows):
        assert content(encoder.encode(rows.part(i, i + 1))) == content(whole.part(i, i + 1))
    order = np.array([4, 2, 2, 0])
    assert content(encoder.encode(rows.take(order))) == content(whole.take(order))
    monkeypatch.setattr(described, "DESCRIPTORS_AT_ONCE", 8)
    np.testing.assert_allclose(encoder.encode(rows).to_array(), whole.to_array(), rtol=0, atol=1e-7)


@each_encoder
def test_no_images(make: Any) -> None:
    encoder = make()
    assert encoder.encode(some_descriptors(0, [])).shape == (0, encoder.n_columns)
    assert not encoder.encode(some_descriptors(0, [0, 0])).to_array().any()


@each_encoder
@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (Dense(np.zeros((2, 128), np.float32)), "the model takes images, these are rows of 128 columns"),
        (Images.of_files([b"", b"x"]), "have none yet"),
        (Descriptors(np.zeros((2, 64), np.uint8), np.zeros((2, 2), np.float32), np.array([0, 2])), "64 columns"),
    ],
    ids=["dense", "images", "narrow"],
)
def test_rows_that_are_no_such_descriptors(make: Any, rows: Rows, said: str) -> None:
    with pytest.raises(ColumnMismatch, match=said):
        make().encode(rows)


WRONG = {
    "bow": [{"words": 21}, {"n_features": 64}],
    "llc": [{"words": 19}, {"neighbours": 21}, {"neighbours": None}, {"beta": -1}, {"pyramid": [2, 1]}, {"pyramid": 1}],
    "fisher": [
        {"gaussians": 2},
        {"n_features": 64},
        {"components": 64},
        {"power": 0},
        {"power": "x"},
        {"projected": True},
    ],
    "fisher, projected": [{"gaussians": 2}, {"n_features": 64}, {"components": 64}, {"projected": False}],
}


@pytest.mark.parametrize(
    ("kind", "wrong"), [(kind, wrong) for kind, all_of in WRONG.items() for wrong in all_of], ids=str
)
def test_a_header_that_does_not_fit_is_refused(kind: str, wrong: dict[str, object]) -> None:
    encoder = ENCODERS[kind]()
    with pytest.raises(ModelFormat):
        type(encoder).load(encoder.header() | wrong, encoder.tensors())


@pytest.mark.parametrize("kind", ENCODERS)
def test_tensors_that_do_not_fit_are_refused(kind: str) -> None:
    """Each missing, of another type, with one number too many, and with one that is none."""
    encoder = ENCODERS[kind]()
    header, tensors = encoder.header(), encoder.tensors()
    for name, values in tensors.items():
        spoilt = values.copy()
        spoilt.reshape(-1)[0] = np.nan
        for wrong in (None, values.astype(np.float16), np.concatenate([values, values[:1]]), spoilt):
            given = {other: kept for other, kept in tensors.items() if other != name}
            with pytest.raises(ModelFormat):
                type(encoder).load(header, given if wrong is None else given | {name: wrong})


@pytest.mark.parametrize("name", ["weights", "variances"])
def test_a_mixture_without_density_is_refused(name: str) -> None:
    encoder = fisher(projected=False)
    with pytest.raises(ModelFormat, match="not above 0"):
        FisherEncoder.load(encoder.header(), encoder.tensors() | {name: 0 * encoder.tensors()[name]})
