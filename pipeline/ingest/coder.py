"""Rows that are held as codes of a product quantiser from the first: what was asked for, and codebooks once learnt."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import cached_property, reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.dataset import Note
from pipeline.ingest.errors import EncodingUnfit
from pipeline.ingest.threads import in_order, n_threads
from tasks.coded_rows import coded
from tasks.errors import ParamError
from tasks.fit.checkpoint import keep, load_kept
from tasks.quantize.blocks import least_rows
from tasks.quantize.kmeans import CodebookSums, assign_and_sum, train_codebooks
from tasks.quantize.pq import PqParams, PQShape, PQTooFewRows, encode
from tasks.rows.base import Array
from tasks.seeds import stream

KIND = "pq"
WORDS = tuple(field.name for field in fields(PqParams))  # options that have a meaning beside `encode` alone
FIRST_ROWS = 8  # rows per centroid among which the first centroids are chosen
PARTS = 16  # of the sample, most that are added up side by side: each has sums of the size of the codebooks
UNLIKE, LEAST_ERROR = 1.5, 1e-6  # all rows' error, in errors of the sample, from which on this is told
UNLIKE_HINT = (
    "it is too small, or the first rows are unlike the others: take a larger --sample, or shuffle the rows first"
)
LEAVE_OUT = "leave --encode out"


class Coder:
    """How rows become codes, of all sources of an ingest.

    refuses       whether rows that are not finite are refused at once
    most_bytes    that the sample may take
    learns_as_they_come   whether the training rows are encoded while they are read: then so are all others
    learnt        codebooks (n_subquantizers, n_centroids, width) float32, once there are some
    sample_error  squared error of the sample as a share of its squared norm
    """

    def __init__(self, params: PqParams, seed: int, refuses: bool, most_bytes: int) -> None:
        self.params, self.seed, self.refuses, self.most_bytes = params, seed, refuses, most_bytes
        self.learns_as_they_come = False
        self.learnt: Array | None = None
        self.sample_error = 0.0

    @property
    def codebooks(self) -> Array:
        assert self.learnt is not None, "codebooks are learnt before rows are encoded"
        return self.learnt

    def largest(self, n_features: int) -> float:
        """That a value may be, so that squared distances are finite: up to 4 of its squares for each of a part."""
        width = n_features // self.params.resolve(n_features)
        return float(np.sqrt(np.finfo(np.float32).max / (4 * width)))

    @cached_property
    def zero_codes(self) -> Array:
        """Codes (n_subquantizers,) of a row of zeros."""
        width = self.codebooks.shape[0] * self.codebooks.shape[2]
        found: Array = encode(np.zeros((1, width), np.float32), self.codebooks)[0]
        return found

    def warm(self, dtype: np.dtype) -> None:
        """Have kernels compiled for rows of a type, before several threads ask for them at once."""
        coded(np.zeros((1, self.codebooks.shape[0] * self.codebooks.shape[2]), dtype), self.codebooks)

    def about(self) -> dict[str, Any]:
        """What decides the codebooks beside the rows, as plain values."""
        return {"kind": KIND, **{name: getattr(self.params, name) for name in WORDS}, "seed": self.seed}

    def check(self, body: str, n_features: int, name: str) -> None:
        """Before any row is read. Raises EncodingUnfit unless rows are dense, PQShape."""
        self.refuse_body(body, name)
        with as_typed():
            self.params.resolve(n_features)

    def check_sample(self, n_features: int, n_rows: int | None) -> None:
        """Whether so many rows can be learnt from, as far as they are known. Raises PQTooFewRows, ParamError."""
        sample = self.params.sample
        if n_rows is not None:
            self.check_rows(n_rows)
            sample = min(sample, n_rows)
        most = self.most_bytes // (4 * n_features)
        if sample > most:
            raise ParamError("sample", sample, f"at most {most:,}", "the sample is held in memory (--max-bytes)")

    def check_rows(self, n_rows: int) -> None:
        """Raises PQTooFewRows."""
        with as_typed():
            self.params.check_rows(n_rows)

    @staticmethod
    def refuse_body(body: str, name: str) -> None:
        """Raises EncodingUnfit for rows that are not dense."""
        if body == "csr":
            hint = f"sparse rows are small as they are: {LEAVE_OUT}"
            raise EncodingUnfit("its rows are sparse, and product quantisation is of dense rows", name, hint)
        if body != "dense":
            hint = f"{LEAVE_OUT}; a run encodes what it makes of images"
            raise EncodingUnfit(f"its rows are {body}, and product quantisation is of rows of numbers", name, hint)

    def learn(self, place: Path, draw: Callable[[], Array]) -> None:
        """Codebooks of a sample, or those that an interrupted ingest has kept at `place`.

        draw  gives the sample (n_rows, n_features) float32, finite
        Raises PQTooFewRows, DiskFull.
        """
        kept = load_kept(place)
        if kept is None:
            kept = self._learnt(draw())
            keep(place, kept)
        self.learnt, self.sample_error = kept["codebooks"], float(kept["error"])

    def told(self, sums: Iterable[tuple[float, ...]]) -> dict[str, Any]:
        """What the dataset says of its codes, as plain values.

        sums  squared error and squared norm of all rows, in parts, in their order
        """
        error, norm = np.array(list(sums), np.float64).reshape(-1, 2).sum(axis=0).tolist()
        sizes = {"subquantizers": int(self.codebooks.shape[0]), "relative_error": error / norm if norm > 0 else 0.0}
        return {**self.about(), **sizes, "sample_error": self.sample_error}

    def notes(self, told: Mapping[str, Any], n_features: int) -> list[Note]:
        """What was made of the rows; a warning where the codebooks fit their sample alone."""
        count, whole, sample = told["subquantizers"], told["relative_error"], told["sample_error"]
        text = (
            f"a row of {n_features:,} features is {count:,} codes, one byte each: squared error {whole:.4g} of the "
            f"squared norm (of the sample that codebooks were learnt on: {sample:.4g})"
        )
        found = [Note("Encoded", text)]
        if whole > UNLIKE * sample and whole > LEAST_ERROR:
            text = (
                f"all rows lose {whole:.4g} of their squared norm, and those of the sample {sample:.4g}: {UNLIKE_HINT}"
            )
            found.append(Note("SampleUnlike", text, "warning"))
        return found

    def _learnt(self, sample: Array) -> dict[str, Array]:
        self.check_rows(len(sample))
        oracle = ThreadedSample(sample, self.params.n_centroids, self.seed)
        params, n_subquantizers = self.params, self.params.resolve(sample.shape[1])
        shape = n_subquantizers, params.n_centroids, sample.shape[1] // n_subquantizers
        assign_and_sum(sample[:1], np.zeros(shape, np.float32))  # compiled before threads ask for it
        found = train_codebooks(oracle, n_subquantizers, params.n_centroids, params.iterations, self.seed)
        norm = sum(float(np.einsum("ij,ij->", part, part, dtype=np.float64)) for part in oracle.parts) / len(sample)
        return {"codebooks": found.codebooks, "error": np.array(found.errors[-1] / norm if norm > 0 else 0.0)}


@dataclass(frozen=True, eq=False)
class ThreadedSample:
    """The k-means oracle of a sample in memory: parts of it side by side, added up in their order."""

    values: Array
    n_centroids: int
    seed: int

    @property
    def parts(self) -> list[Array]:
        size = max(least_rows(self.values.shape[1], self.n_centroids), -(-len(self.values) // PARTS))
        return [self.values[start : start + size] for start in range(0, len(self.values), size)]

    def initial_sample(self) -> Array:
        wanted = min(FIRST_ROWS * self.n_centroids, len(self.values))
        index = stream(self.seed, "ingest", "first").choice(len(self.values), wanted, replace=False)
        return self.values[np.sort(index)]

    def sums(self, codebooks: Array) -> CodebookSums:
        return reduce(add, in_order(lambda part: assign_and_sum(part, codebooks), self.parts, n_threads()))


def coder_of(encode: str | None, given: Mapping[str, Any], dtype: str | None, *how: Any) -> Coder | None:
    """The coder that was asked for; None without `encode`. Raises ParamError.

    given  values of WORDS, None where nothing was said
    how    seed, refuses and most_bytes of the coder
    """
    said = {name: value for name, value in given.items() if value is not None}
    if encode is None:
        for name, value in said.items():
            raise ParamError(name, value, "encode = pq beside it", "rows that stay as they are have no codebooks")
        return None
    if encode != KIND:
        raise ParamError("encode", encode, KIND, "rows are encoded on the way in by product quantisation")
    if dtype is not None:
        raise ParamError("dtype", dtype, "none beside encode", "codes are bytes")
    with as_typed():
        return Coder(PqParams(**said), *how)


@contextmanager
def as_typed() -> Iterator[None]:
    """Errors of the quantiser in the words of `ingest`, which has its parameters under other names, and no `pca`."""
    try:
        yield
    except ParamError as error:
        name, value, accepted, why = error.args
        raise ParamError(name.removeprefix("pq."), value, accepted, why) from None
    except (PQShape, PQTooFewRows) as error:
        hint = error.hint.partition("; or cut principal components")[0]
        raise type(error)(error.what, error.where.replace("pq.", "--"), hint) from None
