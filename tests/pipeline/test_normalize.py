"""Normalised rows in runs: any rows, every pool, kills, models that carry them, kernels of histograms on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.config import load_config
from pipeline.config_errors import ConfigError
from pipeline.dataset import Dataset
from pipeline.pool import SerialPool
from pipeline.rows_facts import rows_facts
from pipeline.stages import normalize
from pipeline.store import read_json
from tasks.features.additive_blocks import MappedRows
from tasks.features.normalize_blocks import normalize_block
from tasks.features.normalize_encoder import NormalizeEncoder
from tasks.io import Block, blocks_of, facts_of, read_rows
from tasks.models.encoder_folder import load_encoder
from tasks.models.folder import load_model
from tests.naive import normalize as naive
from tests.pipeline.cli_caller import succeeds
from tests.pipeline.test_additive import N_FEATURES, config_of, histograms, make_data, rows_of, step_folder
from tests.systems.digests import assert_same, digests_of
from tests.systems.harness import assert_raw_rows_rank_as_in_the_run, run_here

CONFIG = """\
name = "norms"
seed = 5
[data]
path = "{data}"
[[encode]]
name = "l1"
kind = "normalize"
norm = "l1"
[[encode]]
name = "roots"
kind = "normalize"
rows = "l1"
norm = "power"
[[encode]]
name = "unit"
kind = "normalize"
rows = "roots"
[[encode]]
name = "scaled"
kind = "normalize"
norm = "standard"
[[encode]]
name = "pq"
kind = "pq"
subquantizers = 12
bits = 4
iterations = 3
[[encode]]
name = "of-pq"
kind = "normalize"
rows = "pq"
norm = "standard"
[[encode]]
name = "codes"
kind = "wta"
hashes = 16
[[encode]]
name = "of-codes"
kind = "normalize"
rows = "codes"
[[train]]
name = "ovr"
kind = "ovr"
rows = "scaled"
rounds = 2
least_rows = 600
[[train]]
name = "chi2"
kind = "ovr"
kernel = "chi2"
C = 1.0
rows = "l1"
[[train]]
name = "tree"
kind = "label-tree"
rows = "unit"
rounds = 2
least_rows = 600
[[train]]
name = "of-codes"
kind = "ovr"
rows = "of-codes"
rounds = 2
least_rows = 600
"""
SETTINGS = {"l1": "x", "roots": "l1", "unit": "roots", "scaled": "x", "of-pq": "pq", "of-codes": "codes"}
BODIES = ["dense", "csr", "float16"]
SPARSE = {"l1", "roots", "unit", "scaled"}  # of sparse rows


def write_config(folder: Path, data: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(CONFIG.format(data=data))
    return folder / "config.toml"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """body -> a finished run of the serial pool beside its config."""
    folder = tmp_path_factory.mktemp("histograms")
    return {
        body: run_here(write_config(folder / body, make_data(folder, body)), runs=folder / body / "runs")
        for body in BODIES
    }


def made(run: Path, name: str) -> np.ndarray:
    return rows_of(step_folder(run, name) / "rows.zarr")


def source_of(run: Path, name: str) -> np.ndarray:
    loaded = load_config(config_of(run))
    source = SETTINGS[name]
    return rows_of(Path(loaded.dataset_path) / "X") if source == "x" else made(run, source)


@pytest.mark.parametrize("body", BODIES)
def test_rows_are_normalised_by_the_definition(runs: dict[str, Path], body: str) -> None:
    run = runs[body]
    for name, norm in (("l1", "l1"), ("roots", "power"), ("unit", "l2"), ("of-codes", "l2")):
        expected = naive.normalized(source_of(run, name), norm)
        np.testing.assert_allclose(made(run, name), expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("body", BODIES)
def test_columns_are_scaled_by_the_training_rows_alone(runs: dict[str, Path], body: str) -> None:
    run = runs[body]
    n_train = Dataset.open(load_config(config_of(run)).dataset_path).split_counts["train"]
    assert n_train < 600
    for name in ("scaled", "of-pq"):
        values = source_of(run, name)
        means, deviations = naive.moments(values[:n_train])
        encoder = load_encoder(step_folder(run, name) / "encoder")
        assert isinstance(encoder, NormalizeEncoder)
        assert encoder.centred == (body != "csr" or name == "of-pq")
        np.testing.assert_allclose(encoder.mean, means, rtol=1e-9)
        np.testing.assert_allclose(encoder.deviation, deviations, rtol=1e-9)
        expected = naive.standardized(values, means if encoder.centred else 0 * means, deviations)
        np.testing.assert_allclose(made(run, name), expected, rtol=1e-5, atol=1e-6)
        results = read_json(step_folder(run, name) / "DONE.json")["results"]
        assert results["columns_without_variance"] == int((deviations == 0).sum())


def test_bodies_give_equal_bits(runs: dict[str, Path]) -> None:
    for name in ("l1", "roots", "unit"):
        first, *others = (made(runs[body], name).tobytes() for body in BODIES)
        assert others == [first, first]


@pytest.mark.parametrize("body", BODIES)
def test_what_is_planned_is_what_is_made(runs: dict[str, Path], body: str) -> None:
    loaded = load_config(config_of(runs[body]))
    planned = rows_facts(loaded.run, Dataset.open(loaded.dataset_path))
    for name in SETTINGS:
        store = str(step_folder(runs[body], name) / "rows.zarr")
        found, facts = facts_of(store), planned[name]
        sparse = name == "of-codes" or (body == "csr" and name in SPARSE)
        assert (
            (found.body, found.n_features)
            == (facts.body, facts.n_features)
            == ("csr" if sparse else "dense", found.n_features)
        )
        largest = max(read_rows(block).nbytes for block in blocks_of(store))
        assert largest - 8 <= facts.block_bytes <= 1.1 * largest  # one pointer more than rows
        tensors = load_encoder(step_folder(runs[body], name) / "encoder").tensors()
        assert facts.encoder_bytes == sum(values.nbytes for values in tensors.values())


def test_every_pool_gives_the_same_content(runs: dict[str, Path], tmp_path: Path) -> None:
    """Of dense rows, whose moments are summed; the tests of other encodings have pools with sparse ones."""
    expected = digests_of(runs["dense"])
    assert {"rows of encode_unit", "encoder.safetensors of encode_scaled", "model ovr"} <= expected.keys()
    assert_same(expected, run_here(config_of(runs["dense"]), "local:2", runs=tmp_path))


@pytest.mark.parametrize("body", BODIES)
def test_a_model_normalises_new_rows_as_the_run_did(runs: dict[str, Path], tmp_path: Path, body: str) -> None:
    """The new rows are dense, also where the model has learnt from sparse ones."""
    kinds = {name: [one.kind for one in load_model(runs[body] / "models" / name).encoders] for name in ("ovr", "tree")}
    assert kinds == {"ovr": ["normalize"], "tree": ["normalize"] * 3}
    for model in ("ovr", "chi2", "tree", "of-codes"):
        assert read_json(runs[body] / "metrics.json")["models"][model]["top1"] > 0.5
        assert_raw_rows_rank_as_in_the_run(runs[body], model, histograms()[0], tmp_path)
    shown = succeeds("inspect", runs[body] / "models" / "ovr").out
    assert f"normalize (n_features {N_FEATURES}, norm standard" in shown


def test_an_interrupted_step_goes_on_to_the_same_content(
    runs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupted after some of the blocks, in one folder, and once before any; what was fitted is not asked again."""
    left, asked, work = [0], [0], SerialPool.sum

    def interrupted(block: Block, *shared: Any) -> MappedRows:
        report = normalize_block(block, *shared)
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        return report

    def counted(pool: SerialPool, fn: Any, items: Any, *shared: Any, name: str, **other: Any) -> Any:
        asked[0] += name == "moments_scaled"
        return work(pool, fn, items, *shared, name=name, **other)

    monkeypatch.setattr(normalize, "normalize_block", interrupted)
    monkeypatch.setattr(SerialPool, "sum", counted)
    config = config_of(runs["dense"])
    for calls in (2, 35, 4, 12):
        left[0] = calls
        with pytest.raises(KeyboardInterrupt):
            run_here(config, runs=tmp_path)
    left[0] = 0
    assert_same(digests_of(runs["dense"]), run_here(config, runs=tmp_path))
    assert asked == [1]


