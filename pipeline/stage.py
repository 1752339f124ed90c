"""A stage: inputs, settings, an estimate, and work that ends in one finished step of the run folder."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from pipeline.config import OWN_ROWS
from pipeline.dataset import Dataset
from pipeline.pool import Pool
from pipeline.rows_facts import RowsFacts
from pipeline.store import Done
from pipeline.watching.telling import untold
from tasks.io import Block, blocks_of
from tasks.taxonomy import Taxonomy

FILE_BYTES = 4096  # a file takes whole blocks of a file system
CARD_BYTES = 32 << 10  # DONE.json, and the small files of a model's folder
NEIGHBOURS = "neighbours.parquet"  # of a retrieval's step
ROWS_STORE = "rows.zarr"  # of an encoding's step
ENCODER = "encoder"  # folder of what made these rows, where the store itself does not say


@dataclass(frozen=True)
class Facts:
    """What is known before anything runs.

    rows        what the dataset's own rows are like, and those of each encoding
    taxonomies  those of the files that the config names, by its words for them
    """

    dataset: Dataset
    rows: Mapping[str, RowsFacts]
    taxonomies: Mapping[str, Taxonomy] = field(default_factory=dict)

    def taxonomy(self, named: str | None) -> Taxonomy | None:
        """The taxonomy of a file that the config names, or the dataset's own, which it may lack."""
        return self.dataset.taxonomy if named is None else self.taxonomies[named]


@dataclass(frozen=True)
class Estimate:
    """Bounds that `plan` prints: bytes one task may hold above an idle worker, bytes on disk, number of tasks.

    disk_bytes   what stays
    spare_bytes  what is there besides while the step works, and gone when it is done
    driver_bytes  what the main process holds above an idle one, where that is much
    """

    task_bytes: int
    disk_bytes: int
    tasks: int
    spare_bytes: int = 0
    driver_bytes: int = 0

    @property
    def most_disk_bytes(self) -> int:
        """While the step works."""
        return self.disk_bytes + self.spare_bytes


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line has said beside the config: shown with the results, never part of a fingerprint.

    left_out  models of the config that are not trained
    choice    as typed: --only tree
    needed    models that the choice leaves out, and others are made from
    """

    overrides: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    choice: tuple[str, ...] = ()
    needed: tuple[str, ...] = ()

    def words(self) -> list[str]:
        """What to type after `labelgrove run CONFIG`."""
        return [word for override in self.overrides for word in ("-s", override)] + list(self.choice)


@dataclass(frozen=True)
class Made:
    """What a stage's work comes to.

    digest    of the content
    results   plain values for later steps and the report; part of the content
    measured  seconds and the like; differ from run to run
    """

    digest: str
    results: dict[str, Any] = field(default_factory=dict)
    measured: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Work:
    """Where and with what a stage works.

    event  writes a line of events.jsonl, and tells the dashboard the same; few of them
    tell   tells the dashboard alone: kind, model, plain values; of one kind and model only the newest counts
    """

    folder: Path
    pool: Pool
    dataset: Dataset
    seed: int
    inputs: Mapping[str, Done]
    folders: Mapping[str, Path]  # step -> folder, for the inputs
    event: Callable[..., None]
    tell: Callable[..., None] = untold

    def blocks(self, rows: str) -> list[Block]:
        """The blocks of the dataset's own rows ("x") or of an encoding."""
        if rows == OWN_ROWS:
            return self.dataset.blocks()
        return blocks_of(str(self.folders[encode_step(rows)] / ROWS_STORE))

    def train_blocks(self, rows: str) -> list[Block]:
        """The blocks that hold training rows: ingest puts these first."""
        last = self.dataset.split_counts["train"]
        return [block for block in self.blocks(rows) if block.start < last]

    def test_blocks(self, rows: str) -> list[Block]:
        """The blocks that hold test rows: ingest puts these last."""
        first = self.dataset.split_counts["train"] + self.dataset.split_counts["validation"]
        return [block for block in self.blocks(rows) if block.stop > first]


def encode_step(name: str) -> str:
    return f"encode_{name}"


def train_step(name: str) -> str:
    return f"train_{name}"


def retrieve_step(name: str) -> str:
    return f"retrieve_{name}"


class Stage(ABC):
    """One step of a run. Frozen; holds no counters and no clients."""

    version: ClassVar[int] = 1  # raise it when the same settings come to give other content

    @property
    @abstractmethod
    def name(self) -> str:
        """Unique in a run, safe as part of a file name: train_tree."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """The part of the config that decides the content; JSON values."""

    @property
    @abstractmethod
    def inputs(self) -> tuple[str, ...]:
        """Names of the steps it reads; the dataset is always one."""

    @abstractmethod
    def estimate(self, facts: Facts) -> Estimate:
        """Bounds before anything runs."""

    @property
    def reads_rows(self) -> bool:
        """Whether it reads rows of the dataset, which are then checked first."""
        return False

    def outputs_hold(self, run_folder: Path, done: Done) -> str:  # noqa: ARG002
        """Why what it wrote outside its own folder does not stand any more, or ""."""
        return ""

    @abstractmethod
    def run(self, work: Work) -> Made:
        """Do it, continuing from whatever an interrupted attempt has left in the folder."""


def fingerprint(stage: Stage, dataset_digest: str, seed: int, inputs: Mapping[str, str]) -> str:
    """What decides a step's content: code version, settings, seed, dataset, and the same of its inputs.

    Inputs enter by fingerprint: equal fingerprints have equal content, so the whole plan is known before anything runs.
    """
    parts = {
        "step": stage.name,
        "version": stage.version,
        "settings": stage.settings(),
        "seed": seed,
        "dataset": dataset_digest,
        "inputs": {name: inputs[name] for name in stage.inputs},
    }
    text = json.dumps(parts, sort_keys=True, ensure_ascii=False)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def fingerprints(stages: Sequence[Stage], dataset_digest: str, seed: int) -> dict[str, str]:
    """Of each stage by name; the stages stand in an order in which inputs come first."""
    found: dict[str, str] = {}
    for stage in stages:
        found[stage.name] = fingerprint(stage, dataset_digest, seed, found)
    return found
