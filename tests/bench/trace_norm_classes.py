"""Trace norm beside one-vs-rest and the multinomial loss over the number of classes, and on codes (Harchaoui et al.).

    python tests/bench/trace_norm_classes.py SHARED/data FOLDER [--sets tiny tiny-sift clinc-dense]
        [--classes 10 25 50 100 200] [--samples 0 1 2] [--encodings pq16 pq8 pca-pq16] [--scheduler local:2]
        [--trace KEY=VALUE ...]

Sample s orders the classes of a set by its seed and takes the first ones: a sample's 25 classes contain its 10. Each
becomes a dataset of its own (their training rows, a tenth of them for validation, their test rows) and one run of
three models, as a user would type it: `ovr`, `multinomial` and `trace-norm`, by default but for --trace. Every encoding
adds `ovr` and `trace-norm` learnt on codes, tested on codes (pq) and on the rows themselves (semi): pq16 has 16
features a byte, pca-pq16 the same after a rotation to principal components. Counts of words are taken to their square
roots, of norm 1.

Prints Figure 2 and Figure 3 as tables of all that has been run in FOLDER, means and standard deviations over samples,
and how often the chosen penalty is an end of the path. FOLDER/results.csv has every number, FOLDER/paths.csv every pair
of every path. A run that is finished is taken as it is: remove its folder after changing an algorithm.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse

from pipeline.dataset import Dataset
from pipeline.store import RunFolder
from tasks.seeds import stream
from tests.bench.real_data import CLINC, TINY, labelgrove

SIFT = "tinyimagenet-sift"
SETS = {
    "tiny": (TINY, "effnet_train.npy", "effnet_test.npy"),
    "tiny-sift": (SIFT, "X_train.npz", "X_test.npz"),
    "clinc-dense": (CLINC, "minilm_train.npy", "minilm_test.npy"),
}
KEYS = ("top1", "top5", "log_loss", "calibration_error", "rank", "lambda1", "relative_gap", "train_seconds")
BASES = ("ovr", "multinomial", "trace-norm")
LEARNERS = ("ovr", "trace-norm")  # that also learn on codes
HEADING = f"{'set':12} {'classes':>7} {'model':14} {'top-1':>14} {'top-5':>7} {'log-loss':>8} {'cal.':>6} " + (
    f"{'rank':>6} {'lambda1/max':>11} {'gap':>8} {'seconds':>8}"
)

Array: TypeAlias = npt.NDArray[Any]
Rows: TypeAlias = "Array | scipy.sparse.csr_matrix"
Row: TypeAlias = dict[str, Any]  # one line of results.csv


@dataclass(frozen=True)
class Case:
    """A sample of classes of one set."""

    source: str
    n_classes: int
    sample: int

    @property
    def name(self) -> str:
        return f"{self.source}-{self.n_classes}-{self.sample}"


def drawn_classes(n_classes: int, wanted: int, sample: int) -> Array:
    """The first of all classes in the sample's order, ascending: (wanted,) int64."""
    return np.sort(stream(sample, "classes").permutation(n_classes)[:wanted])


def rows_of(labels: Array, classes: Array) -> tuple[Array, Array]:
    """Which rows are of these (ascending) classes, and their labels 0, 1, ... among them."""
    index = np.flatnonzero(np.isin(labels, classes))
    return index, np.searchsorted(classes, labels[index])


def root_normalised(counts: scipy.sparse.csr_matrix) -> scipy.sparse.csr_matrix:
    """Square roots of counts, rows of norm 1; rows of zeros stay."""
    rows = scipy.sparse.csr_matrix(counts, dtype=np.float32, copy=True)
    norms = np.sqrt(np.asarray(rows.sum(axis=1), np.float64)).ravel()  # squares of the square roots add up to this
    rows.data = np.sqrt(rows.data) / np.repeat(norms, np.diff(rows.indptr)).astype(np.float32)
    return rows


