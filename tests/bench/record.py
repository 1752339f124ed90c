"""Figures of a benchmark, kept as JSON for whoever compares two machines or two versions."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path

FOLDER = "LABELGROVE_BENCH"  # environment variable: where the files go


def record(name: str, figures: dict[str, object]) -> Path:
    """Write <folder>/<name>.json with the figures, the machine and the Python; returns its path."""
    folder = Path(os.environ.get(FOLDER, "build/bench"))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    about = {"machine": platform.machine(), "cores": os.cpu_count(), "python": platform.python_version()}
    path.write_text(json.dumps({"name": name, **about, **figures}, indent=1))
    return path
