"""A fit that fails, or is interrupted, leaves the estimator as it was: the old fit is whole, or there is none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def as_before(estimator: Any) -> Iterator[None]:
    """Whatever is raised within the block, the attributes of the estimator are those from before.

    Fitted values are replaced as a whole and never changed in place, so their names are all there is to keep.
    """
    kept = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(kept)
        raise
