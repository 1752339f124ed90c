"""Results that add: what a block returns, so that a tree of additions in block order gives the total."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import Field, fields
from functools import reduce
from operator import add
from typing import Any, ClassVar, Self

FAN_IN = 8  # parts that one addition takes; part of the result's definition, because float sums depend on it


class FieldSums:
    """Base of dataclasses that add field by field: numbers, arrays of one shape, tuples end to end, further sums."""

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def __add__(self, other: Self) -> Self:
        return type(self)(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(self)))


def add_up(parts: Sequence[Any]) -> Any:
    """parts[0] + parts[1] + ..., left to right."""
    return reduce(add, parts)


def groups(count: int) -> list[range]:
    """How `count` parts are grouped into additions: consecutive runs of FAN_IN."""
    return [range(start, min(start + FAN_IN, count)) for start in range(0, count, FAN_IN)]


def tree_sum(parts: Sequence[Any]) -> Any:
    """The sum over a fixed tree of fan-in FAN_IN: the same bits however the parts were computed."""
    level = list(parts)
    while len(level) > 1:
        level = [add_up([level[i] for i in group]) for group in groups(len(level))]
    return level[0]


def sum_stream(parts: Iterable[Any], plus: Callable[[Any, Any], Any] = add) -> Any:
    """`tree_sum`, to the same bits, of parts that are made one at a time: no more than one sum a level is held.

    plus  how two are added: it may change the left one, which is not used again
    Raises IndexError when there are no parts.
    """
    waiting: list[list[Any]] = []  # of each level: [sum of the group so far, parts in it]
    for part in parts:
        _climb(waiting, 0, part, plus)
    for level in range(len(waiting)):
        if level == len(waiting) - 1 and waiting[level][1] == 1:
            break
        if waiting[level][1]:
            total, waiting[level] = waiting[level][0], [None, 0]
            _climb(waiting, level + 1, total, plus)
    return waiting[-1][0]


def _climb(waiting: list[list[Any]], level: int, part: Any, plus: Callable[[Any, Any], Any]) -> None:
    """Add a part to the group of its level; a full group goes up as one part."""
    if level == len(waiting):
        waiting.append([None, 0])
    group = waiting[level]
    group[0], group[1] = (part if group[1] == 0 else plus(group[0], part)), group[1] + 1
    if group[1] == FAN_IN:
        total, waiting[level] = group[0], [None, 0]
        _climb(waiting, level + 1, total, plus)
