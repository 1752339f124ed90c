"""Principal components in a run: the same digests on every pool, the same bits after a kill, models that carry them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.decomposition import PCA

from pipeline.dataset import Dataset
from pipeline.pool import SerialPool
from pipeline.store import MANIFEST, RunFolder, read_json, read_sealed
from tasks.errors import ParamError
from tasks.features import pca
from tasks.features.blocks import encode_block, make_spans, moments_span, product_span, scatter_span
from tasks.features.pca_encoder import PcaEncoder
from tasks.io import (
    Block,
    blocks_of,
    create_dense,
    create_group,
    load_rows,
    read_rows,
    rows_digest,
    write_dense,
)
from tasks.models.encoder_folder import load_encoder
from tasks.models.folder import load_model, verify_model
from tasks.rows import Dense
from tasks.sums import tree_sum
from tests.naive import pca as naive
from tests.stores import store_columns, store_dense
from tests.systems.conftest import make_dataset, planted
from tests.systems.harness import assert_raw_rows_rank_as_in_the_run, run_here

CONFIG = """\
name = "pca"
seed = 5
[data]
path = "{data}"
[[encode]]
name = "pca"
kind = "pca"
components = 6
[[encode]]
name = "pq"
kind = "pq"
subquantizers = 8
bits = 4
iterations = 3
[[encode]]
name = "of-codes"
kind = "pca"
rows = "pq"
components = 5
[[encode]]
name = "again"
kind = "pca"
rows = "of-codes"
components = 4
[[train]]
name = "ovr"
kind = "ovr"
rows = "pca"
rounds = 2
[[train]]
name = "tree"
kind = "label-tree"
rows = "again"
rounds = 2
"""
BODIES = ["dense", "csr"]


@pytest.fixture(params=[2048, 8], ids=["exact", "subspace"])
def exact_features(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Up to how many features the scatter travels; with 8, every encoding of the rows here turns a basis in slices."""
    monkeypatch.setattr(pca, "EXACT_FEATURES", request.param)
    monkeypatch.setattr(pca, "SUM_BYTES", 8 * 48 * 7)
    return int(request.param)


@pytest.fixture(scope="module")
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """dense-0-128.zarr and csr-0-128.zarr, read only."""
    folder = tmp_path_factory.mktemp("planted")
    for body in BODIES:
        make_dataset(folder, body)
    return folder


