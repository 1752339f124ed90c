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
HALVES = 2  # groups whose 16-bit entries are added before they are widened
CODES_AHEAD = 512  # bytes

_BYTE, _INT, _WORD, _FLOAT = ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.FloatType()
_FLOATS, _HALVES = ir.VectorType(_FLOAT, LANES), ir.VectorType(ir.IntType(16), LANES)
_SHORTS, _INTS = ir.VectorType(ir.IntType(16), 2 * LANES), ir.VectorType(_INT, 2 * LANES)
_WIDE_FLOATS = ir.VectorType(_FLOAT, 2 * LANES)


def _at(b: Builder, address: Any, offset: int) -> Any:
    return b.inttoptr(b.add(address, _WORD(offset)), ir.PointerType())


def _load(b: Builder, kind: Any, address: Any, offset: int = 0, align: int = LINE) -> Any:
    return b.load(_at(b, address, offset), align=align, typ=kind)


def _store(b: Builder, value: Any, address: Any, offset: int = 0, align: int = LINE) -> None:
    b.store(value, _at(b, address, offset), align=align)


def _call(b: Builder, name: str, kind: Any, *values: Any) -> Any:
    declared = cgutils.get_or_insert_function(b.module, ir.FunctionType(kind, [v.type for v in values]), name)
    return b.call(declared, values)


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


def _add_entries(b: Builder, target: Any, sums: Any, tables: Any, codes: Any) -> None:
    """target = sums + the entries that codes select; target need not be aligned."""
    _store(b, b.fadd(_load(b, _FLOATS, sums), _looked_up(b, tables, codes)), target, align=4)


def _scatter(b: Builder, source: Any, tables: Any, codes: Any) -> None:
    """Add source to the entries that codes select."""
    how = (_INT(0), _INT(3), _INT(1))  # to read, keep, data: the codes stream by
    _call(b, "llvm.prefetch.p0", ir.VoidType(), _at(b, codes, CODES_AHEAD), *how)
    vector = _load(b, _FLOATS, source)
    for entry in _entries(b, tables, codes):
        _store(b, b.fadd(_load(b, _FLOATS, entry), vector), entry)


def _looked_up16(b: Builder, tables: Any, codes: Any, stride: Any) -> Any:
    """The sum of HALVES * GROUP 16-bit entries; the words are `stride` bytes apart."""
    terms = []
    for half in range(HALVES):
        start = b.add(tables, _WORD(half * GROUP * TABLE_BYTES))
        entries = _entries(b, start, b.add(codes, b.mul(stride, _WORD(half))))
        terms += [_load(b, _SHORTS, entry) for entry in entries]
    return b.sext(_sum(b.add, terms), _INTS)


def _added16(b: Builder, sums: Any, tables: Any, codes: Any, stride: Any) -> Any:
    return b.add(_load(b, _INTS, sums), _looked_up16(b, tables, codes, stride))


def _add_entries16(b: Builder, target: Any, sums: Any, tables: Any, codes: Any, stride: Any) -> None:
    """target = sums + the entries that codes select; 2 * LANES 32-bit integers each."""
    _store(b, _added16(b, sums, tables, codes, stride), target)


def _scale_entries16(b: Builder, target: Any, sums: Any, tables: Any, codes: Any, stride: Any, scales: Any) -> None:
    """target = scales * (sums + the entries that codes select), float32; target need not be aligned."""
    values = b.sitofp(_added16(b, sums, tables, codes, stride), _WIDE_FLOATS)
    _store(b, b.fmul(values, _load(b, _WIDE_FLOATS, scales)), target, align=4)


def _copy(b: Builder, target: Any, source: Any) -> None:
    _store(b, _load(b, _FLOATS, source, align=4), target)


def _spread(b: Builder, value: Any) -> Any:
    nothing = ir.Constant(_FLOATS, ir.Undefined)
    zeros = ir.Constant(ir.VectorType(_INT, LANES), [0] * LANES)
    return b.shuffle_vector(b.insert_element(nothing, value, _INT(0)), nothing, zeros)


def _multiply(n_rows: int, finish: Callable[[Builder, Any], Any]) -> Callable[..., None]:
    """out[r] = finish(sum over k < n of left[r * row + k * step] * right[k]) for r < n_rows, in order of k.

    Of (out, left, row, step, right, n): out LINE bytes apart, left float32 `row` and `step` bytes apart, right lines;
    n >= 1.
    """

    def build(b: Builder, out: Any, left: Any, row: Any, step: Any, right: Any, n: Any) -> None:
        before, body, after = b.block, b.append_basic_block("k"), b.append_basic_block("done")
        b.branch(body)
        b.position_at_end(body)
        k, at, v = (b.phi(_WORD) for _ in range(3))
        sums = [b.phi(_FLOATS) for _ in range(n_rows)]
        vector, place, grown = _load(b, _FLOATS, v), at, []
        for r in range(n_rows):
            factor = _spread(b, _load(b, _FLOAT, place, align=4))
            grown.append(_call(b, f"llvm.fmuladd.v{LANES}f32", _FLOATS, factor, vector, sums[r]))
            place = b.add(place, row)
        zero = ir.Constant(_FLOATS, [0.0] * LANES)
        ends = (b.add(k, _WORD(1)), b.add(at, step), b.add(v, _WORD(LINE)), *grown)
        for phi, start, end in zip((k, at, v, *sums), (_WORD(0), left, right, *[zero] * n_rows), ends, strict=True):
            phi.add_incoming(start, before)
            phi.add_incoming(end, body)
        b.cbranch(b.icmp_signed("<", ends[0], n), body, after)
        b.position_at_end(after)
        for r in range(n_rows):
            value = finish(b, grown[r])
            _store(b, value, out, r * LINE, LINE if value.type == _FLOATS else LINE // 2)

    return build


def _unchanged(_b: Builder, vector: Any) -> Any:
    return vector


def _rounded(b: Builder, vector: Any) -> Any:
    """To the nearest 16-bit integers, halves to even."""
    return b.fptosi(_call(b, f"llvm.roundeven.v{LANES}f32", _FLOATS, vector), _HALVES)


copy_line, add_entries, scatter = _of_integers(_copy), _of_integers(_add_entries), _of_integers(_scatter)
add_entries16, scale_entries16 = _of_integers(_add_entries16), _of_integers(_scale_entries16)
multiply_eight, multiply_two, multiply_one = (_of_integers(_multiply(n, _unchanged)) for n in (8, 2, 1))
round_eight, round_one = (_of_integers(_multiply(n, _rounded)) for n in (8, 1))
