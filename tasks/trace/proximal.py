"""Atoms from a proximal step: the singular pairs of W - length G, values lowered by length lambda1.

Near the optimum all of -G's leading singular values are about lambda1, and its leading pairs any turns of each other;
those of the proximal step are where the pairs of W turn to.
"""

from __future__ import annotations

import numpy as np

from tasks.rows.base import Array
from tasks.trace.singular import Pairs, signed, thin_svd

WIDER = 4.0  # a length grows at most by this from one step to the next


class Proximal:
    """Keeps the length of the step: Barzilai and Borwein's (1988), from the last change of W and of G.

    The shorter of their two: less is gained in a step than by the longer, but G settles, and the gap with it.
    """

    def __init__(self, lambda1: float) -> None:
        self.lambda1 = lambda1
        self.length = 0.0
        self.last: tuple[Array, Array] | None = None

    def guess(self, length: float) -> None:
        """A first idea, from a step that a line search took per unit of slope; not listened to once there is better."""
        self.length = self.length or length

    def learn(self, weights: Array, smooth: Array) -> bool:
        """Of the weights and the gradient G at them, both (n_features, n_classes); False: there was no change yet."""
        last, self.last = self.last, (weights, smooth)
        if last is not None:
            moved, turned = weights - last[0], smooth - last[1]
            along = float(np.vdot(moved, turned))
            if along > 0:
                length = along / float(np.vdot(turned, turned))
                self.length = min(length, WIDER * self.length) if self.length else length
        return last is not None and self.length > 0

    def pairs(self, weights: Array, smooth: Array, most: int) -> Pairs:
        """At most `most` singular pairs of the step's end, of positive value."""
        u, values, v = thin_svd(weights - self.length * smooth)
        values = values[:most] - self.length * self.lambda1
        count = int(np.count_nonzero(values > 0))
        u, v = signed(u[:, :count], v[:, :count])
        return Pairs(u, values[:count], v, 0.0)

    def tried(self, share: float) -> float:
        """Hear that this share of the step was taken; the length taken."""
        self.length *= max(share, 1 / WIDER)
        return self.length