def write_config(folder: Path, data: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(CONFIG.format(data=data))
    return folder / "config.toml"


def step_folder(run: Path, step: str) -> Path:
    return RunFolder(run).step_folder(step, read_sealed(run / MANIFEST)["steps"][step]["fingerprint"])


def content_of(run: Path) -> dict[str, str]:
    """Digests of steps and models, results, and what is in the stores of the encodings, read again."""
    folder, found = RunFolder(run), {}
    for step, entry in read_sealed(run / MANIFEST)["steps"].items():
        done = folder.done(step, entry["fingerprint"])
        assert done is not None
        found[step] = done.digest + json.dumps(done.results, sort_keys=True)
        store = step_folder(run, step) / "rows.zarr"
        if store.is_dir():
            found[f"{step} rows"] = " ".join(rows_digest(load_rows(block)) for block in blocks_of(str(store)))
    return found | {model.name: verify_model(model) for model in (run / "models").iterdir()}


@pytest.mark.parametrize(
    ("body", "exact_features"),
    [pytest.param("dense", 2048, marks=pytest.mark.slow), ("csr", 8)],
    indirect=["exact_features"],
)
@pytest.mark.usefixtures("exact_features")
def test_every_pool_gives_the_same_content(body: str, data_folder: Path, tmp_path: Path) -> None:
    config = write_config(tmp_path, data_folder / f"{body}-0-128.zarr")
    expected = content_of(run_here(config, runs=tmp_path / "serial"))
    assert {"encode_pca", "encode_again rows", "train_ovr", "ovr", "tree"} <= expected.keys()
    assert content_of(run_here(config, "local:2", runs=tmp_path / "two")) == expected


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.usefixtures("exact_features")
def test_components_are_those_of_the_training_rows(body: str, data_folder: Path, tmp_path: Path) -> None:
    data = data_folder / f"{body}-0-128.zarr"
    run = run_here(write_config(tmp_path, data))
    folder = step_folder(run, "encode_pca")
    values = np.concatenate([read_rows(block).to_array(np.float64) for block in blocks_of(str(data / "X"))])
    reference = PCA(6, svd_solver="full").fit(values[: Dataset.open(data).split_counts["train"]])
    results = read_json(folder / "DONE.json")["results"]
    assert results["explained_variance_ratio"] == pytest.approx(reference.explained_variance_ratio_, rel=1e-3)
    assert results["explained_variance"] == pytest.approx(reference.explained_variance_ratio_.sum(), rel=1e-3)
    encoder = load_encoder(folder / "encoder")
    assert isinstance(encoder, PcaEncoder)
    np.testing.assert_allclose(encoder.mean, reference.mean_, atol=1e-5)
    encoded = np.concatenate([read_rows(block).to_array() for block in blocks_of(str(folder / "rows.zarr"))])
    np.testing.assert_allclose(encoded, naive.encoded(values, encoder.mean, encoder.components), atol=1e-4)


def test_a_model_carries_its_components(data_folder: Path, tmp_path: Path) -> None:
    run = run_here(write_config(tmp_path, data_folder / "dense-0-128.zarr"))
    rows, _, _ = planted(1500, 48, "dense", 0)
    assert [encoder.kind for encoder in load_model(run / "models" / "tree").encoders] == ["pq", "pca", "pca"]
    for model in ("ovr", "tree"):
        assert_raw_rows_rank_as_in_the_run(run, model, rows, tmp_path)


@pytest.mark.parametrize(
    "exact_features",
    [pytest.param(2048, marks=pytest.mark.slow, id="exact"), pytest.param(8, id="subspace")],
    indirect=True,
)
@pytest.mark.usefixtures("exact_features")
def test_an_interrupted_step_goes_on_to_the_same_content(
    data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupted after every call of the pool in turn, until nothing interrupts it any more."""
    config = write_config(tmp_path, data_folder / "csr-0-128.zarr")
    expected = content_of(run_here(config, runs=tmp_path / "whole"))
    work, left = SerialPool.sum, [0]

    def interrupted(pool, fn, items, *shared, name, **more):  # type: ignore[no-untyped-def]
        found = work(pool, fn, items, *shared, name=name, **more)
        left[0] -= 1
        if left[0] == 0 and name.endswith("pca"):
            raise KeyboardInterrupt
        return found

    monkeypatch.setattr(SerialPool, "sum", interrupted)
    kills = 0
    for calls in range(1, 9):
        left[0] = calls
        try:
            run = run_here(config, runs=tmp_path / "killed")
        except KeyboardInterrupt:
            kills += 1
    assert kills >= 2
    left[0] = 0
    run = run_here(config, runs=tmp_path / "killed")
    assert content_of(run) == expected


def test_more_components_than_features_are_refused_before_anything_runs(data_folder: Path, tmp_path: Path) -> None:
    config = write_config(tmp_path, data_folder / "dense-0-128.zarr")
    config.write_text(config.read_text().replace("components = 4", "components = 6"))
    with pytest.raises(ParamError, match="expected 1 to 5") as caught:
        run_here(config)
    assert "encode again" in caught.value.where
    assert not (tmp_path / "runs" / "pca" / "steps").exists()


def small_dataset(folder: Path) -> tuple[str, np.ndarray, np.ndarray]:
    """A dense dataset of 40 rows in blocks of 8, of which a seeded half is for training."""
    rng = np.random.default_rng(0)
    values, split = rng.standard_normal((40, 5)).astype(np.float32), rng.integers(0, 2, 40).astype(np.uint8)
    split[8:16], split[16:24] = 0, 1
    dataset = str(folder / "data.zarr")
    create_group(dataset, {})
    store_columns(dataset, 8, split=split)
    store_dense(f"{dataset}/X", values, 8)
    return dataset, values.astype(np.float64), split


def test_spans_add_up_the_training_rows_alone(tmp_path: Path) -> None:
    dataset, values, split = small_dataset(tmp_path)
    blocks = blocks_of(f"{dataset}/X")
    for given, chosen in ((dataset, values[split == 0]), ("", values)):
        for width in (1, 20, 10**6):
            spans = make_spans(blocks, width)
            assert [block for span in spans for block in span.blocks] == blocks
            assert len(spans) == min(len(blocks), max(1, 40 // width))
            found = tree_sum([moments_span(span, given) for span in spans])
            assert found.n_rows == len(chosen)
            np.testing.assert_allclose(found.mean, naive.mean(chosen), atol=1e-12)
            scatter = tree_sum([scatter_span(span, found.mean, given) for span in spans])
            np.testing.assert_allclose(scatter, naive.scatter(chosen, naive.mean(chosen)), atol=1e-10)
            product = tree_sum([product_span(span, found.mean, np.eye(5)[:, :2], given) for span in spans])
            np.testing.assert_allclose(product, scatter[:, :2], atol=1e-10)


def test_a_block_is_encoded_once_and_again_when_it_is_damaged(tmp_path: Path) -> None:
    dataset, values, _ = small_dataset(tmp_path)
    marks = tmp_path / "marks"
    marks.mkdir()
    tensors = {"mean": np.zeros(5, np.float32), "components": np.eye(5, 2, dtype=np.float32)}
    target = str(tmp_path / "rows.zarr")
    create_dense(target, 40, 2, 8)
    block = blocks_of(f"{dataset}/X")[1]
    written = Block(target, 1, 8, 16)
    first = encode_block(block, tensors, target, str(marks))
    np.testing.assert_allclose(load_rows(written).to_array(), values[8:16, :2], atol=1e-6)
    other = {**tensors, "components": 2 * tensors["components"]}
    assert encode_block(block, other, target, str(marks)) == first  # the report fits what is there: not done again
    write_dense(written, np.zeros((8, 2), np.float32))
    again = encode_block(block, other, target, str(marks))
    assert again.digests != first.digests
    np.testing.assert_allclose(load_rows(written).to_array(), 2 * values[8:16, :2], atol=1e-6)
    (marks / "00001.json").write_text("torn")
    assert encode_block(block, tensors, target, str(marks)) == first
    assert isinstance(read_rows(written), Dense)
