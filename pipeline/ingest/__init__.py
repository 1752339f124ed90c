"""Readers of input formats, and the writer of the dataset store."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeline.ingest.build import ingest, open_source
    from pipeline.ingest.made_rows import MadeRows

__all__ = ["MadeRows", "ingest", "open_source"]

_MODULE_OF = {"MadeRows": "made_rows", "ingest": "build", "open_source": "build"}


def __getattr__(name: str) -> object:
    """Whoever reads a taxonomy alone does not pay for the readers of all formats."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value
