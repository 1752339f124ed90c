"""Ticks of a logarithmic axis: more than one with a label of its own, however little the axis shows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from matplotlib.ticker import LogLocator, MaxNLocator

POWERS, THIRDS, FINE = (1.0,), (1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0)
HALVES, QUARTERS = (1.0, 1.5), (1.0, 1.25, 1.5, 1.75)  # between powers of two
MOST, LEAST = 7, 3  # ticks
SPAN = 1.25  # an axis of different values reaches at least from one number to this many times it


class LogTicks(LogLocator):
    """The coarsest ticks of which three are within the view and written differently.

    write   what stands at a tick
    base    10, or 2 for bytes
    coarse  powers of the base alone, where these are enough
    """

    def __init__(self, write: Callable[[float], str], base: int, coarse: bool) -> None:
        first = POWERS if coarse else THIRDS
        super().__init__(base, subs=first, numticks=MOST)
        self.write = write
        finer = (HALVES, QUARTERS) if base == 2 else (THIRDS, FINE)
        powers = [LogLocator(base, subs=subs, numticks=MOST) for subs in (first, *finer)]
        self.ways: Sequence[Any] = (*powers, MaxNLocator(5))

    def tick_values(self, vmin: float, vmax: float) -> Any:
        """Of a view from `vmin` to `vmax`, both above 0; even ones where no powers give three."""
        ticks: list[float] = []
        for way in self.ways:
            ticks = [float(tick) for tick in way.tick_values(vmin, vmax) if vmin <= tick <= vmax]
            if len({self.write(tick) for tick in ticks}) >= LEAST:
                break
        return ticks

    def nonsingular(self, vmin: float, vmax: float) -> Any:
        """The limits of an axis whose values reach from `vmin` to `vmax`."""
        low, high = super().nonsingular(vmin, vmax)
        if high < low * SPAN:
            middle, half = math.sqrt(low * high), math.sqrt(SPAN)
            return middle / half, middle * half
        return low, high
