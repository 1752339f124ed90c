"""Hierarchies and pairs in model folders: they come back as they were, and damaged ones are refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tasks.models.base import Model
from tasks.models.errors import ModelFormat
from tasks.models.folder import load_model, save_model, verify_model
from tasks.models.header import shapes_of
from tasks.models.registry import MODELS, class_of
from tasks.relaxed.hierarchy import MARSZALEK, ONE_VS_ALL, RELAXED, SPECTRAL, Hierarchy
from tasks.relaxed.pairs import DAG, MAX_WINS
from tests.tasks.model_samples import change_header, class_table
from tests.tasks.relaxed.model_samples import FORMS, Sample, built, random_nodes, random_pairs


@dataclass
class Parts:
    """What a folder holds of a model."""

    tensors: dict[str, np.ndarray]
    header: dict[str, Any]


Change = Callable[[Parts], None]
KINDS = (RELAXED, SPECTRAL, MARSZALEK, ONE_VS_ALL, MAX_WINS, DAG)


def model_of(kind: str, form: str, seed: int = 3) -> Model:
    sample = Sample(form, seed)
    if kind in (MAX_WINS, DAG):
        return random_pairs(sample, 5, kind)[0]
    nodes = random_nodes(sample, 6, shared=True)
    if kind == ONE_VS_ALL:
        rng, root = sample.rng, nodes["root"]
        nodes = {"root": type(root)(root.classes, [sample.classifier(rng) for _ in root.classes])}
    return built(sample, nodes, kind)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_model_comes_back_as_it_was(kind: str, form: str, tmp_path: Path) -> None:
    model, sample = model_of(kind, form), Sample(form, 3)
    save_model(tmp_path / "m", model, class_table(model.n_classes))
    loaded = load_model(tmp_path / "m")
    assert verify_model(tmp_path / "m") == loaded.digest
    assert (loaded.model.kind, loaded.header["facts"]) == (kind, model.header()["facts"])
    assert loaded.header["classifiers"]["form"] == form.removeprefix("sparse ")
    for sparse in (False, True):
        rows = sample.body(sample.values(12), sparse)
        before, after = model.rank(rows, 3), loaded.rank(rows, 3)
        for name in ("classes", "scores", "evaluations", "path"):
            np.testing.assert_array_equal(getattr(after, name), getattr(before, name))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", [RELAXED, MAX_WINS])
def test_a_model_that_is_mapped_from_its_file_ranks_the_same(
    kind: str, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, sample = model_of(kind, form), Sample(form, 3)
    save_model(tmp_path / "m", model, class_table(model.n_classes))
    monkeypatch.setattr("tasks.models.tensors.LARGE_BYTES", 10)
    loaded = load_model(tmp_path / "m").model
    assert not any(values.flags.writeable for values in loaded.tensors().values())
    for sparse in (False, True):
        rows = sample.body(sample.values(12), sparse)
        np.testing.assert_array_equal(loaded.rank(rows, 3).scores, model.rank(rows, 3).scores)


def test_kernels_and_support_are_told(tmp_path: Path) -> None:
    model = model_of(RELAXED, "kernel")
    assert isinstance(model, Hierarchy)
    save_model(tmp_path / "m", model, class_table(model.n_classes))
    told = load_model(tmp_path / "m").header["classifiers"]
    assert told["kernel"] == {"kind": "histogram-intersection", "width": 1.0}
    assert told["n_support"] == model.n_support > 5
    assert model.is_kernel


def reloaded(model: Model, change: Change) -> Model:
    """Through header and tensors, changed on the way."""
    header = {**model.header(), "n_features": model.n_features, "n_classes": model.n_classes, "kind": model.kind}
    parts = Parts({name: np.array(values) for name, values in model.tensors().items()}, header)
    change(parts)
    loaded: Model = class_of(header["kind"], MODELS, "here").load(header, parts.tensors)
    return loaded


def put(name: str, place: int, value: float) -> Change:
    return lambda parts: parts.tensors[name].__setitem__(place, value)


def remake(name: str, make: Callable[[np.ndarray], np.ndarray]) -> Change:
    return lambda parts: parts.tensors.__setitem__(name, make(parts.tensors[name]))


def tell(**values: object) -> Change:
    return lambda parts: parts.header.update(classifiers={**parts.header["classifiers"], **values})


def shorter(values: np.ndarray) -> np.ndarray:
    return values[:-1]


def wider(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float64 if values.dtype.kind == "f" else np.int64 if values.itemsize < 8 else np.int32)


def gone(name: str) -> Change:
    return lambda parts: parts.tensors.__delitem__(name)


HIERARCHY = {
    "a child that is its parent": put("negative", 0, 0),
    "a child that is not there": put("positive", 0, 999),
    "a child that comes before": put("positive", 2, 1),
    "no child at all": put("negative", 0, -2),
    "one child only": put("negative", 0, -1),
    "two children that are one": lambda parts: put("negative", 0, parts.tensors["positive"][0])(parts),
    "a class that is not in the table": put("classes", 5, 99),
    "a class below 0": put("classes", 0, -1),
    "classes that do not ascend": remake("classes", lambda values: values[::-1].copy()),
    "a color that is none": put("colors", 0, 2),
    "another color": lambda parts: put("colors", 0, -parts.tensors["colors"][0] or 1)(parts),
    "a leaf with a color": put("colors", -1, 1),
    "offsets that start late": put("offsets", 0, 1),
    "offsets that fall": put("offsets", 1, 99),
    "no offsets": remake("offsets", lambda values: values[:0]),
    "another first classifier": put("first_classifier", 0, 1),
    "a classifier of a leaf": put("first_classifier", -1, 0),
    "a nan": put("bias", 0, np.nan),
    "an inf": put("bias", 1, np.inf),
    "too few nodes": remake("negative", shorter),
    "no nodes": remake("negative", lambda values: values[:0]),
    "too few of another": remake("positive", shorter),
    "too few classes": remake("classes", shorter),
    "too few colors": remake("colors", shorter),
    "too few biases": remake("bias", shorter),
    "children of another width": remake("negative", wider),
    "offsets of another width": remake("offsets", wider),
    "colors of another width": remake("colors", wider),
    "bias of another width": remake("bias", wider),
    "children in a table": remake("negative", lambda values: values[:, None]),
    "no colors": gone("colors"),
    "no bias": gone("bias"),
    "another form": tell(form="cubic"),
    "another count": tell(n_classifiers=3),
}
BANKS = {
    "linear": {
        "weights that are not finite": remake("weights", lambda values: values * np.float32(np.nan)),
        "too few weights": remake("weights", shorter),
        "narrow weights": remake("weights", lambda values: values[:, :-1].copy()),
        "no weights": gone("weights"),
        "the form of few weights": tell(form="active"),
    },
    "active": {
        "a feature that is not there": put("features", 0, 20),
        "features that do not ascend": remake("features", lambda values: values[::-1].copy()),
        "a weight that is no number": put("weights", 0, np.nan),
        "too few features": remake("features", shorter),
        "offsets that fall": put("weight_offsets", 1, 10**6),
        "too few offsets": remake("weight_offsets", shorter),
    },
    "kernel": {
        "a support vector that is not there": put("support_index", 0, 99),
        "support vectors that do not ascend": remake("support_index", lambda values: values[::-1].copy()),
        "support vectors that are no numbers": remake("support", lambda values: values * np.float32(np.nan)),
        "support vectors below 0": remake("support", lambda values: -values),
        "narrow support vectors": remake("support", lambda values: values[:, :-1].copy()),
        "fewer support vectors": remake("support", shorter),
        "support vectors in short numbers": remake("support", lambda values: values.astype(np.float16)),
        "too few coefficients": remake("coefficients", shorter),
        "a coefficient that is no number": put("coefficients", 0, np.inf),
        "offsets that fall": put("support_offsets", 1, 10**6),
        "another kernel": tell(kernel={"kind": "cubic", "width": 1.0}),
        "another width": tell(kernel={"kind": "chi2", "width": -1.0}),
        "another body": tell(support_body="csr"),
        "a strange body": tell(support_body="pq"),
        "another number of support vectors": tell(n_support=4),
    },
    "sparse kernel": {
        "a column that is not there": put("support_columns", 0, 20),
        "columns that do not ascend": remake("support_columns", lambda values: values[::-1].copy()),
        "starts that fall": put("support_starts", 1, 10**6),
        "fewer rows": remake("support_starts", shorter),
        "a value that is no number": put("support", 0, np.nan),
        "another body": tell(support_body="dense"),
    },
}
PAIRS = {
    "classes that do not ascend": remake("pair_classes", lambda values: values[::-1].copy()),
    "a class that is not in the table": put("pair_classes", -1, 99),
    "a class below 0": put("pair_classes", 0, -1),
    "one class less": remake("pair_classes", shorter),
    "no classes": remake("pair_classes", lambda values: values[:0]),
    "classes of another width": remake("pair_classes", wider),
    "not their names": gone("pair_classes"),
    "a bias that is no number": put("bias", 0, np.nan),
}
CASES = [
    *((RELAXED, "linear", what, change) for what, change in HIERARCHY.items()),
    *((RELAXED, form, what, change) for form, table in BANKS.items() for what, change in table.items()),
    *((kind, "linear", what, change) for kind in (MAX_WINS, DAG) for what, change in PAIRS.items()),
]


@pytest.mark.parametrize(("kind", "form", "change"), [(k, f, c) for k, f, _, c in CASES], ids=[c[2] for c in CASES])
def test_a_damaged_model_is_refused(kind: str, form: str, change: Change) -> None:
    model = model_of(kind, form)
    assert reloaded(model, lambda parts: parts.header.update(name=kind)).n_classes == model.n_classes
    with pytest.raises(ModelFormat):
        reloaded(model, change)


def test_a_node_that_nothing_leads_to_is_refused() -> None:
    def change(parts: Parts) -> None:
        held = parts.tensors
        for name, value in (
            ("negative", -1),
            ("positive", -1),
            ("first_classifier", -1),
            ("classes", 1),
            ("colors", 0),
        ):
            held[name] = np.append(held[name], held[name].dtype.type(value))
        held["offsets"] = np.append(held["offsets"], held["offsets"][-1] + 1)

    with pytest.raises(ModelFormat, match="child of none"):
        reloaded(model_of(RELAXED, "linear"), change)


def test_nodes_in_another_order_are_refused() -> None:
    """All else fits, and no walk would go wrong; but depths are found in the order of the nodes."""
    model = model_of(RELAXED, "linear")
    assert isinstance(model, Hierarchy)
    last = model.n_nodes - 1
    order = np.array([0, last, *range(1, last)])

    def change(parts: Parts) -> None:
        held = parts.tensors
        counts = model.classifiers_of_node[order]
        held["first_classifier"] = np.where(counts > 0, np.cumsum(counts) - counts, -1).astype(np.int32)
        for name in ("negative", "positive"):
            children = held[name][order]
            held[name] = np.where(children >= 0, np.argsort(order)[children], -1).astype(np.int32)
        held["classes"] = np.concatenate([model.label_set(node) for node in order])
        held["colors"] = np.concatenate([model.colors_of(node) for node in order])
        held["offsets"] = np.cumsum([0, *model.sizes[order]], dtype=np.int64)

    parent = int(np.flatnonzero((model.negative == last) | (model.positive == last))[0])
    assert parent > 0
    with pytest.raises(ModelFormat, match=f"node {parent + 1} has no proper children"):
        reloaded(model, change)


@pytest.mark.parametrize(
    ("kind", "form", "name"),
    [(RELAXED, "linear", "offsets"), (RELAXED, "active", "weight_offsets"), (MAX_WINS, "kernel", "support_offsets")],
)
@pytest.mark.parametrize(("place", "value"), [(0, 1), (1, 10**6), (1, -1), (-1, 3)])
def test_offsets_are_checked_before_they_are_followed(kind: str, form: str, name: str, place: int, value: int) -> None:
    with pytest.raises(ModelFormat, match="do not fit their number"):
        reloaded(model_of(kind, form), put(name, place, value))


def test_one_vs_all_has_no_split_and_empty_nodes_are_none() -> None:
    model = model_of(RELAXED, "linear")
    assert isinstance(model, Hierarchy)
    with pytest.raises(ModelFormat, match="is one leaf"):
        reloaded(model, lambda parts: parts.header.update(kind=ONE_VS_ALL))
    node = int(np.argmin(model.sizes))
    assert model.sizes[node] == 1

    def emptied(parts: Parts) -> None:
        held, place = parts.tensors, model.offsets[node]
        held["classes"], held["colors"] = (np.delete(held[name], place) for name in ("classes", "colors"))
        held["offsets"][node + 1 :] -= 1

    with pytest.raises(ModelFormat, match="every node needs classes"):
        reloaded(model, emptied)


def test_a_folder_that_says_something_else_is_refused_at_its_place(tmp_path: Path) -> None:
    model, place = model_of(DAG, "linear"), tmp_path / "m"
    save_model(place, model, class_table(model.n_classes))
    change_header(place, classifiers={"form": "linear"})
    with pytest.raises(ModelFormat, match=r"do not fit .*n_classifiers"):
        load_model(place)
    assert shapes_of(model.tensors())["pair_classes"] == {"dtype": "int32", "shape": [5]}


# ---- doubt ---------------------------------------------------------------------------------------------------------


def doubtful(form: str) -> Hierarchy:
    sample = Sample(form, 3)
    nodes, rng = random_nodes(sample, 6, shared=True), np.random.default_rng(8)
    return built(sample, nodes, RELAXED, 2.5, {int(c): sample.classifier(rng) for c in nodes["root"].classes})


@pytest.mark.parametrize("form", FORMS)
def test_doubt_and_judges_come_back(form: str, tmp_path: Path) -> None:
    model, sample = doubtful(form), Sample(form, 3)
    save_model(tmp_path / "m", model, class_table(model.n_classes))
    loaded = load_model(tmp_path / "m").model
    assert isinstance(loaded, Hierarchy)
    assert (loaded.doubt, loaded.n_judges) == (2.5, 6)
    rows = sample.body(sample.values(12), sparse=False)
    np.testing.assert_array_equal(loaded.rank(rows, 3).scores, model.rank(rows, 3).scores)


@pytest.mark.parametrize(
    ("doubt", "word"),
    [
        ("0.5", "must be a number"),
        (True, "must be a number"),
        (None, "must be a number"),
        (-1, "0 or more"),
        (float("nan"), "0 or more"),
        (float("inf"), "0 or more"),
        (0, "do not follow one another"),
    ],
)
def test_a_doubt_that_is_none_is_refused(doubt: object, word: str) -> None:
    def change(parts: Parts) -> None:
        parts.header["hierarchy"] = {**parts.header["hierarchy"], "doubt": doubt}

    with pytest.raises(ModelFormat, match=word):
        reloaded(doubtful("linear"), change)


def test_doubt_without_judges_is_refused_and_headers_without_doubt_have_none() -> None:
    def change(parts: Parts) -> None:
        parts.header["hierarchy"] = {**parts.header["hierarchy"], "doubt": 0.5}

    with pytest.raises(ModelFormat, match="with 6 judges after them"):
        reloaded(model_of(RELAXED, "linear"), change)
    old = reloaded(model_of(RELAXED, "linear"), lambda parts: parts.header["hierarchy"].pop("doubt"))
    assert isinstance(old, Hierarchy)
    assert old.doubt == 0
