"""Vector instructions for encoding: which centroid is nearest to each of LANES sub-vectors, without a look at memory.

Sixteen rows are turned so that one coordinate of all of them is a vector. Their distances to 4 or 8 centroids are
kept in registers while the coordinates pass by, so that every vector loaded is used as many times and every centroid's
coordinate LANES times; the least distance so far and the name of its group of CHUNK centroids stay in registers, too.
Comparing groups instead of centroids saves most of the comparisons; afterwards `name` computes the distances of the one
group that won again, by the same operations in the same order, hence to the same bits, and looks for the least.

Centroids are turned likewise: block b of a codebook holds coordinate t of its centroids in line b * width + t, and
their norms in line b. A row's result does not depend on the rows beside it. As in `vectors`, arguments are addresses
and nothing is checked: `nearest_rows` calls these, with buffers that it made itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from tasks import emit
from tasks.emit import LANES, LINE, Builder

CHUNK = 8  # coordinates that are turned at once: what one register holds without AVX-512
UNROLLED = 4  # coordinates of a round, where widths allow: of narrow sub-vectors rounds cost as much as distances
NAMED = 4  # rows whose centroids are named side by side

_BIT, _DOUBLE, _INTS = ir.IntType(1), ir.DoubleType(), ir.VectorType(emit.INT, LANES)
_PART, _PART_INTS, _WIDE = (ir.VectorType(kind, CHUNK) for kind in (emit.FLOAT, emit.INT, _DOUBLE))


def _all(kind: Any, value: float) -> Any:
    return ir.Constant(kind, [value] * kind.count)


def _places(places: Sequence[int]) -> Any:
    return ir.Constant(ir.VectorType(emit.INT, len(places)), list(places))


def _fma(b: Builder, left: Any, right: Any, total: Any) -> Any:
    kind = "f64" if left.type == _WIDE else "f32"
    return emit.call(b, f"llvm.fmuladd.v{left.type.count}{kind}", left.type, left, right, total)


def _times(b: Builder, n: Any, starts: Sequence[Any], body: Callable[..., Sequence[Any]]) -> list[Any]:
    """Values carried through n >= 1 rounds of a loop: body(round, *values) gives the next ones."""
    before, inside, after = b.block, b.append_basic_block("round"), b.append_basic_block("after")
    b.branch(inside)
    b.position_at_end(inside)
    i, phis = b.phi(emit.WORD), [b.phi(start.type) for start in starts]
    values = list(body(i, *phis))
    grown, end = b.add(i, emit.WORD(1)), b.block
    for phi, start, value in zip((i, *phis), (emit.WORD(0), *starts), (grown, *values), strict=True):
        phi.add_incoming(start, before)
        phi.add_incoming(value, end)
    b.cbranch(b.icmp_signed("<", grown, n), inside, after)
    b.position_at_end(after)
    return values


def _turned(b: Builder, rows: list[Any]) -> list[Any]:
    """The columns of as many vectors as each has elements, by log2 of that many rounds of shuffles."""
    n = len(rows)
    low = _places([place for i in range(n // 2) for place in (i, n + i)])
    high = _places([place for i in range(n // 2, n) for place in (i, n + i)])
    for _ in range(n.bit_length() - 1):
        pairs = [(rows[i], rows[i + n // 2]) for i in range(n // 2)]
        rows = [b.shuffle_vector(*pair, places) for pair in pairs for places in (low, high)]
    return rows


def _turn(scale: float) -> Callable[..., None]:
    """target[t, i] = scale * (source[i, t] - origin[t]) for LANES rows i and n_chunks * CHUNK coordinates t.

    Source float32, `row` bytes from one i to the next, origin float32; neither need be aligned. A scale that is a power
    of two rounds nothing.
    """

    def build(b: Builder, target: Any, source: Any, row: Any, origin: Any, n_chunks: Any) -> None:
        def one(_k: Any, to: Any, at: Any, less: Any) -> Sequence[Any]:
            away = emit.load(b, _PART, less, align=4)
            for half in range(0, LANES, CHUNK):
                places = [b.add(at, b.mul(row, emit.WORD(half + i))) for i in range(CHUNK)]
                rows = [b.fsub(emit.load(b, _PART, place, align=4), away) for place in places]
                for t, column in enumerate(_turned(b, rows)):
                    scaled = column if scale == 1 else b.fmul(column, _all(_PART, scale))
                    emit.store(b, scaled, to, t * LINE + 4 * half, align=4 * CHUNK)
            return [b.add(to, emit.WORD(CHUNK * LINE)), *(b.add(place, emit.WORD(4 * CHUNK)) for place in (at, less))]

        _times(b, n_chunks, [target, source, origin], one)

    return build


def _square(b: Builder, target: Any, turned: Any, width: Any) -> None:
    """target[i] = a quarter of the sum over t < width of turned[t, i]^2, in order of t: norms of centroids times -2."""

    def one(_t: Any, at: Any, total: Any) -> Sequence[Any]:
        vector = emit.load(b, emit.FLOATS, at)
        return [b.add(at, emit.WORD(LINE)), _fma(b, vector, vector, total)]

    _, total = _times(b, width, [turned, _all(emit.FLOATS, 0.0)], one)
    emit.store(b, b.fmul(total, _all(emit.FLOATS, 0.25)), target)


def _least(b: Builder, vectors: list[Any]) -> Any:
    return emit.in_pairs(lambda left, right: b.select(b.fcmp_ordered("<", right, left), right, left), vectors)


def _distances(
    b: Builder, turned: Any, panel: Any, norms: Any, centroids: range, width: Any, unrolled: int
) -> list[Any]:
    """Of all LANES rows to some centroids of a block: norm + sum over t, in order of t."""

    def some(_k: Any, at: Any, factors: Any, *totals: Any) -> Sequence[Any]:
        grown = list(totals)
        for t in range(unrolled):
            vector = emit.load(b, emit.FLOATS, at, t * LINE)
            for k, c in enumerate(centroids):
                factor = emit.spread(b, emit.load(b, emit.FLOAT, factors, t * LINE + 4 * c, align=4))
                grown[k] = _fma(b, factor, vector, grown[k])
        return [*(b.add(place, emit.WORD(unrolled * LINE)) for place in (at, factors)), *grown]

    starts = [emit.spread(b, emit.load(b, emit.FLOAT, norms, 4 * c, align=4)) for c in centroids]
    return _times(b, b.udiv(width, emit.WORD(unrolled)), [turned, panel, *starts], some)[2:]


def together() -> int:
    """Centroids whose distances are in registers at once; no result depends on it."""
    from llvmlite import binding  # when something is compiled: it loads LLVM

    return 8 if binding.get_host_cpu_features().get("avx512f") else 4


def _find(unrolled: int, at_once: Callable[[], int] = together) -> Callable[..., None]:
    """out = the least distance of each of LANES rows, and in the next line the group (int32) of its centroid.

    Of (out, turned, panel, norms, n_blocks, width): all lines, the width a multiple of `unrolled`. Of equal distances
    the first group; where no distance is less than infinity, group 0.
    """

    def build(b: Builder, out: Any, turned: Any, panel: Any, norms: Any, n_blocks: Any, width: Any) -> None:
        size, n = b.mul(width, emit.WORD(LINE)), at_once()

        def one(_k: Any, factors: Any, norm: Any, group: Any, least: Any, names: Any) -> Sequence[Any]:
            for first in range(0, LANES, CHUNK):
                runs = range(first, first + CHUNK, n)
                each = [_least(b, _distances(b, turned, factors, norm, range(c, c + n), width, unrolled)) for c in runs]
                nearest = _least(b, each)
                less = b.fcmp_ordered("<", nearest, least)
                least, names = b.select(less, nearest, least), b.select(less, group, names)
                group = b.add(group, _all(_INTS, 1))
            return [b.add(factors, size), b.add(norm, emit.WORD(LINE)), group, least, names]

        starts = [panel, norms, _all(_INTS, 0), _all(emit.FLOATS, float("inf")), _all(_INTS, 0)]
        *_, least, names = _times(b, n_blocks, starts, one)
        emit.store(b, least, out)
        emit.store(b, names, out, LINE)

    return build


def _name(b: Builder, found: Any, turned: Any, panel: Any, norms: Any, width: Any) -> None:
    """The groups in the second line of `found` become centroids: the lowest of each group at the least distance."""
    size, per_block = b.mul(width, emit.WORD(LINE)), LANES // CHUNK

    def rows(_i: Any, place: Any, own: Any) -> Sequence[Any]:
        groups = [emit.load(b, emit.INT, place, LINE + 4 * i, align=4) for i in range(NAMED)]
        blocks = [b.sext(b.udiv(group, emit.INT(per_block)), emit.WORD) for group in groups]
        within = [b.sext(b.mul(b.urem(group, emit.INT(per_block)), emit.INT(4 * CHUNK)), emit.WORD) for group in groups]
        pairs = list(zip(blocks, within, strict=True))
        panels = [b.add(b.add(panel, b.mul(block, size)), offset) for block, offset in pairs]
        places = [b.add(b.add(norms, b.mul(block, emit.WORD(LINE))), offset) for block, offset in pairs]

        def one(t: Any, *totals: Any) -> Sequence[Any]:
            line, grown = b.mul(t, emit.WORD(LINE)), []
            at = b.add(own, line)
            for i, total in enumerate(totals):
                factor = emit.spread(b, emit.load(b, emit.FLOAT, at, 4 * i, align=4), CHUNK)
                grown.append(_fma(b, factor, emit.load(b, _PART, b.add(panels[i], line), align=4 * CHUNK), total))
            return grown

        starts = [emit.load(b, _PART, start, align=4 * CHUNK) for start in places]
        for i, away in enumerate(_times(b, width, starts, one)):
            least = emit.spread(b, emit.load(b, emit.FLOAT, place, 4 * i, align=4), CHUNK)
            bits = b.zext(b.bitcast(b.fcmp_ordered("==", away, least), ir.IntType(CHUNK)), emit.INT)
            lane = emit.call(b, "llvm.cttz.i32", emit.INT, b.or_(bits, emit.INT(1 << CHUNK)), _BIT(1))
            code = b.add(b.mul(groups[i], emit.INT(CHUNK)), b.and_(lane, emit.INT(CHUNK - 1)))
            emit.store(b, code, place, LINE + 4 * i, align=4)
        return [b.add(place, emit.WORD(4 * NAMED)), b.add(own, emit.WORD(4 * NAMED))]

    _times(b, emit.WORD(LANES // NAMED), [found, turned], rows)


def _put(b: Builder, target: Any, stride: Any, names: Any, n_rows: Any) -> None:
    """target[i * stride] = names[i] as a byte, for n_rows >= 1 rows."""

    def one(_i: Any, to: Any, at: Any) -> Sequence[Any]:
        emit.store(b, b.trunc(emit.load(b, emit.INT, at, align=4), ir.IntType(8)), to, align=1)
        return [b.add(to, stride), b.add(at, emit.WORD(4))]

    _times(b, n_rows, [target, names], one)


def _masked(b: Builder, place: Any, mask: Any) -> Any:
    """CHUNK floats, those that the mask (ints, all bits or none) leaves, in float64."""
    bits = b.and_(b.bitcast(emit.load(b, _PART, place, align=4), _PART_INTS), mask)
    return b.fpext(b.bitcast(bits, _PART), _WIDE)


def _chunks_of(b: Builder, row: Any, centroid: Any, masks: Any, n_chunks: Any, starts: Sequence[Any], step: Any) -> Any:
    """Values carried over the chunks of a sub-vector and its centroid: step(offset, value, away, *values), float64."""

    def one(k: Any, *values: Any) -> Sequence[Any]:
        offset = b.mul(k, emit.WORD(4 * CHUNK))
        mask = emit.load(b, _PART_INTS, b.add(masks, offset), align=4)
        value, other = (_masked(b, b.add(place, offset), mask) for place in (row, centroid))
        result: Sequence[Any] = step(offset, value, b.fsub(value, other), *values)
        return result

    return _times(b, n_chunks, starts, one)


def _centroid(b: Builder, book: Any, names: Any, i: Any, width: Any) -> tuple[Any, Any]:
    """Name of row i, and the address of what it names."""
    code = b.sext(emit.load(b, emit.INT, b.add(names, b.mul(i, emit.WORD(4))), align=4), emit.WORD)
    return code, b.add(book, b.mul(code, b.mul(width, emit.WORD(4))))


def _add_squares(
    b: Builder, totals: Any, rows: Any, stride: Any, book: Any, names: Any, width: Any, masks: Any, n_rows: Any
) -> None:
    """Add squares of n_rows >= 1 sub-vectors less their centroids, and of themselves, to two times CHUNK float64.

    rows float32, `stride` bytes apart; book (n_centroids, width) float32; names int32; masks as many int32 as chunks
    hold, -1 for coordinates below the width and 0 beyond, where rows and book may be read, too
    """
    n_chunks = b.udiv(b.add(width, emit.WORD(CHUNK - 1)), emit.WORD(CHUNK))

    def squares(_offset: Any, value: Any, away: Any, error: Any, norm: Any) -> Sequence[Any]:
        return [_fma(b, away, away, error), _fma(b, value, value, norm)]

    def row(i: Any, at: Any, *sums: Any) -> Sequence[Any]:
        _, centroid = _centroid(b, book, names, i, width)
        return [b.add(at, stride), *_chunks_of(b, at, centroid, masks, n_chunks, sums, squares)]

    starts = [emit.load(b, _WIDE, totals, k * 8 * CHUNK, align=8) for k in range(2)]
    for k, total in enumerate(_times(b, n_rows, [rows, *starts], row)[1:]):
        emit.store(b, total, totals, k * 8 * CHUNK, align=8)


def _add_assigned(b: Builder, sums: Any, counts: Any, errors: Any, *rest: Any) -> None:
    """Add n_rows >= 1 sub-vectors to the sums (float64), counts (int64) and squared errors of their centroids.

    The arguments from the fourth on are those of `_add_squares` from the second on. Sums (n_centroids, width) may be
    read and written up to the end of a chunk, where zeros are added. A row's error is added up over its chunks, then
    the CHUNK sums in pairs.
    """
    rows, stride, book, names, width, masks, n_rows = rest
    n_chunks = b.udiv(b.add(width, emit.WORD(CHUNK - 1)), emit.WORD(CHUNK))

    def row(i: Any, at: Any) -> Sequence[Any]:
        code, centroid = _centroid(b, book, names, i, width)
        total = b.add(sums, b.mul(code, b.mul(width, emit.WORD(8))))

        def added(offset: Any, value: Any, away: Any, error: Any) -> Sequence[Any]:
            place = b.add(total, b.mul(offset, emit.WORD(2)))
            emit.store(b, b.fadd(emit.load(b, _WIDE, place, align=8), value), place, align=8)
            return [_fma(b, away, away, error)]

        (squares,) = _chunks_of(b, at, centroid, masks, n_chunks, [_all(_WIDE, 0.0)], added)
        error = emit.in_pairs(b.fadd, [b.extract_element(squares, emit.INT(k)) for k in range(CHUNK)])
        place, count = (b.add(array, b.mul(code, emit.WORD(8))) for array in (errors, counts))
        emit.store(b, b.fadd(emit.load(b, _DOUBLE, place, align=8), error), place, align=8)
        emit.store(b, b.add(emit.load(b, emit.WORD, count, align=8), emit.WORD(1)), count, align=8)
        return [b.add(at, stride)]

    _times(b, n_rows, [rows], row)


def _widened(b: Builder, kind: Any, source: Any, n: int) -> Any:
    """n numbers at source as float32; of float16 the bits, because not every processor converts them.

    The exponents of float32 count from 127 below zero, those of float16 from 15: 2^112 between them, by which numbers
    below the least exponent become what they are, too. The largest exponent stands for no finite number in either.
    """
    if kind == emit.FLOAT:
        return emit.load(b, ir.VectorType(emit.FLOAT, n), source, align=4)
    ints, floats = ir.VectorType(emit.INT, n), ir.VectorType(emit.FLOAT, n)
    halves = b.zext(emit.load(b, ir.VectorType(kind, n), source, align=2), ints)
    size = b.and_(halves, _all(ints, 0x7FFF))
    bits = b.or_(b.shl(b.and_(halves, _all(ints, 0x8000)), _all(ints, 16)), b.shl(size, _all(ints, 13)))
    finite = b.icmp_signed("<", size, _all(ints, 0x7C00))
    scaled = b.fmul(b.bitcast(bits, floats), _all(floats, 2.0**112))
    return b.select(finite, scaled, b.bitcast(b.or_(bits, _all(ints, 0x7F800000)), floats))


def _widen(kind: Any) -> Callable[..., None]:
    """The first n numbers of n_rows rows, `row` bytes apart from source on, as float32 rows `stride` bytes apart."""
    size = kind.width // 8 if kind != emit.FLOAT else 4

    def build(b: Builder, target: Any, stride: Any, source: Any, row: Any, n: Any, n_rows: Any) -> None:
        whole, rest = b.udiv(n, emit.WORD(LANES)), b.urem(n, emit.WORD(LANES))

        def copied(count: int) -> Callable[..., Sequence[Any]]:
            def one(_k: Any, to: Any, at: Any) -> Sequence[Any]:
                emit.store(b, _widened(b, kind, at, count), to, align=4)
                return [b.add(to, emit.WORD(4 * count)), b.add(at, emit.WORD(size * count))]

            return one

        def one(_i: Any, to: Any, at: Any) -> Sequence[Any]:
            ends = _if_any(b, whole, [to, at], copied(LANES))
            _if_any(b, rest, ends, copied(1))
            return [b.add(to, stride), b.add(at, row)]

        _times(b, n_rows, [target, source], one)

    return build


def _if_any(b: Builder, n: Any, starts: Sequence[Any], body: Callable[..., Sequence[Any]]) -> list[Any]:
    """As `_times`, of n >= 0 rounds."""
    before, after = b.block, b.append_basic_block("joined")
    inside = b.append_basic_block("some")
    b.cbranch(b.icmp_signed(">", n, emit.WORD(0)), inside, after)
    b.position_at_end(inside)
    values, end = _times(b, n, starts, body), b.block
    b.branch(after)
    b.position_at_end(after)
    joined = []
    for start, value in zip(starts, values, strict=True):
        phi = b.phi(start.type)
        phi.add_incoming(start, before)
        phi.add_incoming(value, end)
        joined.append(phi)
    return joined


def _ask(b: Builder, source: Any, row: Any, n_rows: Any) -> None:
    """Ask for the line at source and at n_rows - 1 rows below, before they are needed."""

    def one(_i: Any, at: Any) -> Sequence[Any]:
        emit.prefetch(b, at, 0)
        return [b.add(at, row)]

    _times(b, n_rows, [source], one)


def _ask_named(b: Builder, entries: Any, size: Any, names: Any) -> None:
    """Ask for the first and the last line of what LANES names select among entries of a size in bytes."""

    def one(_i: Any, at: Any) -> Sequence[Any]:
        entry = b.add(entries, b.mul(b.sext(emit.load(b, emit.INT, at, align=4), emit.WORD), size))
        emit.prefetch(b, entry, 0)
        emit.prefetch(b, b.add(entry, size), -1)
        return [b.add(at, emit.WORD(4))]

    _times(b, emit.WORD(LANES), [names], one)


def _centre(b: Builder, mean: Any, spread: Any, book: Any, width: Any, n_centroids: Any) -> None:
    """mean[t] of a book's centroids and spread[t], the largest distance from it, for CHUNK coordinates; float64.

    Of numbers beyond the width, too; those of a book's end have to be there.
    """
    row = b.mul(width, emit.WORD(4))

    def wide(at: Any) -> Any:
        return b.fpext(emit.load(b, _PART, at, align=4), _WIDE)

    def added(_c: Any, at: Any, total: Any) -> Sequence[Any]:
        return [b.add(at, row), b.fadd(total, wide(at))]

    _, total = _times(b, n_centroids, [book, _all(_WIDE, 0.0)], added)
    middle = b.fdiv(total, emit.spread(b, b.sitofp(n_centroids, _DOUBLE), CHUNK))

    def furthest(_c: Any, at: Any, most: Any) -> Sequence[Any]:
        away = emit.call(b, f"llvm.fabs.v{CHUNK}f64", _WIDE, b.fsub(wide(at), middle))
        return [b.add(at, row), b.select(b.fcmp_ordered(">", away, most), away, most)]

    _, most = _times(b, n_centroids, [book, _all(_WIDE, 0.0)], furthest)
    emit.store(b, middle, mean, align=8)
    emit.store(b, most, spread, align=8)


turn_rows, turn_book, square = emit.of_integers(_turn(1.0)), emit.of_integers(_turn(-2.0)), emit.of_integers(_square)
find, find_unrolled, find_wide = (
    emit.of_integers(_find(1)),
    emit.of_integers(_find(UNROLLED)),
    emit.of_integers(_find(1, lambda: 8)),
)
name = emit.of_integers(_name)
add_squares, add_assigned = emit.of_integers(_add_squares), emit.of_integers(_add_assigned)
widen_floats, widen_halves = (emit.of_integers(_widen(kind)) for kind in (emit.FLOAT, ir.IntType(16)))
ask, ask_named, centre, put = (emit.of_integers(build) for build in (_ask, _ask_named, _centre, _put))