def read_matrix(path: Path) -> Rows:
    if path.suffix == ".npz":
        return root_normalised(scipy.sparse.load_npz(path).tocsr())
    rows: Array = np.load(path)
    return rows


def write_matrix(path: Path, rows: Rows) -> Path:
    """The file, named by what it holds."""
    if isinstance(rows, np.ndarray):
        path = path.with_suffix(".npy")
        np.save(path, rows)
    else:
        path = path.with_suffix(".npz")
        scipy.sparse.save_npz(path, rows)
    return path


def cases_of(data: Path, sets: Sequence[str], sizes: Sequence[int], samples: Sequence[int]) -> list[list[Case]]:
    """The samples of every set and size, small sizes first; a size beyond a set's classes is all of them, once."""
    known = {source: len(class_names(data, source)) for source in sets}
    found = dict.fromkeys((source, min(size, known[source])) for size in sizes for source in sets)
    return [[Case(source, size, sample) for sample in samples] for source, size in found]


def class_names(data: Path, source: str) -> list[str]:
    names: list[str] = json.loads((data / SETS[source][0] / "classes.json").read_text())
    return names


def read_case(case: Case, data: Path) -> dict[str, tuple[Rows, Array]]:
    """Rows and labels of "train" and "test", of the case's classes alone."""
    source, *files = SETS[case.source]
    classes = drawn_classes(len(class_names(data, case.source)), case.n_classes, case.sample)
    found: dict[str, tuple[Rows, Array]] = {}
    for part, file in zip(("train", "test"), files, strict=True):
        index, labels = rows_of(np.load(data / source / f"y_{part}.npy"), classes)
        found[part] = read_matrix(data / source / file)[index], labels
    return found


def make_dataset(case: Case, data: Path, folder: Path) -> Path:
    """The dataset of a case; made once."""
    path = folder / f"{case.name}.zarr"
    if path.exists():
        return path
    taken: list[Path] = []
    for part, (rows, labels) in read_case(case, data).items():
        taken.append(write_matrix(folder / f"{case.name}-{part}", rows))
        taken.append(write_matrix(folder / f"{case.name}-{part}-labels", labels))
    train, train_labels, test, test_labels = map(str, taken)
    labelgrove(
        "ingest", train, str(path), "--labels", train_labels, "--test-source", test, "--test-labels", test_labels,
        "--validation", "0.1", "--seed", str(case.sample),
    )  # fmt: skip
    for one in taken:
        one.unlink()
    return path


def encoding_text(encoding: str, n_features: int) -> str:
    """The sections of `pq16` or, learnt on principal components, `pca-pq16`."""
    width = int(encoding.rpartition("pq")[2])
    text, rows = "", ""
    if encoding.startswith("pca-"):
        name = f"{encoding}-rows"
        text = f'[[encode]]\nname = "{name}"\nkind = "pca"\ncomponents = {n_features}\n'
        rows = f'rows = "{name}"\n'
    return text + f'[[encode]]\nname = "{encoding}"\nkind = "pq"\nsubquantizers = {n_features // width}\n{rows}'


def config_text(case: Case, n_features: int, encodings: Sequence[str], trace: Sequence[str] = ()) -> str:
    """The three models on the rows, and for every encoding four on codes.

    trace  further keys of trace-norm: "lambda1_steps = 7"
    """
    kinds = {"ovr": 'kind = "ovr"', "multinomial": 'kind = "ovr"\nloss = "multinomial"'}
    kinds["trace-norm"] = "\n".join(['kind = "trace-norm"', *trace])
    text = f'name = "{case.name}"\nseed = {case.sample}\n[data]\npath = "{case.name}.zarr"\n'
    text += "".join(encoding_text(encoding, n_features) for encoding in encodings)
    for name in BASES:
        text += f'[[train]]\nname = "{name}"\n{kinds[name]}\n'
    for encoding in encodings:
        raw = f"{encoding}-rows" if encoding.startswith("pca-") else "x"
        for name in LEARNERS:
            for way, tested in (("pq", encoding), ("semi", raw)):
                text += f'[[train]]\nname = "{name}-{encoding}-{way}"\n{kinds[name]}\n'
                text += f'rows = "{encoding}"\ntest_rows = "{tested}"\n'
    return text


