"""Kernels of histograms take no value below 0: whose rows must have none, and a look at the dataset's own rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from pipeline.config import OWN_ROWS, AdditiveMap, RunConfig, is_svm
from pipeline.dataset import Dataset
from pipeline.pool import Pool
from pipeline.stage import encode_step, train_step
from pipeline.svm_sections import OF_HISTOGRAMS
from tasks.features.errors import NegativeFeature
from tasks.io import Block


@dataclass(frozen=True, slots=True)
class Reader:
    """An encoding or a model that takes no value below 0 of the dataset's own rows.

    section  of the config; step: that reads them; taker: what refuses such values, in words
    """

    section: str
    step: str
    taker: str


def readers_of(run: RunConfig) -> Iterator[Reader]:
    """Those of a config, in its order. Rows of encodings are looked at once they are made, by their readers."""
    for encoding in run.encode:
        if isinstance(encoding, AdditiveMap) and encoding.rows == OWN_ROWS:
            yield Reader(f"encode {encoding.name}", encode_step(encoding.name), encoding.kind)
    for learner in run.train:
        if is_svm(learner) and learner.kernel in OF_HISTOGRAMS and OWN_ROWS in (learner.rows, learner.tested_on):
            yield Reader(f"train {learner.name}", train_step(learner.name), f"the {learner.kernel} kernel")


def refuse_negative(
    dataset: Dataset, readers: Sequence[Reader], pool: Pool | None = None, steps: Collection[str] | None = None
) -> None:
    """Read the rows of all parts, up to the first value below 0, if there are readers; in this process without a pool.

    steps  readers of other steps do not count
    Raises NegativeFeature, which names the first reader, and row and column in the source.
    """
    wanted = [reader for reader in readers if steps is None or reader.step in steps]
    if not wanted:
        return
    try:
        _look(dataset.blocks(), dataset.path, pool)
    except NegativeFeature as error:
        if error.place is None:
            raise
        found = NegativeFeature.at(*error.place[:3], wanted[0].taker)
        found.where = f"{wanted[0].section}, {found.where}"
        raise found from None


def _look(blocks: Sequence[Block], dataset: str, pool: Pool | None) -> None:
    from tasks.svm.class_rows import check_block
    from tasks.svm.kernels import Kernel

    any_kernel = Kernel("histogram-intersection")  # all kernels of histograms refuse the same values
    if pool is not None:
        pool.map(check_block, blocks, any_kernel, dataset, name="check_histograms")
        return
    for block in blocks:
        check_block(block, any_kernel, dataset)
