"""One matrix written in every format that holds it, with its labels where the format can; of use to the bench, too."""

from __future__ import annotations

import io
import json
import tarfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anndata
import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse
import zarr

Array = np.ndarray
Made = tuple[str | Path, dict[str, Any]]  # a source, and the options that it needs
Writer = Callable[[Path, Any, Array], Made]
CHUNK_ROWS = 64


def npy(folder: Path, x: Array, _y: Array) -> Made:
    np.save(folder / "x.npy", x)
    return folder / "x.npy", {}


def npy_shards(folder: Path, x: Array, _y: Array) -> Made:
    (folder / "shards").mkdir()
    for i, part in enumerate(np.array_split(x, 3)):
        np.save(folder / "shards" / f"x-{i}.npy", part)
    return folder / "shards", {}


def fortran(folder: Path, x: Array, _y: Array) -> Made:
    np.save(folder / "x.npy", np.asfortranarray(x))
    return folder / "x.npy", {}


def npz(folder: Path, x: Array, y: Array) -> Made:
    np.savez(folder / "x.npz", x=x, y=y)
    return folder / "x.npz", {}


def raw(folder: Path, x: Array, _y: Array) -> Made:
    x.tofile(folder / "x.bin")
    return folder / "x.bin", {"raw_shape": f"x{x.shape[1]}", "raw_dtype": x.dtype.name}


