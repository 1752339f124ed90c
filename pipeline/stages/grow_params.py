"""The parameters of a tree that is grown, of the keys of its section."""

from __future__ import annotations

from dataclasses import fields

from pipeline.config import KMeansTree, LabelTree, TreeLearner
from pipeline.dataset import Dataset
from tasks.trees.kmeans.params import KMeansTreeParams
from tasks.trees.local import judges_per_class
from tasks.trees.params import LabelTreeParams, TreeParams, TreeShape
from tasks.trees.shape import proposed

ROOT_AMBIGUITY = "root_ambiguity"  # among the results of a bengio-tree: on validation rows
EXPECTED_ROOM = 3.0  # of a tree that is not there yet: its root's ambiguity, times that of even children


def tree_params(learner: LabelTree | KMeansTree, dataset: Dataset, ambiguity: float | None = None) -> TreeParams:
    """Settled parameters of a tree.

    ambiguity  what `ambiguity_of` came to; None while that is not known: then as expected of it
    Raises ParamError, TreeShape.
    """
    kind = KMeansTreeParams if isinstance(learner, KMeansTree) else LabelTreeParams
    known = {field.name for field in fields(kind)}
    given = {key: value for key, value in learner.model_dump().items() if key in known}
    if isinstance(learner, LabelTree):
        if learner.ambiguity_of is not None:
            given["ambiguity"] = ambiguity if ambiguity is not None else _expected(learner, dataset.n_classes)
        elif learner.speedup is not None:
            given |= _for_speedup(learner, dataset.n_classes)
    counts = dataset.split_counts
    judges = judges_per_class(counts["train"], counts["validation"], dataset.n_classes)
    return kind(**given).settled(dataset.n_classes, judges)


def tree_height(learner: TreeLearner, dataset: Dataset) -> int:
    """Splits from the root to the deepest leaf, at most. Raises ParamError, TreeShape."""
    if isinstance(learner, LabelTree | KMeansTree):
        return tree_params(learner, dataset).height
    return LabelTreeParams(branching=learner.branching, depth=learner.depth).settled(dataset.n_classes).height


def _expected(learner: LabelTree, n_classes: int) -> float:
    shape = LabelTreeParams(branching=learner.branching, depth=learner.depth).settled(n_classes)
    return min(1.0, EXPECTED_ROOM / (shape.branching or 1))


def _for_speedup(learner: LabelTree, n_classes: int) -> dict[str, float]:
    """Branching, depth and ambiguity for a wanted speed-up."""
    assert learner.speedup is not None
    if n_classes < 2:
        raise TreeShape("classes", n_classes, "at least 2", "with one class there is nothing to tell apart")
    shape = proposed(n_classes, learner.speedup, learner.branching, learner.depth)
    return {"branching": shape.branching, "depth": shape.depth, "ambiguity": shape.ambiguity}
