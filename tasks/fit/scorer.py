"""What a learner learns: a family of scores that is linear in its parameters.

The SGD loop knows losses (functions of scores) and a `Scorer` (scores as a function of rows and parameters); so any
loss trains dense weights or a hashed table, on any body of rows.
"""

from __future__ import annotations

from typing import Protocol

from tasks.rows.base import Array, Rows

Parameters = dict[str, Array]  # name -> array; float32 in production, float64 in the numeric cases


class Scorer(Protocol):
    """Scores of n_outputs outputs for rows, linear in the parameters; picklable and small (no arrays of size d x k)."""

    @property
    def n_outputs(self) -> int: ...

    @property
    def squared_scale(self) -> float:
        """What scores multiply a row's squared norm by before it meets a block of parameters; 1 without a scale.

        Two classes that differ in one block are told apart by features this much shorter, so the step and the penalty
        that suit plain rows are corrected by it.
        """
        ...

    def initial(self, dtype: type) -> Parameters:
        """Parameters that score everything 0."""
        ...

    def scores(self, parameters: Parameters, rows: Rows) -> Array:
        """(n_rows, n_outputs) in the dtype of the parameters."""
        ...

    def subtract(self, parameters: Parameters, rows: Rows, residuals: Array, step: float) -> None:
        """parameters -= step * d(sum of residuals * scores)/d(parameters), in place; residuals (n_rows, n_outputs)."""
        ...

    def operations_per_row(self) -> float:
        """Vector operations (dot products of a row) one scoring of one row costs: the papers' unit of cost."""
        ...
