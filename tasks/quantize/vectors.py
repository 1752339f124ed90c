"""Vector instructions for products on codes: what numba's own loops do not compile to.

Emitted as LLVM vectors of 16 float32 (64 bytes, one cache line) and not as loops, because in a loop over arrays that
might overlap the compiler keeps sums in memory. LLVM splits the vectors on machines with narrower registers. Arguments
are addresses; nothing is checked here, so only `tables` and `tables16` call these, with buffers they made themselves.

The codes of GROUP subquantizers of a row are the bytes of a 64-bit word, lowest first: one load brings eight codes.
Their tables follow each other every TABLE_BYTES; entry c of a table is the line at 64 * c.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

Array = NDArray[Any]
Builder = Any

LANES = 16  # float32 of a vector
LINE = 64  # bytes of a vector, and of a cache line
GROUP = 8  # subquantizers whose codes are one word
TABLE_BYTES = 256 * LINE + 512  # not a multiple of a page: equal codes of a group would meet in one set of the cache
UNIT = 2  # words of a row that lie side by side for scores: one pass over the rows looks up UNIT * GROUP tables
TILE = 8  # rows of a matrix product whose sums are in registers
CODES_AHEAD, ROWS_AHEAD = 512, 4096  # bytes that are asked for before they are needed
ROUNDING = 1.5 * 2.0**23  # plus a float below 2^22 in size: rounded to an integer, which the lower bits hold

_BYTE, _INT, _WORD, _FLOAT = ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.FloatType()
_FLOATS = ir.VectorType(_FLOAT, LANES)
_SHORTS, _INTS = ir.VectorType(ir.IntType(16), 2 * LANES), ir.VectorType(_INT, 2 * LANES)
_WIDE_FLOATS, _PLACES = ir.VectorType(_FLOAT, 2 * LANES), ir.VectorType(_INT, 2 * LANES)


def _at(b: Builder, address: Any, offset: int) -> Any:
    return b.inttoptr(b.add(address, _WORD(offset)), ir.PointerType())


def _load(b: Builder, kind: Any, address: Any, offset: int = 0, align: int = LINE) -> Any:
    return b.load(_at(b, address, offset), align=align, typ=kind)


def _store(b: Builder, value: Any, address: Any, offset: int = 0, align: int = LINE) -> None:
    b.store(value, _at(b, address, offset), align=align)


def _call(b: Builder, name: str, kind: Any, *values: Any) -> Any:
    declared = cgutils.get_or_insert_function(b.module, ir.FunctionType(kind, [v.type for v in values]), name)
    return b.call(declared, values)


def _prefetch(b: Builder, address: Any, offset: int) -> None:
    how = (_INT(0), _INT(3), _INT(1))  # to read, keep, data
    _call(b, "llvm.prefetch.p0", ir.VoidType(), _at(b, address, offset), *how)


def _sum(add: Callable[[Any, Any], Any], terms: list[Any]) -> Any:
    """Neighbours first, then pairs of neighbours: a fixed order of few steps."""
    while len(terms) > 1:
        terms = [add(*terms[i : i + 2]) for i in range(0, len(terms), 2)]
    return terms[0]


def _entries(b: Builder, tables: Any, codes: Any) -> list[Any]:
    """The address of the entry that each code of a row selects."""
    word, shift = _load(b, _WORD, codes, align=8), LINE.bit_length() - 1
    moved = [b.shl(word, _WORD(shift))] + [b.lshr(word, _WORD(8 * k - shift)) for k in range(1, GROUP)]
    places = [b.and_(m, _WORD(255 << shift)) for m in moved]
    return [b.add(b.add(tables, _WORD(k * TABLE_BYTES)), place) for k, place in enumerate(places)]


def _of_integers(build: Callable[..., None]) -> Any:
    """An intrinsic of one tuple of integers (addresses, strides, counts), built by a function of its members."""

    def typed(_typing: Any, integers: Any) -> Any:
        def generate(context: Any, b: Builder, _signature: Any, values: Any) -> Any:
            build(b, *cgutils.unpack_tuple(b, values[0]))
            return context.get_dummy_value()

        return types.void(integers), generate

    return intrinsic(typed)


def _looked_up(b: Builder, tables: Any, codes: Any) -> Any:
    return _sum(b.fadd, [_load(b, _FLOATS, entry) for entry in _entries(b, tables, codes)])


def _add_entries(n_words: int) -> Callable[..., None]:
    """target = sums + the entries that n_words words of codes select, word by word; target need not be aligned."""

    def build(b: Builder, target: Any, sums: Any, tables: Any, codes: Any) -> None:
        value = _load(b, _FLOATS, sums)
        for k in range(n_words):
            start = b.add(tables, _WORD(k * GROUP * TABLE_BYTES))
            value = b.fadd(value, _looked_up(b, start, b.add(codes, _WORD(8 * k))))
        _store(b, value, target, align=4)

    return build


def _scatter(b: Builder, source: Any, tables: Any, codes: Any) -> None:
    """Add source to the entries that codes select."""
    _prefetch(b, codes, CODES_AHEAD)
    vector = _load(b, _FLOATS, source)
    for entry in _entries(b, tables, codes):
        _store(b, b.fadd(_load(b, _FLOATS, entry), vector), entry)


def _looked_up16(b: Builder, tables: Any, codes: Any) -> Any:
    """The sum of the 16-bit entries that a unit of codes selects."""
    terms = []
    for k in range(UNIT):
        start = b.add(tables, _WORD(k * GROUP * TABLE_BYTES))
        terms += [_load(b, _SHORTS, entry) for entry in _entries(b, start, b.add(codes, _WORD(8 * k)))]
    return b.sext(_sum(b.add, terms), _INTS)


def _added16(b: Builder, n_units: int, sums: Any, tables: Any, codes: Any, stride: Any) -> Any:
    value = _load(b, _INTS, sums)
    for k in range(n_units):
        start = b.add(tables, _WORD(k * UNIT * GROUP * TABLE_BYTES))
        value = b.add(value, _looked_up16(b, start, b.add(codes, b.mul(stride, _WORD(k)))))
    return value


def _add_entries16(n_units: int) -> Callable[..., None]:
    """target = sums + the entries that n_units units of codes, `stride` bytes apart, select: 32-bit integers."""

    def build(b: Builder, target: Any, sums: Any, tables: Any, codes: Any, stride: Any) -> None:
        _store(b, _added16(b, n_units, sums, tables, codes, stride), target)

    return build


def _scale_entries16(n_units: int) -> Callable[..., None]:
    """As `_add_entries16`, times scales, in float32; target need not be aligned."""

    def build(b: Builder, target: Any, sums: Any, tables: Any, codes: Any, stride: Any, scales: Any) -> None:
        values = b.sitofp(_added16(b, n_units, sums, tables, codes, stride), _WIDE_FLOATS)
        _store(b, b.fmul(values, _load(b, _WIDE_FLOATS, scales)), target, align=4)

    return build


def _copy(b: Builder, target: Any, source: Any) -> None:
    _store(b, _load(b, _FLOATS, source, align=4), target)


def _turn(n_words: int) -> Callable[..., None]:
    """target = the n_words words at source and at the rows below, `row` bytes apart: a line, one after the other."""
    n_rows, kind = LINE // (8 * n_words), ir.VectorType(_WORD, n_words)

    def join(b: Builder, left: Any, right: Any) -> Any:
        both = 2 * left.type.count
        return b.shuffle_vector(left, right, ir.Constant(ir.VectorType(_INT, both), list(range(both))))

    def build(b: Builder, target: Any, source: Any, row: Any) -> None:
        _prefetch(b, source, ROWS_AHEAD)
        parts = [_load(b, kind, b.add(source, b.mul(row, _WORD(r))), align=8) for r in range(n_rows)]
        while len(parts) > 1:
            parts = [join(b, *parts[r : r + 2]) for r in range(0, len(parts), 2)]
        _store(b, parts[0], target, align=8)

    return build


def _scale_lines(b: Builder, target: Any, source: Any, factors: Any) -> None:
    """target = source * factors, two vectors each; source need not be aligned."""
    _store(b, b.fmul(_load(b, _WIDE_FLOATS, source, align=4), _load(b, _WIDE_FLOATS, factors)), target)


def _subtract_line(b: Builder, target: Any, source: Any, factors: Any) -> None:
    """target -= factors * source; target need not be aligned."""
    product = b.fmul(_load(b, _FLOATS, factors), _load(b, _FLOATS, source))
    _store(b, b.fsub(_load(b, _FLOATS, target, align=4), product), target, align=4)


def _spread(b: Builder, value: Any) -> Any:
    nothing = ir.Constant(_FLOATS, ir.Undefined)
    zeros = ir.Constant(ir.VectorType(_INT, LANES), [0] * LANES)
    return b.shuffle_vector(b.insert_element(nothing, value, _INT(0)), nothing, zeros)


def _multiply(n_rows: int, n_vectors: int, finish: Callable[[Builder, list[Any]], Any]) -> Callable[..., None]:
    """out[r] = finish(sums over k < n of left[r * row + k * step] * right[k]) for r < n_rows, in order of k.

    Of (out, left, row, step, right, n): out LINE bytes apart, left float32 `row` and `step` bytes apart, right
    n_vectors lines; n >= 1.
    """

    def build(b: Builder, out: Any, left: Any, row: Any, step: Any, right: Any, n: Any) -> None:
        before, body, after = b.block, b.append_basic_block("k"), b.append_basic_block("done")
        b.branch(body)
        b.position_at_end(body)
        k, at, v = (b.phi(_WORD) for _ in range(3))
        sums = [b.phi(_FLOATS) for _ in range(n_rows * n_vectors)]
        vectors, place, grown = [_load(b, _FLOATS, v, i * LINE) for i in range(n_vectors)], at, []
        for r in range(n_rows):
            factor = _spread(b, _load(b, _FLOAT, place, align=4))
            for vector, total in zip(vectors, sums[r * n_vectors :], strict=False):
                grown.append(_call(b, f"llvm.fmuladd.v{LANES}f32", _FLOATS, factor, vector, total))
            place = b.add(place, row)
        zeros = [ir.Constant(_FLOATS, [0.0] * LANES)] * len(sums)
        ends = (b.add(k, _WORD(1)), b.add(at, step), b.add(v, _WORD(n_vectors * LINE)), *grown)
        for phi, start, end in zip((k, at, v, *sums), (_WORD(0), left, right, *zeros), ends, strict=True):
            phi.add_incoming(start, before)
            phi.add_incoming(end, body)
        b.cbranch(b.icmp_signed("<", ends[0], n), body, after)
        b.position_at_end(after)
        for r in range(n_rows):
            _store(b, finish(b, grown[r * n_vectors : (r + 1) * n_vectors]), out, r * LINE)

    return build


def _multiply_held(width: int) -> Callable[..., None]:
    """out[r] = sum over k < width of left[r, k] * right[k], in order of k, for r < n_rows: right stays in registers.

    Of (out, left, right, n_rows): out and right lines, left float32 C order; n_rows a positive multiple of TILE.
    """

    def build(b: Builder, out: Any, left: Any, right: Any, n_rows: Any) -> None:
        vectors = [_load(b, _FLOATS, right, k * LINE) for k in range(width)]
        before, body, after = b.block, b.append_basic_block("rows"), b.append_basic_block("done")
        b.branch(body)
        b.position_at_end(body)
        r, target, source = (b.phi(_WORD) for _ in range(3))
        sums = [ir.Constant(_FLOATS, [0.0] * LANES)] * TILE
        for k in range(width):
            for i in range(TILE):
                factor = _spread(b, _load(b, _FLOAT, source, 4 * (i * width + k), align=4))
                sums[i] = _call(b, f"llvm.fmuladd.v{LANES}f32", _FLOATS, factor, vectors[k], sums[i])
        for i in range(TILE):
            _store(b, sums[i], target, i * LINE)
        ends = (b.add(r, _WORD(TILE)), b.add(target, _WORD(TILE * LINE)), b.add(source, _WORD(TILE * width * 4)))
        for phi, start, end in zip((r, target, source), (_WORD(0), out, left), ends, strict=True):
            phi.add_incoming(start, before)
            phi.add_incoming(end, body)
        b.cbranch(b.icmp_signed("<", ends[0], n_rows), body, after)
        b.position_at_end(after)

    return build


def _unchanged(_b: Builder, vectors: list[Any]) -> Any:
    return vectors[0]


def _rounded(b: Builder, vectors: list[Any]) -> Any:
    """Two vectors to the nearest 16-bit integers, halves to even: their bits once ROUNDING is added."""
    magic = ir.Constant(_FLOATS, [ROUNDING] * LANES)
    halves = [b.bitcast(b.fadd(vector, magic), _SHORTS) for vector in vectors]
    low = ir.Constant(_PLACES, [2 * i for i in range(2 * LANES)])  # little-endian: the lower half of each float
    return b.shuffle_vector(*halves, low)


copy_line, scale_lines = _of_integers(_copy), _of_integers(_scale_lines)
turn_words, turn_units = _of_integers(_turn(1)), _of_integers(_turn(UNIT))
add_word, add_unit, scatter = _of_integers(_add_entries(1)), _of_integers(_add_entries(UNIT)), _of_integers(_scatter)
add_unit16, add_units16 = (_of_integers(_add_entries16(n)) for n in (1, 2))
scale_unit16, scale_units16 = (_of_integers(_scale_entries16(n)) for n in (1, 2))
subtract_line = _of_integers(_subtract_line)
multiply_eight, multiply_two, multiply_one = (_of_integers(_multiply(n, 1, _unchanged)) for n in (8, 2, 1))
multiply_sixteen = _of_integers(_multiply(16, 1, _unchanged))
multiply_width8, multiply_width16 = (_of_integers(_multiply_held(n)) for n in (8, 16))
round_eight, round_one = (_of_integers(_multiply(n, 2, _rounded)) for n in (8, 1))
