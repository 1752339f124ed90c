"""What a bengio-tree asks the pool for: the confusion of flat classifiers, parts of classes, rounds of joint training.

All of it is kept in files as it comes, so an attempt that was interrupted continues where it was.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.pool import Part, Pool
from pipeline.watching.fit_watch import ToldRounds
from pipeline.watching.telling import Tell, untold
from tasks.fit.average import ModelSum
from tasks.fit.blocks import make_partitions
from tasks.fit.checkpoint import FileCheckpoint, keep, load_kept
from tasks.fit.fit import FitResult, fit
from tasks.fit.problem import SgdProblem, StepTrial
from tasks.fit.scorer import Parameters
from tasks.io import Block
from tasks.later import later
from tasks.places import remove_folder
from tasks.rows.base import Array
from tasks.trees.bengio.confusion import Confusion, Counts
from tasks.trees.bengio.joint import layout_of
from tasks.trees.bengio.joint_blocks import Active, Joint, active_block, joint_sgd, joint_step
from tasks.trees.bengio.joint_kernels import Layout
from tasks.trees.bengio.skeleton import Parting, part_node, skeleton
from tasks.trees.params import LabelTreeParams
from tasks.trees.taxonomy_tree import TaxonomyTree

if TYPE_CHECKING:
    from scipy import sparse
else:
    sparse = later("scipy.sparse")

CONFUSION = "confusion.npz"
COUNTS, PAIRS = ("answers", "others"), ("pairs", "counts")  # fields of Confusion, and of its Counts


@dataclass(frozen=True, eq=False)
class Told:
    """What flat classifiers have told of the classes.

    cost   plain values, seconds among them
    fresh  whether they were trained just now
    """

    confusion: Confusion
    cost: dict[str, Any]
    fresh: bool = False


def keep_told(folder: Path, told: Told) -> None:
    """Write it, whole or not at all. Raises DiskFull."""
    arrays = {f"{name}_{part}": getattr(getattr(told.confusion, name), part) for name in COUNTS for part in PAIRS}
    keep(folder / CONFUSION, arrays | {"cost": np.array(json.dumps(told.cost))})


def told_before(folder: Path) -> Told | None:
    """What an earlier attempt, or a twin, has kept; None when nothing holds."""
    saved = load_kept(folder / CONFUSION)
    if saved is None:
        return None
    counts = (Counts(*(saved[f"{name}_{part}"] for part in PAIRS)) for name in COUNTS)
    return Told(Confusion(*counts), json.loads(str(saved["cost"])))


def parted(
    affinity: sparse.csr_array[Any], params: LabelTreeParams, seed: int, pool: Pool, folder: Path, name: str
) -> TaxonomyTree:
    """The tree's shape; the parts of each depth are kept in `folder`."""
    arrays = {"data": affinity.data, "indices": affinity.indices, "indptr": affinity.indptr}

    def part(depth: int, node_of: Array) -> Array:
        kept = load_kept(folder / f"parts-{depth}.npz")
        if kept is not None and np.array_equal(kept["node_of"], node_of):
            return kept["parts"]
        nodes = np.unique(node_of[node_of >= 0])
        items = [Parting(int(node)) for node in nodes]
        found = pool.map(part_node, items, arrays, node_of, params.branching, seed, name=f"part_{name}")
        parts = np.full(node_of.size, -1, np.int32)
        for node, own in zip(nodes, found, strict=True):
            parts[node_of == node] = own
        keep(folder / f"parts-{depth}.npz", {"node_of": node_of, "parts": parts})
        return parts

    return skeleton(affinity.shape[0], params, part)


def layout_over(
    tree: TaxonomyTree, joint: Joint, blocks: Sequence[Block], pool: Pool, name: str
) -> tuple[Layout, bool]:
    """Where the weights are, and whether rows are sparse."""
    plain = layout_of(tree, joint.n_features)
    shared = joint.targets, plain.starts, plain.node
    active: Active = pool.sum(active_block, blocks, *shared, name=f"features_{name}")
    columns = active.columns(tree.n_nodes, joint.n_features)
    return (plain if columns is None else layout_of(tree, joint.n_features, columns)), active.sparse


class JointOracle:
    """Rounds of joint training over blocks (see `tasks.fit.fit.Oracle`); the tree travels as files."""

    def __init__(self, joint: Joint, layout: Layout, blocks: Sequence[Block], pool: Pool, name: str) -> None:
        self.joint, self.blocks, self.pool, self.name = joint, list(blocks), pool, name
        self.layout = layout._asdict()

    def trial(self, problem: SgdProblem) -> StepTrial:  # noqa: ARG002 - the tasks make the problem themselves
        """See `Oracle.trial`."""
        items = [tuple(self.blocks)]
        found: StepTrial = self.pool.map(joint_step, items, self.layout, self.joint, name=f"step_{self.name}")[0]
        return found

    def round(self, problem: SgdProblem, parameters: Parameters, round_index: int) -> ModelSum:
        """See `Oracle.round`."""
        partitions = make_partitions(self.blocks, problem.params.partitions)
        shared = parameters, self.layout, self.joint, problem.settled(), round_index
        part = Part(round_index, problem.params.rounds)
        total: ModelSum = self.pool.sum(joint_sgd, partitions, *shared, name=f"sgd_{self.name}", part=part)
        return total

    def fit(self, folder: Path, event: Tell = untold, tell: Tell = untold) -> FitResult:
        """Train; a checkpoint a round in `folder`; `event` and `tell` as of `Work`. Raises Diverged."""
        kept = ToldRounds(FileCheckpoint(folder), self.name, self.joint.params.rounds, event, tell)
        return fit(self.joint.problem(self.layout), self, checkpoint=kept)


def forget(folder: Path) -> None:
    """Remove what is not needed any more."""
    remove_folder(folder)
