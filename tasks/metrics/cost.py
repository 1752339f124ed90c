"""Cost as the papers count it: vector operations per example, and bytes of parameters.

Rules (SPECS 5.8): one vector operation is one dot product of an example with a weight vector, or one addition of a
scaled example to a weight vector. Learners count what they really did; the functions here give the closed forms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from tasks.rows.base import Array


def one_vs_rest_test_operations(n_classes: int) -> int:
    """Dot products per row that one-vs-rest needs to answer: K."""
    return n_classes


def one_vs_rest_train_operations(n_classes: int, passes: int = 1) -> int:
    """Operations per example of one-vs-rest SGD: a dot product and an addition per class and pass, 2 K."""
    return 2 * n_classes * passes


def node_train_operations(n_children: int, n_rows: int, passes: int = 1) -> int:
    """Operations of SGD at one node of a label tree: a dot product and an addition per child, row and pass."""
    return 2 * n_children * n_rows * passes


def speedup(n_classes: int, test_operations: float) -> float:
    """One-vs-rest cost / own cost per row (S_te); infinite for a model that evaluates nothing."""
    return n_classes / test_operations if test_operations > 0 else float("inf")


@dataclass(frozen=True, slots=True)
class Implied:
    """What the local measures of a label tree imply for the whole tree (Deng et al. 2011, Tables 1 and 2)."""

    accuracy: float
    test_operations: float
    speedup: float


def implied_by_local(n_classes: int, branching: int, losses: Sequence[float], ambiguities: Sequence[float]) -> Implied:
    """Accuracy and speed-up from loss per depth (conditional, SPECS 5.5) and ambiguity at learned depths (5.6).

    accuracy = prod(1 - loss); operations = Q per learned depth + K prod(ambiguity) at the final full split.
    """
    operations = branching * len(ambiguities) + n_classes * prod(ambiguities)
    return Implied(prod(1 - loss for loss in losses), operations, speedup(n_classes, operations))


def parameter_bytes(tensors: Mapping[str, Array]) -> int:
    """Bytes of a model's arrays as saved."""
    return sum(int(array.nbytes) for array in tensors.values())


def flat_parameters(n_features: int, n_classes: int) -> int:
    """Numbers held by one-vs-rest or a multi-class SVM: k d (SPECS 1.12)."""
    return n_features * n_classes


def hierarchy_parameters(n_features: int, n_nodes: int) -> int:
    """Numbers held by a model with one weight vector per node: nodes x d."""
    return n_features * n_nodes


def hashed_parameters(n_buckets: int, n_levels: int = 1) -> int:
    """Numbers held by a hashed model: m (FlatHash) or m T (HESHING)."""
    return n_buckets * n_levels
