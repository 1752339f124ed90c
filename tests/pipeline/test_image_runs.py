"""Images in runs: words, LLC and Fisher vectors from descriptors made on the way; pools, kills, predict, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from pipeline.config import load_config
from pipeline.config_errors import ConfigError
from pipeline.dataset import Dataset
from pipeline.ingest import ingest
from pipeline.rows_facts import rows_facts
from pipeline.stages import described
from pipeline.store import MANIFEST, RunFolder, read_json, read_sealed
from tasks.features.image_blocks import DescribedRows, encode_images_block
from tasks.features.sift_encoder import SiftEncoder
from tasks.io import Block, blocks_of, facts_of, read_rows
from tasks.models.encoder_folder import load_encoder
from tasks.models.folder import load_model
from tasks.rows import Csr
from tests.image_files import encoded, image_folder, texture
from tests.pipeline.cli_caller import assert_refused, labelgrove, succeeds
from tests.systems.digests import assert_same, digests_of
from tests.systems.harness import run_here

CONFIG = """\
name = "images"
seed = 3
[data]
path = "{data}"
[[encode]]
name = "sift"
kind = "sift"
patches = [16]
[[encode]]
name = "bow"
kind = "bow"
rows = "sift"
words = 20
sample = 900
iterations = 4
[[encode]]
name = "shares"
kind = "normalize"
norm = "l1"
rows = "bow"
[[encode]]
name = "llc"
kind = "llc"
rows = "sift"
words = 20
sample = 900
iterations = 4
neighbours = 3
pyramid = [1, 2]
[[encode]]
name = "fisher"
kind = "fisher"
rows = "sift"
gaussians = 3
components = 8
sample = 900
iterations = 4
em_rounds = 3
"""
LEARNER = """\
[[train]]
name = "{rows}"
kind = "ovr"
rows = "{rows}"
rounds = 2
least_rows = 600
"""
MODELS = ("shares", "llc", "fisher")
EACH, N_CLASSES, FLAT = 30, 4, 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images of four classes, of some of which nothing can be described, and their dataset."""
    place = tmp_path_factory.mktemp("images")
    image_folder(place / "pictures", N_CLASSES, EACH, 40)
    for i in range(FLAT):
        flat = np.full((40, 40), 50, np.uint8)
        (place / "pictures" / "class-2" / f"flat-{i}.png").write_bytes(encoded(flat))
    ingest(place / "pictures", place / "d.zarr", block_rows=16, seed=1)
    write_config(place, CONFIG + "".join(LEARNER.format(rows=rows) for rows in MODELS))
    return place


@pytest.fixture(scope="module")
def run(folder: Path) -> Path:
    return run_here(folder / "config.toml")


def write_config(folder: Path, text: str) -> Path:
    (folder / "config.toml").write_text(text.format(data="d.zarr"))
    return folder / "config.toml"


def step_folder(run: Path, step: str) -> Path:
    return RunFolder(run).step_folder(step, read_sealed(run / MANIFEST)["steps"][step]["fingerprint"])


def steps_of(run: Path) -> list[str]:
    return list(read_sealed(run / MANIFEST)["steps"])


@pytest.mark.parametrize("name", ["bow", "llc", "fisher"])
def test_rows_are_what_the_encoders_make_of_the_images(run: Path, folder: Path, name: str) -> None:
    sift, encoder = (load_encoder(step_folder(run, f"encode_{one}") / "encoder") for one in ("sift", name))
    store = str(step_folder(run, f"encode_{name}") / "rows.zarr")
    blank = 0
    for source, made in zip(Dataset.open(folder / "d.zarr").blocks(), blocks_of(store), strict=True):
        images = read_rows(source)
        for i in range(images.n_rows):
            found = sift.encode(images.take(np.array([i])))
            expected = encoder.encode(found).to_array()
            np.testing.assert_array_equal(read_rows(made).take(np.array([i])).to_array(), expected)
            blank += not expected.any()
    results = read_json(step_folder(run, f"encode_{name}") / "DONE.json")["results"]
    assert blank == results["images_without_descriptors"] == FLAT
    assert results["rows"] == EACH * N_CLASSES + FLAT
    assert results["descriptors_per_image"] == pytest.approx(25 * EACH * N_CLASSES / results["rows"], rel=0.05)


def test_encodings_that_ask_for_the_same_words_share_them(run: Path) -> None:
    assert [name for name in steps_of(run) if name.startswith(("sample_", "words_"))] == [
        "sample_sift-900",
        "words_sift-900-20-4",
    ]
    encoders = [load_encoder(step_folder(run, f"encode_{name}") / "encoder") for name in ("bow", "llc")]
    np.testing.assert_array_equal(encoders[0].tensors()["words"], encoders[1].tensors()["words"])


