"""Where the reference cases and data lie: beside the checkout, or where LABELGROVE_SHARED says; else tests skip."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def shared_path(name: str) -> Path:
    """The path of one shared file or folder; skips the calling test when it is not there."""
    root = Path(os.environ.get("LABELGROVE_SHARED", Path(__file__).resolve().parents[2] / "shared"))
    path = root / name
    if not path.exists():
        pytest.skip(f"reference data {name} is not beside this checkout (set LABELGROVE_SHARED)")
    return path
