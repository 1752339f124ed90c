"""Trace norm beside one-vs-rest and the multinomial loss over the number of classes, and on codes (Harchaoui et al.).

    python tests/bench/trace_norm_classes.py SHARED/data FOLDER [--sets tiny tiny-sift clinc-dense]
        [--classes 10 25 50 100 200] [--samples 0 1 2] [--encodings pq16 pq8 pca-pq16] [--scheduler local:2]
        [--trace KEY=VALUE ...]

Each sample of classes becomes a dataset of its own (their training rows, a tenth of them for validation, their test
rows) and one run of three models, as a user would type it: `ovr`, `multinomial` and `trace-norm`, by default but for
--trace. Every encoding adds `ovr` and `trace-norm` learnt on codes, tested on codes (pq) and on the rows themselves
(semi): pq16 has 16 features a byte, pca-pq16 the same after a rotation to principal components. Counts of words are
taken to their square roots, of norm 1.

Prints Figure 2 and Figure 3 as tables of all that has been run in FOLDER, means and standard deviations over samples,
and how often the chosen penalty is an end of the path. FOLDER/results.csv has every number, FOLDER/paths.csv every pair
of every path. A run that is finished is taken as it is: remove its folder after changing an algorithm.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import scipy.sparse

from pipeline.dataset import Dataset
from pipeline.store import RunFolder
from tests.bench.class_samples import SETS, Case, Rows, cases_of, read_case
from tests.bench.real_data import labelgrove
from tests.bench.trace_norm_tables import BASES, show

LEARNERS = ("ovr", "trace-norm")  # that also learn on codes


def write_matrix(path: Path, rows: Rows) -> Path:
    """The file, named by what it holds."""
    if isinstance(rows, np.ndarray):
        path = path.with_suffix(".npy")
        np.save(path, rows)
    else:
        path = path.with_suffix(".npz")
        scipy.sparse.save_npz(path, rows)
    return path


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
