"""Arguments and options that several commands of the command line share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def place_of(text: str) -> Path:
    """A path of the command line; or what has the verbs of one at a URL. Raises UrlRefused, PackageMissing."""
    from tasks.urls import is_url

    if not is_url(text):
        return Path(text)
    from tasks.places import at  # numba takes its time to load

    return at(text)


def file_of(text: str) -> Path:
    """A file that is to be written. Raises UsageError for a name that ends as a folder's does, which `Path` forgets."""
    if text.endswith(("/", "/.")):
        from tasks.errors import UsageError

        hint = "name a file, without the slash at the end"
        raise UsageError("the output ends in '/': that names a folder, and one file is written", text, hint)
    return place_of(text)


Config = Annotated[Path, typer.Argument(metavar="CONFIG", help="the run's TOML file", show_default=False)]
ConfigOrPreset = Annotated[
    Path,
    typer.Argument(metavar="CONFIG", help="the run's TOML file; with --data, the name of a preset", show_default=False),
]
Override = Annotated[
    list[str] | None, typer.Option("-s", "--set", help="one value of the config: -s tree.depth=3", metavar="KEY=VALUE")
]
Runs = Annotated[
    Path | None,
    typer.Option(
        "--runs", parser=place_of, metavar="PATH", help="folder or URL of run folders; default: runs beside the config"
    ),
]
Scheduler = Annotated[
    str | None,
    typer.Option("--scheduler", help="serial, local:N, tcp://HOST:PORT, tls://HOST:PORT or a scheduler file"),
]
Insecure = Annotated[
    bool, typer.Option("--insecure", help="reach tcp:// on another machine: anyone in the network can run code there")
]
Threads = Annotated[int | None, typer.Option("--threads", help="per worker of a local cluster")]
Memory = Annotated[str | None, typer.Option("--memory", help='per worker of a local cluster, "1.5 GiB"')]
ProfileFile = Annotated[
    str | None,
    typer.Option(
        "--profile",
        help="TOML file of where to run: scheduler, threads, memory_per_worker, cache, dashboard, tls_ca, tls_cert, "
        "tls_key, insecure; a wrong key is told with all that there are",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON to stdout")]
RunPath = Annotated[
    Path,
    typer.Argument(
        metavar="RUN",
        parser=place_of,
        help="a run folder, runs/NAME (or its URL), or the config's TOML file",
        show_default=False,
    ),
]
CompareRuns = Annotated[
    list[Path],
    typer.Argument(
        metavar="RUN...",
        parser=place_of,
        help="two runs or more: run folders, runs/NAME (or their URLs), or configs",
        show_default=False,
    ),
]
Output = Annotated[
    Path, typer.Option("-o", "--output", parser=file_of, metavar="PATH", help="the Parquet file to write")
]
TableOutput = Annotated[
    Path,
    typer.Option("-o", "--output", parser=file_of, metavar="PATH", help="the file to write: .parquet, .csv or .tsv"),
]
Beam = Annotated[
    int | None,
    typer.Option(help="of a tree: nodes expanded a depth at most, 1 to walk; default: as it was trained"),
]
Doubt = Annotated[
    float | None,
    typer.Option(help="of a hierarchy: rows so near a split go both ways, 0 for none; default: as it was trained"),
]
Uncoded = Annotated[
    bool, typer.Option("--uncoded", help="of a model that learnt from pq codes: take rows as they are, not their codes")
]
ForceFile = Annotated[bool, typer.Option("--force", help="replace the file if it exists")]
FileLabels = Annotated[
    str | None, typer.Option(help="labels of the rows of files, as for `ingest`: prints how many are right")
]
Format = Annotated[str | None, typer.Option(help="of files, when their names do not tell: npy, parquet, hdf5 ...")]
RowsAt = Annotated[
    str | None,
    typer.Option(
        help="where in the files the rows are: column, FIRST..LAST of columns, dataset, array, layer, ending in an "
        "archive"
    ),
]
LabelsAt = Annotated[
    str | None,
    typer.Option(help="where in the files the labels are: column, dataset, column of obs, ending or json:KEY"),
]
RawShape = Annotated[
    str | None, typer.Option(help="of files without a header: 1000x256, or x256 for as many rows as there are")
]
RawDtype = Annotated[str | None, typer.Option(help="of files without a header: float32, float16, >f4 ...")]
IndexBase = Annotated[int | None, typer.Option(help="0 or 1: first feature index of svmlight files")]
Encode = Annotated[
    str | None,
    typer.Option(help="pq: keep codes of a product quantiser, never the numbers: a byte per sub-vector of a row"),
]
Subquantizers = Annotated[
    int | None, typer.Option(help="with --encode: codes per row; default: one per 8 features or so")
]
Bits = Annotated[int | None, typer.Option(help="with --encode: 2^bits centroids per codebook; default: 8")]
SampleRows = Annotated[
    int | None, typer.Option("--sample", help="with --encode: rows that codebooks are learnt on; default: 16384")
]
Iterations = Annotated[int | None, typer.Option(help="with --encode: most rounds of k-means; default: 15")]
Only = Annotated[
    list[str] | None,
    typer.Option(
        "--only", help="train this model only (and --only another); 'heshing-*' names several", metavar="MODEL"
    ),
]
Skip = Annotated[
    list[str] | None,
    typer.Option(
        "--skip", help="do not train this model (and --skip another); 'heshing-*' names several", metavar="MODEL"
    ),
]
SourceRows = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="training rows: a file, pattern, folder or URL of .npy, .npz, .svmlight, .parquet, .h5, .h5ad, .zarr, "
        ".tar or .raw; or a folder of images",
    ),
]
RowLabels = Annotated[
    str | None,
    typer.Option(help="labels of the training rows: .npy, .txt, .json, or FILE:COLUMN (.tsv, .parquet)"),
]
ClassNames = Annotated[
    str | None, typer.Option(help="class table: .json, .txt, .tsv or .csv; default: from the labels")
]
SeveralParents = Annotated[
    str,
    typer.Option(
        help="refuse, or which parent a node of the taxonomy keeps: the first named, or that on its shortest or "
        "longest path from the root"
    ),
]
Split = Annotated[str | None, typer.Option(help="file with the split of each row, or fractions: 0.8,0.1,0.1")]
ValidationShare = Annotated[
    float | None, typer.Option(help="share of the rows for validation, when none are given; default: 0.1")
]
TestShare = Annotated[
    float | None, typer.Option(help="share of the rows for testing, when no test rows are given; default: 0.2")
]
MaxBytes = Annotated[str | None, typer.Option("--max-bytes", help='of one part of a file, unpacked: "8 GiB"')]
