"""An exported .npz predicts by hand: a naive reading of its arrays ranks as the model does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.export.npz import write_npz
from tasks.features.normalize import NormalizeParams
from tasks.features.normalize_encoder import NormalizeEncoder
from tasks.models.encoder import PqEncoder
from tasks.models.folder import load_model
from tasks.models.registry import MODELS
from tasks.rows import Dense
from tasks.trees.kmeans.forest import Forest
from tests.pipeline.export.agreement import saved_model
from tests.tasks.model_samples import class_table, factored, hashed, linear, small_rows
from tests.tasks.tree_samples import Drawn, random_rows, random_tree


def arrays_of(path: Path) -> dict[str, Any]:
    with np.load(path, allow_pickle=False) as held:
        return dict(held)


def naive_codes(row: np.ndarray, books: np.ndarray) -> np.ndarray:
    """A row as its codes say it: the nearest centroid of each sub-vector."""
    width = books.shape[2]
    parts = [row[q * width : (q + 1) * width] for q in range(len(books))]
    nearest = [int(np.argmin(((book - part) ** 2).sum(axis=1))) for book, part in zip(books, parts, strict=True)]
    return np.concatenate([book[code] for book, code in zip(books, nearest, strict=True)])


def naive_walk(arrays: dict[str, Any], row: np.ndarray) -> tuple[int, float]:
    """The best class of the leaf that a row walks to, and its score at the last split; -1 of an empty leaf."""
    first, n, offsets = arrays["first_child"], arrays["n_children"], arrays["offsets"]
    starts = np.concatenate([[0], np.cumsum(n.astype(np.int64) * row.size)])
    node, score = 0, np.nan
    while n[node]:
        weights = arrays["weights"][starts[node] : starts[node + 1]].reshape(row.size, n[node])
        scores = row @ weights + arrays["bias"][first[node] - 1 : first[node] - 1 + n[node]]
        best = int(np.argmax(scores))
        node, score = int(first[node]) + best, float(scores[best])
    held = arrays["classes"][offsets[node] : offsets[node + 1]]
    return (int(held[0]), score) if held.size else (-1, np.nan)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_one_vs_rest_by_hand(tmp_path: Path, seed: int) -> None:
    saved = saved_model(tmp_path / "m", linear(seed))
    write_npz(saved, tmp_path / "m.npz")
    arrays, rows = arrays_of(tmp_path / "m.npz"), small_rows(seed, 30)
    scores = rows @ arrays["weights"] + arrays["bias"]
    best = np.argsort(-scores, axis=1, kind="stable")[:, :4]
    np.testing.assert_array_equal(best, saved.rank(Dense(rows), 4).classes)
    names = json.loads(str(arrays["class_table"]))["names"]
    assert [names[c] for c in best[:, 0]] == [class_table(9).names[c] for c in best[:, 0]]


@pytest.mark.parametrize("seed", [4, 5, 6])
def test_codes_by_hand(tmp_path: Path, seed: int) -> None:
    books = np.random.default_rng(seed).normal(size=(3, 8, 2)).astype(np.float32)
    saved = saved_model(tmp_path / "m", linear(seed), (PqEncoder(books),))
    write_npz(saved, tmp_path / "m.npz")
    arrays = arrays_of(tmp_path / "m.npz")
    rows = np.random.default_rng(seed).normal(size=(30, 6)).astype(np.float32)
    decoded = np.stack([naive_codes(row, arrays["encoder.0.codebooks"]) for row in rows])
    scores = decoded @ arrays["weights"] + arrays["bias"]
    ours = saved.rank(Dense(rows), 3)
    np.testing.assert_array_equal(np.argmax(scores, axis=1), ours.classes[:, 0])
    np.testing.assert_allclose(np.max(scores, axis=1), ours.scores[:, 0], rtol=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_a_tree_by_hand(tmp_path: Path, seed: int) -> None:
    drawn = Drawn(probabilistic=False, kind="label-tree")
    saved = saved_model(tmp_path / "m", random_tree(seed, drawn))
    write_npz(saved, tmp_path / "m.npz")
    arrays, rows = arrays_of(tmp_path / "m.npz"), random_rows(seed, 40, drawn)
    ours = saved.rank(Dense(rows), 1)
    walked = [naive_walk(arrays, row) for row in rows]
    np.testing.assert_array_equal([c for c, _ in walked], ours.classes[:, 0])
    np.testing.assert_array_equal([score for _, score in walked], ours.scores[:, 0])


@pytest.mark.parametrize("kind", ["linear", "factored", "hashed", "tree", "forest"])
def test_the_whole_model_comes_back(tmp_path: Path, kind: str) -> None:
    """Header and arrays are all that the model's own class needs; and they are those of the folder, bit by bit."""
    tree = random_tree(2, Drawn(form="entries"))
    models = {"linear": linear(1), "factored": factored(1), "hashed": hashed("heshing"), "tree": tree}
    model = {**models, "forest": Forest((tree, random_tree(3, Drawn())))}[kind]
    scaled = NormalizeEncoder(NormalizeParams("standard"), 6, np.zeros(6), np.ones(6), True)
    saved = saved_model(tmp_path / "m", model, (scaled,))
    write_npz(saved, tmp_path / "m.npz")
    arrays = arrays_of(tmp_path / "m.npz")
    header = json.loads(str(arrays.pop("header")))
    assert header == json.loads((tmp_path / "m" / "model.json").read_text())
    assert json.loads(str(arrays.pop("class_table")))["ids"] == list(saved.classes.ids)
    assert set(arrays) == set(header["tensors"])
    own = {name: values for name, values in arrays.items() if not name.startswith("encoder.")}
    for name, values in saved.model.tensors().items():
        np.testing.assert_array_equal(own[name], values)
        assert own[name].dtype == values.dtype
    np.testing.assert_array_equal(arrays["encoder.0.deviation"], np.ones(6))
    from importlib import import_module

    module, name = MODELS[header["kind"]].split(":")
    again = getattr(import_module(module), name).load(header, own)
    rows = Dense(small_rows(1, 10))
    np.testing.assert_array_equal(again.rank(rows, 3).classes, load_model(tmp_path / "m").model.rank(rows, 3).classes)


def test_the_same_model_gives_the_same_bytes(tmp_path: Path) -> None:
    saved = saved_model(tmp_path / "m", linear(1))
    for name in ("a.npz", "b.npz"):
        write_npz(saved, tmp_path / name)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
