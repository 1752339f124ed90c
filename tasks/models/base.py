"""The contract that every saved model keeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeGuard

from tasks.rows.base import Array, Rows


@dataclass(frozen=True)
class Probabilities:
    """What the softmax of all scores of a row gives, of a model whose scores are log-odds.

    named      (n_rows, top) float32: probabilities of the ranking's classes, NaN where these are -1
    label_log  (n_rows,) float32: natural logarithm of the probability of the row's label, NaN where that is not known
    """

    named: Array
    label_log: Array


@dataclass(frozen=True)
class Ranking:
    """The best classes of each row of a block.

    classes      (n_rows, top) int32, best first, ties to the lower class; -1 where a model names fewer classes
    scores       (n_rows, top) float32, NaN where classes is -1
    evaluations  (n_rows,) int32: classifiers (dot products) really evaluated for the row
    path         (n_rows, longest) int32 node ids from the root down, -1 padded; None for a flat model
    probabilities  None where they were not asked for, or the model has none
    classifiers  (n_rows,) int32: classifiers asked, where evaluations are something else, kernel values; else None
    """

    classes: Array
    scores: Array
    evaluations: Array
    path: Array | None = None
    probabilities: Probabilities | None = None
    classifiers: Array | None = None


class Doubting(Protocol):
    """A model whose rows go several ways where they are near a split."""

    def doubting(self, doubt: float) -> Any:
        """The same with another doubt of its own."""
        ...


def has_doubt(model: Any) -> TypeGuard[Doubting]:
    """Whether rows may go several ways down a model."""
    return hasattr(model, "doubting")


class Model(Protocol):
    """A trained model: ranks classes for any body of rows of its width."""

    @property
    def kind(self) -> str:
        """The config's word: "ovr", "heshing", "label-tree", "trace-norm"."""
        ...

    @property
    def n_features(self) -> int: ...

    @property
    def n_classes(self) -> int: ...

    def rank(self, rows: Rows, top: int) -> Ranking:
        """The `top` best classes; never more memory than n_rows x n_classes of this block, in slices when large."""
        ...

    def header(self) -> dict[str, Any]:
        """Everything of model.json except what the folder adds; plain JSON values."""
        ...

    def tensors(self) -> dict[str, Array]:
        """Named arrays of weights.safetensors; C order."""
        ...

    @classmethod
    def load(cls, header: dict[str, Any], tensors: dict[str, Array]) -> Self: ...