def test_the_sample_is_of_training_images_alone(run: Path, folder: Path) -> None:
    """Every descriptor of it is one of a training image."""
    dataset = Dataset.open(folder / "d.zarr")
    sift = load_encoder(step_folder(run, "encode_sift") / "encoder")
    assert isinstance(sift, SiftEncoder)
    train = set()
    for block in dataset.blocks():
        kept = np.arange(max(0, min(block.n_rows, dataset.split_counts["train"] - block.start)))
        train |= {row.tobytes() for row in sift.encode(read_rows(block).take(kept)).values}
    place = step_folder(run, "sample_sift-900")
    sampled = np.concatenate([np.load(path) for path in sorted((place / "descriptors").glob("*.npy"))])
    assert len(sampled) == read_json(place / "DONE.json")["results"]["descriptors"]
    assert 800 < len(sampled) <= 900 + 40
    assert {row.tobytes() for row in sampled} <= train


def test_what_is_planned_is_what_is_made(run: Path, folder: Path) -> None:
    loaded = load_config(folder / "config.toml")
    planned = rows_facts(loaded.run, Dataset.open(loaded.dataset_path))
    for name in ("bow", "llc", "fisher"):
        store = str(step_folder(run, f"encode_{name}") / "rows.zarr")
        made, facts = facts_of(store), planned[name]
        assert (made.body, made.n_features) == (facts.body, facts.n_features)
        assert max(read_rows(block).nbytes for block in blocks_of(store)) <= facts.block_bytes + 8
    assert planned["sift"].row_floats == 25  # patches of the largest image


def test_every_pool_gives_the_same_content(run: Path, folder: Path, tmp_path: Path) -> None:
    expected = digests_of(run)
    assert {"rows of encode_llc", "step words_sift-900-20-4", "model fisher"} <= expected.keys()
    assert_same(expected, run_here(folder / "config.toml", "local:2", runs=tmp_path))


def test_features_tell_textures_apart(run: Path) -> None:
    metrics = read_json(run / "metrics.json")["models"]
    assert {name: metrics[name]["top1"] > 0.4 for name in MODELS} == dict.fromkeys(MODELS, True)


def test_predict_of_a_folder_is_the_run_and_names_the_files(run: Path, folder: Path, tmp_path: Path) -> None:
    root = folder / "pictures"
    files = sorted(path.relative_to(root).as_posix() for path in root.rglob("*.png"))
    for name in MODELS:
        said = succeeds("predict", run / "models" / name, root, "-o", tmp_path / f"{name}.parquet")
        assert "all rows" in said.out  # labels are the folders' names
        blank = "3 images have no patch with contrast, so there is nothing to tell them apart by: class-2/flat-0.png, "
        assert blank in said.err
        found = pq.read_table(tmp_path / f"{name}.parquet").to_pylist()
        assert [row["file"] for row in found] == files
        assert [row["row"] for row in found] == list(range(len(files)))
        tested = pq.read_table(run / "predictions" / f"{name}.parquet").to_pylist()
        assert tested
        assert all(found[row["row"]]["classes"] == row["classes"] for row in tested)
        assert load_model(run / "models" / name).encoders[0].kind == "sift"


def test_predict_leaves_damaged_images_out_and_says_so(run: Path, tmp_path: Path) -> None:
    root = image_folder(tmp_path / "new", 2, 3)
    (root / "class-0" / "01.png").write_bytes(b"")
    said = succeeds("predict", run / "models" / "llc", root, "-o", tmp_path / "p.parquet")
    assert "class-0/01.png: the file is empty" in said.err
    found = pq.read_table(tmp_path / "p.parquet")
    assert found["row"].to_pylist() == [0, 2, 3, 4, 5]
    assert found["file"].to_pylist()[1] == "class-0/02.png"
    only = tmp_path / "only"
    (only / "a").mkdir(parents=True)
    (only / "a" / "0.png").write_bytes(b"")
    by = ("predict", run / "models" / "llc", only, "-o", tmp_path / "q.parquet")
    assert_refused(tmp_path, 3, "DamagedImage", "a/0.png", by=by)


def test_predict_of_one_image(run: Path, folder: Path, tmp_path: Path) -> None:
    picture = folder / "pictures" / "class-1" / "04.png"
    succeeds("predict", run / "models" / "fisher", picture, "-o", tmp_path / "p.parquet")
    (found,) = pq.read_table(tmp_path / "p.parquet").to_pylist()
    assert (found["row"], found["file"], found["label"]) == (0, "04.png", None)


