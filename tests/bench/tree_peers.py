"""Trees beside their peers: training seconds, accuracy and microseconds a prediction of one thread, in one table.

    python -m tests.bench.tree_peers FOLDER [--data DATA] [--sets wordnet clinc-sparse clinc-dense tiny]
        [--ours ovr ...] [--peers pecos pecos-flat napkin-hsm napkin-plt] [--all-rows] [--json OUT]

DATA holds the folders of the real sets (default: LABELGROVE_SHARED/data); FOLDER gets datasets, runs, exchanged files.
A peer runs in an environment of its own: LABELGROVE_PECOS and LABELGROVE_NAPKINXC name the Pythons that have libpecos
and napkinxc; a peer whose variable is not set is skipped, and the table says so. Every system runs in a process of its
own, with one thread. Seconds and microseconds are CPU time, so other work on the machine counts little: of training,
reading rows included for ours; of prediction, all test rows in batches (ours: the blocks of the dataset), the least of
three times. Peers learn from the same training rows; ours use the validation rows to choose, and with --all-rows the
peers learn from them, too.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from pipeline.config import load_config
from pipeline.connection.profile import Profile
from pipeline.dataset import Dataset
from pipeline.ingest import ingest
from pipeline.plan import PlannedStep
from pipeline.runner import View, run_config
from tasks.io import read_column, read_rows
from tasks.models.base import Ranking
from tasks.models.folder import load_model
from tasks.rows import Csr, Dense, Rows
from tasks.trees.kmeans.params import KMeansTreeParams
from tasks.trees.local import Labelled, grow_rows

ROOT = Path(__file__).resolve().parents[2]
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
NO_KERNEL = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")  # NumPy shall pick the kernel of this processor
PYTHONS = {"pecos": "LABELGROVE_PECOS", "napkin": "LABELGROVE_NAPKINXC"}
IN_MEMORY = "kmeans-tree in memory"
OURS = ("kmeans-tree", IN_MEMORY, "label-tree", "bengio-tree", "ovr")
BEAMS = (1, 10)
REPEATS = 3
TEST = 2
Row = dict[str, Any]


@dataclass(frozen=True)
class RealSet:
    """A folder of real data and its files."""

    folder: str
    train: str = "X_train.npz"
    test: str = "X_test.npz"


SETS = {
    "wordnet": RealSet("wordnet-gloss-large"),
    "clinc-sparse": RealSet("clinc150"),
    "clinc-dense": RealSet("clinc150", "minilm_train.npy", "minilm_test.npy"),
    "tiny": RealSet("tinyimagenet-effnet", "effnet_train.npy", "effnet_test.npy"),
}


def dataset_of(name: str, data: Path, folder: Path) -> Dataset:
    """The dataset store of a set, made once."""
    target, found = folder / f"{name}.zarr", SETS[name]
    if target.exists():
        return Dataset.open(target)
    place = data / found.folder
    files = {"labels": place / "y_train.npy", "test_labels": place / "y_test.npy", "classes": place / "classes.json"}
    return ingest(place / found.train, target, test_source=place / found.test, **files)


# ---- ours --------------------------------------------------------------------------------------------------------


class Clock(View):
    """CPU seconds of the steps that run."""

    def __init__(self) -> None:
        self.begun = 0.0
        self.seconds: dict[str, float] = {}

    def step(self, step: PlannedStep, number: int, count: int) -> None:  # noqa: ARG002
        self.begun = time.process_time()

    def finished(self, step: PlannedStep, seconds: float) -> None:  # noqa: ARG002
        self.seconds[step.name] = time.process_time() - self.begun


def ours(kind: str, dataset: Dataset, folder: Path) -> list[Row]:
    """Train and predict with one of our learners, in this process; a second time when kernels were compiled first."""
    name = f"{Path(dataset.path).stem}-{kind}"
    config = folder / f"{name}.toml"
    config.write_text(f'name = "{name}"\n[data]\npath = "{dataset.path}"\n[[train]]\nname = "m"\nkind = "{kind}"\n')
    clock = Clock()
    for warm in (True, False):
        done = run_config(load_config(config), Profile("serial"), folder / "runs", force=True, view=clock)
        if warm:  # compiled and cached by now
            for step in ("train_m", "predict_m"):
                done.folder.discard(step, done.done[step].fingerprint)
    saved = load_model(done.folder.path / "models" / "m")
    beams = BEAMS if "tree" in kind else (None,)
    return [
        {"case": kind if beam is None else f"{kind}, beam {beam}", "train_seconds": clock.seconds["train_m"]}
        | ranked(partial(saved.rank, encoded=True, beam=beam), dataset)
        for beam in beams
    ]


def in_memory(dataset: Dataset) -> list[Row]:
    """A k-means tree as the library grows it from rows in memory, as the peers do theirs: nothing read or written."""
    train, validation = (joined(dataset, split) for split in (0, 1))
    for _ in range(2):  # compiled by the first
        begun = time.process_time()
        tree = grow_rows(train, validation, dataset.n_classes, KMeansTreeParams(), 0)
        seconds = time.process_time() - begun
    return [
        {"case": f"{IN_MEMORY}, beam {beam}", "train_seconds": seconds} | ranked(partial(tree.rank, beam=beam), dataset)
        for beam in BEAMS
    ]


def joined(dataset: Dataset, split: int) -> Labelled:
    """All rows of a split."""
    parts = list(parts_of(dataset, split))
    matrix = scipy.sparse.vstack([as_scipy(rows) for rows, _ in parts]).tocsr()
    rows: Rows = Dense(matrix.toarray())
    if dataset.body == "csr":
        rows = Csr(matrix.data, matrix.indices.astype(np.int32), matrix.indptr.astype(np.int64), matrix.shape[1])
    return Labelled(rows, np.concatenate([labels for _, labels in parts]).astype(np.int32))


def ranked(rank: Callable[[Rows, int], Ranking], dataset: Dataset) -> Row:
    """Accuracy, dot products a row and microseconds of the test rows."""
    parts, least = list(parts_of(dataset, TEST)), float("inf")
    n_rows = sum(labels.size for _, labels in parts)
    hits, products = 0, 0
    for _ in range(REPEATS):
        begun = time.process_time()
        found = [rank(rows, 1) for rows, _ in parts]
        least = min(least, time.process_time() - begun)
        hits = sum(int((one.classes[:, 0] == y).sum()) for one, (_, y) in zip(found, parts, strict=True))
        products = sum(int(one.evaluations.sum(dtype=np.int64)) for one in found)
    return {"top1": hits / n_rows, "predict_us": 1e6 * least / n_rows, "products": products / n_rows}


def parts_of(dataset: Dataset, split: int) -> Iterator[tuple[Rows, np.ndarray]]:
    """The rows of a split of each block that has some, and their classes."""
    for block in dataset.blocks():
        chosen = np.flatnonzero(read_column(dataset.path, "split", block.start, block.stop) == split)
        if chosen.size:
            yield read_rows(block).take(chosen), read_column(dataset.path, "y", block.start, block.stop)[chosen]


# ---- peers -------------------------------------------------------------------------------------------------------


def exchange(dataset: Dataset, folder: Path, all_rows: bool) -> Path:
    """What `tree_peers_child` reads."""
    folder.mkdir(parents=True, exist_ok=True)
    split, y = (read_column(dataset.path, column, 0, dataset.n_rows) for column in ("split", "y"))
    matrix = scipy.sparse.vstack([as_scipy(read_rows(block)) for block in dataset.blocks()]).tocsr()
    learnt = split != TEST if all_rows else split == 0
    for rows, labels, keep in (("x.npz", "y.npy", learnt), ("xt.npz", "yt.npy", split == TEST)):
        scipy.sparse.save_npz(folder / rows, matrix[keep], compressed=False)
        np.save(folder / labels, y[keep])
    if dataset.body == "dense":
        (folder / "dense").touch()
    return folder


def as_scipy(rows: Rows) -> Any:
    if isinstance(rows, Csr):
        return scipy.sparse.csr_matrix((rows.data, rows.indices, rows.indptr), shape=rows.shape)
    assert isinstance(rows, Dense)
    return scipy.sparse.csr_matrix(rows.to_array())


def environment() -> dict[str, str]:
    """One thread, and the processor's own kernels."""
    own = {key: value for key, value in os.environ.items() if key not in NO_KERNEL}
    return own | dict.fromkeys(THREADS, "1")