# ---- what the config may say ---------------------------------------------------------------------------------------

HEAD = 'name = "h"\n[data]\npath = "d.zarr"\n'
ENCODINGS = '[[encode]]\nname = "pca"\nkind = "pca"\n'
for _name, _source, _norm in (
    ("l1", "x", "l1"),
    ("l2", "l1", "l2"),
    ("roots", "l2", "power"),
    ("standard", "x", "standard"),
    ("l1-of-standard", "standard", "l1"),
    ("power-of-pca", "pca", "power"),
):
    ENCODINGS += f'[[encode]]\nname = "{_name}"\nkind = "normalize"\nrows = "{_source}"\nnorm = "{_norm}"\n'


@pytest.mark.parametrize("rows", ["l1", "l2", "roots"])
def test_histograms_stay_histograms_when_rows_are_divided(rows: str, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(f"{HEAD}{ENCODINGS}{users_of(rows)}")
    assert len(load_config(tmp_path / "c.toml").run.train) == 1


@pytest.mark.parametrize(
    ("rows", "why", "instead"),
    [
        ("standard", "standard rows are negative as often as not", "rows 'x'"),
        ("l1-of-standard", "standard rows are negative", "rows 'x'"),
        ("power-of-pca", "components are negative", "rows 'x'"),
    ],
)
def test_what_is_negative_stays_so_when_rows_are_divided(rows: str, why: str, instead: str, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(f"{HEAD}{ENCODINGS}{users_of(rows)}")
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path / "c.toml")
    said = str(caught.value)
    assert f"encode 'map' is of a kernel of histograms, rows '{rows}' are none: {why}" in said
    assert f"train 'm': kernel = \"chi2\" takes no value below 0, and rows = '{rows}' has some: {why}" in said
    assert f'learn from {instead}, or with kernel = "rbf"' in said


def users_of(rows: str) -> str:
    learner = f'[[train]]\nname = "m"\nkind = "ovr"\nkernel = "chi2"\nC = 1.0\nrows = "{rows}"\n'
    return f'[[encode]]\nname = "map"\nkind = "chi2-map"\nrows = "{rows}"\n{learner}'


@pytest.mark.parametrize("norm", ["l2", "l1", "standard"])
def test_an_exponent_without_a_power_is_refused(norm: str, tmp_path: Path) -> None:
    text = f'[[encode]]\nname = "n"\nkind = "normalize"\nnorm = "{norm}"\nexponent = 0.3\n'
    (tmp_path / "c.toml").write_text(HEAD + text)
    with pytest.raises(ConfigError, match=r"encode 'n': exponent is of norm = \"power\""):
        load_config(tmp_path / "c.toml")


def test_learning_on_normalised_rows_and_testing_on_raw_ones_is_refused(tmp_path: Path) -> None:
    text = '[[train]]\nname = "m"\nkind = "ovr"\nrows = "l1"\ntest_rows = "x"\n'
    (tmp_path / "c.toml").write_text(HEAD + ENCODINGS + text)
    with pytest.raises(ConfigError, match="have other columns"):
        load_config(tmp_path / "c.toml")
