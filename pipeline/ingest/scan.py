"""One pass over all features before anything is written: which rows cannot be trusted, and where exactly."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import numpy as np

from pipeline.dataset import Note
from pipeline.ingest.errors import DamagedImage, FeatureRange, NonFiniteFeature
from pipeline.ingest.images import ImageSource, look_at
from pipeline.ingest.kept import Kept
from pipeline.ingest.source import Source
from pipeline.ingest.threads import in_order, n_threads
from pipeline.ingest.whole_numbers import ALL_UP_TO, changed
from tasks.rows import Csr, Dense, Rows
from tasks.rows.base import Array

SHOWN_ROWS, SHOWN_COLUMNS = 10, 5
DECODERS = min(4, os.cpu_count() or 1)  # threads; decoding leaves the interpreter to others
LARGEST = {  # of a stored value; in float32 its square must be finite too, norms and products need it
    "float32": float(np.sqrt(np.finfo(np.float32).max)),
    "float16": float(np.finfo(np.float16).max),
}
BITS: dict[np.dtype, type[np.unsignedinteger[Any]]] = {  # of a type of floats, and whole numbers of the same size
    np.dtype(np.float16): np.uint16,
    np.dtype(np.float32): np.uint32,
}
LOOKED_AT = 2**18  # bytes of rows whose bits are compared at a time, in the second-level cache
SMALLEST = {  # that the largest value of all may be: below it, all squares or all values would be stored as 0
    "float32": float(np.sqrt(np.finfo(np.float32).tiny)),
    "float16": float(np.finfo(np.float16).smallest_subnormal),
}


@dataclass
class Scan:
    """What a pass over one source found."""

    dtype: str  # what its values will be stored in
    bad_rows: list[int] = field(default_factory=list)  # rows with NaN or infinity
    bad_values: int = 0
    bad_places: list[str] = field(default_factory=list)
    zero_rows: int = 0
    peak: float = 0.0  # the largest finite absolute value
    rounded: int = 0  # whole numbers that are others once they are stored
    rounded_rows: int = 0  # rows that hold such
    first_rounded: str = ""  # the first of them, and where it stands
    damaged_rows: list[int] = field(default_factory=list)  # images that cannot be decoded
    damaged_places: list[str] = field(default_factory=list)
    longest_side: int = 0  # of an image that can, pixels

    def add(self, more: Scan) -> None:
        """What was found in the rows that come next."""
        self.bad_rows += more.bad_rows
        self.bad_values += more.bad_values
        self.bad_places = [*self.bad_places, *more.bad_places][:SHOWN_ROWS]
        self.zero_rows += more.zero_rows
        self.peak = max(self.peak, more.peak)
        self.rounded += more.rounded
        self.rounded_rows += more.rounded_rows
        self.first_rounded = self.first_rounded or more.first_rounded


class Placed(Protocol):
    """What tells where rows and columns stand, for messages."""

    feature_names: tuple[str, ...] | None

    def place(self, row: int) -> str: ...


def scan_once(
    source: Source, dtype: str, kept: Kept, name: str, tick: Callable[[int], None] | None = None, most: float = np.inf
) -> Scan:
    """As `scan`; what an interrupted ingest has noted under this name is not looked for again."""
    about = {"dtype": dtype, "shape": list(source.shape)}
    noted = kept.load(name) or {}
    if noted.get("about") == about and set(noted.get("found", ())) == set(Scan.__dataclass_fields__):
        if tick:
            tick(source.n_rows)
        return Scan(**noted["found"])
    found = scan(source, dtype, tick, most)
    kept.save(name, {"about": about, "found": asdict(found)})
    return found


def scan(source: Source, dtype: str, tick: Callable[[int], None] | None = None, most: float = np.inf) -> Scan:
    """Look at every value of a source. Raises FeatureRange at the first such row.

    dtype  what it will be stored in; most  largest value, where that is less than LARGEST
    """
    found = Scan(dtype)
    if isinstance(source, ImageSource):
        _look_at(source, found, tick)
        return found

    def look(span: tuple[int, int]) -> Scan:
        return scan_rows(source, span[0], source.slab(*span), dtype, most)

    spans = source.spans()
    for (start, stop), seen in zip(spans, in_order(look, spans, min(n_threads(), len(spans))), strict=True):
        found.add(seen)
        if tick:
            tick(stop - start)
    return found


def scan_rows(source: Placed, start: int, rows: Rows, dtype: str, most: float = np.inf) -> Scan:
    """Look at the values of some rows of a source, from row `start` on. Raises FeatureRange at the first such row."""
    found, peaks, most = Scan(dtype), row_peaks(rows), min(most, LARGEST[dtype])
    wrong = np.flatnonzero(~np.isfinite(peaks))
    for i in wrong.tolist():
        _note_row(found, source, start + i, _row(rows, i))
    too_large = np.flatnonzero(np.isfinite(peaks) & (peaks > most))
    if too_large.size:
        i = int(too_large[0])
        raise _too_large(source, start + i, _row(rows, i), dtype, most)
    _note_rounded(found, source, start, changed(rows, peaks, dtype))
    with np.errstate(over="ignore"):  # of rows that are told above
        found.zero_rows += int(np.count_nonzero(peaks.astype(dtype) == 0))  # as they will be stored
    found.peak = float(peaks[np.isfinite(peaks)].max(initial=0.0))
    return found


def _look_at(source: ImageSource, found: Scan, tick: Callable[[int], None] | None) -> None:
    """Decode every image once."""
    with ThreadPoolExecutor(DECODERS) as threads:
        for start, images in source.slabs():
            for row, seen in enumerate(look_at(images, threads), start):
                found.longest_side = max(found.longest_side, seen.side)
                if seen.wrong:
                    found.damaged_rows.append(row)
                    found.damaged_places.append(f"{source.place(row)}: {seen.wrong}")
            if tick:
                tick(images.n_rows)


def row_peaks(rows: Rows) -> Array:
    """Largest absolute value (n_rows,) float64 of each row: not finite where the row holds NaN or infinity."""
    if isinstance(rows, Dense) and rows.values.dtype in BITS and rows.values.flags.c_contiguous:
        return _peaks_by_bits(rows.values)
    if isinstance(rows, Dense):
        with np.errstate(over="ignore"):  # of wider types; infinity is refused below
            top, bottom = rows.values.max(axis=1).astype(np.float64), rows.values.min(axis=1).astype(np.float64)
        largest: Array = np.maximum(top, -bottom)
        return largest
    assert isinstance(rows, Csr)
    peaks = np.zeros(rows.n_rows)
    filled = np.flatnonzero(np.diff(rows.indptr))
    if filled.size:
        peaks[filled] = np.maximum.reduceat(np.abs(rows.data.astype(np.float64)), rows.indptr[filled])
    return peaks


def _peaks_by_bits(values: Array) -> Array:
    """As `row_peaks`: without their sign, floats are in the order of their bits, above all others infinity, then NaN.

    Whole numbers are compared far faster than floats, those of the size of halves above all.
    """
    kind = BITS[values.dtype]
    bits, peaks = values.view(kind), np.empty(len(values), kind)
    unsigned = kind(np.iinfo(kind).max >> 1)
    step = max(1, LOOKED_AT // max(1, values.itemsize * values.shape[1]))
    for start in range(0, len(values), step):
        np.max(bits[start : start + step] & unsigned, axis=1, out=peaks[start : start + step])
    return peaks.view(values.dtype).astype(np.float64)


def _row(rows: Rows, i: int) -> tuple[Array, Array]:
    """Columns and values of one row."""
    if isinstance(rows, Dense):
        return np.arange(rows.n_features), rows.values[i]
    assert isinstance(rows, Csr)
    span = slice(rows.indptr[i], rows.indptr[i + 1])
    return rows.indices[span], rows.data[span]


def _note_row(found: Scan, source: Placed, row: int, content: tuple[Array, Array]) -> None:
    columns, values = content
    wrong = np.flatnonzero(~(np.abs(values) <= np.finfo(np.float64).max))  # wider types can be finite beyond it
    found.bad_values += wrong.size
    if len(found.bad_rows) < SHOWN_ROWS:
        shown = ", ".join(f"{columns[j]} ({values[j]})" for j in wrong[:SHOWN_COLUMNS])
        more = f" and {wrong.size - SHOWN_COLUMNS} more" if wrong.size > SHOWN_COLUMNS else ""
        found.bad_places.append(f"{source.place(row)}: columns {shown}{more}")
    found.bad_rows.append(row)


def _note_rounded(found: Scan, source: Placed, start: int, lost: tuple[Array, Array, Array]) -> None:
    """Count what `changed` has found in the rows from `start` on; of the first of all also where it stands."""
    rows, columns, values = lost
    if not rows.size:
        return
    if not found.rounded:
        value = values[0].item()
        place = f"{source.place(start + int(rows[0]))}, {_column(source, int(columns[0]))}"
        found.first_rounded = f"{int(value):,}, which becomes {int(np.array(value, found.dtype)):,} [{place}]"
    found.rounded += rows.size
    found.rounded_rows += np.unique(rows).size


def _column(source: Placed, column: int) -> str:
    """A column for messages: its number, and its name where it has one."""
    names = source.feature_names
    return f"column {column}" + (f" ({names[column]!r})" if names is not None else "")


def _too_large(source: Placed, row: int, content: tuple[Array, Array], dtype: str, most: float) -> FeatureRange:
    columns, values = content
    sizes = np.abs(values.astype(np.float64))
    j = int(np.argmax(sizes))
    what = f"a value of size {sizes[j]:g} is too large: up to {most:.3g} can be used in {dtype}"
    where = f"{source.place(row)}, {_column(source, int(columns[j]))}"
    return FeatureRange(what, where, "scale the features, or check where such values come from")


def refuse_vanishing(scans: list[Scan], dtype: str) -> None:
    """Raise FeatureRange when there are values, but all of them are too small to compute with in `dtype`."""
    peak = max((found.peak for found in scans), default=0.0)
    if 0.0 < peak < SMALLEST[dtype]:
        what = f"the largest of all values is {peak:g}: it must be at least {SMALLEST[dtype]:.3g} in {dtype}"
        raise FeatureRange(what, "", "scale the features, or check where such values come from")


def refuse_non_finite(scans: list[Scan], hint: str = "leave such rows out with --on-nonfinite drop-row") -> None:
    """Raise NonFiniteFeature, naming rows and columns, when any source holds NaN or infinity."""
    n_rows, n_values = sum(len(found.bad_rows) for found in scans), sum(found.bad_values for found in scans)
    if not n_rows:
        return
    places = [place for found in scans for place in found.bad_places][:SHOWN_ROWS]
    more = f"; and {n_rows - len(places):,} more rows" if n_rows > len(places) else ""
    what = f"{n_values:,} values in {n_rows:,} rows are not finite"
    raise NonFiniteFeature(what, "; ".join(places) + more, f"correct the source, or {hint}")


def refuse_damaged(scans: list[Scan], n_images: int) -> None:
    """Raise DamagedImage, naming the first files, when there are any."""
    places = [place for found in scans for place in found.damaged_places]
    if places:
        more = f"; and {len(places) - SHOWN_ROWS:,} more" if len(places) > SHOWN_ROWS else ""
        what = f"{len(places):,} of {n_images:,} images cannot be used"
        hint = "leave them out with --on-corrupt drop-row, or mend them"
        raise DamagedImage(what, "; ".join(places[:SHOWN_ROWS]) + more, hint)


def notes_of_rounded(scans: list[Scan]) -> list[Note]:
    """A warning of whole numbers that are others once they are stored: ids and times often are such."""
    n_values, n_rows = sum(found.rounded for found in scans), sum(found.rounded_rows for found in scans)
    if not n_values:
        return []
    first, dtype = next((found.first_rounded, found.dtype) for found in scans if found.rounded)
    text = (
        f"{n_values:,} whole numbers in {n_rows:,} rows are rounded: {dtype} holds all of them up to "
        f"{ALL_UP_TO[dtype]:,} only. The first is {first}. Leave out columns that number things; of others subtract "
        "a constant, or divide them"
    )
    return [Note("RoundedNumbers", text, "warning")]


def notes_of(scans: list[Scan]) -> list[Note]:
    """What a scan has to say when nothing was refused."""
    dropped, zero = sum(len(found.bad_rows) for found in scans), sum(found.zero_rows for found in scans)
    notes = []
    if dropped:
        places = "; ".join([place for found in scans for place in found.bad_places][:SHOWN_ROWS])
        more = f"; and {dropped - SHOWN_ROWS:,} more rows" if dropped > SHOWN_ROWS else ""
        notes.append(Note("NonFiniteFeature", f"{dropped:,} rows were left out: {places}{more}", "warning"))
    if zero:
        notes.append(Note("ZeroRows", f"{zero:,} rows hold only zeros", "warning"))
    notes += notes_of_rounded(scans)
    if damaged := [place for found in scans for place in found.damaged_places]:
        more = f"; and {len(damaged) - SHOWN_ROWS:,} more" if len(damaged) > SHOWN_ROWS else ""
        text = f"images that were left out, {len(damaged):,}: {'; '.join(damaged[:SHOWN_ROWS])}{more}"
        notes.append(Note("DamagedImage", text, "warning"))
    return notes
