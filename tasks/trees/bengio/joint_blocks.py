"""The parts of joint training that travel: features of nodes, the step's trial, a partition's model of a round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from tasks.fit.average import ModelSum
from tasks.fit.blocks import Partition, choose_step, sgd_partition
from tasks.fit.problem import SgdProblem, StepTrial
from tasks.fit.scorer import Parameters
from tasks.fit.sgd import SgdParams
from tasks.fit.targets import Targets
from tasks.io import Block, read_rows
from tasks.rows import Csr, Rows
from tasks.rows.base import Array
from tasks.trees.bengio.joint import JointScorer, tree_hinge
from tasks.trees.bengio.joint_kernels import Layout

TELLING = 0.02  # of the objective of scores that are all 0, which is 1
USUAL = 0.5  # step of one row times its squared norm: what the trials of four sets of rows come to


@dataclass(frozen=True, slots=True)
class Joint:
    """A joint fit but for its tree: small, so that it goes out with every task; the tree's arrays go as files.

    sparse  whether rows are sparse once decoded; met as in `JointScorer`
    """

    n_features: int
    params: SgdParams
    seed: int
    name: str
    targets: Targets
    sparse: bool
    met: float

    def scorer(self, layout: Mapping[str, Array]) -> JointScorer:
        """Over the splits of a `Layout`, given by the names of its arrays."""
        where = Layout(**{name: np.asarray(layout[name]) for name in Layout._fields})
        outputs, bias = int(where.children.sum()), self.params.bias
        return JointScorer(self.n_features, outputs, bias, layout=where, sparse=self.sparse, met=self.met)

    def problem(self, layout: Mapping[str, Array]) -> SgdProblem:
        """The fit."""
        scorer = self.scorer(layout)
        return SgdProblem(scorer, tree_hinge(scorer.layout), self.params, self.seed, self.name, self.targets)


def joint_step(blocks: tuple[Block, ...], layout: Mapping[str, Array], joint: Joint) -> StepTrial:
    """The step size, tried on a sample; a bold one where the trial tells nothing."""
    return bold(choose_step(blocks, joint.problem(layout)), joint.params)


def bold(trial: StepTrial, params: SgdParams) -> StepTrial:
    """The trial, or, where no step has lowered the objective by more than TELLING, with half the usual step.

    A sample has few rows of each of many classes, too few for a margin to all siblings, so the least objective is that
    of not moving at all; yet where classes are many, walks are right long before margins are, whatever the step's size.
    """
    if not trial.tried or min(objective for _, objective in trial.tried) <= 1.0 - TELLING:
        return trial
    return replace(trial, step=USUAL / 2 * min(params.batch, trial.rows) / trial.squared_norm)


def joint_sgd(
    partition: Partition,
    parameters: Parameters,
    layout: Mapping[str, Array],
    joint: Joint,
    trial: StepTrial,
    round_index: int,
) -> ModelSum:
    """One partition's model of one round."""
    return sgd_partition(partition, parameters, joint.problem(layout).with_trial(trial), round_index)


@dataclass(frozen=True, eq=False)
class Active:
    """Features of nodes, as keys (n,) int64, ascending: node times n_features plus feature.

    sparse  False where rows are dense: all nodes have all features then, and there are no keys
    """

    keys: Array
    sparse: bool

    def __add__(self, other: Active) -> Active:
        return Active(np.union1d(self.keys, other.keys), self.sparse and other.sparse)

    def columns(self, n_nodes: int, n_features: int) -> tuple[Array, Array] | None:
        """(columns, column_starts) as of a `Layout`; None for dense rows."""
        if not self.sparse:
            return None
        starts = np.searchsorted(self.keys, np.arange(n_nodes + 1, dtype=np.int64) * n_features)
        return (self.keys % n_features).astype(np.int32), starts.astype(np.int64)


def active_block(block: Block, targets: Targets, starts: Array, node: Array) -> Active:
    """The features that training rows of one block have at the nodes on their class's path.

    starts, node  as of a `Layout`
    """
    index, labels = targets.of(block)
    return active_of(read_rows(block).take(index), labels, starts, node)


def active_of(rows: Rows, labels: Array, starts: Array, node: Array) -> Active:
    """The same of rows with their classes (n_rows,) int32."""
    part = rows.take(np.zeros(0, np.int64)).decoded()
    if not isinstance(part, Csr):
        return Active(np.zeros(0, np.int64), sparse=False)
    part = rows.decoded()
    assert isinstance(part, Csr)
    owner = labels[np.repeat(np.arange(part.n_rows), np.diff(part.indptr))]
    keys, deepest = [np.zeros(0, np.int64)], int(np.diff(starts).max())
    for level in range(deepest):
        there = starts[owner] + level < starts[owner + 1]
        nodes = node[starts[owner[there]] + level].astype(np.int64)
        keys.append(np.unique(nodes * part.n_features + part.indices[there]))
    return Active(np.unique(np.concatenate(keys)), sparse=True)


def whole(params: SgdParams) -> SgdParams:
    """For rows that are few enough for one model."""
    return replace(params, partitions=1)
