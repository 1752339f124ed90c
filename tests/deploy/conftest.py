"""A small dataset for runs on what deploy/ starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.systems.conftest import make_dataset


@pytest.fixture(scope="session")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1,500 rows, 31 classes: read only."""
    return make_dataset(tmp_path_factory.mktemp("planted")).path
