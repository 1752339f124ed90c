"""A Parquet file: opened with what it says checked, the kinds of its columns, and a column of labels.

Row groups are read one after the other and decoded some rows at a time, so memory does not grow with a file.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.ingest.errors import DeclaredTooLarge, FeatureDtype, readable
from pipeline.ingest.label_parts import LabelParts
from pipeline.ingest.labels import Labels

LABEL_ROWS = 1 << 16  # read at a time
PAGES = 1 << 20  # bytes read from disk at a time, in place of a whole column of a row group


# ---- columns -----------------------------------------------------------------------------------------------------


def vector_columns(schema: Any) -> list[str]:
    """Columns of lists of numbers."""
    return [name for name in list_columns(schema) if _is_number(plain(schema.field(name).type).value_type)]


def list_columns(schema: Any) -> list[str]:
    """Columns of lists of anything."""
    return [field.name for field in unique(schema) if _is_list(plain(field.type))]


def unique(schema: Any) -> list[Any]:
    """Columns that can be told by their names."""
    times = Counter(schema.names)  # once: `schema.names` is a new list at every look
    return [field for field in schema if times[field.name] == 1]


def label_columns(schema: Any) -> list[str]:
    """Columns of integers or of names, without the index that pandas adds."""
    found = []
    for field in unique(schema):
        kind = plain(field.type)
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        if (pa.types.is_integer(kind) or _is_text(kind)) and not field.name.startswith("__index_level_"):
            found.append(field.name)
    return found


def plain(kind: Any) -> Any:
    """The type that an extension type is stored as, such as the list of a tensor of fixed shape."""
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def storage(array: Any) -> Any:
    """An array as it is stored, without its extension type."""
    return array.storage if isinstance(array, pa.ExtensionArray) else array


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _is_number(kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def dtype_of(kind: Any, where: str) -> np.dtype:
    """NumPy's type of the numbers in a column of lists. Raises FeatureDtype."""
    inner = plain(kind).value_type
    if not _is_number(inner):
        raise FeatureDtype(f"lists of {inner} are no vectors of real numbers", where, "convert them to float32")
    dtype: np.dtype = np.dtype(inner.to_pandas_dtype())
    return dtype


# ---- files -------------------------------------------------------------------------------------------------------


@contextmanager
def opened(path: Path, texts: Sequence[str] = (), pages: int = PAGES) -> Iterator[Any]:
    """A Parquet file, page checksums compared where it has them.

    pages  bytes of each column that is read which are fetched at a time
    texts  columns of which each different text is held once; spelt out, few bytes of a file can be any number
    """
    with readable(str(path)):
        handle = pa.OSFile(os.fsencode(path))  # a name such as a:b.parquet would be taken for a URL
    with handle:
        with readable(str(path)):
            options: dict[str, Any] = {"page_checksum_verification": True, "read_dictionary": list(texts)}
            file = pq.ParquetFile(handle, buffer_size=pages, pre_buffer=False, **options)
        with file:
            yield file


def read_labels(path: Path, column: str) -> Labels:
    """A column as labels. Raises LabelDtype, LabelOutOfRange for a null, DamagedInput."""
    found = LabelParts(f"{path.name}:{column}")
    with opened(path, [column]) as file, readable(f"{path}, column {column!r}"):
        for batch in file.iter_batches(LABEL_ROWS, columns=[column], use_threads=False):
            _add_labels(found, storage(batch.column(column)))
    return found.labels()


def _add_labels(found: LabelParts, values: Any) -> None:
    if values.null_count:
        found.refuse_null(int(np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0]))
    if pa.types.is_dictionary(values.type):
        words, codes = values.dictionary, values.indices.to_numpy(zero_copy_only=False)
        if words.null_count:
            null = np.flatnonzero(np.isin(codes, np.flatnonzero(words.is_null().to_numpy(zero_copy_only=False))))
            if null.size:
                found.refuse_null(int(null[0]))
        if pa.types.is_integer(words.type):
            found.integers(words.to_numpy(zero_copy_only=False)[codes])
        else:
            found.names(codes.astype(np.int64), [str(word) for word in words.to_pylist()])
    elif pa.types.is_integer(values.type):
        found.integers(values.to_numpy(zero_copy_only=False))
    else:
        encoded = values.dictionary_encode()
        found.names(encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), encoded.dictionary.to_pylist())


def refuse_too_large(declared: int, what: str, where: str, limit: int) -> None:
    """Raise DeclaredTooLarge for more bytes in one row group than may be held."""
    if declared > limit:
        said = f"{declared:,} bytes of {what} in one row group; the limit is {limit:,}"
        raise DeclaredTooLarge(said, where, "write smaller row groups (row_group_size=), or raise --max-bytes")


def batches_from(file: Any, path: Path, columns: Sequence[str], size: int, start: int) -> Iterator[tuple[int, Any]]:
    """Batches of at most `size` rows, each with the number of its first row; those wholly before `start` are left out.

    Raises DamagedInput with the row group.
    """
    first = 0
    for group in range(file.num_row_groups):
        n_rows = file.metadata.row_group(group).num_rows
        row = first
        if start < first + n_rows:
            with readable(f"{path}, row group {group}"):
                for batch in file.iter_batches(size, row_groups=[group], columns=list(columns), use_threads=False):
                    if row + batch.num_rows > start:
                        yield row, batch
                    row += batch.num_rows
        first += n_rows
