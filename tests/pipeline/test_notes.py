"""HESHING on a dataset without a taxonomy is a flat hash: whoever asks for it is told, and nobody else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipeline.cli_caller import gaussian, succeeds, write_source

TREE = "root\ta\nroot\tb\na\t0\na\t1\nb\t2\nb\t3\n"
CODE = "warning: HeshingWithoutTaxonomy: the dataset has no taxonomy: deep hashes every class on its own"


def config(folder: Path, kind: str) -> Path:
    path = folder / f"{kind}.toml"
    train = f'[[train]]\nname = "deep"\nkind = "{kind}"\nbits = 6\nrounds = 1\n'
    path.write_text(f'name = "{kind}"\n[data]\npath = "d.zarr"\n{train}', encoding="utf-8")
    return path


@pytest.mark.parametrize(("taxonomy", "kind"), [(False, "heshing"), (True, "heshing"), (False, "flat-hash")])
def test_a_hash_without_a_taxonomy_is_said_to_be_flat(tmp_path: Path, taxonomy: bool, kind: str) -> None:
    source, marks = write_source(tmp_path, *gaussian(80, 8, 4))
    (tmp_path / "tree.tsv").write_text(TREE, encoding="utf-8")
    more = ("--taxonomy", tmp_path / "tree.tsv") if taxonomy else ()
    succeeds("ingest", source, tmp_path / "d.zarr", "--labels", marks, *more)
    expected = not taxonomy and kind == "heshing"
    path = config(tmp_path, kind)
    assert (CODE in succeeds("check", path).out) == expected
    assert (CODE in succeeds("plan", path).out) == expected
    assert (CODE in succeeds("run", path, "--scheduler", "serial").err) == expected
    page = (tmp_path / "runs" / kind / "report.html").read_text(encoding="utf-8")
    assert ("HeshingWithoutTaxonomy" in page) == expected
