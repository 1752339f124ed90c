"""Parameters with a common factor, which is multiplied in late."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tasks.fit.scorer import Parameters


class ScaledParameters:
    """Parameters = scale * values: decay costs one multiplication, so steps on sparse rows stay sparse."""

    SMALLEST = 1e-4  # below it the scale is multiplied in, before float32 loses digits

    def __init__(self, parameters: Parameters) -> None:
        """Takes a copy, so that a start that is shared or mapped read-only stays as it is."""
        self.values: Parameters = {name: np.array(values, order="C") for name, values in parameters.items()}
        self.scale = 1.0
        self.restore: Callable[[Parameters], Parameters] | None = None  # of steps that keep `values` in another shape

    def decay(self, factor: float) -> None:
        """parameters *= factor; a factor below 0 (a step longer than 1 / regularization) acts as 0."""
        self.scale *= max(factor, 0.0)
        if self.scale < self.SMALLEST:
            self._multiply_in()

    def settle(self) -> Parameters:
        """The parameters with the scale multiplied in; owned by this object."""
        self._multiply_in()
        return self.restored()

    def restored(self) -> Parameters:
        """The values in the shape in which they came."""
        if self.restore is not None:
            self.values, self.restore = self.restore(self.values), None
        return self.values

    def _multiply_in(self) -> None:
        for values in self.values.values():
            values *= values.dtype.type(self.scale)
        self.scale = 1.0
