"""What a model in memory says of rows in memory: the best class, all scores, probabilities of all classes."""

from __future__ import annotations

import numpy as np
from threadpoolctl import threadpool_limits

from tasks.models.encoder import encode_all
from tasks.models.flat import is_flat, is_tree
from tasks.models.folder import SavedModel
from tasks.rows import Rows
from tasks.rows.base import Array

SEVERAL = 8  # classes looked at where the first is none
CELLS = 1 << 22  # of numbers for all classes, held at once beside the result
NO_LABEL = -1


def best_classes(saved: SavedModel, rows: Rows) -> Array:
    """(n_rows,) int64. A row that comes to a leaf without classes is given class 0: something must be said of it."""
    with threadpool_limits(1):
        found = saved.rank(rows, 1).classes[:, 0].astype(np.int64)
        lost = np.flatnonzero(found < 0)
        if lost.size:
            top = min(SEVERAL, saved.model.n_classes)
            ranked = saved.rank(rows.take(lost), top).classes
            named = ranked[np.arange(lost.size), (ranked >= 0).argmax(axis=1)]
            found[lost] = np.maximum(named, 0)
    return found


def scores_all(saved: SavedModel) -> bool:
    """Whether a model gives every class a score."""
    return is_flat(saved.model)


def all_scores(saved: SavedModel, rows: Rows) -> Array:
    """(n_rows, n_classes) float32 of a model that scores all."""
    out = np.empty((rows.n_rows, saved.model.n_classes), np.float32)
    model = saved.model
    assert is_flat(model)
    with threadpool_limits(1):
        for start, stop, scores in model.score_slices(encode_all(rows, saved.encoders)):
            out[start:stop] = scores
    return out


def probabilities(saved: SavedModel, rows: Rows) -> Array:
    """(n_rows, n_classes) float64, each row adding up to 1, of a probabilistic model."""
    if not is_tree(saved.model):
        return softmax(all_scores(saved, rows))
    n_classes = saved.model.n_classes
    out, step = np.empty((rows.n_rows, n_classes)), max(1, CELLS // n_classes)
    with threadpool_limits(1):
        for start in range(0, rows.n_rows, step):
            stop = min(start + step, rows.n_rows)
            out[start:stop] = _of_tree(saved, rows.take(np.arange(start, stop)))
    return out


def softmax(scores: Array) -> Array:
    """Of each row, in float64."""
    raised = np.asarray(scores, np.float64)
    raised = np.exp(raised - raised.max(axis=1, keepdims=True))
    shares: Array = raised / raised.sum(axis=1, keepdims=True)
    return shares


def _of_tree(saved: SavedModel, rows: Rows) -> Array:
    """Of the classes that a row comes to what the tree says; what is left over is shared out evenly among the others.

    None of the others is given more than half of what the best class has, so the best stays the best.
    """
    n = rows.n_rows
    ranking = saved.rank(rows, saved.model.n_classes, labels=np.full(n, NO_LABEL, np.int32))
    assert ranking.probabilities is not None
    out = np.zeros((n, saved.model.n_classes))
    row, place = np.nonzero(ranking.classes >= 0)
    column = ranking.classes[row, place]
    out[row, column] = ranking.probabilities.named[row, place]
    reached = np.zeros(out.shape, bool)
    reached[row, column] = True
    others = np.maximum(1, (~reached).sum(axis=1))
    share = np.maximum(0.0, 1.0 - out.sum(axis=1)) / others
    out += ~reached * np.minimum(share, out.max(axis=1) / 2)[:, None]
    total = out.sum(axis=1, keepdims=True)
    shares: Array = np.divide(out, total, out=np.full(out.shape, 1.0 / out.shape[1]), where=total > 0)
    return shares
