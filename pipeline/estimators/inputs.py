"""Rows given to an estimator: checked as scikit-learn checks them, or taken block by block where they are not here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.utils.validation import validate_data

from pipeline.estimators.errors import BadRows
from pipeline.estimators.given_labels import refuse_labels
from pipeline.estimators.refused import named_rows, refuse_masked, refuse_no_numbers
from pipeline.estimators.rows import (
    as_array,
    blocks_of,
    column_of,
    columns_of,
    is_dask,
    is_far,
    is_zarr,
    refuse_absent,
    refuse_broken,
)

DTYPES = (np.float32, np.float64, np.float16)
FLOAT = np.dtype(np.float32)
UNREAD = {"skip_check_array": True}
MEMORY = {"accept_sparse": "csr", "dtype": DTYPES}


def checked_rows(estimator: Any, rows: Any, reset: bool = True) -> Any:
    """Rows (n_rows, n_features) in memory as an array or CSR matrix; zarr and Dask arrays as they are.

    reset  whether the estimator learns its width and its column names from them
    Raises ValueError as scikit-learn does; it warns where only the fit, or only these rows, had column names.
    """
    if not is_far(rows):
        refuse_unusable(rows)
        with named_rows(rows):
            return validate_data(estimator, rows, reset=reset, **MEMORY)
    found = as_array(rows)
    noted_columns(estimator, found, reset)
    validate_data(estimator, columns_of(rows), reset=reset, **UNREAD)
    return found


def checked_pair(estimator: Any, rows: Any, labels: Any, reset: bool = True) -> tuple[Any, Any]:
    """Rows as above, and their labels in memory. Raises ValueError."""
    if labels is None:
        name = type(estimator).__name__
        raise BadRows(f"This {name} estimator requires y to be passed, but the target y is None", "y", "fit(X, y)")
    labels = column_of(labels) if is_far(labels) else labels
    refuse_labels(labels)
    if not isinstance(getattr(labels, "dtype", FLOAT), np.dtype):  # of pandas, of whose Int64 floats would be made
        labels = np.asarray(labels)
    if not is_far(rows):
        refuse_unusable(rows)
        with named_rows(rows):
            rows, labels = validate_data(estimator, rows, labels, reset=reset, **MEMORY)
        return rows, labels
    rows = checked_rows(estimator, rows, reset)
    labels = np.asarray(labels)
    n_rows = rows.shape[0]
    if n_rows == n_rows and n_rows != len(labels):  # blocks of Dask may be of unknown length: ingest counts them
        raise BadRows(f"X has {n_rows:,} rows and y {len(labels):,}", "X and y", "one label a row")
    return rows, labels


def refuse_unusable(rows: Any) -> None:
    """Raises BadRows for rows in memory that scikit-learn would take for what they are not."""
    refuse_broken(rows)
    refuse_masked(rows, "X")
    refuse_no_numbers(rows)


def noted_columns(estimator: Any, rows: Any, reset: bool) -> None:
    """The width of rows that are not in memory, noted or compared. Raises BadRows."""
    if len(rows.shape) != 2 or not rows.shape[1] >= 1:
        raise BadRows(f"X has shape {tuple(rows.shape)}: rows x features is expected", "X", "reshape X")
    width = int(rows.shape[1])
    if reset:
        estimator.n_features_in_ = width
    elif width != estimator.n_features_in_:
        name = type(estimator).__name__
        what = f"X has {width} features, but {name} is expecting {estimator.n_features_in_} features as input"
        raise BadRows(what, "X", "give rows of the width that it was fitted on")


def mapped_rows(
    estimator: Any,
    rows: Any,
    work: Callable[[Any], Any],
    columns: int | None,
    dtype: np.dtype[Any],
    sparse: bool = False,
) -> Any:
    """work(block) of all rows: of a Dask array lazily, of a zarr array block by block, of anything else at once.

    columns  of the result (n_rows, columns); None: (n_rows,). sparse: it is CSR
    """
    rows = checked_rows(estimator, rows, reset=False)
    if is_dask(rows):
        shape = {"drop_axis": 1} if columns is None else {"chunks": (rows.chunks[0], (columns,))}
        empty: Any = np.empty((0,) if columns is None else (0, columns), dtype)
        meta = scipy.sparse.csr_matrix(empty) if sparse else empty
        return rows.map_blocks(work, dtype=dtype, meta=meta, **shape)
    if not is_zarr(rows):
        return work(rows)
    refuse_absent(rows)
    parts = [work(block) for block in blocks_of(rows)]
    if not parts:
        raise BadRows("there are no rows: X has 0 samples", "X", "give at least one")
    return scipy.sparse.vstack(parts, "csr") if sparse else np.concatenate(parts)
