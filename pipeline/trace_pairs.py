"""Solved pairs of penalties on disk: what an interrupted path, or that of a learner with the same options, takes over.

A solver is deterministic and each pair starts where the one before it ended, so a pair that is read is the pair that
would have been solved. What the validation rows say of it is no part of it: learners that differ in these rows alone
(`twins`) share their pairs.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.trace_oracle import PoolRisk
from tasks.fit.checkpoint import keep, load_kept
from tasks.rows.base import Array
from tasks.trace.point import Basis, Point
from tasks.trace.solution import Factors, Penalty, Record, Solution

Place = tuple[int, int]  # of a pair: its row of the path, and its number in the row
OF_SOLUTION = ("iterations", "restricted", "evaluations", "converged")


@dataclass(frozen=True, eq=False)
class SolvedPair:
    """A pair's line of the path but for the validation rows, one record an iteration, the model, seconds it took."""

    record: dict[str, Any]
    history: list[Record]
    factors: Factors
    bias: Array | None
    seconds: float


class PairStore:
    """One file a pair, named by its place, in the folder of a risk, beside the columns of the bases.

    shared  nothing is removed that another path may go on from
    """

    def __init__(self, risk: PoolRisk, shared: bool = False) -> None:
        self.risk, self.shared = risk, shared
        self.held: set[str] = set()  # tokens of columns that pairs end on

    def put(self, place: Place, penalty: Penalty, solution: Solution, seconds: float) -> SolvedPair:
        """Raises DiskFull."""
        point, factors = solution.point, solution.factors
        record = {
            "lambda1": penalty.lambda1,
            "lambda2": penalty.lambda2,
            **solution.certificate.as_json(),
            "atoms": point.basis.rank,
            **{key: getattr(solution, key) for key in OF_SOLUTION},
        }
        basis = [[g.token, g.size, list(kept)] for g, kept in zip(point.basis.groups, point.basis.kept, strict=True)]
        said = {"fit": self.risk.fit, "record": record, "history": solution.history, "basis": basis, "seconds": seconds}
        arrays = {"u": factors.u, "theta": factors.theta, "v": factors.v, "core": point.core}
        arrays |= {} if solution.bias is None else {"bias": solution.bias}
        arrays |= {} if point.bias is None else {"point_bias": point.bias}
        keep(self._file(place), {**arrays, "said": np.array(json.dumps(said))})
        self._hold(basis)
        self.risk.forget_columns(self.held)
        return SolvedPair(record, solution.history, factors, solution.bias, seconds)

    def get(self, place: Place) -> SolvedPair | None:
        """None when it has not been solved, or its file is not what was written."""
        said, kept = self._read(place)
        if said is None:
            return None
        self._hold(said["basis"])
        factors = Factors(kept["u"], kept["theta"], kept["v"])
        return SolvedPair(said["record"], said["history"], factors, kept.get("bias"), said["seconds"])

    def end(self, place: Place) -> Point | None:
        """Where a pair ended; None when it, or a column of its basis, is not what was written."""
        said, kept = self._read(place)
        if said is None:
            return None
        found = [self.risk.known_group(token, size) for token, size, _ in said["basis"]]
        groups = tuple(group for group in found if group is not None)
        if len(groups) < len(found):
            return None
        basis = Basis(self.risk.n_features, groups, tuple(tuple(columns) for _, _, columns in said["basis"]))
        return Point(basis, kept["core"], kept.get("point_bias"))

    def forget(self, besides: Collection[Place]) -> None:
        """Remove the files of all other pairs, unless they are shared."""
        if not self.shared:
            files = {self._file(place) for place in besides}
            for path in set(self.risk.folder.glob("pair-*.npz")) - files:
                path.unlink(missing_ok=True)

    def _hold(self, basis: list[Any]) -> None:
        tokens = {token for token, _, _ in basis}
        self.held = self.held | tokens if self.shared else tokens

    def _read(self, place: Place) -> tuple[dict[str, Any] | None, dict[str, Array]]:
        kept = load_kept(self._file(place))
        if kept is None or "said" not in kept:
            return None, {}
        said = json.loads(str(kept["said"]))
        return (said, kept) if said["fit"] == self.risk.fit else (None, {})

    def _file(self, place: Place) -> Path:
        row, number = place
        return self.risk.folder / f"pair-{row}-{number}.npz"
