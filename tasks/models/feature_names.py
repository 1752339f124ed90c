"""Names of a model's features: what model.json keeps of them, and where they stand among the columns of other rows.

In the provenance, `features`: {"count", "digest", "names"}; without "names" where these are too many bytes. Models that
an estimator has saved keep those of its data frame among its own notes.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np

from tasks.digest import digest_text
from tasks.rows.base import Array

FEATURES = "features"  # in the provenance: names of the features, where the rows had any
ESTIMATOR = "estimator"  # in the provenance: what an estimator has noted of itself when it saved the model
MOST_BYTES = 1 << 20  # of all names together, in UTF-8, that model.json holds


@dataclass(frozen=True)
class FeatureNames:
    """Names of all features in their order.

    digest  of these; names: (count,), None where they are not kept
    """

    count: int
    digest: str
    names: tuple[str, ...] | None

    @classmethod
    def of(cls, names: Sequence[str]) -> FeatureNames:
        return cls(len(names), digest_text(*names), tuple(names))

    def told(self) -> dict[str, Any]:
        """As in the provenance: plain JSON values, of bounded size."""
        found: dict[str, Any] = {"count": self.count, "digest": self.digest}
        names = self.names or ()
        small = len("".join(names).encode("utf-8", "replace")) <= MOST_BYTES
        return found | ({"names": list(names)} if names and small else {})


def normal_names(names: Sequence[str]) -> tuple[str, ...] | None:
    """Names as they are kept and compared, in Unicode form NFC; None for those that only count the columns from 0."""
    found = tuple(unicodedata.normalize("NFC", name) for name in names)
    return None if found == numbered(len(found)) else found


def numbered(count: int) -> tuple[str, ...]:
    """What columns are called that have no names of their own."""
    return tuple(map(str, range(count)))


def feature_names(provenance: Mapping[str, Any]) -> FeatureNames | None:
    """Those of a model by its provenance; None where nothing is known of them."""
    told, note = provenance.get(FEATURES), provenance.get(ESTIMATOR)
    if isinstance(told, Mapping):
        names, count, digest = told.get("names"), told.get("count"), told.get("digest")
        if _are_names(names):
            return FeatureNames.of(names)
        return FeatureNames(count, digest, None) if isinstance(count, int) and isinstance(digest, str) else None
    names = note.get(FEATURES) if isinstance(note, Mapping) else None
    kept = normal_names(names) if _are_names(names) else None
    return FeatureNames.of(kept) if kept is not None else None


def _are_names(value: Any) -> TypeGuard[list[str]]:
    return isinstance(value, list) and bool(value) and all(isinstance(name, str) for name in value)


def places(found: Sequence[str], wanted: Sequence[str]) -> Array | None:
    """Where each `wanted` name stands among those `found`, (n,) int64; None unless both are the same, each once."""
    at = {name: place for place, name in enumerate(found)}
    if len(at) != len(found) or len(found) != len(wanted) or at.keys() != set(wanted):
        return None
    return np.array([at[name] for name in wanted], np.int64)
