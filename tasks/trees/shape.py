"""The shape of a label tree for a wanted test speed-up (Deng et al. 2011: S_te, over the cost of one-vs-rest).

A row of T_{Q,H} with mean ambiguity delta at its H - 1 learned splits meets (H - 1) Q + K delta^(H-1) dot products, the
last of them at the full split (SPECS 5.6), of K; so a speed-up S is a budget of B = K / S of them. What a shape leaves
for ambiguity beyond that of even, disjoint children, delta Q >= 1, is room for overlap: the more, the fewer rows are
lost.
"""

from __future__ import annotations

from dataclasses import dataclass

from tasks.trees.params import TreeShape, in_shape

ENOUGH_ROOM = 2.0  # delta Q from which on a deeper tree is not looked at: each further split loses rows of its own
DEEPEST = 8


@dataclass(frozen=True, slots=True)
class Shape:
    """Children per learned node (Q), splits from root to leaf (H), cap on the ambiguity (delta)."""

    branching: int
    depth: int
    ambiguity: float

    @property
    def room(self) -> float:
        """Classes that a child may hold, times those of even and disjoint children."""
        return self.branching * self.ambiguity

    def speedup(self, n_classes: int) -> float:
        """Dot products of one-vs-rest over those of a row that meets this ambiguity."""
        learned = self.depth - 1
        return n_classes / (learned * self.branching + n_classes * self.ambiguity**learned)


def proposed(n_classes: int, speedup: float, branching: int | None = None, depth: int | None = None) -> Shape:
    """The shape that spends the budget of a wanted speed-up; Q and H as given, or the shallowest with enough room.

    For a given H the room is largest at Q = B / H. Raises TreeShape when no such tree is as quick.
    """
    budget = n_classes / speedup
    found: list[Shape] = []
    for height in range(2, DEEPEST + 1) if depth is None else [depth]:
        children = branching or max(2, int(budget / height))
        left = budget - (height - 1) * children
        if height < 2 or left <= 0:
            continue
        shape = Shape(children, height, min(1.0, (left / n_classes) ** (1 / (height - 1))))
        if shape.room >= 1:
            found.append(shape)
    if not found:
        what = (
            f"at most {_highest(n_classes, branching, depth):.3g} for {n_classes:,} classes{in_shape(branching, depth)}"
        )
        raise TreeShape("speedup", speedup, what, "each split costs a dot product a child")
    return next((shape for shape in found if shape.room >= ENOUGH_ROOM), max(found, key=lambda shape: shape.room))


def _highest(n_classes: int, branching: int | None, depth: int | None) -> float:
    """The speed-up of the quickest tree: children are even and disjoint."""
    heights = [depth] if depth else range(2, DEEPEST + 1)
    widths = [branching] if branching else range(2, n_classes + 1)
    shapes = [Shape(q, h, 1 / q) for h in heights if h > 1 for q in widths]
    return max((shape.speedup(n_classes) for shape in shapes), default=1.0)
