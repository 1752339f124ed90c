"""A dataset afterwards: whatever is damaged, swapped, foreign or newer is found."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from pipeline.dataset import Dataset, DatasetDamaged, DatasetFormat
from pipeline.ingest import ingest
from tasks import io
from tasks.errors import ArtefactError
from tests.damage import DAMAGES, flip
from tests.pipeline.ingest.samples import stored


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("body", ["dense", "csr"])
def test_verify_finds_every_damaged_file(tmp_path, small, body, damage):
    matrix = scipy.sparse.csr_matrix(small[0]) if body == "csr" else small[0]
    taxonomy = {"root": {"a": ["0", "1"], "b": ["2", "3"]}}
    made = ingest(matrix, tmp_path / "d", labels=small[1], block_rows=16, taxonomy=taxonomy)
    made.verify()
    chunks = sorted(path for path in (tmp_path / "d").rglob("*") if path.is_file() and "c" in path.parts)
    assert len(chunks) > 10
    for path in chunks:
        content = path.read_bytes()
        damage(path)
        problems = list(Dataset.open(tmp_path / "d").problems())
        assert len(problems) == 1, path
        assert problems[0].exit_code == 4
        path.write_bytes(content)
    made.verify()


def test_verify_finds_chunks_swapped_and_names_changed(tmp_path, small):
    """Right checksums, wrong content: only the digests can tell."""
    made = ingest(small[0], tmp_path / "d", labels=small[1], block_rows=16)
    chunks = tmp_path / "d" / "X" / "c"
    first, second = (chunks / "0" / "0").read_bytes(), (chunks / "1" / "0").read_bytes()
    (chunks / "0" / "0").write_bytes(second)
    with pytest.raises(DatasetDamaged, match=r"block 0, rows 0\.\.15"):
        made.verify()
    (chunks / "0" / "0").write_bytes(first)
    classes = tmp_path / "d" / "classes" / "zarr.json"
    classes.write_text(classes.read_text().replace('"3"', '"4"'))
    with pytest.raises(DatasetDamaged, match="class table"):
        Dataset.open(tmp_path / "d").verify()


def test_newer_and_foreign_datasets_are_refused_by_name(tmp_path, small):
    ingest(small[0], tmp_path / "d", labels=small[1])
    io.write_attrs(str(tmp_path / "d"), {"version": 3})
    with pytest.raises(DatasetFormat, match="version 3 is newer"):
        Dataset.open(tmp_path / "d")
    io.write_attrs(str(tmp_path / "d"), {"version": 1, "format": "poem"})
    with pytest.raises(DatasetFormat, match="no labelgrove dataset"):
        Dataset.open(tmp_path / "d")
    with pytest.raises(io.StoreMetadata):
        Dataset.open(tmp_path / "nothing")


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damaged_metadata_is_found_or_means_the_same(tmp_path, small, damage):
    """Every zarr.json in turn; a flipped bit in one may leave its meaning as it was."""
    made = ingest(small[0], tmp_path / "d", labels=small[1], taxonomy={"root": {"a": ["0", "1"], "b": ["2", "3"]}})
    expected = stored(made)
    found = 0
    for path in sorted((tmp_path / "d").rglob("zarr.json")):
        content = path.read_bytes()
        damage(path)
        try:
            opened = Dataset.open(tmp_path / "d")
            opened.verify()
            for again, before in zip(stored(opened), expected, strict=True):
                np.testing.assert_array_equal(again, before)
            assert (opened.classes, opened.taxonomy.names) == (made.classes, made.taxonomy.names)
        except ArtefactError:
            found += 1
        path.write_bytes(content)
    assert found >= 4 if damage is flip else found == 10
    made.verify()


@pytest.mark.parametrize("change", [{"n_rows": 41}, {"n_features": 2**60}, {"body": "csr"}, {"notes": [{"poem": 1}]}])
def test_attributes_that_do_not_fit_are_refused(tmp_path, small, change):
    ingest(small[0], tmp_path / "d", labels=small[1])
    io.write_attrs(str(tmp_path / "d"), change)
    with pytest.raises(DatasetDamaged):
        Dataset.open(tmp_path / "d")
