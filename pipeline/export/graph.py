"""ONNX graphs, node by node: names are made here, constants are collected and counted.

Written for operator set 18 and IR version 8 (ONNX 1.13), so that runtimes of years ago read the files:
onnxruntime from 1.15 on was tried. Rows are the first axis everywhere, of any number, 0 too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import import_module
from itertools import count
from typing import Any

import numpy as np

from pipeline.export.errors import ExportTooLarge
from tasks.rows.base import Array
from tasks.urls import PackageMissing

OPSET, IR_VERSION = 18, 8
MOST_BYTES = (1 << 31) - (1 << 24)  # of constants: a protobuf message has less than 2 GB, and names take some
SMALL = 16  # numbers of a constant that is held once
DTYPES = {"f4": np.float32, "f8": np.float64, "i8": np.int64, "b": np.bool_}


def onnx_package() -> Any:
    """The module onnx, with its checker. Raises PackageMissing."""
    try:
        import_module("onnx.checker")
        return import_module("onnx")
    except ImportError:
        what = "writing ONNX files needs a package that is not installed"
        raise PackageMissing(what, "--to onnx", 'pip install "labelgrove[onnx]"') from None


def check_bytes(nbytes: int) -> None:
    """Raises ExportTooLarge for constants that do not fit one file."""
    if nbytes > MOST_BYTES:
        what = f"its weights and tables take {nbytes:,} bytes as ONNX holds them, one file at most {MOST_BYTES:,}"
        raise ExportTooLarge(what, "--to onnx", "use --to npz, which holds them as they are")


class Graph:
    """A graph that grows, or the body of a loop in one: values are known by their names.

    Every verb adds nodes and returns the name of the result. A body sees the values and constants of its graph.
    """

    def __init__(self, within: Graph | None = None) -> None:
        self.nodes: list[Any] = []
        self.onnx: Any = within.onnx if within else onnx_package()
        self._numbers: Any = within._numbers if within else count()
        self.constants: dict[str, Any] = within.constants if within else {}
        self._known: dict[tuple[Any, ...], str] = within._known if within else {}
        self._root: Graph = within._root if within else self
        self.nbytes = 0

    def name(self, word: str) -> str:
        """A name that nothing else has."""
        return f"{word}_{next(self._numbers)}"

    def const(self, values: Any, dtype: str | None = None) -> str:
        """A constant array, held once for equal small ones; dtype: one of DTYPES. Raises ExportTooLarge."""
        array = np.asarray(values, None if dtype is None else DTYPES[dtype])
        key = (array.dtype.str, array.shape, array.tobytes()) if array.size <= SMALL else None
        if key is not None and key in self._known:
            return self._known[key]
        self._root.nbytes += array.nbytes
        check_bytes(self._root.nbytes)
        name = self.name("const")
        array = np.array(array, array.dtype.newbyteorder("<"), order="C", copy=None)
        self.constants[name] = self.onnx.numpy_helper.from_array(array, name)
        if key is not None:
            self._known[key] = name
        return name

    def ops(self, kind: str, *inputs: str, n_outputs: int = 1, **attributes: Any) -> list[str]:
        """A node of several outputs."""
        names = [self.name(kind) for _ in range(n_outputs)]
        self.nodes.append(self.onnx.helper.make_node(kind, list(inputs), names, **attributes))
        return names

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """A node of one output."""
        return self.ops(kind, *inputs, **attributes)[0]

    # ---- verbs that take a constant beside names, or several nodes ----

    def cast(self, value: str, dtype: str) -> str:
        return self.op("Cast", value, to=self._type(dtype))

    def gather(self, table: str, index: str, axis: int = 0) -> str:
        """Rows (or columns) of a table by number."""
        return self.op("Gather", table, index, axis=axis)

    def pick(self, values: str, index: str) -> str:
        """values[i, index[i, j]]: (n, m) of (n, ...) and int64 (n, m)."""
        return self.op("GatherElements", values, index, axis=1)

    def put(self, values: str, index: str, updates: str, reduction: str = "none") -> str:
        """values (n, m) with updates (n, k) at columns index (n, k)."""
        return self.op("ScatterElements", values, index, updates, axis=1, reduction=reduction)

    def top(self, values: str, k: int, largest: bool = True) -> tuple[str, str]:
        """(values, columns) of the k best of each row, best first, ties to the lower column."""
        some, none = Graph(self), Graph(self)
        found = some.ops("TopK", values, self.const([k], "i8"), n_outputs=2, axis=1, largest=int(largest))
        empty = none.columns(values, 0, k)
        best, columns = self.where_rows(values, some, found, none, [empty, none.cast(empty, "i8")])
        return best, columns

    def where_rows(self, like: str, some: Graph, found: Sequence[str], none: Graph, empty: Sequence[str]) -> list[str]:
        """What one body gives if `like` has rows, and the other if it has none.

        For what must not be asked of no rows: TopK and a product of stacks, where onnxruntime before 1.31 divides by 0,
        and its process ends.
        """
        any_row = self.cast(self.op("Shape", like, start=0, end=1), "b")
        branches = {"then_branch": some._branch(found), "else_branch": none._branch(empty)}
        return self.ops("If", any_row, n_outputs=len(found), **branches)

    def most(self, values: str, axis: int = 1) -> str:
        return self.op("ReduceMax", values, self.const([axis], "i8"), keepdims=1)

    def total(self, values: str, axis: int = 1) -> str:
        return self.op("ReduceSum", values, self.const([axis], "i8"), keepdims=1)

    def squeezed(self, value: str) -> str:
        """(n,) of (n, 1)."""
        return self.op("Squeeze", value, self.const([1], "i8"))

    def unsqueezed(self, value: str, axis: int) -> str:
        """With one more axis, of length 1."""
        return self.op("Unsqueeze", value, self.const([axis], "i8"))

    # No length is ever left to be inferred (-1): of 0 rows there is nothing to infer it from.

    def shaped(self, value: str, *lengths: int) -> str:
        """(n, *lengths) of (n, ...)."""
        return self.op("Reshape", value, self.const((0, *lengths), "i8"))

    def joined(self, value: str, last: int) -> str:
        """(n, m * last) of (n, m, last), m being known when the graph runs."""
        lengths = self.op("Mul", self.op("Shape", value, start=0, end=2), self.const([1, last], "i8"))
        return self.op("Reshape", value, lengths)  # of lengths put together by Concat, onnxruntime makes (0, -1)

    def columns(self, value: str, start: int, stop: int) -> str:
        """value[:, start:stop]."""
        return self.op("Slice", value, *(self.const([n], "i8") for n in (start, stop, 1)))

    def filled(self, like: str, width: int, value: Any, dtype: str) -> str:
        """(n, width) of one value, n being the rows of `like`."""
        n_rows = self.op("Shape", like, start=0, end=1)
        shape = self.op("Concat", n_rows, self.const([width], "i8"), axis=0)
        return self.op("Expand", self.const([[value]], dtype), shape)

    def loop(
        self, most: int, body: Graph, inputs: Sequence[Any], outputs: Sequence[Any], begin: Sequence[str]
    ) -> list[str]:
        """At most `most` turns of a body; the final states, then what every turn gave, along a new first axis.

        inputs, outputs  of the body as `value` makes them: number of the turn, condition and states; condition, states
                         and what is kept of each turn
        """
        nodes, _ = live(body.nodes, [one.name for one in outputs])
        graph = self.onnx.helper.make_graph(nodes, self.name("body"), list(inputs), list(outputs))
        start = (self.const(most, "i8"), self.const(True, "b"), *begin)
        return self.ops("Loop", *start, n_outputs=len(outputs) - 1, body=graph)

    def _branch(self, outputs: Sequence[str]) -> Any:
        """This body as a branch of an If; types and lengths are inferred."""
        shown = [self.onnx.helper.make_empty_tensor_value_info(name) for name in outputs]
        return self.onnx.helper.make_graph(live(self.nodes, outputs)[0], self.name("branch"), [], shown)

    def value(self, name: str, dtype: str, shape: Sequence[Any]) -> Any:
        """What a graph says of an input or an output: lengths are numbers or words."""
        return self.onnx.helper.make_tensor_value_info(name, self._type(dtype), list(shape))

    def _type(self, dtype: str) -> int:
        return int(self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(DTYPES[dtype])))

    def finished(self, inputs: Sequence[Any], outputs: Sequence[Any], facts: dict[str, str]) -> Any:
        """The model: a protobuf message, of the nodes and constants alone that the outputs need."""
        helper = self.onnx.helper
        nodes, read = live(self.nodes, [one.name for one in outputs])
        constants = [values for name, values in self.constants.items() if name in read]
        graph = helper.make_graph(nodes, "labelgrove", list(inputs), list(outputs), constants)
        opsets = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, ir_version=IR_VERSION, opset_imports=opsets, producer_name="labelgrove")
        model.producer_version = facts["labelgrove_version"]
        helper.set_model_props(model, facts)
        return model


def live(nodes: Sequence[Any], wanted: Iterable[str]) -> tuple[list[Any], set[str]]:
    """(the nodes that lead to the wanted values, in order; the names of all values that these read, and of those)."""
    kept: list[Any] = []
    read = set(wanted)
    for node in reversed(nodes):
        if not read.isdisjoint(node.output):
            kept.append(node)
            read |= reads(node)
    return kept[::-1], read


def reads(node: Any) -> set[str]:
    """Names of the values that a node takes; what its body takes too, where it has one."""
    inner = (one for attribute in node.attribute for one in attribute.g.node)
    return {*node.input, *(name for one in inner for name in reads(one))}


def columns_of(values: Array) -> Array:
    """As one row, to be added to every row."""
    return values.reshape(1, -1)
