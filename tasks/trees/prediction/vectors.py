"""Vector instructions for products with the weights of a tree's nodes, as LLVM vectors of 16 float32.

A node's weights are rows of as many numbers as it has children, seldom a multiple of 16: the last vector of a row is
read and written under a mask, so that weights need no copy and no padding. Every sum is added up in the order of the
features, whatever rows lie beside it, so a row's scores do not depend on the rows that it is scored with. Arguments are
addresses; nothing is checked here, so only `products` calls these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from tasks import emit
from tasks.emit import LANES, LINE, Builder
from tasks.later import later

cgutils = later("numba.core.cgutils")

TILE = 8  # rows whose sums are in registers
MOST_VECTORS = 3  # of a row's sums in registers at once
MOST_GATHERED = 4  # vectors of a sparse row's sums in registers at once

_POINTER, _MASK = ir.PointerType(), ir.VectorType(ir.IntType(1), LANES)
_ZEROS = ir.Constant(emit.FLOATS, [0.0] * LANES)


def _first(b: Builder, count: Any) -> Any:
    """The mask of the first `count` lanes."""
    words = ir.VectorType(emit.WORD, LANES)
    nothing, zeros = ir.Constant(words, ir.Undefined), ir.Constant(ir.VectorType(emit.INT, LANES), [0] * LANES)
    spread = b.shuffle_vector(b.insert_element(nothing, count, emit.INT(0)), nothing, zeros)
    return b.icmp_signed("<", ir.Constant(words, list(range(LANES))), spread)


def _masked(b: Builder, name: str, kind: Any, *values: Any) -> Any:
    declared = ir.FunctionType(kind, [value.type for value in values])
    return b.call(cgutils.get_or_insert_function(b.module, declared, f"llvm.masked.{name}.v{LANES}f32.p0"), values)


def _read_line(b: Builder, address: Any, n_vectors: int, mask: Any) -> list[Any]:
    """n_vectors vectors of float32, aligned as such, the last under the mask."""
    vectors = [emit.load(b, emit.FLOATS, address, i * LINE, align=4) for i in range(n_vectors - 1)]
    place = b.inttoptr(b.add(address, emit.WORD((n_vectors - 1) * LINE)), _POINTER)
    return [*vectors, _masked(b, "load", emit.FLOATS, place, emit.INT(4), mask, _ZEROS)]


def _write_line(b: Builder, vectors: list[Any], address: Any, mask: Any) -> None:
    for i, vector in enumerate(vectors[:-1]):
        emit.store(b, vector, address, i * LINE, align=4)
    place = b.inttoptr(b.add(address, emit.WORD((len(vectors) - 1) * LINE)), _POINTER)
    _masked(b, "store", ir.VoidType(), vectors[-1], place, emit.INT(4), mask)


def _loop(b: Builder, n: Any, starts: list[Any], step: Callable[[Any, list[Any]], list[Any]]) -> list[Any]:
    """The values that `step(k, values)` makes of `starts` after k = 0 ... n - 1; n >= 1."""
    before, body, after = b.block, b.append_basic_block("k"), b.append_basic_block("done")
    b.branch(body)
    b.position_at_end(body)
    k, values = b.phi(emit.WORD), [b.phi(start.type) for start in starts]
    ends = [b.add(k, emit.WORD(1)), *step(k, values)]
    for phi, start, end in zip([k, *values], [emit.WORD(0), *starts], ends, strict=True):
        phi.add_incoming(start, before)
        phi.add_incoming(end, body)
    b.cbranch(b.icmp_signed("<", ends[0], n), body, after)
    b.position_at_end(after)
    return ends[1:]


def _multiply_tile(n_rows: int, n_vectors: int) -> Callable[..., None]:
    """out[r] = sum over k < n of row[r][k] * weights[k], fused, in order of k, for r < n_rows.

    Of (out, places, weights, step, last, n): places of the address of each row's float32; lines of n_vectors vectors,
    the last of `last` numbers, `step` bytes apart, in out and in weights; n >= 1.
    """

    def build(b: Builder, out: Any, places: Any, weights: Any, step: Any, last: Any, n: Any) -> None:
        mask = _first(b, last)
        rows = [emit.load(b, emit.WORD, places, 8 * r, align=8) for r in range(n_rows)]

        def add(k: Any, values: list[Any]) -> list[Any]:
            at, sums = values[0], values[1:]
            vectors, offset, grown = _read_line(b, at, n_vectors, mask), b.shl(k, emit.WORD(2)), []
            for r, row in enumerate(rows):
                factor = emit.spread(b, emit.load(b, emit.FLOAT, b.add(row, offset), align=4))
                for vector, total in zip(vectors, sums[r * n_vectors :], strict=False):
                    grown.append(emit.call(b, f"llvm.fmuladd.v{LANES}f32", emit.FLOATS, factor, vector, total))
            return [b.add(at, step), *grown]

        sums = _loop(b, n, [weights, *[_ZEROS] * (n_rows * n_vectors)], add)[1:]
        for r in range(n_rows):
            _write_line(b, sums[r * n_vectors : (r + 1) * n_vectors], b.add(out, b.mul(step, emit.WORD(r))), mask)

    return build


def _gather(n_vectors: int) -> Callable[..., None]:
    """out = sum over k < n of factors[k] * (the line at places[k] + offset), product and sum rounded, in order of k.

    Of (out, places, factors, offset, last, n): lines of n_vectors vectors, the last of `last` numbers; n >= 1. Not
    fused: so the sums are those of plain loops, bit for bit.
    """

    def build(b: Builder, out: Any, places: Any, factors: Any, offset: Any, last: Any, n: Any) -> None:
        mask = _first(b, last)

        def add(k: Any, sums: list[Any]) -> list[Any]:
            place = b.add(emit.load(b, emit.WORD, b.add(places, b.shl(k, emit.WORD(3))), align=8), offset)
            factor = emit.spread(b, emit.load(b, emit.FLOAT, b.add(factors, b.shl(k, emit.WORD(2))), align=4))
            vectors = _read_line(b, place, n_vectors, mask)
            return [b.fadd(total, b.fmul(factor, vector)) for total, vector in zip(sums, vectors, strict=True)]

        _write_line(b, _loop(b, n, [_ZEROS] * n_vectors, add), out, mask)

    return build


multiply_tile1, multiply_tile2, multiply_tile3 = (emit.of_integers(_multiply_tile(TILE, n)) for n in (1, 2, 3))
multiply_row1, multiply_row2, multiply_row3 = (emit.of_integers(_multiply_tile(1, n)) for n in (1, 2, 3))
gather1, gather2, gather3, gather4 = (emit.of_integers(_gather(n)) for n in (1, 2, 3, 4))
