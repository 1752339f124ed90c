"""Whether kernels were compiled on this machine before: the first run spends minutes of processor time on it."""

from __future__ import annotations

import os
from pathlib import Path

import tasks


def first_run_here() -> bool:
    """Whether numba has kept none of our kernels yet: in NUMBA_CACHE_DIR, or else beside the modules.

    Where it may not write beside them it keeps them elsewhere, and the answer is no.
    """
    given = os.environ.get("NUMBA_CACHE_DIR")
    place = Path(given) if given else Path(tasks.__path__[0])
    if not given and not os.access(place, os.W_OK):
        return False
    return next(place.rglob("*.nbi"), None) is None
