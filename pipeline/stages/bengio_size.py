"""The size of a bengio-tree before it is trained."""

from __future__ import annotations

from pipeline.config import BengioTree
from pipeline.stage import Facts
from pipeline.stages.tree_size import VALUE_BYTES, LabelTreeSize
from tasks.trees.params import LabelTreeParams

UNEVEN = 1.5  # weights of a tree of uneven parts, times the bound on those of even ones: seen up to 0.8


def shape_params(learner: BengioTree, n_classes: int) -> LabelTreeParams:
    """Branching and depth, settled. Raises ParamError, TreeShape."""
    return LabelTreeParams(branching=learner.branching, depth=learner.depth).settled(n_classes)


def bengio_bytes(learner: BengioTree, facts: Facts) -> int:
    """The weights of all splits, about: of the features that a split's rows have, for each of its children."""
    params, rows, dataset = shape_params(learner, facts.dataset.n_classes), facts.rows[learner.rows], facts.dataset
    nonzeros = rows.row_floats if rows.body in ("csr", "onehot") else 0
    size = LabelTreeSize(params, rows.n_features, dataset.n_classes, dataset.split_counts["train"], nonzeros)
    children, held = params.branching or 2, 0.0
    for depth in range(params.height - 1):
        nodes = min(children**depth, dataset.n_classes)
        held += nodes * children * (size.features(1.0 / nodes) + 1)
    nodes = min(children ** (params.height - 1), dataset.n_classes)
    held += dataset.n_classes * (size.features(1.0 / nodes) + 1)
    return int(VALUE_BYTES * held * (UNEVEN if nonzeros else 1.0))


def one_model(params: LabelTreeParams, learner: BengioTree, facts: Facts) -> bool:
    """Whether the training rows are few enough for one model, as those of a label tree's root are."""
    rows, dataset = facts.rows[learner.rows], facts.dataset
    row_bytes = rows.block_bytes / max(1, min(dataset.block_rows, dataset.n_rows))
    return params.trained_whole((), dataset.split_counts["train"], row_bytes)
