"""Oracles: the outer loops of `tasks.fit` ask them for sums, they ask the pool. And progress kept between rounds."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.pool import Pool
from pipeline.store import bytes_digest
from tasks.files import beside, disk_room
from tasks.fit.average import ModelSum
from tasks.fit.blocks import choose_step, make_partitions, sgd_partition
from tasks.fit.fit import Record
from tasks.fit.problem import SgdProblem, StepTrial
from tasks.fit.scorer import Parameters
from tasks.io import Block
from tasks.rows.base import Array


class PoolOracle:
    """Rounds of parallel SGD over the blocks of a rows store; `name` is what the dashboard shows."""

    def __init__(self, pool: Pool, blocks: Sequence[Block], name: str) -> None:
        self.pool, self.blocks, self.name = pool, list(blocks), name

    def trial(self, problem: SgdProblem) -> StepTrial:
        found: StepTrial = self.pool.map(choose_step, [tuple(self.blocks)], problem, name=f"step_{self.name}")[0]
        return found

    def round(self, problem: SgdProblem, parameters: Parameters, round_index: int) -> ModelSum:
        partitions = make_partitions(self.blocks, problem.params.partitions)
        total: ModelSum = self.pool.sum(
            sgd_partition, partitions, parameters, problem, round_index, name=f"sgd_{self.name}"
        )
        return total


class FileCheckpoint:
    """The model after the last finished round, one file that is there whole or not at all."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "round.npz"

    def load(self) -> tuple[int, Parameters, list[Record]] | None:
        """None when there is none, or when it does not hold: the fit then begins anew, to the same bits."""
        saved = load_kept(self.path)
        if saved is None:
            return None
        progress = json.loads(str(saved.pop("progress")))
        return int(progress["round"]), {name[1:]: array for name, array in saved.items()}, progress["history"]

    def save(self, round_index: int, parameters: Parameters, history: list[Record]) -> None:
        progress = np.array(json.dumps({"round": round_index, "history": history}))
        keep(self.path, {"progress": progress, **{f"={name}": array for name, array in parameters.items()}})


def keep(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write arrays for an attempt that may be interrupted: a line with the digest of the .npz that follows it.

    Whole or not at all; raises DiskFull.
    """
    buffer = io.BytesIO()
    named: dict[str, Any] = dict(arrays)
    np.savez(buffer, **named)
    content = buffer.getvalue()
    spare = beside(path)
    with disk_room(str(path), len(content)):
        path.parent.mkdir(parents=True, exist_ok=True)
        spare.write_bytes(bytes_digest(content).encode() + b"\n" + content)
        os.replace(spare, path)


def load_kept(path: Path) -> dict[str, Array] | None:
    """What was kept, None when nothing was, or when it is not what was written."""
    try:
        digest, _, content = path.read_bytes().partition(b"\n")
    except OSError:
        return None
    if bytes_digest(content).encode() != digest:
        return None
    with np.load(io.BytesIO(content), allow_pickle=False) as saved:
        return {name: saved[name] for name in saved.files}
