"""Queries against all candidates: neighbours and curve, in tiles that fit into the cache and in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from tasks.retrieval.candidates import HAMMING, PRESENT, Coded, CodedRows, NoCodes
from tasks.retrieval.curve import CurveSums, count_distances, sum_over_queries
from tasks.retrieval.hamming import SEGMENT, fill_distances
from tasks.retrieval.missing import missing, scale_to_present
from tasks.retrieval.nearest import Nearest, room_of
from tasks.rows.base import Array

QUERIES_BYTES = 128 << 20  # histograms and keys of the queries that meet the candidates together
TILE_QUERIES, TILE_ROWS = 128, 512  # compared at a time, at most
TILE_BYTES = 128 << 10  # of the candidates' codes in a tile, segment by segment


@dataclass(frozen=True, eq=False)
class Ranked:
    """What queries have found.

    rows, distances  (n_queries, k) int64 and int32: places of the nearest rows in their store, nearest first, ties to
                     the lower row; k is the least of `top` and the number of candidates
    candidates       how many rows were ranked
    sums             of the labelled queries; its `hits` are not filled
    """

    rows: Array
    distances: Array
    candidates: int
    sums: CurveSums


def queries_at_once(n_hashes: int, top: int) -> int:
    """How many queries meet the candidates together."""
    return max(1, QUERIES_BYTES // (16 * (n_hashes + 1) + 8 * room_of(top)))


def rank(queries: Array, labels: Array, candidates: Coded, top: int, measure: str = HAMMING) -> Ranked:
    """Rank the candidates for each query by distance.

    queries  (n_queries, n_hashes) codes; labels (n_queries,) int32, -1 where not known
    measure  HAMMING, or PRESENT: in proportion to the codes that not both rows lack
    raises   NoCodes, and the errors of `read_rows`
    """
    n_queries, n_hashes = queries.shape
    sums = CurveSums.none(n_hashes, top)
    rows, distances, met = [], [], 0
    step = queries_at_once(n_hashes, top)
    for start in range(0, n_queries, step):
        some = slice(start, start + step)
        scan = Scan(np.ascontiguousarray(queries[some]), labels[some], top, measure)
        met = scan.all_of(candidates)
        sums = scan.add_to(sums)
        found = scan.nearest.found()
        rows.append(found[0])
        distances.append(found[1])
    if not rows:
        return Ranked(np.empty((0, 0), np.int64), np.empty((0, 0), np.int32), 0, sums)
    return Ranked(np.concatenate(rows), np.concatenate(distances), met, sums)


class Scan:
    """Some queries on their way past the candidates."""

    def __init__(self, queries: Array, labels: Array, top: int, measure: str) -> None:
        n_queries, n_hashes = queries.shape
        self.missing = missing(queries) if measure == PRESENT else None
        self.queries, self.labels = queries, labels.astype(np.int32)
        self.nearest = Nearest(n_queries, top)
        known = n_queries if (labels >= 0).any() else 0
        self.retrieved, self.relevant = np.zeros((2, known, n_hashes + 1), np.int64)
        width = min(n_hashes, SEGMENT) * queries.itemsize
        self.tile_rows = max(8, min(TILE_ROWS, TILE_BYTES // max(1, width)))
        self.distances = np.empty((TILE_QUERIES, self.tile_rows), np.int32)

    def all_of(self, candidates: Coded) -> int:
        """Meet all candidates; returns how many there are."""
        met = 0
        for part in candidates.parts():
            if part.codes.dtype != self.queries.dtype or part.codes.shape[1] != self.queries.shape[1]:
                what = f"{part.codes.shape[1]} codes {part.codes.dtype} a row, the queries have {self.queries.shape[1]}"
                raise NoCodes(f"{what} {self.queries.dtype}", candidates.store, "encode both in the same way")
            self.add(part)
            met += part.rows.size
        return met

    def add(self, part: CodedRows) -> None:
        codes = np.ascontiguousarray(part.codes)
        for start in range(0, part.rows.size, self.tile_rows):
            some = slice(start, start + self.tile_rows)
            tile = CodedRows(codes[some], part.rows[some], part.labels[some])
            for first, distances in self._distances(tile.codes):
                of = slice(first, first + len(distances))
                if len(self.retrieved):
                    query_labels, counts = self.labels[of], (self.retrieved[of], self.relevant[of])
                    count_distances(distances, query_labels, tile.labels, *counts)
                if self.nearest.top:
                    self.nearest.add(first, distances, tile.rows)

    def _distances(self, codes: Array) -> Iterator[tuple[int, Array]]:
        """(first query, distances (some queries, len(codes)) int32, overwritten by the next)."""
        for first in range(0, len(self.queries), TILE_QUERIES):
            queries = self.queries[first : first + TILE_QUERIES]
            distances = self.distances[: len(queries), : len(codes)]
            fill_distances(queries, codes, distances)
            if self.missing is not None:
                scale_to_present(self.missing[first : first + TILE_QUERIES], missing(codes), distances)
            yield first, distances

    def add_to(self, sums: CurveSums) -> CurveSums:
        """The sums with these queries after the earlier ones: query by query, so that tiles leave no trace."""
        if not len(self.retrieved):
            return sums
        given = (self.retrieved, self.relevant, self.labels, sums.counts, sums.means, sums.average_precision)
        answerable, average = sum_over_queries(*given)
        labelled = int(np.count_nonzero(self.labels >= 0))
        return replace(
            sums,
            queries=sums.queries + labelled,
            answerable=sums.answerable + answerable,
            average_precision=average,
        )
