"""Trees on real data: the kinds beside each other at equal root ambiguity (Deng et al., Table 1), and on every encoder.

    python tests/bench/tree_tables.py rivals SHARED/data FOLDER [--sets tiny wordnet] [--seeds 0] [--skip ovr]
    python tests/bench/tree_tables.py encoders SHARED/data FOLDER

`rivals` trains one-vs-rest, and for shapes of two and three levels a bengio-tree, a label-tree with the ambiguity of
its root (with our defaults, and the paper's own procedure), and kmeans-trees. `encoders` trains {ovr, label-tree,
kmeans-tree, bengio-tree} on dense rows, sparse rows, PQ codes, one-hot DWTA codes and hashed text of one set. Training
cost is vector operations a row, one-vs-rest's for the confusion apart; speed-up is classes / mean dot products done.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import scipy.sparse
from sklearn.feature_extraction.text import HashingVectorizer

from tests.bench.hashing_table import SETS, make_dataset
from tests.bench.real_data import CLINC, labelgrove

SETS["wordnet"] = ("wordnet-gloss-large", "X_train.npz", "X_test.npz", None)
SHAPES = {
    "tiny": ((15, 2), (6, 3)),
    "wordnet": ((86, 2), (20, 3)),
    "clinc-sparse": ((13, 2), (6, 3)),
    "clinc-dense": ((13, 2), (6, 3)),
}
PAPER = 'initialisation = "random"\ntraining_rows = "routed"\nrunners_up = false\nrounds = 1\n'
HEADING = f"{'model':28} {'top-1 %':>8} {'speed-up':>9} {'ops/row':>9} {'+ ovr':>8} {'train s':>8} {'us/row':>7}"
HASHED_COLUMNS = 1 << 15
Sections = dict[str, str]  # model -> its keys


def rivals(name: str) -> Sections:
    """Models of one set."""
    found = {"ovr": 'kind = "ovr"'}
    for branching, depth in SHAPES[name]:
        shape, mark = f"branching = {branching}\ndepth = {depth}\n", f"{branching},{depth}"
        mark = mark.replace(",", ".")
        found |= {
            f"bengio-{mark}": f'kind = "bengio-tree"\nconfusion_of = "ovr"\n{shape}',
            f"label-{mark}": f'kind = "label-tree"\nambiguity_of = "bengio-{mark}"\n{shape}',
            f"paper-{mark}": f'kind = "label-tree"\nambiguity_of = "bengio-{mark}"\n{shape}{PAPER}',
            f"kmeans-{mark}": f'kind = "kmeans-tree"\n{shape}',
        }
    return found | {f"kmeans-beam{beam}": f'kind = "kmeans-tree"\nbeam = {beam}' for beam in (1, 2, 4, 8, 16)}


def config_text(name: str, seed: int, dataset: str, models: Mapping[str, str], encode: str = "") -> str:
    trained = "\n".join(f'[[train]]\nname = "{model}"\n{keys}' for model, keys in models.items())
    return f'name = "{name}"\nseed = {seed}\n[data]\npath = "{dataset}"\n{encode}\n{trained}\n'


def run(folder: Path, name: str, text: str, arguments: Sequence[str]) -> dict[str, dict[str, float]]:
    config = folder / f"{name}.toml"
    config.write_text(text)
    labelgrove("run", str(config), *arguments)
    return dict(json.loads((folder / "runs" / name / "metrics.json").read_text())["models"])


def show(title: str, found: Sequence[Mapping[str, Mapping[str, float]]]) -> None:
    """One line a model: means over seeds."""
    print(f"\n{title}\n{HEADING}")
    for model in found[0]:
        mean = {key: float(np.mean([one[model].get(key, 0.0) for one in found])) for key in found[0][model]}
        print(
            f"{model:28} {100 * mean['top1']:8.2f} {mean.get('speedup', 1.0):9.1f} "
            f"{mean['train_ops_per_row']:9.0f} {mean.get('ovr_ops_per_row', 0):8.0f} {mean['train_seconds']:8.1f} "
            f"{mean.get('predict_us_per_row', 0):7.1f}",
            flush=True,
        )


def compare_rivals(given: argparse.Namespace) -> None:
    for name in given.sets:
        dataset = make_dataset(name, given.data, given.folder)
        models = {model: keys for model, keys in rivals(name).items() if model not in given.skip}
        found = [
            run(
                given.folder,
                f"{name}-{seed}",
                config_text(f"{name}-{seed}", seed, dataset.name, models),
                ["--scheduler", given.scheduler],
            )
            for seed in given.seeds
        ]
        show(f"{name}, means of {len(found)} seeds", found)


def hashed_text(data: Path, folder: Path) -> Path:
    """Tokens of the raw texts, hashed afresh; made once."""
    path = folder / "clinc-hashed.zarr"
    if path.exists():
        return path
    place = data / CLINC
    hasher = HashingVectorizer(n_features=HASHED_COLUMNS, ngram_range=(1, 2), norm="l2", dtype=np.float32)
    for part in ("train", "test"):
        with gzip.open(place / f"texts_{part}.txt.gz", "rt", encoding="utf-8") as file:
            matrix = hasher.transform(line.rstrip("\n") for line in file)
        scipy.sparse.save_npz(folder / f"hashed_{part}.npz", matrix)
    labelgrove(
        "ingest", str(folder / "hashed_train.npz"), str(path), "--labels", str(place / "y_train.npy"), "--classes",
        str(place / "classes.json"), "--split", str(place / "val_rows_in_train.npy"), "--test-source",
        str(folder / "hashed_test.npz"), "--test-labels", str(place / "y_test.npy"),
    )  # fmt: skip
    return path


def compare_encoders(given: argparse.Namespace) -> None:
    dense, sparse = (make_dataset(name, given.data, given.folder) for name in ("clinc-dense", "clinc-sparse"))
    hashed = hashed_text(given.data, given.folder)
    pq = '[[encode]]\nname = "code"\nkind = "pq"\nsubquantizers = 48\n'
    dwta = '[[encode]]\nname = "code"\nkind = "dwta"\nhashes = 2000\n'
    sources = {
        "dense": (dense, "", "x"),
        "sparse": (sparse, "", "x"),
        "PQ codes": (dense, pq, "code"),
        "DWTA one-hot": (dense, dwta, "code"),
        "hashed text": (hashed, "", "x"),
    }
    for title, (dataset, encode, rows) in sources.items():
        kinds = ("ovr", "label-tree", "kmeans-tree", "bengio-tree")
        models = {kind: f'kind = "{kind}"\nrows = "{rows}"' for kind in kinds}
        name = "encoder-" + title.replace(" ", "-")
        text = config_text(name, 0, dataset.name, models, encode)
        found = run(given.folder, name, text, ["--scheduler", given.scheduler])
        show(f"clinc150, {title}", [found])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["rivals", "encoders"])
    parser.add_argument("data", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", nargs="+", choices=list(SHAPES), default=["tiny", "wordnet"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--skip", nargs="+", default=[], help="models that are left out")
    parser.add_argument("--scheduler", default="local:2")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    (compare_rivals if given.what == "rivals" else compare_encoders)(given)


if __name__ == "__main__":
    main()