def run(case: Case, given: argparse.Namespace) -> None:
    """The case's run, unless it is finished and was asked for the same."""
    folder: Path = given.folder
    place = RunFolder(folder / "runs" / case.name)
    dataset = make_dataset(case, given.data, folder)
    config, found = folder / f"{case.name}.toml", place / "metrics.json"
    text = config_text(case, Dataset.open(dataset).n_features, given.encodings, given.trace)
    if not (found.exists() and config.exists() and config.read_text() == text):
        config.write_text(text)
        labelgrove("run", str(config), "--scheduler", given.scheduler)


def result_rows(case: Case, metrics: dict[str, Any]) -> list[Row]:
    """One line a model: its numbers, the rank of its weights, where in its path the chosen penalty stands."""
    lines = []
    for model, numbers in metrics["models"].items():
        details = metrics["details"].get(model, {})
        line: Row = {"set": case.source, "classes": case.n_classes, "sample": case.sample, "model": model}
        line |= {key: numbers.get(key) for key in KEYS}
        path = details.get("path", [])
        line |= {"pairs": len(path) or None, "chosen": None, "lambda1_share": None}
        if path:
            line["chosen"] = next(i for i, pair in enumerate(path) if pair["chosen"])
            line["lambda1_share"] = numbers["lambda1"] / numbers["lambda1_max"]
        elif details.get("spectrum"):
            line["rank"] = numerical_rank(details["spectrum"])
        lines.append(line)
    return lines


def numerical_rank(spectrum: Sequence[float]) -> int:
    """Singular values above a thousandth of the largest."""
    values = np.asarray(spectrum, np.float64)
    return int(np.count_nonzero(values > 1e-3 * values.max(initial=0.0)))


def path_rows(case: Case, metrics: dict[str, Any]) -> list[Row]:
    """One line a pair of penalties."""
    return [
        {"set": case.source, "classes": case.n_classes, "sample": case.sample, "model": model, "pair": i, **pair}
        for model, details in metrics["details"].items()
        for i, pair in enumerate(details.get("path", []))
    ]


def write_csv(path: Path, rows: list[Row]) -> None:
    keys = list(dict.fromkeys(key for row in rows for key in row))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, keys)
        writer.writeheader()
        writer.writerows(rows)


def mean_of(rows: Iterable[Row], key: str) -> float:
    """Mean over samples; NaN where no model of them has the number."""
    values = [row[key] for row in rows if row[key] is not None]
    return float(np.mean(values)) if values else float("nan")


def class_table(rows: list[Row]) -> str:
    """Accuracy, probabilities and rank over the number of classes: means over samples, top-1 with its deviation."""
    lines = [HEADING]
    groups = dict.fromkeys((row["set"], row["classes"], row["model"]) for row in rows)
    for source, n_classes, model in groups:
        if model not in BASES:
            continue
        of = [row for row in rows if (row["set"], row["classes"], row["model"]) == (source, n_classes, model)]
        top1 = 100 * np.array([row["top1"] for row in of])
        lines.append(
            f"{source:12} {n_classes:7} {model:14} {top1.mean():6.2f} +- {top1.std():4.2f} "
            f"{100 * mean_of(of, 'top5'):7.2f} {mean_of(of, 'log_loss'):8.4f} "
            f"{100 * mean_of(of, 'calibration_error'):6.2f} {mean_of(of, 'rank'):6.1f} "
            f"{mean_of(of, 'lambda1_share'):11.4f} {mean_of(of, 'relative_gap'):8.1e} "
            f"{mean_of(of, 'train_seconds'):8.1f}"
        )
    return "\n".join(lines)


