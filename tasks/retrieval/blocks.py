"""Functions that travel: the neighbours of one block of queries among all training rows."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from tasks.io import Block, read_rows
from tasks.models.predictions import part_name
from tasks.models.selection import Selection
from tasks.places import at
from tasks.retrieval.candidates import Candidates, codes_of
from tasks.retrieval.curve import CurveSums
from tasks.retrieval.neighbours import Neighbours, write_neighbours
from tasks.retrieval.rank import rank


@dataclass(frozen=True, eq=False)
class RetrievalReport:
    """What retrieving added up to.

    queries     rows that were ranked for, labelled or not
    candidates  training rows that each of them has met; 0 where there was no query
    compared    codes compared
    seconds     wall clock of comparing and counting, of reading the candidates, too
    sums        over the labelled queries
    digests     content digest of each part, in block order
    """

    queries: int
    candidates: int
    compared: int
    seconds: float
    sums: CurveSums
    digests: tuple[str, ...]

    def __add__(self, other: RetrievalReport) -> RetrievalReport:
        return RetrievalReport(
            self.queries + other.queries,
            max(self.candidates, other.candidates),
            self.compared + other.compared,
            self.seconds + other.seconds,
            self.sums + other.sums,
            self.digests + other.digests,
        )


def retrieve_block(
    block: Block, candidates: Candidates, selection: Selection, top: int, target_dir: str
) -> RetrievalReport:
    """Rank the candidates for the selected rows of a block of codes; write `part-<block>.parquet` in target_dir.

    top     neighbours written per query; 0 writes none, and the curve alone is wanted
    raises  NoCodes, the errors of `read_rows`, DiskFull

    A block of which nothing is selected writes an empty part, so that every block has one.
    """
    selected = selection.of(block)
    queries = codes_of(read_rows(block), block.store)
    if len(selected.index) != block.n_rows:
        queries = queries[selected.index]
    start = time.perf_counter()
    ranked = rank(queries, selected.labels, candidates, top, candidates.measure)
    seconds = time.perf_counter() - start
    found = Neighbours(selected.row_ids, selected.labels, *candidates.describe(ranked.rows), distances=ranked.distances)
    digest = write_neighbours(at(target_dir) / part_name(block.index), found)
    return RetrievalReport(
        len(queries),
        ranked.candidates,
        len(queries) * ranked.candidates * queries.shape[1],
        seconds,
        replace(ranked.sums, hits=found.hits(top)),
        (digest,),
    )
