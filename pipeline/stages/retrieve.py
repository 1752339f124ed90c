"""Retrieval: the nearest training rows of every query by Hamming distance of codes, and how relevant they are."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from pipeline.config import CodesEncoding, RetrieveSection, RunConfig
from pipeline.dataset import SPLITS, Dataset
from pipeline.stage import (
    CARD_BYTES,
    FILE_BYTES,
    NEIGHBOURS,
    ROWS_STORE,
    Estimate,
    Facts,
    Made,
    Stage,
    Work,
    encode_step,
    retrieve_step,
)
from pipeline.stages.train import MEGABYTE
from tasks.digest import combine
from tasks.errors import ParamError, UsageError
from tasks.files import disk_room
from tasks.io import Block
from tasks.later import later
from tasks.models.parquet import write_table
from tasks.models.predictions import part_name
from tasks.models.selection import Selection
from tasks.retrieval.blocks import RetrievalReport
from tasks.retrieval.candidates import Candidates
from tasks.retrieval.curve import MOST_POINTS, Curve
from tasks.retrieval.nearest import room_of
from tasks.retrieval.neighbours import join_neighbours
from tasks.retrieval.rank import queries_at_once
from tasks.retrieval.resume import retrieve_block_once
from tasks.sums import FAN_IN

pa = later("pyarrow")

CURVE = "curve.parquet"  # of a retrieval's step: every threshold
CURVE_COLUMNS = 7
THRESHOLD_BYTES = 40  # of the sums of one block of queries, per threshold
NEIGHBOUR_BYTES = 16  # source row, label and distance
SHOWN_AT = (1, 2, 5)  # times powers of ten: the k of precision at k that are told


class NoRowsToRetrieve(UsageError):
    """The dataset has no rows to look for, or none to look among."""


@dataclass(frozen=True)
class RetrieveStage(Stage):
    """Rank the training rows for each row of a split; neighbours to Parquet, precision and recall per distance."""

    section: RetrieveSection
    hashes: int

    @classmethod
    def of(cls, section: RetrieveSection, config: RunConfig, facts: Facts) -> Self:
        """Raises ParamError when its rows are no codes, NoRowsToRetrieve when a split that it needs is empty."""
        found = [encoding for encoding in config.encode if encoding.name == section.rows]
        if not found or not isinstance(found[0], CodesEncoding):
            raise ParamError("rows", section.rows, "an encoding of kind wta or dwta", "codes are compared")
        for split in ("train", section.queries):
            if not facts.dataset.split_counts[split]:
                what = f"the dataset has no {split} rows for {section.name}"
                raise NoRowsToRetrieve(what, facts.dataset.path, "ingest with some, or leave the section out")
        return cls(section, found[0].hashes)

    @property
    def name(self) -> str:
        return retrieve_step(self.section.name)

    def settings(self) -> dict[str, Any]:
        return self.section.model_dump(mode="json")

    @property
    def inputs(self) -> tuple[str, ...]:
        return (encode_step(self.section.rows),)

    @property
    def reads_rows(self) -> bool:
        return True

    def estimate(self, facts: Facts) -> Estimate:
        dataset, top = facts.dataset, self.section.top
        queries, n_rows = dataset.split_counts[self.section.queries], dataset.split_counts["train"]
        in_block = min(dataset.block_rows, queries)
        held = min(in_block, queries_at_once(self.hashes, top)) * (16 * (self.hashes + 1) + 8 * room_of(top))
        found = min(top, n_rows) * NEIGHBOUR_BYTES
        sums = THRESHOLD_BYTES * (self.hashes + 1) + 8 * top
        codes = facts.rows[self.section.rows].block_bytes
        task = 3 * codes + held + 4 * in_block * found + 3 * sums + 64 * MEGABYTE
        blocks = len(split_blocks(dataset, dataset.blocks(), self.section.queries))
        neighbours = queries * (found + 32) + FILE_BYTES
        curve = 8 * CURVE_COLUMNS * (self.hashes + 1) + MOST_POINTS * CURVE_COLUMNS * 24
        spare = neighbours + blocks * (sums + 2 * FILE_BYTES)
        return Estimate(max(task, (FAN_IN + 2) * sums), neighbours + curve + CARD_BYTES, blocks, spare)

    def run(self, work: Work) -> Made:
        started = time.perf_counter()
        section, dataset = self.section, work.dataset
        parts, marks = work.folder / "progress" / "parts", work.folder / "progress" / "blocks"
        for folder in (parts, marks):
            with disk_room(str(folder), 0):
                folder.mkdir(parents=True, exist_ok=True)
        blocks = split_blocks(dataset, work.blocks(section.rows), section.queries)
        store = str(work.folders[encode_step(section.rows)] / ROWS_STORE)
        candidates = Candidates(store, dataset.path, section.distance)
        selection = Selection(dataset.path, SPLITS.index(section.queries))
        shared = (candidates, selection, section.top, str(parts), str(marks))
        report: RetrievalReport = work.pool.sum(retrieve_block_once, blocks, *shared, name=self.name)
        if section.top:
            found = [parts / part_name(block.index) for block in blocks]
            codes = work.inputs[encode_step(section.rows)].digest
            metadata = {"codes": codes, "dataset": dataset.digest}
            join_neighbours(found, work.folder / NEIGHBOURS, metadata, report.digests)
        write_curve(work.folder / CURVE, report.sums.curve())
        results = results_of(report)
        return Made(combine([*report.digests, repr(results)]), results, measured_of(report, started))


def split_blocks(dataset: Dataset, blocks: Sequence[Block], split: str) -> list[Block]:
    """Those of a dataset's blocks, or of an encoding's, that hold rows of a split: the splits stand in order."""
    counts = [dataset.split_counts[name] for name in SPLITS]
    place = SPLITS.index(split)
    first, last = sum(counts[:place]), sum(counts[: place + 1])
    return [block for block in blocks if block.start < last and block.stop > first]


def write_curve(target: Path, curve: Curve) -> None:
    """Every threshold as Parquet: threshold, counts, precision and recall, pooled and as means over queries."""
    write_table(target, pa.table(curve.columns()))


def results_of(report: RetrievalReport) -> dict[str, Any]:
    """What is told of a retrieval; the curve at few enough thresholds to be drawn."""
    sums = report.sums
    precision = sums.precision_at(report.candidates)
    shown = shown_at(len(precision))
    return {
        "queries": report.queries,
        "labelled_queries": sums.queries,
        "answerable_queries": sums.answerable,
        "candidates": report.candidates,
        "mean_average_precision": sums.mean_average_precision,
        **{f"precision_at_{k}": precision[k - 1] for k in dict.fromkeys((1, len(precision))) if k in shown},
        "precision_at_k": {str(k): precision[k - 1] for k in shown},
        "curve": sums.curve().thinned().as_json(),
    }


def shown_at(top: int) -> list[int]:
    """1, 2, 5, 10, 20, 50, ... below `top`, and `top`."""
    powers = [10**power for power in range(len(str(top)))]
    return sorted({k for k in (times * power for power in powers for times in SHOWN_AT) if k < top} | {top} - {0})


def measured_of(report: RetrievalReport, started: float) -> dict[str, float]:
    """Seconds of the step and of the comparisons in all tasks; codes compared in one of those."""
    return {
        "seconds": time.perf_counter() - started,
        "retrieve_us_per_row": 1e6 * report.seconds / max(1, report.queries),
        "codes_per_second": report.compared / max(report.seconds, 1e-9),
    }
