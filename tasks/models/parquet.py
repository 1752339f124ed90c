"""Parquet files with checked pages: the only module of `tasks` that knows pyarrow."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.digest import combine
from tasks.errors import ArtefactError
from tasks.files import beside, disk_room, replace_file, sync_path
from tasks.later import later
from tasks.places import at, is_remote, put_file

pq = later("pyarrow.parquet")

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = later("pyarrow")

NamedError = Callable[[str, str, str], ArtefactError]  # of what, where, hint
# Without threads and readahead: where no thread can be started any more, their pools would wait for ever.
CHECKED: dict[str, Any] = {"page_checksum_verification": True, "use_threads": False, "pre_buffer": False}
SETTINGS: dict[str, Any] = {"compression": "zstd", "write_page_checksum": True, "use_dictionary": False}


def place(spare: Path, target: Path) -> None:
    """Push the finished file to the disk and give it its name, or put it whole."""
    if is_remote(target):
        put_file(spare, target)
        return
    sync_path(str(spare))
    replace_file(spare, target)
    sync_path(str(target.parent))


def spare_of(target: Path) -> Path:
    """Where a file is written before it has its name: beside it, or among temporary files."""
    return beside(Path(tempfile.gettempdir(), target.name) if is_remote(target) else target.absolute())


def write_table(target: Path, table: pa.Table) -> None:
    """Write one table, whole or not at all; raises DiskFull."""
    spare = spare_of(target)
    with disk_room(str(target), table.nbytes):
        try:
            pq.write_table(table, spare, **SETTINGS)
            place(spare, target)
        finally:
            spare.unlink(missing_ok=True)


def read_table(source: Path, error: NamedError, hint: str) -> pa.Table:
    """Read one table, checking every page; `error` (what, where, hint) is raised when it is missing or damaged."""
    try:
        if is_remote(source):
            return pq.read_table(pa.BufferReader(source.read_bytes()), **CHECKED)
        # Absolute: of a relative path with a colon in it pyarrow would make an address of another kind of store.
        return pq.read_table(source.absolute(), memory_map=False, **CHECKED)
    except FileNotFoundError:
        raise error("the file is missing", str(source), hint) from None
    except (pa.ArrowException, OSError, ValueError) as cause:
        raise error(f"the file cannot be read ({first_line(cause)})", str(source), hint) from cause


def read_columns(source: Path, columns: Sequence[str], error: NamedError, hint: str) -> pa.Table:
    """Some columns of a table; arguments and errors as of `read_table`, `error` also where one of them is not there."""
    try:
        file = pq.ParquetFile(
            pa.BufferReader(source.read_bytes()) if is_remote(source) else source.absolute(),
            page_checksum_verification=True,
            pre_buffer=False,
        )
        missing = [name for name in columns if name not in file.schema_arrow.names]
        if missing:
            raise error(f"it has no column {missing[0]}", str(source), hint)
        return file.read(list(columns), use_threads=False)
    except FileNotFoundError:
        raise error("the file is missing", str(source), hint) from None
    except (pa.ArrowException, OSError, ValueError) as cause:
        raise error(f"the file cannot be read ({first_line(cause)})", str(source), hint) from cause


def first_line(error: BaseException) -> str:
    """The first line of a message: pyarrow's go on for paragraphs."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


class TableWriter:
    """Tables one after another into one Parquet file, in row groups of at least `group_rows`, whole or not at all."""

    def __init__(self, target: Path, schema: pa.Schema, metadata: Mapping[str, str], group_rows: int = 1 << 16) -> None:
        self.target, self.spare, self.group_rows = target, spare_of(target), group_rows
        self.schema = schema.with_metadata(dict(metadata))
        self.waiting: list[pa.Table] = []
        with disk_room(str(target), 0):
            self.writer = pq.ParquetWriter(self.spare, self.schema, **SETTINGS)

    def write(self, table: pa.Table) -> None:
        self.waiting.append(table.cast(self.schema))
        if sum(part.num_rows for part in self.waiting) >= self.group_rows:
            self._flush()

    def _flush(self) -> None:
        if self.waiting:
            table = pa.concat_tables(self.waiting).combine_chunks()
            with disk_room(str(self.target), table.nbytes):
                self.writer.write_table(table, row_group_size=max(1, table.num_rows))
            self.waiting = []

    def __enter__(self) -> TableWriter:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                self._flush()
            with disk_room(str(self.target), 0):
                self.writer.close()
            if kind is None:
                place(self.spare, self.target)
        finally:
            self.spare.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Joined:
    """A finished file of parts: its rows and the content digest of the parts in order."""

    rows: int
    digest: str


def join_tables(
    parts: Sequence[str | Path],
    target: Path,
    metadata: Mapping[str, str],
    digest_of: Callable[[pa.Table, str], str],
    digests: Sequence[str] | None,
    error: NamedError,
    hint: str,
    drop: Sequence[str] = (),
) -> Joined:
    """Join tables of one schema in the given order into one file, one in memory at a time; whole or not at all.

    digest_of  content digest of a table; raises `error` when it is none of the kind
    digests    those that the parts were written with; `error` is raised for a part that has another
    drop       columns that are left out of the joined file, where there are such
    """
    if not parts:
        raise error("there are no parts to join", str(target), hint)
    found: list[str] = []
    rows = 0
    first = read_table(at(parts[0]), error, hint)
    with TableWriter(target, _without(first, drop).schema.remove_metadata(), metadata) as writer:
        for i, part in enumerate(parts):
            table = first if i == 0 else read_table(at(part), error, hint)
            if table.schema.remove_metadata() != first.schema.remove_metadata():
                raise error("its columns are not those of the first part", str(part), hint)
            found.append(digest_of(table, str(part)))
            if digests is not None and found[-1] != digests[i]:
                raise error("its content is not what was written", str(part), hint)
            writer.write(_without(table, drop))
            rows += table.num_rows
    return Joined(rows, combine(found))


def _without(table: pa.Table, drop: Sequence[str]) -> pa.Table:
    return table.drop_columns([name for name in drop if name in table.column_names])
