"""Linear models too large to be held: weights by ranges of classes, gone through one after another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tasks.models.base import Ranking
from tasks.models.errors import ModelFormat
from tasks.models.flat import read_bias
from tasks.models.linear import LinearModel
from tasks.models.mapped import release
from tasks.models.slices import check_width, slices
from tasks.models.topk import NO_CLASS, extend_top
from tasks.rows.base import Array, Rows

STARTS = "class_ranges"  # in model.json: the first class of each range
SCORE = "row . weights.R[:, class - class_ranges[R]] + bias[class], R being the last range that does not start after it"


@dataclass(frozen=True, eq=False)
class RangedModel:
    """score(row, class) = row . weights of its range + bias[class]; the scores of a model that is held whole.

    parts  of each range its weights (n_features, classes of the range) float32, usually mapped from the model's file
    bias   (n_classes,) float32; None for a model without
    """

    parts: tuple[Array, ...]
    bias: Array | None = None
    kind: str = "ovr"

    @property
    def n_features(self) -> int:
        return int(self.parts[0].shape[0])

    @property
    def n_classes(self) -> int:
        return sum(int(part.shape[1]) for part in self.parts)

    @property
    def starts(self) -> list[int]:
        """The first class of each range."""
        ends = np.cumsum([part.shape[1] for part in self.parts])
        return [0, *(int(end) for end in ends[:-1])]

    def rank(self, rows: Rows, top: int) -> Ranking:
        """Raises ColumnMismatch. Holds the weights of one range, and the best classes of every row so far."""
        check_width(rows, self.n_features, self.kind)
        classes = np.full((rows.n_rows, top), NO_CLASS, np.int32)
        best = np.full((rows.n_rows, top), np.nan, np.float32)
        for first, weights in zip(self.starts, self.parts, strict=True):
            bias = None if self.bias is None else self.bias[first : first + weights.shape[1]]
            for start, stop, part in slices(rows, weights.shape[1]):
                scores = part.scores(weights)
                if bias is not None:
                    scores += bias
                extend_top(scores, first, classes[start:stop], best[start:stop])
            release(weights)
        return Ranking(classes, best, np.full(rows.n_rows, self.n_classes, np.int32))

    def header(self) -> dict[str, Any]:
        return {"kind": self.kind, "bias": self.bias is not None, "score": SCORE, STARTS: self.starts}

    def tensors(self) -> dict[str, Array]:
        named = {tensor_name(i): part for i, part in enumerate(self.parts)}
        return named if self.bias is None else {**named, "bias": self.bias}

    @classmethod
    def load(cls, header: dict[str, Any], tensors: dict[str, Array]) -> RangedModel:
        """Raises ModelFormat when the shapes do not fit each other or the header."""
        starts, bias = header.get(STARTS), read_bias(header, tensors)
        if not isinstance(starts, list) or not starts:
            raise ModelFormat(f"model.json lacks a proper {STARTS}")
        parts = tuple(tensors[tensor_name(i)] for i in range(len(starts)))
        model = cls(parts, bias, str(header["kind"]))
        _check_shapes(parts, bias, starts, model)
        return model


def _check_shapes(parts: Sequence[Array], bias: Array | None, starts: list[Any], model: RangedModel) -> None:
    height = {part.shape[0] for part in parts if part.ndim == 2}
    if any(part.ndim != 2 for part in parts) or len(height) != 1 or model.starts != starts:
        raise ModelFormat(f"a model by {STARTS} needs weights (n_features, classes of the range) of each")
    if bias is not None and bias.shape != (model.n_classes,):
        raise ModelFormat("bias needs one number for every class")


def tensor_name(index: int) -> str:
    return f"weights.{index:04d}"


class FlatModels:
    """Loads models that are held whole where they are small enough, and by ranges of classes otherwise."""

    @staticmethod
    def load(header: dict[str, Any], tensors: dict[str, Array]) -> LinearModel | RangedModel:
        """Raises ModelFormat."""
        return (RangedModel if STARTS in header else LinearModel).load(header, tensors)
