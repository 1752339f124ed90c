"""Feature maps of additive kernels in runs: any rows, every pool, kills, models that carry them, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from pipeline.config import load_config
from pipeline.config_errors import ConfigError
from pipeline.dataset import Dataset
from pipeline.ingest import ingest
from pipeline.rows_facts import rows_facts
from pipeline.stages import additive
from pipeline.store import MANIFEST, RunFolder, read_json, read_sealed
from tasks.features.additive_blocks import MappedRows, map_block
from tasks.features.additive_encoder import AdditiveEncoder
from tasks.features.additive_map import MapParams
from tasks.features.errors import NegativeFeature
from tasks.io import Block, blocks_of, create_dense, facts_of, load_rows, read_row_ids, read_rows, write_dense
from tasks.models.encoder_folder import load_encoder
from tasks.models.folder import load_model
from tests.naive import additive_map as naive
from tests.pipeline.cli_caller import assert_refused, succeeds
from tests.systems.digests import assert_same, digests_of
from tests.systems.harness import assert_raw_rows_rank_as_in_the_run, run_here

CONFIG = """\
name = "maps"
seed = 5
[data]
path = "{data}"
[[encode]]
name = "chi2"
kind = "chi2-map"
samples = 2
[[encode]]
name = "hi"
kind = "hi-map"
period = 6.0
[[encode]]
name = "pq"
kind = "pq"
subquantizers = 12
bits = 4
iterations = 3
[[encode]]
name = "of-codes"
kind = "chi2-map"
rows = "pq"
[[encode]]
name = "codes-of-map"
kind = "dwta"
rows = "chi2"
hashes = 16
[[train]]
name = "ovr"
kind = "ovr"
rows = "chi2"
rounds = 2
least_rows = 600
[[train]]
name = "heshing"
kind = "heshing"
bits = 10
rows = "hi"
rounds = 2
least_rows = 600
[[train]]
name = "tree"
kind = "label-tree"
rows = "of-codes"
rounds = 2
least_rows = 600
"""
SETTINGS = {"chi2": ("x", "chi2-map", 2, None), "hi": ("x", "hi-map", 1, 6.0), "of-codes": ("pq", "chi2-map", 1, None)}
BODIES = ["dense", "csr", "float16"]
N_FEATURES = 24
TAXONOMY = {"root": {"first": ["0", "1", "2"], "second": ["3", "4", "5"]}}


def histograms(n_rows: int = 600, negative: tuple[int, int] | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Counts (n_rows, 24) of words, four of which each of six classes uses more than others; labels."""
    rng = np.random.default_rng(2)
    labels = np.arange(n_rows) % 6
    rates = np.where(np.arange(N_FEATURES)[None, :] // 4 == labels[:, None], 3.0, 0.5)
    values = rng.poisson(rates).astype(np.float32)
    values[3] = 0
    if negative is not None:
        values[negative] = -2
    return values, labels


def make_data(folder: Path, body: str, negative: tuple[int, int] | None = None) -> Path:
    values, labels = histograms(negative=negative)
    source = folder / f"{body}.npz"
    if body == "csr":
        scipy.sparse.save_npz(source, scipy.sparse.csr_matrix(values))
    rows: Any = source if body == "csr" else values
    more: dict[str, Any] = {"dtype": "float16"} if body == "float16" else {}
    ingest(rows, folder / f"{body}.zarr", labels=labels, taxonomy=TAXONOMY, block_rows=64, seed=1, **more)
    return folder / f"{body}.zarr"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """body -> a finished run of the serial pool beside its config."""
    folder = tmp_path_factory.mktemp("histograms")
    return {
        body: run_here(write_config(folder / body, make_data(folder, body)), runs=folder / body / "runs")
        for body in BODIES
    }


def write_config(folder: Path, data: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(CONFIG.format(data=data))
    return folder / "config.toml"


def config_of(run: Path) -> Path:
    return run.parent.parent / "config.toml"


def step_folder(run: Path, encoding: str) -> Path:
    step = f"encode_{encoding}"
    return RunFolder(run).step_folder(step, read_sealed(run / MANIFEST)["steps"][step]["fingerprint"])


def rows_of(store: Path) -> np.ndarray:
    return np.concatenate([read_rows(block).to_array() for block in blocks_of(str(store))])


@pytest.mark.parametrize("body", BODIES)
def test_rows_are_mapped_by_the_definition(runs: dict[str, Path], body: str) -> None:
    run = runs[body]
    data = Path(load_config(config_of(run)).dataset_path)
    for name, (source, kind, samples, period) in SETTINGS.items():
        read = rows_of(data / "X" if source == "x" else step_folder(run, source) / "rows.zarr")
        encoder = load_encoder(step_folder(run, name) / "encoder")
        assert isinstance(encoder, AdditiveEncoder)
        assert (encoder.kind, encoder.n_features, encoder.params.samples) == (kind, N_FEATURES, samples)
        assert period in (None, encoder.params.known_period)
        expected = naive.mapped(read.astype(np.float64), kind, samples, encoder.params.known_period)
        found = rows_of(step_folder(run, name) / "rows.zarr")
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)
        results = read_json(step_folder(run, name) / "DONE.json")["results"]
        assert (results["rows"], results["columns"]) == found.shape


def test_bodies_give_equal_bits(runs: dict[str, Path]) -> None:
    for name in ("chi2", "hi"):
        first, *others = (rows_of(step_folder(runs[body], name) / "rows.zarr").tobytes() for body in BODIES)
        assert others == [first, first]


@pytest.mark.parametrize("body", BODIES)
def test_what_is_planned_is_what_is_made(runs: dict[str, Path], body: str) -> None:
    loaded = load_config(config_of(runs[body]))
    planned = rows_facts(loaded.run, Dataset.open(loaded.dataset_path))
    for name in SETTINGS:
        store = str(step_folder(runs[body], name) / "rows.zarr")
        made, facts = facts_of(store), planned[name]
        assert (made.body, made.n_features) == (facts.body, facts.n_features)
        assert made.body == ("csr" if body == "csr" and name != "of-codes" else "dense")
        blocks = [read_rows(block) for block in blocks_of(store)]
        largest = max(rows.nbytes for rows in blocks)
        assert largest - 8 <= facts.block_bytes <= 1.1 * largest  # one pointer more than rows
        per_row = read_json(step_folder(runs[body], name) / "DONE.json")["results"]["bytes_per_row"]
        assert per_row * 600 == pytest.approx(sum(rows.nbytes for rows in blocks))
        assert facts.encoder_bytes == 0


def test_every_pool_gives_the_same_content(runs: dict[str, Path], tmp_path: Path) -> None:
    expected = digests_of(runs["csr"])
    assert {"rows of encode_chi2", "encoder.safetensors of encode_hi", "model tree"} <= expected.keys()
    assert_same(expected, run_here(config_of(runs["csr"]), "local:2", runs=tmp_path))


@pytest.mark.parametrize("body", ["dense", "csr"])
def test_a_model_maps_new_rows_as_the_run_did(runs: dict[str, Path], tmp_path: Path, body: str) -> None:
    kinds = {name: [one.kind for one in load_model(runs[body] / "models" / name).encoders] for name in ("ovr", "tree")}
    assert kinds == {"ovr": ["chi2-map"], "tree": ["pq", "chi2-map"]}
    for model in ("ovr", "heshing", "tree"):
        assert read_json(runs[body] / "metrics.json")["models"][model]["top1"] > 0.7
        assert_raw_rows_rank_as_in_the_run(runs[body], model, histograms()[0], tmp_path)
    shown = succeeds("inspect", runs[body] / "models" / "tree").out
    assert "chi2-map (n_features 24, samples 1)" in shown


def test_an_interrupted_step_goes_on_to_the_same_content(
    runs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupted after the second, the seventh ... of the thirty blocks that are mapped, in one folder."""
    left = [0]

    def interrupted(block: Block, *shared: Any) -> MappedRows:
        report = map_block(block, *shared)
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        return report

    monkeypatch.setattr(additive, "map_block", interrupted)
    config = config_of(runs["csr"])
    for calls in (2, 7, 8):
        left[0] = calls
        with pytest.raises(KeyboardInterrupt):
            run_here(config, runs=tmp_path)
    left[0] = 0
    assert_same(digests_of(runs["csr"]), run_here(config, runs=tmp_path))


def test_a_block_is_mapped_once_and_again_when_it_is_damaged(tmp_path: Path) -> None:
    data, marks, target = make_data(tmp_path, "dense"), tmp_path / "marks", str(tmp_path / "rows.zarr")
    marks.mkdir()
    create_dense(target, 600, 3 * N_FEATURES, 64)
    block = blocks_of(str(data / "X"))[1]
    written = Block(target, 1, block.start, block.stop)
    first = map_block(block, MapParams("hi-map", 1), target, str(marks), str(data))
    content = load_rows(written).to_array()
    assert map_block(block, MapParams("chi2-map", 1), target, str(marks), str(data)) == first  # not done again
    write_dense(written, np.zeros_like(content))
    assert map_block(block, MapParams("hi-map", 1), target, str(marks), str(data)) == first
    np.testing.assert_array_equal(load_rows(written).to_array(), content)


# ---- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", ["dense", "csr"])
def test_a_value_below_zero_is_named_by_its_row_in_the_source(body: str, tmp_path: Path) -> None:
    data = make_data(tmp_path, body, negative=(417, 9))
    config = write_config(tmp_path, data)
    stored = [i for block in blocks_of(str(data / "X")) for i in read_row_ids(str(data), block.start, block.stop)]
    assert stored.index(417) != 417  # rows are shuffled: the number is that of the source
    with pytest.raises(NegativeFeature) as caught:
        run_here(config)
    assert "row 417, column 9" in caught.value.where
    assert caught.value.exit_code == 3


def test_new_rows_below_zero_are_refused_by_predict(runs: dict[str, Path], tmp_path: Path) -> None:
    values, labels = histograms(negative=(417, 9))
    np.save(tmp_path / "rows.npy", values)
    model = runs["dense"] / "models" / "ovr"
    words = ("-2 is below 0", "row 417, column 9", "what to do")
    by = ("predict", model, tmp_path / "rows.npy", "-o", tmp_path / "p.parquet")
    assert_refused(tmp_path, 3, "NegativeFeature", *words, by=by)
    data = ingest(values, tmp_path / "other.zarr", labels=labels, block_rows=64, seed=1)
    assert_refused(tmp_path, 3, "NegativeFeature", *words, by=("predict", model, data.path, "-o", by[-1]))


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ("pca", "negative as often as not"),
        ("pq-of-pca", "negative as often as not"),
        ("codes", "learn from the codes"),
        ("map", "negative values"),
    ],
)
def test_rows_that_are_no_histograms_are_refused_before_anything_runs(rows: str, why: str, tmp_path: Path) -> None:
    text = CONFIG.split("[[encode]]")[0].format(data="d.zarr")
    for name, kind, source in (
        ("pca", "pca", "x"),
        ("pq-of-pca", "pq", "pca"),
        ("codes", "wta", "x"),
        ("map", "hi-map", "x"),
        ("pq", "pq", "x"),
        ("fine", "chi2-map", "pq"),
        ("refused", "chi2-map", rows),
    ):
        text += f'[[encode]]\nname = "{name}"\nkind = "{kind}"\nrows = "{source}"\n'
    (tmp_path / "c.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path / "c.toml")
    assert f"encode 'refused' is of a kernel of histograms, rows '{rows}' are none: " in str(caught.value)
    assert why in str(caught.value)
    assert "'fine'" not in str(caught.value)


@pytest.mark.parametrize("body", ["dense", "csr"])
def test_blocks_too_large_for_a_chunk_are_refused_by_name(
    runs: dict[str, Path], body: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(additive, "MAX_CHUNK_BYTES", 10_000)
    config = config_of(runs[body])
    by = ("check", config, "-s", "chi2.samples=30", "--scheduler", "serial")
    assert_refused(config.parent, 2, "ParamError", "encode chi2", "chi2-map.samples", "fewer rows a block", by=by)