def asked(arguments: list[str], where: Path | None = None) -> list[Row]:
    """The last line that a child prints, as JSON; a failure becomes a row that says so."""
    done = subprocess.run(arguments, capture_output=True, text=True, env=environment(), cwd=where, check=False)
    if done.returncode:
        return [{"case": arguments[-2], "skipped": (done.stderr.strip().splitlines() or ["no message"])[-1][:200]}]
    rows: list[Row] = json.loads(done.stdout.strip().splitlines()[-1])
    return rows


def peer(name: str, folder: Path) -> list[Row]:
    variable = PYTHONS[name.partition("-")[0]]
    python = os.environ.get(variable)
    if not python:
        return [{"case": name, "skipped": f"{variable} names no Python"}]
    return asked([python, str(Path(__file__).with_name("tree_peers_child.py")), name, str(folder)])


# ---- the table ---------------------------------------------------------------------------------------------------


def line(name: str, row: Row) -> str:
    if "skipped" in row:
        return f"| {name} | {row['case']} | skipped: {row['skipped']} | | | |"
    products = f"{row['products']:.0f}" if "products" in row else ""
    numbers = f"{row['train_seconds']:.2f} | {100 * row['top1']:.1f} | {row['predict_us']:.1f} | {products}"
    return f"| {name} | {row['case']} | {numbers} |"


