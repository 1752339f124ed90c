"""What tests of ingest start from: a folder to be refused in, and rows of the worst order."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.ingest import ingest
from tasks.errors import LabelgroveError, ParamError
from tests.pipeline.ingest.samples import X, Y


@pytest.fixture
def assert_refused(tmp_path, monkeypatch):
    """Calls ingest in an empty folder, expects the error, and checks its words and what is left behind."""
    monkeypatch.chdir(tmp_path)

    def call(error: type[LabelgroveError], *words: str, source=X, exit_code: int = 3, **options) -> LabelgroveError:
        options = {"labels": Y} | options
        before = sorted(tmp_path.rglob("*"))
        with pytest.raises(error) as caught:
            ingest(source, tmp_path / "d.zarr", **options)
        said = str(caught.value)
        assert type(caught.value) is error
        assert caught.value.exit_code == exit_code
        assert caught.value.code in said
        for word in words:
            assert word in said, said
        assert caught.value.hint or isinstance(caught.value, ParamError)
        assert sorted(tmp_path.rglob("*")) == before
        return caught.value

    return call


@pytest.fixture
def small():
    """40 rows of 4 features, 4 classes in sorted order (the worst one for SGD)."""
    matrix = np.random.default_rng(0).standard_normal((40, 4)).astype(np.float32)
    return matrix, np.repeat(np.arange(4), 10)
