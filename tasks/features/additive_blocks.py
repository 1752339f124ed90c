"""Feature maps of additive kernels over blocks of rows: what travels to a worker, and the sums that come back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from tasks.features.additive_encoder import AdditiveEncoder
from tasks.features.additive_map import MapParams
from tasks.features.errors import numbered
from tasks.io import Block, read_row_ids, read_rows, write_csr, write_dense
from tasks.resume import once
from tasks.rows import Csr
from tasks.sums import FieldSums


@dataclass(frozen=True, slots=True)
class MappedRows(FieldSums):
    """What mapping blocks gave: rows, bytes that they are held in, digest of each block; adds up in block order."""

    rows: int
    nbytes: int
    digests: tuple[str, ...]

    @classmethod
    def of_plain(cls, values: dict[str, Any]) -> Self:
        """From what `dataclasses.asdict` gave and JSON kept."""
        return cls(int(values["rows"]), int(values["nbytes"]), tuple(values["digests"]))


def map_block(block: Block, params: MapParams, target: str, marks: str, dataset: str) -> MappedRows:
    """Map a block into the same block of the store `target`, unless an earlier attempt has.

    target   of the body that `AdditiveEncoder.encode` gives
    marks    folder of the reports, one file a block, written after the rows and by rename
    dataset  whose column of source rows names the row of a NegativeFeature
    """
    written = Block(target, block.index, block.start, block.stop)

    def encode() -> MappedRows:
        rows = read_rows(block)
        with numbered(lambda: read_row_ids(dataset, block.start, block.stop)):
            mapped = AdditiveEncoder.of(params, rows.n_features).encode(rows)
        if isinstance(mapped, Csr):
            digest = write_csr(written, mapped.data, mapped.indices, mapped.indptr)
        else:
            digest = write_dense(written, mapped.values)
        return MappedRows(mapped.n_rows, mapped.nbytes, (digest,))

    return once(written, marks, encode, MappedRows.of_plain)
