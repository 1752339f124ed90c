"""One matrix of rows in several bodies, all with the same verbs: `X W`, `X' R`, take, decode.

A learner never knows how its rows are stored. A body, with its kernels, is loaded when it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tasks.rows.base import Rows
    from tasks.rows.csr import Csr
    from tasks.rows.dense import Dense
    from tasks.rows.descriptors import Descriptors
    from tasks.rows.images import Images
    from tasks.rows.onehot import OneHot
    from tasks.rows.pq import PqCodes

__all__ = ["Csr", "Dense", "Descriptors", "Images", "OneHot", "PqCodes", "Rows"]

_MODULE_OF = {
    "Csr": "csr",
    "Dense": "dense",
    "Descriptors": "descriptors",
    "Images": "images",
    "OneHot": "onehot",
    "PqCodes": "pq",
    "Rows": "base",
}


def __getattr__(name: str) -> object:
    """PEP 562: whoever wants the contract alone does not pay for the bodies."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
