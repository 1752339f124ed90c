"""A named error as plain values, and again as an error in another process: nothing is pickled on the way."""

from __future__ import annotations

import contextlib
import importlib
from typing import Any

from tasks.errors import LabelgroveError


def error_values(error: LabelgroveError) -> dict[str, str]:
    """A named error as plain values; `error_of` makes it again elsewhere."""
    kind = type(error)
    return {"module": kind.__module__, "kind": kind.__name__, "text": str(error)} | {
        part: getattr(error, part) for part in ("what", "where", "hint")
    }


def error_of(values: dict[str, str]) -> LabelgroveError:
    """The error that another process has raised; of ours alone, since a name is looked up in our own modules."""
    found: Any = None
    if values["module"].split(".")[0] in ("pipeline", "tasks"):
        with contextlib.suppress(ImportError):
            found = getattr(importlib.import_module(values["module"]), values["kind"], None)
    if not (isinstance(found, type) and issubclass(found, LabelgroveError)):
        return LabelgroveError(values["text"])
    error: LabelgroveError = found.__new__(found)
    LabelgroveError.__init__(error, values["what"], values["where"], values["hint"])
    return error
