"""Encodings as scikit-learn transformers: product quantisation and winner-take-all codes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from pipeline.config import Encoding, RunConfig
from pipeline.estimators.errors import BadParameter, BadRows, raise_in_python
from pipeline.estimators.fitting import Fit, fitted, unlabelled
from pipeline.estimators.inputs import checked_rows, mapped_rows
from pipeline.estimators.parameters import config_of, seed_of
from pipeline.estimators.rows import blocks_of, rows_of
from pipeline.estimators.whole import as_before
from pipeline.stage import encode_step
from pipeline.stages.codes import code_params
from pipeline.stages.train import encoder_of
from tasks.errors import LabelgroveError
from tasks.hashing.code_rows import CodeHash
from tasks.hashing.windows import check_window
from tasks.models.code_encoder import CodeEncoder
from tasks.models.encoder import PqEncoder
from tasks.quantize.pq import decode
from tasks.rows import OneHot, PqCodes
from tasks.rows.base import Array

CODES, ONE_HOT = "codes", "one-hot"
NOT_KEYS = ("random_state", "output", "scheduler", "folder", "kind")


class Encoder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """What the transformers share: their parameters are the keys of an [[encode]] section."""

    encoding_kind: ClassVar[str] = ""

    def _kind(self) -> str:
        return self.encoding_kind

    def section(self, name: str) -> dict[str, Any]:
        """The [[encode]] section of the parameters."""
        given = self.get_params(deep=False)
        return {"kind": self._kind(), "name": name, **{k: v for k, v in given.items() if k not in NOT_KEYS}}

    def _config(self) -> RunConfig:
        return config_of(seed_of(self.random_state), [], [self.section(self._kind())])

    def _encoding(self, config: RunConfig) -> Encoding:
        (encoding,) = config.encode
        return encoding

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = []
        return tags

    @property
    def _n_features_out(self) -> int:
        return self._columns_out()

    @abstractmethod
    def _columns_out(self) -> int:
        """Columns of what `transform` returns."""


class ProductQuantizer(Encoder):
    """Product quantisation: a row as one byte for each of its parts (Harchaoui et al. 2012, section 4).

    A code is the number of a centroid, no quantity: a linear model of scikit-learn wants a OneHotEncoder between. Ours
    learn from codes as from the rows that they stand for: LabelTreeClassifier(encode=ProductQuantizer(16)).

    subquantizers  codes per row, a divisor of the features; None: one per 8 features or so
    bits           2^bits centroids a codebook, 1 to 8; at least so many rows are needed
    iterations     Lloyd rounds; sample: rows on which the codebooks are trained
    random_state   of the sample and the first centroids
    scheduler      where the codebooks are trained: "serial", "local:2", "tcp://..."
    folder         for temporary files; of somebody else's cluster one that all workers see

    After `fit`: codebooks_ (n_subquantizers, 2^bits, width) float32.
    """

    encoding_kind = "pq"
    codebooks_: Array

    def __init__(
        self,
        subquantizers: int | None = None,
        *,
        bits: int = 8,
        iterations: int = 15,
        sample: int = 16384,
        random_state: Any = 0,
        scheduler: str = "serial",
        folder: str | None = None,
    ) -> None:
        self.subquantizers = subquantizers
        self.bits = bits
        self.iterations = iterations
        self.sample = sample
        self.random_state = random_state
        self.scheduler = scheduler
        self.folder = folder

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Train the codebooks on rows (n_rows, n_features): NumPy, SciPy sparse, zarr or Dask. y is not read.

        A fit that fails leaves the quantizer as it was. Raises BadParameter, BadRows (both ValueErrors).
        """
        with as_before(self):
            self._fit(X)
        return self

    def _fit(self, rows: Any) -> None:
        config = self._config()
        rows = checked_rows(self, rows)
        least = 1 << self._encoding(config).model_dump()["bits"]
        n_rows = _count(rows)
        if n_rows < max(2, least):
            what = f"n_samples = {n_rows}: {least} centroids need at least {max(2, least)} rows"
            raise BadRows(what, "X", "give more rows, or fewer bits")
        asked = Fit(
            config, unlabelled(n_rows), scheduler=self.scheduler, folder=self.folder, section=f"encode {self._kind()}"
        )
        with fitted(asked, rows) as (trained, _):
            self.codebooks_ = encoder_of(trained.folders[encode_step(self._kind())]).tensors()["codebooks"].copy()

    def transform(self, X: Any) -> Any:
        """Codes (n_rows, n_subquantizers) uint8; of a Dask array a Dask array, computed when it is asked for."""
        check_is_fitted(self)
        return mapped_rows(self, X, self._codes, self.codebooks_.shape[0], np.dtype(np.uint8))

    def _codes(self, block: Any) -> Array:
        coded = PqEncoder(self.codebooks_).encode(rows_of(block))
        assert isinstance(coded, PqCodes)
        return coded.codes

    def inverse_transform(self, X: Any) -> Array:
        """The rows (n_rows, n_features) float32 that codes stand for. Raises BadRows for codes of no centroid."""
        check_is_fitted(self)
        n_subquantizers, n_centroids, _ = self.codebooks_.shape
        codes = np.asarray(X)
        if codes.ndim != 2 or codes.shape[1] != n_subquantizers or codes.dtype.kind not in "iu":
            what = f"codes of shape {codes.shape} and type {codes.dtype}"
            raise BadRows(what, "X", f"(n_rows, {n_subquantizers}) integers, as transform gives them")
        if codes.size and not (codes.min() >= 0 and codes.max() < n_centroids):
            raise BadRows(f"codes go from 0 to {n_centroids - 1}", "X", "give what transform gave")
        return np.asarray(decode(codes.astype(np.uint8), self.codebooks_))

    def _columns_out(self) -> int:
        return int(self.codebooks_.shape[0])


