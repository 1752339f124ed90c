"""A vocabulary of visual words: k-means on the sample of descriptors, added up over the pool."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from pipeline.image_encodings import WordsEncoding
from pipeline.pool import Pool
from pipeline.stage import CARD_BYTES, Estimate, Facts, Made, Stage, Work, encode_step
from pipeline.stages.sample import NoDescriptors, sample_files, sample_step
from pipeline.stages.train import MEGABYTE
from tasks.digest import digest_arrays
from tasks.errors import ParamError
from tasks.features.descriptor_sample import Projection, SampleFile, first_descriptors, words_part
from tasks.fit.checkpoint import keep, load_kept
from tasks.quantize.kmeans import Codebooks, CodebookSums, train_codebooks
from tasks.rows.base import Array
from tasks.rows.descriptors import SIFT_NUMBERS
from tasks.sums import FAN_IN

FIRST_ROWS = 8  # descriptors per word among which the first words are chosen
WORDS = "words.npz"
BYTES = 4


def words_step(encoding: WordsEncoding) -> str:
    """The step of the vocabulary of an encoding; encodings that ask for the same one share it."""
    return f"words_{encoding.rows}-{encoding.sampled}-{encoding.words}-{encoding.iterations}"


@dataclass(frozen=True)
class WordsStage(Stage):
    """Lloyd's algorithm from seeded first words."""

    encoding: WordsEncoding  # any of those that share it

    @classmethod
    def of(cls, encoding: WordsEncoding) -> Self:
        """Raises ParamError for a sample smaller than the vocabulary."""
        if encoding.sampled < encoding.words:
            why = f"each of {encoding.words:,} words is the mean of some descriptors"
            raise ParamError("sample", encoding.sampled, f"at least {encoding.words}", why)
        return cls(encoding)

    @property
    def name(self) -> str:
        return words_step(self.encoding)

    def settings(self) -> dict[str, Any]:
        return {
            "rows": self.encoding.rows,
            "sample": self.encoding.sampled,
            "words": self.encoding.words,
            "iterations": self.encoding.iterations,
        }

    @property
    def inputs(self) -> tuple[str, ...]:
        return (encode_step(self.encoding.rows), sample_step(self.encoding))

    def estimate(self, facts: Facts) -> Estimate:
        del facts
        return words_estimate(self.encoding.words, self.encoding.sampled, SIFT_NUMBERS)

    def run(self, work: Work) -> Made:
        started = time.perf_counter()
        files, n_words = sample_files(work, self.encoding), self.encoding.words
        path = work.folder / WORDS
        trained = train_words(PoolSample(work.pool, files, self.name, n_words), n_words, self.encoding, work)
        keep(path, {"words": trained.codebooks[0]})
        results = {"words": n_words, "empty": trained.empty, "errors": list(trained.errors)}
        return Made(digest_arrays(trained.codebooks), results, {"seconds": time.perf_counter() - started})


def words_estimate(n_words: int, sample: int, width: int) -> Estimate:
    """What k-means on a sample takes: a part of it at once, and sums of the size of the vocabulary."""
    book = BYTES * width * n_words
    part = 6 * BYTES * width * min(sample, 1 << 16)  # a block's share: bytes, floats, products with a slice of words
    task = part + 8 * book + 64 * MEGABYTE
    first = 3 * FIRST_ROWS * book
    return Estimate(max(task, 3 * FAN_IN * book), book + CARD_BYTES, 16, 2 * book, first)


def words_of(work: Work, encoding: WordsEncoding) -> Array:
    """The vocabulary (n_words, 128) float32 of an encoding, from its finished step."""
    kept = load_kept(work.folders[words_step(encoding)] / WORDS)
    assert kept is not None
    return kept["words"]


def train_words(oracle: PoolSample, n_words: int, encoding: Any, work: Work) -> Codebooks:
    """Centroids of the oracle's descriptors. Raises NoDescriptors when there are fewer than centroids."""
    if oracle.total < n_words:
        what = f"{oracle.total:,} descriptors with contrast were found for {n_words:,} centroids"
        raise NoDescriptors(what, f"encode {encoding.name}", "fewer of them, smaller patches or a lower contrast")
    return train_codebooks(oracle, 1, n_words, encoding.iterations, work.seed)


class PoolSample:
    """The k-means oracle over the files of a sample, as they are or projected."""

    def __init__(
        self,
        pool: Pool,
        files: Sequence[SampleFile],
        name: str,
        n_words: int,
        projection: Projection | None = None,
    ) -> None:
        self.pool, self.files, self.name, self.projection = pool, list(files), name, projection or {}
        self.total = sum(file.rows for file in files)
        self.share = min(1.0, FIRST_ROWS * n_words / max(1, self.total))

    def initial_sample(self) -> Array:
        shared = self.share, self.projection
        found = self.pool.map(first_descriptors, self.files, *shared, name=f"first_{self.name}")
        return np.concatenate(found)

    def sums(self, codebooks: Array) -> CodebookSums:
        shared = codebooks, self.projection
        total: CodebookSums = self.pool.sum(words_part, self.files, *shared, name=f"kmeans_{self.name}")
        return total
