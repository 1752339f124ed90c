"""What a message of a run says, taken with care: it comes over the network, from this version or another one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

MOST_TEXT = 300  # characters of a text that is kept


def number(value: Any) -> float | None:
    """A finite number, None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    found = float(value) if abs(value) < 1e300 else math.inf
    return found if math.isfinite(found) else None


def count(value: Any, default: int = 0) -> int:
    """A whole number of 0 or more."""
    found = number(value)
    return default if found is None or found < 0 else int(found)


def text(value: Any, default: str = "") -> str:
    """A text of one line, cut where it is too long."""
    if not isinstance(value, str):
        return default
    line = " ".join(value.split())
    return line if len(line) <= MOST_TEXT else line[: MOST_TEXT - 3] + "..."


def mapping(value: Any) -> Mapping[str, Any]:
    """The mapping, an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def items(value: Any, most: int) -> Sequence[Any]:
    """The first values of a list, none of anything else."""
    return value[:most] if isinstance(value, list | tuple) else ()
