"""ONNX graphs rank as the models do: every kind, every encoder, ties, empty leaves, leaves of several classes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from pipeline.export import graph as graph_module
from pipeline.export.errors import ExportTooLarge, ExportUnsupported
from pipeline.export.onnx_file import write_onnx
from tasks.features.normalize import NORMS, NormalizeParams
from tasks.features.normalize_encoder import NormalizeEncoder
from tasks.features.pca_encoder import PcaEncoder
from tasks.models.class_ranges import RangedModel
from tasks.models.encoder import PqEncoder
from tasks.models.factored import FactoredModel
from tasks.models.linear import LinearModel
from tasks.trees.kmeans.forest import Forest
from tests.pipeline.export.agreement import agreement, assert_same, saved_model, session_of, unused_in
from tests.tasks.model_samples import certificate, class_table, factored, factors, hashed, linear, small_rows
from tests.tasks.tree_samples import FORMS, Drawn, random_rows, random_tree


def ranged(seed: int) -> RangedModel:
    whole = linear(seed)
    parts = tuple(np.ascontiguousarray(whole.weights[:, a:b]) for a, b in ((0, 4), (4, 5), (5, 9)))
    return RangedModel(parts, whole.bias)


def multinomial(seed: int) -> LinearModel:
    model = linear(seed)
    return LinearModel(model.weights, model.bias, "ovr", probabilistic=True)


def nothing(_seed: int) -> FactoredModel:
    u, theta, v, bias = factors(1, rank=1)
    return FactoredModel(u[:, :0], theta[:0], v[:, :0], bias, certificate())


FLAT = {
    "ovr": linear,
    "no-bias": lambda seed: LinearModel(linear(seed).weights),
    "ranges": ranged,
    "multinomial": multinomial,
    "trace-norm": factored,
    "rank-0": nothing,
}


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("kind", FLAT)
def test_flat_models_rank_alike_ties_too(tmp_path: Path, kind: str, seed: int) -> None:
    saved = saved_model(tmp_path / "m", FLAT[kind](seed))
    assert_same(agreement(saved, tmp_path / "m.onnx", small_rows(seed, 60), 4))


def encoder(kind: str) -> Any:
    """Of eight columns; to six, or eight."""
    random = np.random.default_rng(5)
    if kind == "pq":
        return PqEncoder(random.normal(3, 1, (4, 16, 2)).astype(np.float32))
    if kind == "pca":
        return PcaEncoder(random.normal(size=8).astype(np.float32), random.normal(size=(8, 6)).astype(np.float32))
    norm = kind.removesuffix("-scaled").removesuffix("-cubed")
    if norm == "standard":
        deviation = np.abs(random.normal(size=8))
        deviation[3] = 0
        return NormalizeEncoder(NormalizeParams(norm), 8, random.normal(size=8), deviation, kind == norm)
    return NormalizeEncoder.plain(NormalizeParams(norm, 1 / 3 if kind != norm else 0.5), 8)


ENCODERS = ("pq", "pca", *NORMS, "standard-scaled", "power-cubed")
MODELS = ("ovr", "trace-norm", "label-tree", "beam", "kmeans-tree", "forest")


def model_of(kind: str, n_features: int) -> tuple[Any, int | None]:
    """A model of real numbers, so that nothing is tied, and the beam it is searched with."""
    random = np.random.default_rng(7)
    if kind == "ovr":
        return LinearModel(random.normal(size=(n_features, 9)).astype(np.float32)), None
    if kind == "trace-norm":
        u, v = (random.normal(size=(n, 2)).astype(np.float32) for n in (n_features, 9))
        return FactoredModel(u, np.ones(2, np.float32), v, None, certificate()), None
    drawn = Drawn(n_features=n_features, whole=False, disjoint=kind == "kmeans-tree", n_classes=14)
    if kind in ("label-tree", "beam"):
        margins = Drawn(n_features=n_features, whole=False, probabilistic=False, kind="label-tree", n_classes=14)
        return random_tree(3, margins), 3 if kind == "beam" else None
    if kind == "forest":
        return Forest(tuple(random_tree(seed, drawn) for seed in (3, 4))), 2
    return random_tree(3, Drawn(**{**vars(drawn), "link": "reach"})), 3


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("name", ENCODERS)
def test_every_kind_with_every_encoder(tmp_path: Path, kind: str, name: str) -> None:
    chosen = encoder(name)
    model, beam = model_of(kind, 6 if name == "pca" else 8)
    saved = saved_model(tmp_path / "m", model, (chosen,))
    values = np.random.default_rng(2).normal(size=(80, 8)).astype(np.float32)
    values[7] = 0
    assert_same(agreement(saved, tmp_path / "m.onnx", values, 5, beam))


def test_encoders_in_a_chain(tmp_path: Path) -> None:
    saved = saved_model(
        tmp_path / "m", model_of("kmeans-tree", 8)[0], (encoder("l2"), encoder("standard"), encoder("pq"))
    )
    values = np.random.default_rng(3).normal(size=(50, 8)).astype(np.float32)
    assert_same(agreement(saved, tmp_path / "m.onnx", values, 5, 2))


# ---- trees -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_walks_agree_with_ties_and_empty_leaves(tmp_path: Path, seed: int) -> None:
    """Small whole numbers: scores are exact, so every place must be the same."""
    drawn = Drawn(probabilistic=False, kind="label-tree", form=FORMS[seed % 3], branching=4, n_classes=11)
    saved = saved_model(tmp_path / "m", random_tree(seed, drawn))
    assert_same(agreement(saved, tmp_path / "m.onnx", random_rows(seed, 60, drawn), 1 + seed % 6))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("beam", [1, 2, 5, 10**12])
@pytest.mark.parametrize("link", ["softmax", "sigmoid", "reach"])
def test_searches_agree(tmp_path: Path, link: str, beam: int, seed: int) -> None:
    drawn = Drawn(link=link, whole=False, form=FORMS[seed % 3], branching=4, depth=4, n_classes=20)
    tree = random_tree(seed, drawn)
    if seed % 2:
        object.__setattr__(tree, "sharpness", 0.7)
    saved = saved_model(tmp_path / "m", tree)
    assert_same(agreement(saved, tmp_path / "m.onnx", random_rows(seed, 60, drawn), 6, beam))


@pytest.mark.parametrize("seed", range(4))
def test_forests_agree(tmp_path: Path, seed: int) -> None:
    drawn = Drawn(whole=False, n_classes=50, branching=5)
    forest = Forest(tuple(random_tree(10 * seed + t, drawn) for t in range(3)))
    saved = saved_model(tmp_path / "m", forest)
    assert_same(agreement(saved, tmp_path / "m.onnx", random_rows(seed, 40, drawn), 5, 3))


@pytest.mark.parametrize("probabilistic", [False, True])
def test_a_tree_that_is_one_leaf(tmp_path: Path, probabilistic: bool) -> None:
    drawn = Drawn(depth=0, n_classes=3, probabilistic=probabilistic)
    saved = saved_model(tmp_path / "m", random_tree(1, drawn))
    assert_same(agreement(saved, tmp_path / "m.onnx", random_rows(1, 5, drawn), 3))


# ---- the file ----------------------------------------------------------------------------------------------------


def test_what_the_file_says(tmp_path: Path) -> None:
    saved = saved_model(tmp_path / "m", multinomial(1))
    write_onnx(saved, tmp_path / "m.onnx", 4)
    message = onnx.load(str(tmp_path / "m.onnx"))
    assert message.ir_version == 8
    assert [(one.domain, one.version) for one in message.opset_import] == [("", 18)]
    facts = {one.key: one.value for one in message.metadata_props}
    table = class_table(9)
    assert json.loads(facts["classes"]) == {"ids": list(table.ids), "names": list(table.names)}
    assert facts["digest"] == saved.digest
    assert facts["kind"] == "ovr"
    session = session_of(tmp_path / "m.onnx")
    assert [(one.name, one.shape, one.type) for one in session.get_inputs()] == [("rows", ["n", 6], "tensor(float)")]
    assert [(one.name, one.shape) for one in session.get_outputs()] == [
        ("classes", ["n", 4]), ("scores", ["n", 4]), ("probabilities", ["n", 4]),
    ]  # fmt: skip


def test_a_runtime_finds_nothing_to_remove(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """What every graph holds is checked in `agreement`; here onnxruntime says what it thinks of one."""
    drawn = Drawn(whole=False, n_classes=12)
    saved = saved_model(tmp_path / "m", Forest((random_tree(1, drawn), random_tree(2, drawn))))
    write_onnx(saved, tmp_path / "m.onnx", 4, 3)
    onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    assert capfd.readouterr().err == ""
    message = onnx.load(str(tmp_path / "m.onnx"))
    message.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros(3), "idle"))
    message.graph.node.append(onnx.helper.make_node("Abs", ["rows"], ["dead"]))
    assert unused_in(message.graph) == {"idle", "dead"}
    onnxruntime.InferenceSession(message.SerializeToString(), providers=["CPUExecutionProvider"])
    assert "idle" in capfd.readouterr().err


def test_the_same_model_gives_the_same_bytes(tmp_path: Path) -> None:
    saved = saved_model(tmp_path / "m", random_tree(3, Drawn(link="reach")))
    for name in ("a.onnx", "b.onnx"):
        write_onnx(saved, tmp_path / name, 4, 3)
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()


def test_kinds_and_encoders_that_are_not_known_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ExportUnsupported, match=r"kind heshing is not exported to ONNX: these are ovr, .*kmeans-tree"):
        write_onnx(saved_model(tmp_path / "m", hashed("heshing")), tmp_path / "m.onnx", 3)
    walked = random_tree(1, Drawn(kind="tree-svm", disjoint=True, probabilistic=False))
    with pytest.raises(ExportUnsupported, match="kind tree-svm"):
        write_onnx(saved_model(tmp_path / "t", walked), tmp_path / "m.onnx", 3)
    assert not (tmp_path / "m.onnx").exists()


@pytest.mark.parametrize("kind", MODELS)
def test_what_does_not_fit_one_file_is_refused_with_its_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    saved = saved_model(tmp_path / "m", model_of(kind, 8)[0])
    monkeypatch.setattr(graph_module, "MOST_BYTES", 100)
    with pytest.raises(ExportTooLarge, match=r"take [\d,]+ bytes as ONNX holds them, one file at most 100"):
        write_onnx(saved, tmp_path / "m.onnx", 3)
    assert not (tmp_path / "m.onnx").exists()


def test_a_graph_that_the_checker_refuses_takes_no_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = saved_model(tmp_path / "m", linear(1))
    (tmp_path / "m.onnx").write_text("what stood there")
    monkeypatch.setattr(graph_module, "OPSET", 7)
    with pytest.raises(onnx.checker.ValidationError):
        write_onnx(saved, tmp_path / "m.onnx", 3)
    assert [path.name for path in tmp_path.iterdir() if path.name != "m"] == ["m.onnx"]
    assert (tmp_path / "m.onnx").read_text() == "what stood there"