def got_back(full: float, pq: float, semi: float) -> float:
    """Share of the accuracy lost on codes that testing on the rows brings back; NaN where nothing was lost."""
    return (semi - pq) / (full - pq) if full > pq else float("nan")


def compression_table(rows: list[Row]) -> str:
    """Accuracy of full, PQ and semi-PQ rows, and what semi-PQ gets back: of the means, and in the worst sample."""
    top1 = {(row["set"], row["classes"], row["sample"], row["model"]): 100 * row["top1"] for row in rows}
    lines = [
        f"{'set':12} {'classes':>7} {'encoding':10} {'model':12} {'full':>14} {'PQ':>14} {'semi-PQ':>14} "
        f"{'got back':>9} {'least':>7}"
    ]
    for source, n_classes, model in dict.fromkeys((row["set"], row["classes"], row["model"]) for row in rows):
        if not model.endswith("-semi"):
            continue
        encoding = model.removesuffix("-semi").removeprefix("ovr-").removeprefix("trace-norm-")
        learner = model.removesuffix(f"-{encoding}-semi")
        samples = [
            row["sample"] for row in rows if (row["set"], row["classes"], row["model"]) == (source, n_classes, model)
        ]
        names = (learner, f"{learner}-{encoding}-pq", model)
        of = np.array([[top1[source, n_classes, sample, name] for name in names] for sample in samples])
        shown = " ".join(f"{column.mean():6.2f} +- {column.std():4.2f}" for column in of.T)
        shares = [got_back(*one) for one in of]
        lines.append(
            f"{source:12} {n_classes:7} {encoding:10} {learner:12} {shown} {got_back(*of.mean(axis=0)):9.0%} "
            f"{min(shares):7.0%}"
        )
    return "\n".join(lines)


def ends(rows: list[Row]) -> str:
    """How often the chosen penalty is the strongest of its path, or the weakest of all that could be tried."""
    paths = [row for row in rows if row["pairs"]]
    first = sum(row["chosen"] == 0 for row in paths)
    last = sum(row["chosen"] == row["pairs"] - 1 for row in paths)
    return f"{len(paths)} paths: the strongest penalty chosen {first} times, the weakest that was tried {last} times"


def finished(folder: Path) -> list[tuple[Case, dict[str, Any]]]:
    """Every case that has been run in the folder, by set, number of classes and sample, with its metrics.json."""
    found = []
    for file in (folder / "runs").glob("*/metrics.json"):
        source, n_classes, sample = file.parent.name.rsplit("-", 2)
        found.append((Case(source, int(n_classes), int(sample)), json.loads(file.read_text())))
    return sorted(found, key=lambda one: (one[0].source, one[0].n_classes, one[0].sample))


def show(folder: Path) -> None:
    """Everything that is finished, whatever options it was run with."""
    found = finished(folder)
    rows = [row for case, metrics in found for row in result_rows(case, metrics)]
    write_csv(folder / "results.csv", rows)
    write_csv(folder / "paths.csv", [row for case, metrics in found for row in path_rows(case, metrics)])
    text = f"{class_table(rows)}\n\n{compression_table(rows)}\n\n{ends(rows)}\n"
    (folder / "results.txt").write_text(text)
    print(text, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--classes", nargs="+", type=int, default=[10, 25, 50, 100, 200])
    parser.add_argument("--samples", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--encodings", nargs="*", default=[])
    parser.add_argument("--trace", nargs="*", default=[], help='keys of trace-norm: "lambda1_steps = 7"')
    parser.add_argument("--scheduler", default="local:2")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    for group in cases_of(given.data, given.sets, given.classes, given.samples):
        for case in group:
            run(case, given)
        show(given.folder)


if __name__ == "__main__":
    main()
