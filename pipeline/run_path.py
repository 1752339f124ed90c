"""Where the folder of a run is."""

from __future__ import annotations

from pathlib import Path

from tasks.places import at, is_remote


def run_path(name: str, beside: Path, runs: Path | None) -> Path:
    """runs/NAME beside the config file, or below the folder that the command line gives."""
    return tidy((at(runs) if runs is not None else beside / "runs") / name)


def tidy(path: Path) -> Path:
    """The absolute path, as people would write it; of a URL itself."""
    leads_up = ".." in path.parts and not is_remote(path)
    return path.resolve() if leads_up else path.absolute()
