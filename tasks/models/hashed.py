"""Hashed models: one table of weights shared by all classes (Zhao & Xing), hierarchical or flat."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from tasks.hashing.heshing import HashedScorer
from tasks.models.base import Ranking
from tasks.models.certificate import is_number
from tasks.models.errors import HashMismatch, ModelFormat
from tasks.models.flat import PROBABILISTIC, rank_flat, read_probabilistic
from tasks.models.slices import slices
from tasks.rows.base import Array, Rows

HASH = {
    "function": "MurmurHash3_x86_32",
    "key": "0-based feature index, 4 bytes, little-endian",
    "seed": "tensor node_seeds: stable id of the taxonomy node, root first, breadth-first",
    "bucket": "(H & 0x7fffffff) mod n_buckets",
    "sign": "-1 if bit 31 of H is set, else +1",
}
NODE_ARRAYS = {"node_seeds": np.uint32, "parent": np.int32, "level": np.int32, "leaf_of_class": np.int32}


@dataclass(frozen=True, eq=False)
class HashedModel:
    """score(row, class) = scale * sum over the path's levels t of <w_t, Phi(row, node at t)>.

    table          (n_levels - 1, n_buckets) float32: the levels below the root; (1, n_buckets) when flat
    probabilistic  whether scores are log-odds of a softmax: the model was trained with the multinomial logistic loss
    """

    scorer: HashedScorer
    table: Array
    kind: str = "heshing"
    probabilistic: bool = False

    @property
    def n_features(self) -> int:
        return int(self.scorer.n_features)

    @property
    def n_classes(self) -> int:
        return int(self.scorer.n_outputs)

    @property
    def operations(self) -> int:
        """Hashed dot products of a row, one per scored node."""
        return round(self.scorer.operations_per_row())

    def score_slices(self, rows: Rows) -> Iterator[tuple[int, int, Array]]:
        for start, stop, part in slices(rows, len(self.scorer.parent)):
            yield start, stop, self.scorer.scores({"table": self.table}, part)

    def rank(self, rows: Rows, top: int) -> Ranking:
        """Raises ColumnMismatch."""
        return rank_flat(self, rows, top)

    def header(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "hash": HASH,
            "n_buckets": int(self.scorer.n_buckets),
            "n_levels": int(self.scorer.n_levels),
            "scale": float(self.scorer.scale),
            "short_paths": "a leaf above the last level of several is replicated below itself under the same node id",
            "root": "takes no part in scores: its share is equal for all classes",
            "table": "row i holds the weights of level i + 1 (of level 0 in a flat model); levels count from the root, "
            "and all those below it are one where they share a table",
            **({PROBABILISTIC: True} if self.probabilistic else {}),
        }

    def tensors(self) -> dict[str, Array]:
        nodes = {name: np.asarray(getattr(self.scorer, name), dtype) for name, dtype in NODE_ARRAYS.items()}
        return {"table": self.table, **nodes}

    @classmethod
    def load(cls, header: dict[str, Any], tensors: dict[str, Array]) -> Self:
        """Raises HashMismatch for another hash, ModelFormat for arrays that are no taxonomy or do not fit."""
        if header.get("hash") != HASH:
            raise HashMismatch(
                "the model was trained with another hash than this program computes",
                hint="use the version that wrote it, or train again",
            )
        check_nodes(header, tensors)
        scale: Any = header.get("scale")
        if not is_number(scale) or scale <= 0:
            raise ModelFormat("scale is no number above 0")
        scorer = HashedScorer(
            **{name: tensors[name] for name in NODE_ARRAYS},
            n_levels=header["n_levels"],
            n_buckets=header["n_buckets"],
            n_features=header["n_features"],
            scale=scale,
        )
        return cls(scorer, tensors["table"], str(header["kind"]), read_probabilistic(header))


def check_nodes(header: dict[str, Any], tensors: dict[str, Array]) -> None:
    """Raises ModelFormat unless every index is in range: kernels do not check."""
    missing = [name for name in ("table", *NODE_ARRAYS) if name not in tensors]
    if missing:
        raise ModelFormat(f"tensors are missing: {', '.join(missing)}")
    seeds, parent, level, leaf = (tensors[name] for name in NODE_ARRAYS)
    n_nodes = len(parent)
    fits = (
        all(tensors[name].dtype == dtype and tensors[name].ndim == 1 for name, dtype in NODE_ARRAYS.items())
        and tensors["table"].shape == (max(1, header["n_levels"] - 1), header["n_buckets"])
        and len(seeds) == len(level) == n_nodes
        and len(leaf) == header["n_classes"]
        and bool(np.all(parent < np.arange(n_nodes)) and np.all(parent >= -1))
        and bool(np.all((level >= 0) & (level < header["n_levels"])) and np.all((leaf >= 0) & (leaf < n_nodes)))
    )
    if not fits:
        raise ModelFormat("the node arrays are no taxonomy, or do not fit the table")
