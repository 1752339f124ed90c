"""An encoding ingest that ends by a full disk, by the user's own function or by damage: what of it is kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.ingest import MadeRows, coded_stream, ingest, place, spool
from pipeline.ingest.errors import LabelsMissing, NonFiniteFeature
from pipeline.ingest.spool import PROGRESS
from tasks.files import DiskFull
from tests.pipeline.ingest.test_encode_refusals import ENCODE, LABELS, MADE, N_FEATURES, N_ROWS, ROWS

N_BLOCKS = N_ROWS // MADE


@pytest.fixture(autouse=True)
def marked_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """After every block, and blocks are made one after the other, so that their number can be told."""
    monkeypatch.setattr(spool, "MARK_BYTES", 1)
    monkeypatch.setattr(coded_stream, "n_threads", lambda: 1)


class Failing:
    """Makes blocks; fails once at some call after the first `fine` ones."""

    def __init__(self, fine: int, error: Exception) -> None:
        self.fine, self.error, self.numbers = fine, error, list[int]()

    def __call__(self, number: int) -> Any:
        self.numbers.append(number)
        if len(self.numbers) == self.fine + 1:
            raise self.error
        where = slice(number * MADE, (number + 1) * MADE)
        return ROWS[where], LABELS[where]

    def rows(self) -> MadeRows:
        return MadeRows(self, N_ROWS, N_FEATURES, MADE, about=5)


SEEN = 1 + N_BLOCKS  # calls before rows go by: of the first block, and of those of the sample
ENDINGS = [ConnectionError("hiccup"), DiskFull("no space left", "d", "free some"), MemoryError()]


@pytest.mark.parametrize("error", ENDINGS, ids=lambda error: type(error).__name__)
def test_what_is_encoded_is_kept_whatever_ends_it(tmp_path: Path, error: Exception) -> None:
    expected = ingest(Failing(10**6, error).rows(), tmp_path / "whole", **ENCODE)
    make = Failing(SEEN + 7, error)
    with pytest.raises(type(error)):
        ingest(make.rows(), tmp_path / "d", **ENCODE)
    assert len(list(tmp_path.glob("d.partial-*"))) == 1
    make.numbers, make.fine = [], 10**6
    said: list[str] = []
    found = ingest(make.rows(), tmp_path / "d", say=said.append, **ENCODE)
    assert make.numbers == [0, *range(7, N_BLOCKS)]
    assert said == ["continuing what was begun"]
    assert (found.digest, found.encoding) == (expected.digest, expected.encoding)
    assert not list(tmp_path.glob("d.partial-*"))


def test_what_the_same_input_would_meet_again_is_removed(tmp_path: Path) -> None:
    """Even late, and even where something was kept."""
    make = Failing(SEEN + 7, ConnectionError())
    with pytest.raises(ConnectionError):
        ingest(make.rows(), tmp_path / "d", **ENCODE)
    make.numbers, make.fine, make.error = [], 2, NonFiniteFeature("NaN", "row 1", "none")
    with pytest.raises(NonFiniteFeature):
        ingest(make.rows(), tmp_path / "d", **ENCODE)
    assert not list(tmp_path.iterdir())
    assert issubclass(LabelsMissing, place.MET_AGAIN)


@pytest.mark.parametrize("column", ["codes", "labels", "sums"])
def test_a_flipped_byte_is_found(tmp_path: Path, column: str) -> None:
    expected = ingest(Failing(10**6, OSError()).rows(), tmp_path / "whole", **ENCODE)
    make = Failing(SEEN + 7, ConnectionError())
    with pytest.raises(ConnectionError):
        ingest(make.rows(), tmp_path / "d", **ENCODE)
    (left,) = tmp_path.glob("d.partial-*")
    (path,) = left.rglob(f"{column}.raw")
    content = bytearray(path.read_bytes())
    content[3] ^= 1
    path.write_bytes(content)
    make.numbers, make.fine = [], 10**6
    said: list[str] = []
    found = ingest(make.rows(), tmp_path / "d", say=said.append, **ENCODE)
    assert make.numbers == [0, *range(N_BLOCKS)]
    assert "damaged" in said[1]
    assert "made rows" in said[1]
    assert (found.digest, found.encoding) == (expected.digest, expected.encoding)


def test_sums_are_those_of_the_files(tmp_path: Path) -> None:
    """Added up piece after piece, over attempts."""
    import google_crc32c

    columns = {"a": np.dtype(np.int64), "b": np.dtype(np.uint8)}
    for part in range(3):
        with spool.Spool(tmp_path, columns, {}) as kept:
            assert (kept.rows, kept.damaged) == (4 * part, False)
            kept.append(4, a=np.arange(4) * part, b=np.arange(4, dtype=np.uint8))
            kept.append(0, b=np.empty(0, np.uint8))
            kept.mark()
    noted = json.loads((tmp_path / PROGRESS).read_text())["sums"]
    assert noted == {name: google_crc32c.value((tmp_path / f"{name}.raw").read_bytes()) for name in columns}


def test_what_was_found_is_copied_where_it_is_marked_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "MARK_BYTES", 10**9)
    copies: list[object] = []
    real = coded_stream.asdict
    monkeypatch.setattr(coded_stream, "asdict", lambda found: copies.append(found) or real(found))
    ingest(Failing(10**6, OSError()).rows(), tmp_path / "d", **ENCODE)
    assert len(copies) == 1
