"""What vector instructions are written with: LLVM vectors of 16 float32, and intrinsics that numba's kernels call.

A vector is 64 bytes, one cache line; LLVM splits it on machines with narrower registers. Addresses are 64-bit integers;
nothing is checked here, so every module of such instructions is called by one other alone, with buffers that it made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numpy.typing import NDArray

from tasks.later import later, numba

Array = NDArray[Any]
Builder = Any

cgutils, types = later("numba.core.cgutils"), later("numba.core.types")

LANES = 16  # float32 of a vector
LINE = 64  # bytes of a vector, and of a cache line

BYTE, INT, WORD, FLOAT = ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.FloatType()
FLOATS = ir.VectorType(FLOAT, LANES)


def at(b: Builder, address: Any, offset: int) -> Any:
    """A pointer to `offset` bytes behind an address."""
    return b.inttoptr(b.add(address, WORD(offset)), ir.PointerType())


def load(b: Builder, kind: Any, address: Any, offset: int = 0, align: int = LINE) -> Any:
    """The value of a kind at an address and an offset, in bytes."""
    return b.load(at(b, address, offset), align=align, typ=kind)


def store(b: Builder, value: Any, address: Any, offset: int = 0, align: int = LINE) -> None:
    """Put a value where `load` finds it."""
    b.store(value, at(b, address, offset), align=align)


def call(b: Builder, name: str, kind: Any, *values: Any) -> Any:
    """What a function of LLVM gives, of a kind."""
    declared = cgutils.get_or_insert_function(b.module, ir.FunctionType(kind, [v.type for v in values]), name)
    return b.call(declared, values)


def prefetch(b: Builder, address: Any, offset: int) -> None:
    """Ask for a cache line that is read soon."""
    how = (INT(0), INT(3), INT(1))  # to read, keep, data
    call(b, "llvm.prefetch.p0", ir.VoidType(), at(b, address, offset), *how)


def in_pairs(add: Callable[[Any, Any], Any], terms: list[Any]) -> Any:
    """Terms added up: neighbours first, then pairs of neighbours: a fixed order of few steps."""
    while len(terms) > 1:
        terms = [add(*terms[i : i + 2]) for i in range(0, len(terms), 2)]
    return terms[0]


def spread(b: Builder, value: Any, n: int = LANES) -> Any:
    """A vector of n times the value."""
    kind, places = ir.VectorType(value.type, n), ir.Constant(ir.VectorType(INT, n), [0] * n)
    nothing = ir.Constant(kind, ir.Undefined)
    return b.shuffle_vector(b.insert_element(nothing, value, INT(0)), nothing, places)


def of_integers(build: Callable[..., None]) -> Any:
    """An intrinsic of one tuple of integers (addresses, strides, counts), built by a function of its members."""

    def typed(_typing: Any, integers: Any) -> Any:
        def generate(context: Any, b: Builder, _signature: Any, values: Any) -> Any:
            build(b, *cgutils.unpack_tuple(b, values[0]))
            return context.get_dummy_value()

        return types.void(integers), generate

    return numba.intrinsic(typed)


def _address(_typing: Any, array: Any) -> Any:
    """Of the first element of an array; signed, because numba adds signed and unsigned integers as floats.

    numba frees an array after the last line that names it, whoever still has its address: an array that a kernel makes
    is to be named inside the loop that uses the address, or after it.
    """

    def generate(context: Any, b: Builder, signature: Any, values: Any) -> Any:
        held = context.make_array(signature.args[0])(context, b, values[0])
        return b.ptrtoint(held.data, WORD)

    return types.int64(array), generate


address: Any = numba.intrinsic(_address)  # no kernel of its own, which would be compiled for every kind of array
