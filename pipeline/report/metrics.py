"""The numbers of one model in metrics.json."""

from __future__ import annotations

import math
from collections.abc import Mapping

Metrics = Mapping[str, float | None]


def known(metrics: Metrics, key: str) -> float | None:
    """A metric as a finite number, or None."""
    value = metrics.get(key)
    return float(value) if value is not None and math.isfinite(value) else None
