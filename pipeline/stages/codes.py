"""Encoding stage of winner-take-all codes, plain or densified: codes of every row, block by block."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Self

from pipeline.config import Dwta, Wta
from pipeline.stage import CARD_BYTES, ENCODER, FILE_BYTES, ROWS_STORE, Estimate, Facts, Made, Work
from pipeline.stages.encoding import EncodeStage, marks_folder
from pipeline.stages.train import MEGABYTE
from tasks.digest import combine, digest_arrays
from tasks.errors import ArtefactError
from tasks.hashing.code_blocks import CodeReport, encode_codes_block_once
from tasks.hashing.code_rows import SLICE_BYTES, CodeHash
from tasks.hashing.windows import check_window
from tasks.hashing.wta import CodeParams
from tasks.io import create_onehot, facts_of
from tasks.models.code_encoder import CodeEncoder
from tasks.models.encoder_folder import save_encoder

SLOT_BYTES = 8  # of a feature, and of each of a hash's, while rows are coded


def code_params(encoding: Wta | Dwta, run_seed: int) -> CodeParams:
    """The parameters of a section; its hashes are drawn by its own seed or, without one, by the run's."""
    given = {key: getattr(encoding, key) for key in CodeParams.__dataclass_fields__ if hasattr(encoding, key)}
    if isinstance(encoding, Dwta):
        given["range"] = encoding.modulus
    return CodeParams(**{**given, "seed": run_seed if encoding.seed is None else encoding.seed})


@dataclass(frozen=True)
class CodesStage(EncodeStage):
    """Codes of all rows; their windows are drawn from the seed on every worker, never sent."""

    encoding: Wta | Dwta
    n_features: int  # of the rows that are coded

    @classmethod
    def of(cls, encoding: Wta | Dwta, facts: Facts) -> Self:
        """Raises ParamError for parameters out of range, and for a window wider than the rows."""
        params = code_params(encoding, 0)
        n_features = facts.rows[encoding.rows].n_features
        check_window(params.window, n_features)
        return cls(encoding, n_features)

    def estimate(self, facts: Facts) -> Estimate:
        dataset, encoding = facts.dataset, self.encoding
        codes = facts.rows[encoding.name].block_bytes
        drawn = SLOT_BYTES * (self.n_features + 2 * encoding.hashes * encoding.window)
        task = 2 * facts.rows[encoding.rows].block_bytes + 2 * SLICE_BYTES + 2 * codes + 2 * drawn + 32 * MEGABYTE
        blocks = len(dataset.blocks())
        disk = blocks * (codes + FILE_BYTES) + 4 * encoding.hashes * encoding.window + CARD_BYTES
        return Estimate(task, disk, blocks, blocks * FILE_BYTES)

    def run(self, work: Work) -> Made:
        started = time.perf_counter()
        params = code_params(self.encoding, work.seed)
        marks = marks_folder(work)
        store, n_rows = str(work.folder / ROWS_STORE), work.dataset.n_rows
        if not begun(store, n_rows, params):
            create_onehot(store, n_rows, params.hashes, work.dataset.block_rows, params.dtype.name, params.n_codes)
        sources = work.blocks(self.encoding.rows)
        report: CodeReport = work.pool.sum(encode_codes_block_once, sources, params, store, str(marks), name=self.name)
        drawn = CodeHash.drawn(params, self.n_features)
        save_encoder(work.folder / ENCODER, CodeEncoder(drawn))
        seconds = time.perf_counter() - started
        digest = combine([digest_arrays(drawn.windows), *report.digests])
        measured = {"rows_per_second": report.rows / max(seconds, 1e-9), "seconds": seconds}
        return Made(digest, results_of(report, params), measured)


def results_of(report: CodeReport, params: CodeParams) -> dict[str, Any]:
    """What the report shows (Chen & Shrivastava, Figure 4)."""
    return {
        "rows": report.rows,
        "codes": params.n_codes,
        "bytes_per_row": params.hashes * params.dtype.itemsize,
        "sparsity": report.sparsity,
        "empty_codes": report.empty_ratio,
        "expected_empty": report.expected_empty_ratio,
        "all_zero_rows": report.all_zero_rows,
    }


def begun(store: str, n_rows: int, params: CodeParams) -> bool:
    """Whether an interrupted attempt has made this very store."""
    try:
        facts = facts_of(store)
    except ArtefactError:
        return False
    found = (facts.body, facts.n_rows, facts.n_features, facts.dtype)
    return found == ("onehot", n_rows, params.hashes * params.n_codes, params.dtype.name)
