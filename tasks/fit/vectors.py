"""Vector instructions of steps on dense rows, as LLVM vectors of 16 float32: sums of few products onto lines.

Arguments are addresses; nothing is checked here, so only `panels` calls these, with buffers that it made itself. A sum
is added up in one order, fused, whatever lies in the registers beside it: so a tile's size changes no bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import binding, ir

from tasks import emit
from tasks.emit import LANES, LINE, Builder

WIDE = bool(binding.get_host_cpu_features().get("avx512f"))
TILE = 12 if WIDE else 6  # lines whose sums fill the registers: 12 of them, as one or two of a vector
HALF_TILE = 4  # for what is left over, before single lines


def _add_products(n_lines: int) -> Callable[..., None]:
    """out[r] += sum over k < n of left[r * row + k * step] * right[k] for r < n_lines, fused, in order of k.

    Of (out, left, row, step, right, n): out and right lines, LINE bytes apart; left float32, `row` and `step` bytes
    apart; n >= 1.
    """

    def build(b: Builder, out: Any, left: Any, row: Any, step: Any, right: Any, n: Any) -> None:
        starts = [emit.load(b, emit.FLOATS, out, r * LINE) for r in range(n_lines)]
        offsets = [b.mul(row, emit.WORD(r)) for r in range(n_lines)]
        before, body, after = b.block, b.append_basic_block("k"), b.append_basic_block("done")
        b.branch(body)
        b.position_at_end(body)
        k, at, line = (b.phi(emit.WORD) for _ in range(3))
        sums = [b.phi(emit.FLOATS) for _ in range(n_lines)]
        vector, grown = emit.load(b, emit.FLOATS, line), []
        for offset, total in zip(offsets, sums, strict=True):
            factor = emit.spread(b, emit.load(b, emit.FLOAT, b.add(at, offset), align=4))
            grown.append(emit.call(b, f"llvm.fmuladd.v{LANES}f32", emit.FLOATS, factor, vector, total))
        ends = (b.add(k, emit.WORD(1)), b.add(at, step), b.add(line, emit.WORD(LINE)), *grown)
        for phi, start, end in zip((k, at, line, *sums), (emit.WORD(0), left, right, *starts), ends, strict=True):
            phi.add_incoming(start, before)
            phi.add_incoming(end, body)
        b.cbranch(b.icmp_signed("<", ends[0], n), body, after)
        b.position_at_end(after)
        for r, total in enumerate(grown):
            emit.store(b, total, out, r * LINE)

    return build


def _put_lines(b: Builder, out: Any, source: Any, shift: Any, squares: Any, n: Any) -> None:
    """out = source - shift, n lines; squares: a line of the sums of squares, by place in a line, in order; n >= 1.

    out, shift and squares are aligned, source need not be, and may be out.
    """
    before, body, after = b.block, b.append_basic_block("k"), b.append_basic_block("done")
    b.branch(body)
    b.position_at_end(body)
    k, total = b.phi(emit.WORD), b.phi(emit.FLOATS)
    at = b.mul(k, emit.WORD(LINE))
    value = b.fsub(emit.load(b, emit.FLOATS, b.add(source, at), align=4), emit.load(b, emit.FLOATS, b.add(shift, at)))
    emit.store(b, value, b.add(out, at))
    ends = b.add(k, emit.WORD(1)), emit.call(b, f"llvm.fmuladd.v{LANES}f32", emit.FLOATS, value, value, total)
    for phi, start, end in zip((k, total), (emit.WORD(0), ir.Constant(emit.FLOATS, [0.0] * LANES)), ends, strict=True):
        phi.add_incoming(start, before)
        phi.add_incoming(end, body)
    b.cbranch(b.icmp_signed("<", ends[0], n), body, after)
    b.position_at_end(after)
    emit.store(b, ends[1], squares)


def _copy_half_lines(b: Builder, target: Any, source: Any, n: Any) -> None:
    """n half lines, 8 float32 each, neither aligned; n >= 1."""
    before, body, after = b.block, b.append_basic_block("k"), b.append_basic_block("done")
    b.branch(body)
    b.position_at_end(body)
    k = b.phi(emit.WORD)
    at, kind = b.mul(k, emit.WORD(LINE // 2)), ir.VectorType(emit.FLOAT, LANES // 2)
    emit.store(b, emit.load(b, kind, b.add(source, at), align=4), b.add(target, at), align=4)
    end = b.add(k, emit.WORD(1))
    k.add_incoming(emit.WORD(0), before)
    k.add_incoming(end, body)
    b.cbranch(b.icmp_signed("<", end, n), body, after)
    b.position_at_end(after)


put_lines, copy_half_lines = emit.of_integers(_put_lines), emit.of_integers(_copy_half_lines)
add_tile, add_half_tile, add_line = (emit.of_integers(_add_products(n)) for n in (TILE, HALF_TILE, 1))
