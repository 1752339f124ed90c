"""Retrieval that continues after a kill: the report of a block of queries is kept once its part is written."""

from __future__ import annotations

import zipfile
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from tasks.errors import ArtefactError
from tasks.files import disk_room
from tasks.io import Block
from tasks.models.predictions import part_name
from tasks.models.selection import Selection
from tasks.places import at, reading, whole_file
from tasks.retrieval.blocks import RetrievalReport, retrieve_block
from tasks.retrieval.candidates import Candidates
from tasks.retrieval.curve import CurveSums
from tasks.retrieval.neighbours import read_neighbours


def retrieve_block_once(
    block: Block, candidates: Candidates, selection: Selection, top: int, target_dir: str, marks: str
) -> RetrievalReport:
    """`retrieve_block`, unless an earlier attempt has written this part and its report still fits what is there.

    marks  folder of the reports, one .npz a block, written after the part and by rename
    """
    path = at(marks) / f"{block.index:05d}.npz"
    kept = _kept(path, at(target_dir) / part_name(block.index))
    if kept is not None:
        return kept
    report = retrieve_block(block, candidates, selection, top, target_dir)
    _keep(path, report)
    return report


def _keep(path: Path, report: RetrievalReport) -> None:
    arrays = {f.name: np.asarray(getattr(report, f.name)) for f in fields(report) if f.name != "sums"}
    arrays |= {f"sums.{f.name}": np.asarray(getattr(report.sums, f.name)) for f in fields(report.sums)}
    with disk_room(str(path), sum(array.nbytes for array in arrays.values())), whole_file(path) as file:
        np.savez(file, allow_pickle=False, **arrays)


def _kept(path: Path, part: Path) -> RetrievalReport | None:
    try:
        with reading(path) as file, np.load(file, allow_pickle=False) as found:
            values = {name: _plain(found[name]) for name in found.files if name != "digests"}
            digests = tuple(str(digest) for digest in found["digests"])
        sums = CurveSums(**{field.name: values.pop(f"sums.{field.name}") for field in fields(CurveSums)})
        report = RetrievalReport(**values, sums=sums, digests=digests)
        there = read_neighbours(part).digest()
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, ArtefactError):
        return None
    return report if digests == (there,) else None


def _plain(value: Any) -> Any:
    """An array, or the number that was made one."""
    return value if value.ndim else value.item()
