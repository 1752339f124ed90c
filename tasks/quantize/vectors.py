"""Vector instructions for products on codes: what numba's own loops do not compile to.

Emitted as LLVM vectors (`tasks.emit`) and not as loops, because in a loop over arrays that might overlap the compiler
keeps sums in memory. Arguments are addresses; nothing is checked here, so only `tables` and `tables16` call these, with
buffers they made themselves.

The codes of GROUP subquantizers of a row are the bytes of a 64-bit word, lowest first: one load brings eight codes.
Their tables follow each other every TABLE_BYTES; entry c of a table is the line at 64 * c.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from tasks import emit
from tasks.emit import LANES, LINE, Builder, of_integers

GROUP = 8  # subquantizers whose codes are one word
TABLE_BYTES = 256 * LINE + 512  # not a multiple of a page: equal codes of a group would meet in one set of the cache
UNIT = 2  # words of a row that lie side by side for scores: one pass over the rows looks up UNIT * GROUP tables
TILE = 8  # rows of a matrix product whose sums are in registers
CODES_AHEAD, ROWS_AHEAD = 512, 4096  # bytes that are asked for before they are needed
ROUNDING = 1.5 * 2.0**23  # plus a float below 2^22 in size: rounded to an integer, which the lower bits hold

_SHORTS, _INTS = ir.VectorType(ir.IntType(16), 2 * LANES), ir.VectorType(emit.INT, 2 * LANES)
_WIDE_FLOATS, _PLACES = ir.VectorType(emit.FLOAT, 2 * LANES), ir.VectorType(emit.INT, 2 * LANES)


def _entries(b: Builder, tables: Any, codes: Any) -> list[Any]:
    """The address of the entry that each code of a row selects."""
    word, shift = emit.load(b, emit.WORD, codes, align=8), LINE.bit_length() - 1
    moved = [b.shl(word, emit.WORD(shift))] + [b.lshr(word, emit.WORD(8 * k - shift)) for k in range(1, GROUP)]
    places = [b.and_(m, emit.WORD(255 << shift)) for m in moved]
    return [b.add(b.add(tables, emit.WORD(k * TABLE_BYTES)), place) for k, place in enumerate(places)]


def _looked_up(b: Builder, tables: Any, codes: Any) -> Any:
    return emit.in_pairs(b.fadd, [emit.load(b, emit.FLOATS, entry) for entry in _entries(b, tables, codes)])


def _add_entries(n_words: int) -> Callable[..., None]:
    """target = sums + the entries that n_words words of codes select, word by word; target need not be aligned."""

    def build(b: Builder, target: Any, sums: Any, tables: Any, codes: Any) -> None:
        value = emit.load(b, emit.FLOATS, sums)
        for k in range(n_words):
            start = b.add(tables, emit.WORD(k * GROUP * TABLE_BYTES))
            value = b.fadd(value, _looked_up(b, start, b.add(codes, emit.WORD(8 * k))))
        emit.store(b, value, target, align=4)

    return build


def _scatter(b: Builder, source: Any, tables: Any, codes: Any) -> None:
    """Add source to the entries that codes select."""
    emit.prefetch(b, codes, CODES_AHEAD)
    vector = emit.load(b, emit.FLOATS, source)
    for entry in _entries(b, tables, codes):
        emit.store(b, b.fadd(emit.load(b, emit.FLOATS, entry), vector), entry)


def _looked_up16(b: Builder, tables: Any, codes: Any) -> Any:
    """The sum of the 16-bit entries that a unit of codes selects."""
    terms = []
    for k in range(UNIT):
        start = b.add(tables, emit.WORD(k * GROUP * TABLE_BYTES))
        terms += [emit.load(b, _SHORTS, entry) for entry in _entries(b, start, b.add(codes, emit.WORD(8 * k)))]
    return b.sext(emit.in_pairs(b.add, terms), _INTS)


def _added16(b: Builder, n_units: int, sums: Any, tables: Any, codes: Any, stride: Any) -> Any:
    value = emit.load(b, _INTS, sums)
    for k in range(n_units):
        start = b.add(tables, emit.WORD(k * UNIT * GROUP * TABLE_BYTES))
        value = b.add(value, _looked_up16(b, start, b.add(codes, b.mul(stride, emit.WORD(k)))))
    return value


def _add_entries16(n_units: int) -> Callable[..., None]:
    """target = sums + the entries that n_units units of codes, `stride` bytes apart, select: 32-bit integers."""

    def build(b: Builder, target: Any, sums: Any, tables: Any, codes: Any, stride: Any) -> None:
        emit.store(b, _added16(b, n_units, sums, tables, codes, stride), target)

    return build


def _scale_entries16(n_units: int) -> Callable[..., None]:
    """As `_add_entries16`, times scales, in float32; target need not be aligned."""

    def build(b: Builder, target: Any, sums: Any, tables: Any, codes: Any, stride: Any, scales: Any) -> None:
        values = b.sitofp(_added16(b, n_units, sums, tables, codes, stride), _WIDE_FLOATS)
        emit.store(b, b.fmul(values, emit.load(b, _WIDE_FLOATS, scales)), target, align=4)

    return build


def _copy(b: Builder, target: Any, source: Any) -> None:
    emit.store(b, emit.load(b, emit.FLOATS, source, align=4), target)


def _turn(n_words: int) -> Callable[..., None]:
    """target = the n_words words at source and at the rows below, `row` bytes apart: a line, one after the other."""
    n_rows, kind = LINE // (8 * n_words), ir.VectorType(emit.WORD, n_words)

    def join(b: Builder, left: Any, right: Any) -> Any:
        both = 2 * left.type.count
        return b.shuffle_vector(left, right, ir.Constant(ir.VectorType(emit.INT, both), list(range(both))))

    def build(b: Builder, target: Any, source: Any, row: Any) -> None:
        emit.prefetch(b, source, ROWS_AHEAD)
        parts = [emit.load(b, kind, b.add(source, b.mul(row, emit.WORD(r))), align=8) for r in range(n_rows)]
        while len(parts) > 1:
            parts = [join(b, *parts[r : r + 2]) for r in range(0, len(parts), 2)]
        emit.store(b, parts[0], target, align=8)

    return build


def _scale_lines(b: Builder, target: Any, source: Any, factors: Any) -> None:
    """target = source * factors, two vectors each; source need not be aligned."""
    emit.store(b, b.fmul(emit.load(b, _WIDE_FLOATS, source, align=4), emit.load(b, _WIDE_FLOATS, factors)), target)


def _subtract_line(b: Builder, target: Any, source: Any, factors: Any) -> None:
    """target -= factors * source; target need not be aligned."""
    product = b.fmul(emit.load(b, emit.FLOATS, factors), emit.load(b, emit.FLOATS, source))
    emit.store(b, b.fsub(emit.load(b, emit.FLOATS, target, align=4), product), target, align=4)


def _multiply(n_rows: int, n_vectors: int, finish: Callable[[Builder, list[Any]], Any]) -> Callable[..., None]:
    """out[r] = finish(sums over k < n of left[r * row + k * step] * right[k]) for r < n_rows, in order of k.

    Of (out, left, row, step, right, n): out LINE bytes apart, left float32 `row` and `step` bytes apart, right
    n_vectors lines; n >= 1.
    """

    def build(b: Builder, out: Any, left: Any, row: Any, step: Any, right: Any, n: Any) -> None:
        before, body, after = b.block, b.append_basic_block("k"), b.append_basic_block("done")
        b.branch(body)
        b.position_at_end(body)
        k, at, v = (b.phi(emit.WORD) for _ in range(3))
        sums = [b.phi(emit.FLOATS) for _ in range(n_rows * n_vectors)]
        vectors, place, grown = [emit.load(b, emit.FLOATS, v, i * LINE) for i in range(n_vectors)], at, []
        for r in range(n_rows):
            factor = emit.spread(b, emit.load(b, emit.FLOAT, place, align=4))
            for vector, total in zip(vectors, sums[r * n_vectors :], strict=False):
                grown.append(emit.call(b, f"llvm.fmuladd.v{LANES}f32", emit.FLOATS, factor, vector, total))
            place = b.add(place, row)
        zeros = [ir.Constant(emit.FLOATS, [0.0] * LANES)] * len(sums)
        ends = (b.add(k, emit.WORD(1)), b.add(at, step), b.add(v, emit.WORD(n_vectors * LINE)), *grown)
        for phi, start, end in zip((k, at, v, *sums), (emit.WORD(0), left, right, *zeros), ends, strict=True):
            phi.add_incoming(start, before)
            phi.add_incoming(end, body)
        b.cbranch(b.icmp_signed("<", ends[0], n), body, after)
        b.position_at_end(after)
        for r in range(n_rows):
            emit.store(b, finish(b, grown[r * n_vectors : (r + 1) * n_vectors]), out, r * LINE)

    return build


def _multiply_held(width: int) -> Callable[..., None]:
    """out[r] = sum over k < width of left[r, k] * right[k], in order of k, for r < n_rows: right stays in registers.

    Of (out, left, right, n_rows): out and right lines, left float32 C order; n_rows a positive multiple of TILE.
    """

    def build(b: Builder, out: Any, left: Any, right: Any, n_rows: Any) -> None:
        vectors = [emit.load(b, emit.FLOATS, right, k * LINE) for k in range(width)]
        before, body, after = b.block, b.append_basic_block("rows"), b.append_basic_block("done")
        b.branch(body)
        b.position_at_end(body)
        r, target, source = (b.phi(emit.WORD) for _ in range(3))
        sums = [ir.Constant(emit.FLOATS, [0.0] * LANES)] * TILE
        for k in range(width):
            for i in range(TILE):
                factor = emit.spread(b, emit.load(b, emit.FLOAT, source, 4 * (i * width + k), align=4))
                sums[i] = emit.call(b, f"llvm.fmuladd.v{LANES}f32", emit.FLOATS, factor, vectors[k], sums[i])
        for i in range(TILE):
            emit.store(b, sums[i], target, i * LINE)
        ends = (
            b.add(r, emit.WORD(TILE)),
            b.add(target, emit.WORD(TILE * LINE)),
            b.add(source, emit.WORD(TILE * width * 4)),
        )
        for phi, start, end in zip((r, target, source), (emit.WORD(0), out, left), ends, strict=True):
            phi.add_incoming(start, before)
            phi.add_incoming(end, body)
        b.cbranch(b.icmp_signed("<", ends[0], n_rows), body, after)
        b.position_at_end(after)

    return build


def _unchanged(_b: Builder, vectors: list[Any]) -> Any:
    return vectors[0]


def _rounded(b: Builder, vectors: list[Any]) -> Any:
    """Two vectors to the nearest 16-bit integers, halves to even: their bits once ROUNDING is added."""
    magic = ir.Constant(emit.FLOATS, [ROUNDING] * LANES)
    halves = [b.bitcast(b.fadd(vector, magic), _SHORTS) for vector in vectors]
    low = ir.Constant(_PLACES, [2 * i for i in range(2 * LANES)])  # little-endian: the lower half of each float
    return b.shuffle_vector(*halves, low)


copy_line, scale_lines = of_integers(_copy), of_integers(_scale_lines)
turn_words, turn_units = of_integers(_turn(1)), of_integers(_turn(UNIT))
add_word, add_unit, scatter = (
    of_integers(_add_entries(1)),
    of_integers(_add_entries(UNIT)),
    of_integers(_scatter),
)
add_unit16, add_units16 = (of_integers(_add_entries16(n)) for n in (1, 2))
scale_unit16, scale_units16 = (of_integers(_scale_entries16(n)) for n in (1, 2))
subtract_line = of_integers(_subtract_line)
multiply_eight, multiply_two, multiply_one = (of_integers(_multiply(n, 1, _unchanged)) for n in (8, 2, 1))
multiply_sixteen = of_integers(_multiply(16, 1, _unchanged))
multiply_width8, multiply_width16 = (of_integers(_multiply_held(n)) for n in (8, 16))
round_eight, round_one = (of_integers(_multiply(n, 2, _rounded)) for n in (8, 1))
