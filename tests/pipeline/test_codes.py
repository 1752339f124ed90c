"""Winner-take-all codes in runs: what they report, every learner on them, models that carry them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

from tests.pipeline.cli_caller import assert_refused, make_run, metrics, succeeds

CODES = """\
name = "t"
[data]
path = "d.zarr"
[[encode]]
name = "wta"
kind = "wta"
hashes = 60
[[encode]]
name = "dwta"
kind = "dwta"
hashes = 60
range = 16
seed = 5
"""
QUICK = "rounds = 2\nleast_rows = 400\n"
LEARNERS = "".join(
    f'[[train]]\nname = "{kind}-{rows}"\nkind = "{kind}"\nrows = "{rows}"\n{QUICK}'
    for kind in ("ovr", "heshing", "flat-hash", "label-tree")
    for rows in ("wta", "dwta")
)


def sparse_rows(
    n_rows: int = 400, n_features: int = 50, n_classes: int = 5
) -> tuple[scipy.sparse.csr_matrix, np.ndarray]:
    """Counts of 8 words a row, drawn from the 10 of its class more often than from all; the first row is empty."""
    rng = np.random.default_rng(3)
    labels = np.arange(n_rows) % n_classes
    words = np.where(
        rng.random((n_rows, 8)) < 0.7,
        10 * labels[:, None] + rng.integers(0, 10, (n_rows, 8)),
        rng.integers(0, n_features, (n_rows, 8)),
    )
    dense = np.zeros((n_rows, n_features), np.float32)
    np.add.at(dense, (np.repeat(np.arange(n_rows), 8), words.ravel()), 1.0)
    dense[0] = 0
    return scipy.sparse.csr_matrix(dense), labels


@pytest.fixture(scope="module", params=["csr", "dense"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of every learner on both kinds of codes."""
    folder = tmp_path_factory.mktemp(str(request.param))
    rows, labels = sparse_rows()
    make_run(folder, rows if request.param == "csr" else rows.toarray(), labels, config=CODES + LEARNERS)
    return folder


def test_every_learner_learns_from_codes(made: Path) -> None:
    found = metrics(made)["models"]
    assert {name: numbers["top1"] > 0.6 for name, numbers in found.items()} == dict.fromkeys(found, True)
    assert len(found) == 8


def test_empty_samples_are_counted_beside_their_expectation(made: Path) -> None:
    found = metrics(made)["encodings"]
    rows, _ = sparse_rows()
    sparsity = 1 - rows.nnz / np.prod(rows.shape)
    for name in ("wta", "dwta"):
        assert found[name]["sparsity"] == pytest.approx(sparsity)
        assert found[name]["all_zero_rows"] == 1
        assert found[name]["expected_empty"] == pytest.approx(found[name]["empty_codes"], abs=0.03)
    assert found["wta"]["bytes_per_row"] == found["dwta"]["bytes_per_row"] == 60
    page = (made / "runs" / "t" / "report.html").read_text(encoding="utf-8")
    assert "<h2>Codes</h2>" in page
    shown = succeeds("report", made / "runs" / "t").out
    line = next(line.split() for line in shown.splitlines() if line.split()[:2] == ["dwta", "1"])
    assert line[2:6] == [f"{100 * sparsity:.1f}", "%", f"{100 * found['dwta']['empty_codes']:.1f}", "%"]


def test_a_model_codes_new_rows_as_the_run_did(made: Path, tmp_path: Path) -> None:
    for name in ("ovr-dwta", "label-tree-wta"):
        out = tmp_path / f"{name}.parquet"
        said = succeeds("predict", made / "runs" / "t" / "models" / name, made / "d.zarr", "-o", out)
        test = next(line for line in said.out.splitlines() if line.split()[:1] == ["test"])
        accuracy = metrics(made)["models"][name]["top1"]
        assert f"{100 * accuracy:.1f} %" in test, said.out


def test_the_seed_of_an_encoding_draws_other_hashes(tmp_path: Path) -> None:
    rows, labels = sparse_rows(100)
    text = CODES.replace('kind = "wta"', 'kind = "dwta"\nrange = 16')
    make_run(tmp_path, rows, labels, config=text)
    digests = [
        json.loads(path.read_text())["digest"]
        for path in sorted((tmp_path / "runs" / "t" / "steps").glob("encode_*/DONE.json"))
    ]
    assert len(set(digests)) == 2
    succeeds("run", tmp_path / "c.toml", "-s", "wta.seed=5", "--scheduler", "serial")
    again = [
        json.loads(path.read_text())["digest"]
        for path in sorted((tmp_path / "runs" / "t" / "steps").glob("encode_*/DONE.json"))
    ]
    assert sorted(set(again)) == sorted(set(digests))


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("wta.window=51", ("window", "encode wta")),
        ("wta.window=1", ("window", "encode wta")),
        ("dwta.shift=3", ("shift", "encode dwta", ">= window (4)")),
        ("dwta.range=1", ("range", "encode dwta")),
        ("dwta.range=3000000000", ("range", "encode dwta", "int32")),
    ],
)
@pytest.mark.parametrize("command", ["run", "check"])
def test_parameters_that_do_not_fit_are_refused_by_name(
    made: Path, command: str, override: str, words: tuple[str, ...]
) -> None:
    by = (command, made / "c.toml", "-s", override, "--scheduler", "serial")
    assert_refused(made, 2, "ParamError", *words, by=by)