class WTAHasher(Encoder):
    """Winner-take-all codes: which of some drawn features is largest (Chen & Shrivastava 2018).

    kind     "dwta": an empty sample borrows the code of the next one (densified), for nearest neighbours; "wta": it has
             none, which serves linear models better on sparse rows
    hashes   codes per row; window: features that a hash compares (K)
    empty    of wta: "none", or "first" (code 0, as in the paper)
    shift    of dwta: a borrowed code grows by this for each step (C); None: `window`
    range    of dwta: codes are taken modulo this (R); None: 16 times `window`; 0: they are not
    output   "one-hot": a sparse matrix (CSR) of 0 and 1, for linear models; "codes": whole numbers, the
             largest of an unsigned type, or -1, for no code
    random_state   of the hashes
    """

    hash_: CodeHash

    def __init__(
        self,
        hashes: int = 1000,
        *,
        kind: str = "dwta",
        window: int = 4,
        empty: str = "none",
        shift: int | None = None,
        range: int | None = None,
        output: str = ONE_HOT,
        random_state: Any = 0,
    ) -> None:
        self.hashes = hashes
        self.kind = kind
        self.window = window
        self.empty = empty
        self.shift = shift
        self.range = range
        self.output = output
        self.random_state = random_state

    def _kind(self) -> str:
        if self.kind not in ("wta", "dwta"):
            raise BadParameter(f"kind = {self.kind!r}: expected 'wta' or 'dwta'", "kind")
        return self.kind

    def section(self, name: str) -> dict[str, Any]:
        """The keys of the other kind are left out, when they are not given."""
        section = super().section(name)
        others = ("empty",) if self._kind() == "dwta" else ("shift", "range")
        for key in others:
            value = section.pop(key)
            if value not in (None, "none"):
                raise BadParameter(f"{key} = {value!r} is not of kind {self.kind!r}", key)
        return section

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Draw the hashes for rows of this width; their values are not read but checked. y is not read.

        A fit that fails leaves the hasher as it was. Raises BadParameter, BadRows (both ValueErrors).
        """
        with as_before(self):
            self._fit(X)
        return self

    def _fit(self, rows: Any) -> None:
        config = self._config()
        if self.output not in (CODES, ONE_HOT):
            raise BadParameter(f"output = {self.output!r}: expected {CODES!r} or {ONE_HOT!r}", "output")
        checked_rows(self, rows)
        encoding: Any = self._encoding(config)
        try:
            check_window(encoding.window, self.n_features_in_)
            self.hash_ = CodeHash.drawn(code_params(encoding, config.seed), self.n_features_in_)
        except LabelgroveError as error:
            error.what = f"{error.what} (n_features = {self.n_features_in_})"
            raise_in_python(error, "")

    def transform(self, X: Any) -> Any:
        """One-hot rows (n_rows, hashes * codes) float32 as CSR, or codes (n_rows, hashes); of Dask arrays lazily."""
        check_is_fitted(self)
        dtype = self.hash_.params.dtype if self.output == CODES else np.dtype(np.float32)
        return mapped_rows(self, X, self._coded, self._columns_out(), dtype, sparse=self.output == ONE_HOT)

    def _coded(self, block: Any) -> Any:
        coded: OneHot = CodeEncoder(self.hash_).encode(rows_of(block))
        if self.output == CODES:
            return coded.codes
        rows = coded.decoded()
        return scipy.sparse.csr_matrix((rows.data, rows.indices, rows.indptr), shape=coded.shape)

    def _columns_out(self) -> int:
        params = self.hash_.params
        return params.hashes * (1 if self.output == CODES else params.n_codes)


def _count(rows: Any) -> int:
    """Rows of an array, also of a Dask array whose blocks are of unknown length."""
    n = rows.shape[0]
    return int(n) if n == n else sum(int(block.shape[0]) for block in blocks_of(rows))