HEAD = (
    "| set | system | training, CPU s | top-1, % | prediction, us a row | products a row |\n|---|---|---|---|---|---|"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    shared = os.environ.get("LABELGROVE_SHARED", str(ROOT.parent / "shared"))
    parser.add_argument("--data", type=Path, default=Path(shared) / "data")
    parser.add_argument("--sets", nargs="*", choices=list(SETS), default=list(SETS))
    parser.add_argument("--ours", nargs="*", choices=OURS, default=list(OURS))
    parser.add_argument("--peers", nargs="*", default=["pecos", "napkin-hsm", "napkin-plt"])
    parser.add_argument("--all-rows", action="store_true", help="peers learn from the validation rows, too")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", nargs=2, metavar=("KIND", "SET"), help=argparse.SUPPRESS)  # what a child does
    given = parser.parse_args()
    folder = given.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    if given.one:
        kind, name = given.one
        dataset = dataset_of(name, given.data, folder)
        print(json.dumps(in_memory(dataset) if kind == IN_MEMORY else ours(kind, dataset, folder)))
        return
    found: dict[str, list[Row]] = {}
    print(HEAD, flush=True)
    for name in given.sets:
        dataset, found[name] = dataset_of(name, given.data, folder), []
        place = exchange(dataset, folder / f"{name}-exchange", given.all_rows) if given.peers else folder
        itself = [sys.executable, "-m", "tests.bench.tree_peers", str(folder), "--data", str(given.data), "--one"]
        systems = [(one, None) for one in given.peers] + [(None, kind) for kind in given.ours]
        for one, kind in systems:
            rows = peer(one, place) if one else asked([*itself, str(kind), name], ROOT)
            found[name] += rows
            for row in rows:
                print(line(name, row), flush=True)
            if given.json:
                given.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