def write_parquet(path: Path, x: Array, y: Array, kind: Any = None) -> Path:
    flat = pa.array(np.ascontiguousarray(x).reshape(-1))
    kind = kind or pa.list_(flat.type, x.shape[1])
    if pa.types.is_fixed_size_list(kind):
        vectors = pa.FixedSizeListArray.from_arrays(flat, x.shape[1])
    else:
        large = pa.types.is_large_list(kind)
        ends = pa.array(np.arange(0, x.size + 1, x.shape[1]), pa.int64() if large else pa.int32())
        vectors = (pa.LargeListArray if large else pa.ListArray).from_arrays(ends, flat)
    table = pa.table({"vector": vectors, "label": pa.array(y)})
    pq.write_table(table, path, row_group_size=max(CHUNK_ROWS, len(x) // 8), write_page_checksum=True)
    return path


def parquet(folder: Path, x: Array, y: Array) -> Made:
    return write_parquet(folder / "x.parquet", x, y), {}


def parquet_list(folder: Path, x: Array, y: Array) -> Made:
    return write_parquet(folder / "x.parquet", x, y, pa.list_(pa.float32())), {}


def parquet_large_list(folder: Path, x: Array, y: Array) -> Made:
    return write_parquet(folder / "x.parquet", x, y, pa.large_list(pa.float32())), {}


def parquet_shards(folder: Path, x: Array, y: Array) -> Made:
    (folder / "shards").mkdir()
    for i, (rows, labels) in enumerate(zip(np.array_split(x, 11), np.array_split(y, 11), strict=True)):
        write_parquet(folder / "shards" / f"x-{i}.parquet", rows, labels)
    return folder / "shards", {}


def hdf5(folder: Path, x: Array, y: Array) -> Made:
    """In one piece: mapped where it lies."""
    with h5py.File(folder / "x.h5", "w", userblock_size=512) as file:
        file["rows"], file["y"] = x, y
    return folder / "x.h5", {}


def hdf5_chunks(folder: Path, x: Array, y: Array) -> Made:
    chunks = (min(CHUNK_ROWS, len(x)), columns_of(x))
    with h5py.File(folder / "x.h5", "w") as file:
        file.create_dataset("a/rows", data=x, chunks=chunks, compression="gzip", compression_opts=1)
        file["a/labels"] = y
    return folder / "x.h5", {}


def columns_of(x: Array) -> int:
    """Of a chunk: 3 of 7, so that the last chunk is a narrower one."""
    return 1 + 2 * x.shape[1] // 7


def zarr_of(zarr_format: int, shards: bool = False) -> Writer:
    def write(folder: Path, x: Array, _y: Array) -> Made:
        chunks = (CHUNK_ROWS, columns_of(x))
        of = {"shards": (2 * chunks[0], 3 * chunks[1])} if shards else {}
        made = {"shape": x.shape, "dtype": x.dtype, "zarr_format": zarr_format, "chunks": chunks, **of}
        array = zarr.create_array(folder / "x.zarr", **made)
        array[:] = x
        return folder / "x.zarr", {}

    return write


def adata(x: Any, y: Array) -> anndata.AnnData:
    names = [str(label) for label in range(int(y.max()) + 1)]
    obs = pd.DataFrame(
        {"label": pd.Categorical.from_codes(y, list(range(len(names))))}, index=list(map(str, range(len(y))))
    )
    made = anndata.AnnData(x, obs=obs)
    made.obsm["pca"] = np.zeros((len(y), 2), np.float32)
    return made


def h5ad(folder: Path, x: Any, y: Array) -> Made:
    adata(x, y).write_h5ad(folder / "x.h5ad")
    return folder / "x.h5ad", {}


def anndata_zarr(zarr_format: int) -> Writer:
    def write(folder: Path, x: Any, y: Array) -> Made:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            anndata.settings.zarr_write_format = zarr_format
            adata(x, y).write_zarr(folder / "x.zarr")
        return folder / "x.zarr", {}

    return write


def write_tar(path: Path, members: Sequence[tuple[str, bytes]], mode: str = "w") -> Path:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def npy_bytes(vector: Array, **options: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, vector, **options)
    return file.getvalue()


def samples(x: Array, y: Array, first: int = 0) -> list[tuple[str, bytes]]:
    members = []
    for key, (row, label) in enumerate(zip(x, y, strict=True), first):
        members += [(f"rows/{key:06d}.cls", str(label).encode()), (f"rows/{key:06d}.npy", npy_bytes(row))]
        members += [(f"rows/{key:06d}.json", json.dumps({"label": int(label)}).encode())]
    return members


def tar(folder: Path, x: Array, y: Array) -> Made:
    half = len(x) // 2
    write_tar(folder / "x-9.tar", samples(x[:half], y[:half]))
    write_tar(folder / "x-10.tar", samples(x[half:], y[half:]))
    return str(folder / "x-*.tar"), {}


def tar_gz(folder: Path, x: Array, y: Array) -> Made:
    return write_tar(folder / "x.tar.gz", samples(x, y), "w:gz"), {"labels_at": "json:label"}


DENSE: dict[str, Writer] = {
    "npy": npy,
    "npy shards": npy_shards,
    "npy Fortran": fortran,
    "npz": npz,
    "raw": raw,
    "parquet fixed": parquet,
    "parquet list": parquet_list,
    "parquet large list": parquet_large_list,
    "parquet shards": parquet_shards,
    "hdf5 contiguous": hdf5,
    "hdf5 chunks": hdf5_chunks,
    "zarr v2": zarr_of(2),
    "zarr v3": zarr_of(3),
    "zarr v3 shards": zarr_of(3, shards=True),
    "h5ad": h5ad,
    "anndata zarr v2": anndata_zarr(2),
    "anndata zarr v3": anndata_zarr(3),
    "tar": tar,
    "tar.gz": tar_gz,
}
LABELLED = {name for name in DENSE if name.split()[0] in ("npz", "parquet", "hdf5", "h5ad", "anndata", "tar", "tar.gz")}
ONE_TYPE = {"parquet list", "parquet large list"}  # written as float32 here


# ---- sparse ------------------------------------------------------------------------------------------------------


def csr_npz(folder: Path, x: scipy.sparse.csr_matrix, _y: Array) -> Made:
    scipy.sparse.save_npz(folder / "x.npz", x)
    return folder / "x.npz", {}


def svmlight(folder: Path, x: scipy.sparse.csr_matrix, y: Array) -> Made:
    lines = []
    for row, label in enumerate(y):
        span = slice(x.indptr[row], x.indptr[row + 1])
        pairs = " ".join(f"{j}:{v:.9g}" for j, v in zip(x.indices[span], x.data[span], strict=True))
        lines.append(f"{label} {pairs}\n")
    (folder / "x.svm").write_text("".join(lines))
    return folder / "x.svm", {"index_base": 0, "n_features": x.shape[1]}


def csr_hdf5(folder: Path, x: scipy.sparse.csr_matrix, y: Array) -> Made:
    with h5py.File(folder / "x.h5", "w") as file:
        group = file.create_group("rows")
        for name in ("data", "indices", "indptr"):
            group.create_dataset(name, data=getattr(x, name), chunks=(min(4096, max(1, getattr(x, name).size)),))
        group.attrs["shape"] = x.shape
        file["y"] = y
    return folder / "x.h5", {}


SPARSE: dict[str, Writer] = {
    "npz": csr_npz,
    "svmlight": svmlight,
    "hdf5 group": csr_hdf5,
    "h5ad": h5ad,
    "anndata zarr v2": anndata_zarr(2),
    "anndata zarr v3": anndata_zarr(3),
}
