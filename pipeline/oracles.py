"""Oracles: the outer loops of `tasks.fit` ask them for sums, they ask the pool. And progress kept between rounds."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.pool import Pool
from tasks.files import disk_room
from tasks.fit.average import ModelSum
from tasks.fit.blocks import choose_step, make_partitions, sgd_partition
from tasks.fit.fit import Record
from tasks.fit.problem import SgdProblem, StepTrial
from tasks.fit.scorer import Parameters
from tasks.io import Block


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
        """None when there is none, or when it cannot be read: the fit then begins anew, to the same bits."""
        try:
            with np.load(self.path, allow_pickle=False) as saved:
                text = str(saved["progress"])
                parameters = {name[1:]: saved[name] for name in saved.files if name.startswith("=")}
                progress = json.loads(text)
            return int(progress["round"]), parameters, progress["history"]
        except (OSError, ValueError, KeyError, EOFError):
            return None
        except Exception as error:  # zipfile.BadZipFile, zlib.error: a damaged file of a former attempt
            if type(error).__module__ in ("zipfile", "zlib"):
                return None
            raise

    def save(self, round_index: int, parameters: Parameters, history: list[Record]) -> None:
        buffer = io.BytesIO()
        progress = json.dumps({"round": round_index, "history": history})
        arrays: dict[str, Any] = {f"={name}": array for name, array in parameters.items()}
        np.savez(buffer, progress=np.array(progress), **arrays)
        spare = self.path.with_name(f".round.partial-{os.getpid()}")
        with disk_room(str(self.path), buffer.getbuffer().nbytes):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            spare.write_bytes(buffer.getbuffer())
            os.replace(spare, self.path)
