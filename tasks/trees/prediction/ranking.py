"""Rankings by a tree: rows in slices, their walk or search round by round, and what is named of it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tasks.models.base import Probabilities, Ranking
from tasks.rows import Csr, Dense, OneHot, Rows
from tasks.rows.base import Array
from tasks.trees.prediction.links import room_for
from tasks.trees.prediction.naming import (
    NO_CLASS,
    UNHEARD,
    Holders,
    Named,
    add_own_logs,
    name_classes,
    tally_of,
)
from tasks.trees.prediction.products import scorer_of
from tasks.trees.prediction.rounds import MATRICES, Nodes, Round, round_of
from tasks.trees.prediction.search import Search, Shape, begin, expand, places_of
from tasks.trees.prediction.walk import Answers, descend

MOST_ROWS = 1 << 14  # of a slice: enough that every node of a wide tree has some
CELLS = 1 << 22  # numbers of a slice held at once at most: scores (16 MB), probabilities (32 MB), decoded rows (16 MB)
SPARSE_CELLS = 6  # numbers of 4 bytes that an entry of a sparse row takes while it is made


def slices(rows: Rows, cells_per_row: int) -> Iterator[tuple[int, int, Rows]]:
    """(start, stop, rows[start:stop]) over all rows, few enough at once for CELLS numbers."""
    size = max(1, min(MOST_ROWS, CELLS // max(1, cells_per_row)))
    for start in range(0, rows.n_rows, size):
        stop = min(start + size, rows.n_rows)
        yield start, stop, rows if stop - start == rows.n_rows else rows.part(start, stop)


def decoded_cells(rows: Rows, form: int) -> int:
    """Numbers (4 bytes) that a row takes when it is made what weights of that form are multiplied with."""
    if isinstance(rows, Csr):
        return 0
    if isinstance(rows, OneHot):
        return SPARSE_CELLS * int(rows.codes.shape[1])
    if form != MATRICES:
        return (1 + SPARSE_CELLS) * rows.n_features
    return 0 if isinstance(rows, Dense) and rows.values.dtype == np.float32 else rows.n_features


def rank_leaf(held: Array, n_rows: int, top: int, probabilistic: bool, known: Array | None) -> Ranking:
    """The ranking of a tree that is one leaf: its classes `held` (m,), with nothing to tell them apart.

    Each has the score 0, or in a probabilistic tree the probability 1 / m.
    """
    part = 1 / max(1, held.size)
    classes, scores = np.full((n_rows, top), NO_CLASS, np.int32), np.full((n_rows, top), np.nan, np.float32)
    classes[:, : held.size] = held[:top]
    scores[:, : held.size] = part if probabilistic else 0
    found = None
    if probabilistic and known is not None:
        own = np.where(np.isin(known, held), np.log(part), np.log(UNHEARD))
        found = Probabilities(scores.copy(), np.where(known >= 0, own, np.nan).astype(np.float32))
    return Ranking(classes, scores, np.zeros(n_rows, np.int32), np.zeros((n_rows, 1), np.int32), found)


def rank_by_walk(rows: Rows, top: int, nodes: Nodes, shape: Shape, given: bool) -> Ranking:
    """Walk every row down, see `walk.descend`."""
    n, n_depths = rows.n_rows, int(shape.depths.max())
    path = np.full((n, n_depths + 1), NO_CLASS, np.int32)
    path[:, 0] = 0
    answers = Answers(
        np.full((n, top), NO_CLASS, np.int32), np.full((n, top), np.nan, np.float32), np.zeros(n, np.int32), path
    )
    widest = int(shape.n_children.max())
    used = np.zeros(widest, np.bool_)
    for start, stop, part in slices(rows, max(widest, decoded_cells(rows, nodes.form))):
        score, at = scorer_of(part, nodes), np.zeros(stop - start, np.int32)
        here = Answers(*(values[start:stop] for values in answers))
        for group in rounds(at, shape):
            descend(group, score(group), shape, at, here, used, given)
    return Ranking(answers.labels, answers.values, answers.evaluations, path)


def rounds(at: Array, shape: Shape) -> Iterator[Round]:
    """Rounds of the rows at inner nodes, as long as there are any; `at` (n_rows,) int32 changes in between."""
    while True:
        group = Round(*round_of(at, shape.n_children))
        if not group.rows.size:
            return
        yield group


def rank_by_search(
    rows: Rows, top: int, nodes: Nodes, shape: Shape, beam: int, n_classes: int, known: Array | None, holders: Holders
) -> Ranking:
    """Search for the most probable leaves, see `search`; probabilities where labels are `known`."""
    n, n_depths, widest = rows.n_rows, int(shape.depths.max()), int(shape.n_children.max())
    inner = np.bincount(shape.depths[shape.n_children > 0], minlength=n_depths)
    places = places_of(inner, beam)
    asked = known is not None
    named = nothing_named(n, top, n_depths, asked)
    tally = tally_of(n_classes)
    labels = np.zeros(0, np.int32) if known is None else np.asarray(known, np.int32)
    for start, stop, part in slices(rows, max(widest * int(places[-1]), decoded_cells(rows, nodes.form))):
        search, pool = search_rows(part, nodes, shape, places)
        here = Named(*(values[start:stop] for values in named))
        name_classes(search, pool, shape, tally, holders, labels[start:stop], here)
    found = None
    if asked:
        sharp = named.values**shape.sharpness / named.norms[:, None]
        found = Probabilities(sharp.astype(np.float32), named.own)
    return Ranking(named.labels, named.values.astype(np.float32), named.evaluations, named.path, found)


def likelihoods_by_sharpness(
    rows: Rows, nodes: Nodes, shape: Shape, beam: int, n_classes: int, known: Array, holders: Holders, tried: Array
) -> Array:
    """(n_tried,) float64: log-probability of the labels `known` (n_rows,) int32, summed, at each sharpness.

    tried  as of `naming.add_powers`
    """
    n_depths, widest = int(shape.depths.max()), int(shape.n_children.max())
    places = places_of(np.bincount(shape.depths[shape.n_children > 0], minlength=n_depths), beam)
    total, tally = np.zeros(tried.size), tally_of(n_classes)
    for start, stop, part in slices(rows, max(widest * int(places[-1]), decoded_cells(rows, nodes.form))):
        search, pool = search_rows(part, nodes, shape, places)
        named = nothing_named(part.n_rows, 1, n_depths, asked=True)
        labels = np.asarray(known[start:stop], np.int32)
        add_own_logs(search, pool, shape, tally, holders, labels, named, np.asarray(tried), total)
    return total


def nothing_named(n_rows: int, top: int, n_depths: int, asked: bool) -> Named:
    """Room for what is named of rows; asked: with probabilities."""
    return Named(
        labels=np.full((n_rows, top), NO_CLASS, np.int32),
        values=np.full((n_rows, top), np.nan),
        evaluations=np.zeros(n_rows, np.int32),
        path=np.full((n_rows, n_depths + 1), NO_CLASS, np.int32),
        norms=np.ones(n_rows if asked else 0),
        own=np.full(n_rows if asked else 0, np.nan, np.float32),
    )


def search_rows(rows: Rows, nodes: Nodes, shape: Shape, places: Array) -> tuple[Search, Array]:
    """(the finished search of all rows, the probabilities of all children of expanded nodes (n,) float64)."""
    score, search = scorer_of(rows, nodes), begin(rows.n_rows, places)
    room = room_for(int(shape.n_children.max()))
    pool, used, most = np.empty(0), 0, rows.n_rows * int(places[-1] * shape.n_children.max())
    for group in rounds(search.at, shape):
        scores = score(group)
        if used + scores.size > pool.size:
            grown = np.empty(max(used + scores.size, min(2 * pool.size, most)))
            grown[:used] = pool[:used]
            pool = grown
        expand(search, group, scores, shape, room, used, pool)
        used += scores.size
    return search, pool[:used]
