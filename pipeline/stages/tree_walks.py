"""Test rows whose way down a tree is shown: which they are, and what they met at every node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tasks.io import Block, read_rows
from tasks.later import later
from tasks.models.predictions import Predictions, predictions_of
from tasks.places import local_copy
from tasks.rows.base import Array, Rows
from tasks.seeds import stream
from tasks.trees.local import node_name
from tasks.trees.tree import LabelTree

pq = later("pyarrow.parquet")

pa = later("pyarrow")

OF_A_KIND = 2  # rows that are right, and rows that are not
SAMPLE = 8  # classes of a label set that are named
BATCH_ROWS = 1 << 16
RIGHT, LOST, WRONG, ASKED = "right", "lost at the root", "wrong", "asked for"


@dataclass(frozen=True, eq=False)
class Chosen:
    """A predicted row: its place among the test rows, its number in the source, why it was chosen, label, answer, and
    the node ids of its path."""

    place: int
    row: int
    why: str
    label: int
    answer: int
    path: Array


def chosen_rows(predictions: Path, tree: LabelTree, seed: int, asked: Sequence[int] = ()) -> list[Chosen]:
    """The rows `asked` for by number, in that order; else two that are right and two that are not.

    Those that are not right are lost at the root, as far as there are any. Classes come in a drawn order; of each the
    first row that fits counts, and two rows of a kind are of two classes.
    """
    if asked:
        found = {one.row: one for batch in _batches(predictions) for one in _asked(*batch, asked)}
        return [found[row] for row in asked if row in found]
    rank = np.argsort(stream(seed, "report", "walks").permutation(tree.n_classes))
    kinds: dict[str, list[Chosen]] = {RIGHT: [], LOST: [], WRONG: []}
    for start, batch in _batches(predictions):
        for why, mask in _kinds(batch, tree).items():
            kinds[why] = _first([*kinds[why], *_candidates(start, batch, why, mask, rank)], rank)
    return kinds[RIGHT] + (kinds[LOST] + kinds[WRONG])[:OF_A_KIND]


def _batches(predictions: Path) -> Iterator[tuple[int, Predictions]]:
    """Predictions with paths in order, and the place of the first row of each batch."""
    start = 0
    with pq.ParquetFile(local_copy(predictions)) as file:
        for batch in file.iter_batches(BATCH_ROWS):
            found = predictions_of(pa.Table.from_batches([batch]), str(predictions))
            if found.ranking.path is not None and found.row.size:
                yield start, found
            start += batch.num_rows


def _asked(start: int, batch: Predictions, asked: Sequence[int]) -> list[Chosen]:
    return [_chosen(start, batch, int(i), ASKED) for i in np.flatnonzero(np.isin(batch.row, asked))]


def _kinds(batch: Predictions, tree: LabelTree) -> dict[str, Array]:
    """Which labelled rows are of which kind."""
    assert batch.ranking.path is not None
    known, right = batch.label >= 0, batch.ranking.classes[:, 0] == batch.label
    lost = np.zeros(batch.row.size, bool)
    if batch.ranking.path.shape[1] > 1:
        children = batch.ranking.path[:, 1]
        for child in np.unique(children[children >= 0]):
            here = children == child
            lost[here] = ~np.isin(batch.label[here], tree.label_set(int(child)))
    return {RIGHT: known & right, LOST: known & lost & ~right, WRONG: known & ~lost & ~right}


def _candidates(start: int, batch: Predictions, why: str, mask: Array, rank: Array) -> list[Chosen]:
    index = np.flatnonzero(mask)
    order = index[np.argsort(rank[batch.label[index]], kind="stable")]
    _, firsts = np.unique(rank[batch.label[order]], return_index=True)
    return [_chosen(start, batch, int(order[i]), why) for i in firsts[:OF_A_KIND]]


def _first(candidates: Sequence[Chosen], rank: Array) -> list[Chosen]:
    """The first classes of the drawn order, the first row of each."""
    best: dict[int, Chosen] = {}
    for one in candidates:  # earlier batches first
        best.setdefault(int(rank[one.label]), one)
    return [best[place] for place in sorted(best)[:OF_A_KIND]]


def _chosen(start: int, batch: Predictions, i: int, why: str) -> Chosen:
    assert batch.ranking.path is not None
    path = batch.ranking.path[i]
    answer = int(batch.ranking.classes[i, 0])
    return Chosen(start + i, int(batch.row[i]), why, int(batch.label[i]), answer, path[path >= 0])


def walk_record(chosen: Chosen, row: Rows, tree: LabelTree, seed: int) -> dict[str, Any]:
    """Plain values of one walk; `row` has one row, of those that the tree is tested on."""
    steps: list[dict[str, Any]] = []
    place: tuple[int, ...] = ()
    for depth, node in enumerate(map(int, chosen.path)):
        step: dict[str, Any] = {"depth": depth}
        if depth:
            parent = int(chosen.path[depth - 1])
            child = node - int(tree.first_child[parent])
            place = (*place, child)
            step |= _score(tree, parent, row, child)
        classes = tree.label_set(node)
        held = chosen.label >= 0 and bool(np.isin(chosen.label, classes))
        step |= {"node": node_name(place), "classes": int(classes.size), "holds": held}
        first = [chosen.label] if held else []
        drawn = stream(seed, "report", "names", chosen.row, depth).permutation(classes[classes != chosen.label])
        step["sample"] = sorted([*first, *map(int, drawn[: SAMPLE - len(first)])])
        steps.append(step)
    told = {"row": chosen.row, "why": chosen.why, "label": chosen.label, "answer": chosen.answer}
    return {**told, "steps": steps}


def _score(tree: LabelTree, node: int, row: Rows, child: int) -> dict[str, float]:
    """The child's score, or its probability if the tree has such, and by how much it is ahead of the best other."""
    scores = tree.node_scores(node, row)[0]
    if tree.probabilistic:
        scores = tree.chances(node, scores)
    others = np.delete(scores, child)
    ahead = {"ahead": float(scores[child] - others.max())} if others.size else {}
    return {"score": float(scores[child])} | ahead


def row_at(blocks: Sequence[Block], place: int) -> Rows:
    """The row of a place in the store, as rows of one."""
    block = next(block for block in blocks if block.start <= place < block.stop)
    return read_rows(block).take(np.array([place - block.start]))
