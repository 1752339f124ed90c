"""Kernels of histograms and values below 0: found by check and run alike, at their place, before anything is made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from pipeline.config import load_config
from pipeline.config_errors import ConfigError
from pipeline.dataset import Dataset
from pipeline.histograms import readers_of, refuse_negative
from pipeline.ingest import ingest
from pipeline.svm_sections import OF_HISTOGRAMS
from tasks.io import read_row_ids
from tasks.models.blocks import _WARM
from tasks.svm import class_rows, kernels
from tests.pipeline.cli_caller import assert_refused, labelgrove, succeeds

N_ROWS, WIDTH = 120, 4
SERIAL = ("--scheduler", "serial")
PQ = '[[encode]]\nname = "pq"\nkind = "pq"\nsubquantizers = 2\nbits = 2\n'


def section(name: str, *keys: str, kind: str = "ovo", kernel: str = "chi2") -> str:
    return "\n".join(
        ["[[train]]", f'name = "{name}"', f'kind = "{kind}"', f'kernel = "{kernel}"', "C = 1.0", *keys, ""]
    )


def written(folder: Path, *parts: str) -> Path:
    path = folder / "c.toml"
    path.write_text('name = "h"\n[data]\npath = "d.zarr"\n' + "".join(parts))
    return path


def make_data(folder: Path, body: str = "dense", bad: tuple[int, int] | None = (37, 2)) -> None:
    """Rows of 0 or more but for one value; the last third are test rows, so row 37 is a training row."""
    labels = np.arange(N_ROWS) % 3
    values = np.random.default_rng(0).random((N_ROWS, WIDTH)).astype(np.float32) + labels[:, None]
    if bad is not None:
        values[bad] = -0.5
    rows: Any = scipy.sparse.csr_matrix(values) if body == "csr" else values
    ingest(rows, folder / "d.zarr", labels=labels, split=np.repeat([0, 2], [80, 40]), block_rows=32)


def test_the_kernels_of_the_config_are_those_that_refuse() -> None:
    assert set(OF_HISTOGRAMS) == set(kernels.OF_HISTOGRAMS)


@pytest.mark.parametrize(("body", "row"), [("dense", 0), ("csr", 37), ("dense", 99)])
def test_check_and_run_name_row_and_column_before_anything_is_made(tmp_path: Path, body: str, row: int) -> None:
    """Of training rows and of test rows."""
    make_data(tmp_path, body, (row, 2))
    config = written(tmp_path, PQ, section("fine", kernel="rbf"), section("m"), section("n"))
    words = ("-0.5 is below 0: the chi2 kernel", f"train m, row {row}, column 2", "what to do")
    said = assert_refused(tmp_path, 3, "NegativeFeature", *words, by=("check", config, *SERIAL))
    assert "1 finding: " in said.out
    run = labelgrove("run", config, *SERIAL)
    assert run.code == 3
    assert [word for word in words if word not in run.err] == []
    assert not list((tmp_path / "runs" / "h" / "steps").glob("*"))
    succeeds("check", config, *SERIAL, "--skip", "m,n")


def test_test_rows_that_stand_beside_codes_are_looked_at(tmp_path: Path) -> None:
    make_data(tmp_path, bad=(99, 1))
    keys = ('rows = "pq"', 'test_rows = "x"')
    config = written(tmp_path, PQ, section("m", *keys, kind="relaxed-hierarchy", kernel="histogram-intersection"))
    words = ("the histogram-intersection kernel", "train m, row 99, column 1")
    assert_refused(tmp_path, 3, "NegativeFeature", *words, by=("check", config, *SERIAL))


def test_feature_maps_of_histograms_are_looked_at_too(tmp_path: Path) -> None:
    make_data(tmp_path)
    maps = '[[encode]]\nname = "map"\nkind = "hi-map"\n[[train]]\nname = "m"\nkind = "ovr"\nrows = "map"\n'
    words = ("hi-map has no meaning", "encode map, row 37, column 2")
    assert_refused(tmp_path, 3, "NegativeFeature", *words, by=("check", written(tmp_path, maps), *SERIAL))


def test_rows_are_not_read_where_nobody_minds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_data(tmp_path)
    looked: list[int] = []
    monkeypatch.setattr(class_rows, "check_block", lambda block, *_: looked.append(block.index))
    kinds = [section(kernel, kernel=kernel) for kernel in ("linear", "rbf")]
    succeeds("check", written(tmp_path, PQ, *kinds, section("codes", 'rows = "pq"')), *SERIAL)
    assert looked == []
    succeeds("check", written(tmp_path, section("m"), section("n")), *SERIAL)
    assert looked == [0, 1, 2, 3]  # once for both


def test_readers_that_are_finished_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_data(tmp_path)
    looked: list[int] = []
    monkeypatch.setattr(class_rows, "check_block", lambda block, *_: looked.append(block.index))
    loaded = load_config(written(tmp_path, section("m"), section("n")))
    dataset, readers = Dataset.open(loaded.dataset_path), list(readers_of(loaded.run))
    refuse_negative(dataset, readers, None, {"svm_x", "predict_m"})
    assert looked == []
    refuse_negative(dataset, readers, None, {"train_n"})
    assert looked == [0, 1, 2, 3]


@pytest.mark.parametrize("kernel", OF_HISTOGRAMS)
@pytest.mark.parametrize(
    ("kind", "why", "instead"),
    [("pca", "negative as often as not", "rbf"), ("chi2-map", "negative values", "linear"), ("hi-map", "", "linear")],
)
def test_rows_that_are_negative_by_nature_are_refused_at_the_key(
    tmp_path: Path, kernel: str, kind: str, why: str, instead: str
) -> None:
    encodings = f'[[encode]]\nname = "e"\nkind = "{kind}"\n[[encode]]\nname = "q"\nkind = "pq"\nrows = "e"\n'
    encodings += '[[encode]]\nname = "codes"\nkind = "wta"\nrows = "e"\n'
    for rows, key in (("e", "rows"), ("q", "rows")):
        config = written(tmp_path, encodings, section("m", f'rows = "{rows}"', kernel=kernel, kind="ovr"))
        with pytest.raises(ConfigError) as caught:
            load_config(config)
        said = f"train 'm': kernel = \"{kernel}\" takes no value below 0, and {key} = '{rows}' has some: "
        assert said in str(caught.value)
        assert why in str(caught.value)
        assert f"(learn from rows 'x', or with kernel = \"{instead}\")" in str(caught.value)
    for rows, other in (("e", "rbf"), ("q", "linear"), ("codes", kernel)):
        assert load_config(written(tmp_path, encodings, section("m", f'rows = "{rows}"', kernel=other))).run.train


def test_readers_stand_in_the_order_of_the_config(tmp_path: Path) -> None:
    maps = '[[encode]]\nname = "map"\nkind = "chi2-map"\n'
    parts = maps, section("a"), section("b", kernel="rbf"), section("c", kernel="histogram-intersection", kind="ovr")
    found = list(readers_of(load_config(written(tmp_path, *parts)).run))
    assert [(one.section, one.step) for one in found] == [
        ("encode map", "encode_map"),
        ("train a", "train_a"),
        ("train c", "train_c"),
    ]


def test_new_rows_below_0_are_said_to_be_the_new_ones(tmp_path: Path) -> None:
    make_data(tmp_path, bad=None)
    succeeds("run", written(tmp_path, section("m")), *SERIAL)
    values, labels = np.random.default_rng(1).random((60, WIDTH)).astype(np.float32), np.arange(60) % 3
    clean = ingest(values, tmp_path / "clean.zarr", labels=labels, block_rows=16, seed=1)
    first = int(read_row_ids(clean.path, 0, 16)[0])  # ranked once more before, to compile
    assert first != 0
    for row in (0, first):
        bad = values.copy()
        bad[row, 3] = -2
        np.save(tmp_path / "new.npy", bad)
        ingest(bad, tmp_path / f"{row}.zarr", labels=labels, block_rows=16, seed=1)
        assert int(read_row_ids(str(tmp_path / f"{row}.zarr"), 0, 16)[0]) == first
        _WARM.clear()
        model = tmp_path / "runs" / "h" / "models" / "m"
        for data in ("new.npy", f"{row}.zarr"):
            words = (f"{data}, row {row}, column 3", "-2 is below 0", "correct these rows, leave such ones out")
            by = ("predict", model, tmp_path / data, "-o", tmp_path / "p.parquet")
            said = assert_refused(tmp_path, 3, "NegativeFeature", *words, by=by)
            assert "source" not in said.err
