"""Rows that come from first to last and are kept as codes alone: encoded, and looked at, while they go by.

The codebooks are learnt on a seeded sample of the first rows of the first source, of all its splits, which nobody knows
yet; of rows that are made, on a sample of their blocks. Then the rows go by once more.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np

from pipeline.ingest.coded_source import CodedSource
from pipeline.ingest.coder import Coder
from pipeline.ingest.labels import Labels
from pipeline.ingest.made_rows import IteratorStream, LabelledRows, MadeStream, joined
from pipeline.ingest.scan import Placed, Scan, refuse_non_finite, scan_rows
from pipeline.ingest.source import PIECE_BYTES
from pipeline.ingest.spool import Spool
from pipeline.ingest.stream import Chain, check_rows_came, spool_of, take_labels
from pipeline.ingest.threads import in_order, n_threads
from tasks.coded_rows import Coded, coded, zero_rows
from tasks.digest import digest_arrays, digest_text
from tasks.rows import Dense, PqCodes
from tasks.rows.base import Array
from tasks.seeds import stream

FEWEST = 16384  # rows for which a sample has room at first
FIRST = 4  # rows among which each row of the sample is drawn, where rows come from first to last
SAMPLED_BLOCKS = 32  # of rows that are made, from which the sample is drawn
STORED = "float32"  # what codes stand for
LABEL_BYTES, COLUMN_BYTES = 8, 13  # a row: of its label beside codes, and of all columns of a dataset
LEAST, MOST = 1e-30, 1e30  # mean square, and sum of squares, between which no value needs a closer look
MOST_WHOLE = 2.0**48  # the same sum of types that hold whole numbers which float32 does not


def encode_source(source: CodedSource) -> None:
    """Encode all rows of a source, as `stream.spooled` copies others. Raises as it does."""
    chain, job, coder = source.chain, source.job, source.coder
    if coder.learnt is None:
        about = {"body": PqCodes.body, "n_features": chain.n_features, "of": chain.about, "coder": coder.about()}
        name = digest_text(json.dumps(about, sort_keys=True))[:12]
        coder.learn(job.folder / f"codebooks-{name}.npz", lambda: sample_of(chain, coder))
    books = coder.codebooks
    columns: dict[str, np.dtype] = {"codes": np.dtype(np.uint8), "sums": np.dtype(np.float64)}
    with spool_of(chain, job, columns, PqCodes.body, codebooks=digest_arrays(books)) as spool:
        if chain.n_rows is not None and not spool.whole:
            spooled = len(books) + (LABEL_BYTES if chain.carries_labels else 0)
            spool.need(chain.n_rows * (spooled + len(books) + COLUMN_BYTES))
        source.found = _copy(source, spool)
    check_rows_came(chain, spool)
    source.codes = spool.column("codes").reshape(-1, len(books))
    error, norm = spool.column("sums").reshape(-1, 2).sum(axis=0).tolist()
    source.sums, source.shape = (error, norm), (spool.rows, chain.n_features)
    source.notes[:0] = chain.notes
    if chain.carries_labels:
        source.labels = Labels(chain.name, spool.column("labels"))
    elif chain.rides:
        take_labels(source, job, chain.labels)


class _Piece(NamedTuple):
    held: Coded
    found: Scan
    labels: Array | None


def _copy(source: CodedSource, spool: Spool) -> Scan:
    """Encode all rows that are not yet in the spool; what was found in all of them."""
    chain, job, coder = source.chain, source.job, source.coder
    found = Scan(**spool.state) if spool.state else Scan(STORED)
    coder.warm(chain.dtype)
    for held, seen, labels in in_order(partial(_encoded, coder, source), _pieces(chain, spool.rows), n_threads()):
        if coder.refuses:
            refuse_non_finite([seen])  # at once: the rest may take hours
        found.add(seen)
        beside = {} if labels is None else {"labels": labels}
        spool.append(len(held.codes), codes=held.codes, sums=np.array([held.error, held.norm]), **beside)
        if spool.due():
            _mark(spool, found)
        if job.tick:
            job.tick(spool.rows, chain.n_rows or 0)
    if not spool.whole:
        _mark(spool, found, whole=True)
    return found


def _mark(spool: Spool, found: Scan, whole: bool = False) -> None:
    spool.state = asdict(found)  # a copy of all that was found: not after every piece
    spool.mark(whole)


def _pieces(chain: Chain, start: int) -> Iterator[tuple[int, Callable[[], Dense]]]:
    """From row `start` on: first row of a piece, and the call that gives its rows.

    The same pieces however the rows come, so that sums over them are the same: blocks of rows that are made, or as many
    rows as are encoded at once. An earlier attempt has ended with a whole piece.
    """
    made = chain.streams[0]
    if isinstance(made, MadeStream):
        for job in made.jobs(start):
            yield start, job
            start += made.source.block_rows
        return
    size = max(1, PIECE_BYTES // (4 * chain.n_features))
    held: list[Dense] = []
    for slab in chain.slabs(start):
        rest = cast(Dense, slab)
        while (missing := size - sum(rows.n_rows for rows in held)) <= rest.n_rows:
            yield start, partial(joined, [*held, rest.part(0, missing)])
            start, held, rest = start + size, [], rest.part(missing, rest.n_rows)
        held.append(rest)
    if any(rows.n_rows for rows in held):
        yield start, partial(joined, held)


def _encoded(coder: Coder, places: Placed, piece: tuple[int, Callable[[], Dense]]) -> _Piece:
    """Codes of a piece, and what is found in it: by sums over its rows where these tell enough."""
    start, rows = piece[0], piece[1]()
    values, found = rows.values, Scan(STORED)
    held = coded(values, coder.codebooks)
    most = MOST if values.dtype in (np.float16, np.float32) else MOST_WHOLE
    if LEAST * values.size <= held.norm <= most:
        found.peak = float(np.sqrt(held.norm / values.size))  # at least this
        found.zero_rows = zero_rows(values, held.codes, coder.zero_codes)
    else:
        found = scan_rows(places, start, rows, STORED, coder.largest(rows.n_features))
        if found.bad_rows:
            values = values.copy()
            values[np.array(found.bad_rows) - start] = 0
            held = coded(values, coder.codebooks)
    return _Piece(held, found, rows.labels if isinstance(rows, LabelledRows) else None)


# ---- the sample --------------------------------------------------------------------------------------------------


def sample_of(chain: Chain, coder: Coder) -> Array:
    """The rows (n, n_features) float32 that codebooks are learnt on, in their order; all of them are finite."""
    first, wanted = chain.streams[0], coder.params.sample
    if isinstance(first, MadeStream):
        return _of_blocks(first, wanted, coder.seed)
    if isinstance(first, IteratorStream):
        return _drawn(iter(first.look(wanted)), wanted, wanted, coder.seed)
    return _drawn(chain.slabs(0), wanted, FIRST * wanted, coder.seed)


def _drawn(slabs: Iterator[Any], wanted: int, first: int, seed: int) -> Array:
    """`wanted` of the first rows: those with the smallest of seeded keys. No other rows are held."""
    keys, start = stream(seed, "ingest", "sample"), 0
    kept, worst = np.empty((0, 0), np.float32), list[tuple[float, int]]()  # rows, and of each -key and its place
    for slab in slabs:
        values = slab.values[: first - start]
        for row, key in zip(values, keys.random(len(values)).tolist(), strict=True):
            full = len(worst) == wanted
            if full and key >= -worst[0][0]:
                continue
            plain = _as_floats(row)
            if np.isfinite(plain).all():
                place = worst[0][1] if full else len(worst)
                if place == len(kept):
                    kept = _larger(kept, len(plain), wanted)
                kept[place] = plain
                (heapq.heapreplace if full else heapq.heappush)(worst, (-key, place))
        start += len(slab.values)
        if start >= first:
            break
    return kept[: len(worst)]


def _larger(kept: Array, width: int, wanted: int) -> Array:
    """Twice the room, `wanted` rows at most: there may be far fewer rows than are wanted."""
    larger = np.empty((min(wanted, max(FEWEST, 2 * len(kept))), width), np.float32)
    if len(kept):
        larger[: len(kept)] = kept
    return larger


def _of_blocks(made: MadeStream, wanted: int, seed: int) -> Array:
    """Rows of SAMPLED_BLOCKS blocks, or as many as hold the wanted number."""
    source = made.source
    count = min(source.n_blocks, max(SAMPLED_BLOCKS, -(-wanted // source.block_rows)))
    chosen = np.sort(stream(seed, "ingest", "sample-blocks").permutation(source.n_blocks)[:count])
    share = min(source.block_rows, -(-wanted // count))

    def drawn(number: int) -> Array:
        values = made.block(number).values
        index = stream(seed, "ingest", "sample-rows", number).permutation(len(values))[:share]
        taken = _as_floats(values[np.sort(index)])
        return taken[np.isfinite(taken).all(axis=1)]

    kept, filled = np.empty((count * share, source.n_features), np.float32), 0
    for rows in in_order(drawn, chosen.tolist(), n_threads()):
        kept[filled : filled + len(rows)] = rows
        filled += len(rows)
    return kept[:filled]


def _as_floats(values: Array) -> Array:
    """As they will be encoded; what is too large for float32 is infinite, and is refused when it goes by."""
    with np.errstate(over="ignore"):
        return np.asarray(values, np.float32)