def test_patches_larger_than_every_image_are_refused_before_anything_runs(folder: Path, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text(CONFIG.format(data=folder / "d.zarr"))
    by = ("check", config, "-s", "sift.patches=[60]")
    assert_refused(tmp_path, 3, "NoDescriptors", "encode sift", "the longest side of all is 40 pixels", by=by)


def test_models_of_images_refuse_numbers(run: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.zeros((4, 20), np.float32))
    by: tuple[Any, ...] = ("predict", run / "models" / "llc", tmp_path / "rows.npy", "-o", tmp_path / "p.parquet")
    assert_refused(tmp_path, 3, "ColumnMismatch", "the model takes images", by=by)
    ingest(np.eye(20, dtype=np.float32), tmp_path / "n.zarr", labels=[0, 1] * 10)
    assert_refused(tmp_path, 3, "ColumnMismatch", "the model takes images", by=(*by[:2], tmp_path / "n.zarr", *by[3:]))


def test_an_interrupted_encoding_goes_on_to_the_same_content(
    run: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupted after some blocks of each encoding, in one folder."""
    left = [0]

    def interrupted(block: Block, *shared: Any) -> DescribedRows:
        report = encode_images_block(block, *shared)
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        return report

    monkeypatch.setattr(described, "encode_images_block", interrupted)
    for calls in (2, 11, 13):
        left[0] = calls
        with pytest.raises(KeyboardInterrupt):
            run_here(folder / "config.toml", runs=tmp_path)
    left[0] = 0
    assert_same(digests_of(run), run_here(folder / "config.toml", runs=tmp_path))


# ---- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ('[[encode]]\nname = "more"\nkind = "bow"\nrows = "llc"\n', "expected a sift encoding, one of ['sift']"),
        ('[[encode]]\nname = "more"\nkind = "sift"\nrows = "bow"\n', "its rows are 'x', not 'bow'"),
        ('[[encode]]\nname = "more"\nkind = "pca"\nrows = "sift"\n', "make rows of them first"),
        ('[[train]]\nname = "more"\nkind = "ovr"\nrows = "sift"\n', "make rows of them first"),
        ('[[train]]\nname = "more"\nkind = "ovr"\nrows = "bow"\ntest_rows = "sift"\n', "make rows of them first"),
        ('[[encode]]\nname = "more"\nkind = "chi2-map"\nrows = "fisher"\n', "negative as often as not"),
        ('[[encode]]\nname = "more"\nkind = "bow"\n', "rows"),
    ],
)
def test_rows_of_another_kind_are_refused_by_the_config(section: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(write_config(tmp_path, CONFIG + section))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "section",
    [
        '[[train]]\nname = "more"\nkind = "ovr"\n',
        '[[train]]\nname = "more"\nkind = "ovr"\nrows = "bow"\ntest_rows = "x"\n',
        '[[encode]]\nname = "more"\nkind = "pq"\n',
        '[[encode]]\nname = "more"\nkind = "normalize"\n',
    ],
)
def test_images_are_no_numbers(section: str, folder: Path, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text(CONFIG.format(data=folder / "d.zarr") + section)
    said = labelgrove("check", config)
    assert said.code == 2
    assert "images, not numbers" in said.out + said.err or "have other columns" in said.out + said.err


def test_numbers_are_no_images(tmp_path: Path) -> None:
    ingest(np.eye(20, dtype=np.float32), tmp_path / "d.zarr", labels=[0, 1] * 10)
    by = ("check", write_config(tmp_path, CONFIG))
    assert_refused(tmp_path, 2, "RowsUnfit", "encode sift", "its rows are dense, not images", by=by)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ("bow.words=2000", "ParamError", "sample = 900: expected at least 2000"),
        ("llc.neighbours=21", "ParamError", "20"),
        ("sift.max_side=16", "", ""),
        ("sift.patches=[30, 30]", "ParamError", "sift.patches"),
    ],
)
def test_settings_that_the_data_do_not_allow(folder: Path, tmp_path: Path, change: str, error: str, words: str) -> None:
    config = tmp_path / "config.toml"
    config.write_text(CONFIG.format(data=folder / "d.zarr"))
    said = labelgrove("check", config, "-s", change)
    assert said.code == (2 if error else 0)
    assert error in said.out + said.err
    assert words in said.out + said.err


def test_images_without_contrast_are_named(tmp_path: Path) -> None:
    for c in range(2):
        for i in range(6):
            place = tmp_path / "flat" / f"class-{c}"
            place.mkdir(parents=True, exist_ok=True)
            (place / f"{i}.png").write_bytes(encoded(texture(0)[:10]))
    ingest(tmp_path / "flat", tmp_path / "d.zarr")
    said = labelgrove("run", write_config(tmp_path, CONFIG), "--scheduler", "serial")
    assert said.code == 3
    assert "NoDescriptors: no training image has a patch with contrast" in said.err


def test_fewer_descriptors_than_words_are_named(folder: Path, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text(CONFIG.format(data=folder / "d.zarr"))
    text = ("-s", "bow.words=5000", "-s", "bow.sample=5000", "-s", "llc.words=5000", "-s", "llc.sample=5000")
    said = labelgrove("run", config, "--scheduler", "serial", *text)
    assert said.code == 3
    assert "descriptors with contrast were found for 5,000 centroids" in said.err


def test_rows_of_words_are_sparse(run: Path) -> None:
    for name in ("bow", "llc"):
        rows = read_rows(blocks_of(str(step_folder(run, f"encode_{name}") / "rows.zarr"))[0])
        assert isinstance(rows, Csr)
        assert (rows.data > 0).all()
