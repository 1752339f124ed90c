"""Numbers that the papers print, each with where it stands; nothing that was only plotted is here."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def values_of(paper: str) -> dict[str, Any]:
    """The tables of `<paper>.toml`: numbers as texts, just as they are printed."""
    return tomllib.loads(files(__name__).joinpath(f"{paper}.toml").read_text(encoding="utf-8"))
